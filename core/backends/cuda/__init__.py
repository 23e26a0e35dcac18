"""The rows of the device `cuda`: op name -> Triton kernels. Arrays are CuPy's; NumPy's under Triton's interpreter.

A file an op family; the elementwise kernels are printed from the declarations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...device import Kind
from ...device import device as Device
from ...expr import Program, triton_lines
from .. import Kernel, Row
from . import conv, dropout, faults, indexing, loss, matmul, norm, pool, reduce, scan, softmax, sort
from .shared import FLOATING, array_library, availability, name

FAMILIES = (reduce, softmax, matmul, loss, indexing, conv, norm, sort, pool, scan, dropout)  # an op's rows are tried in this order

_table: dict[str, tuple[Row, ...]] = {}
for _family in FAMILIES:
    for _op, _row in _family.ROWS.items():
        _table[_op] = (*_table.get(_op, ()), _row)


def device_count() -> int:
    """How many devices there are; one under the interpreter."""
    if not availability()[0]:
        return 0
    xp = array_library()
    return 1 if xp is np else int(xp.cuda.runtime.getDeviceCount())


def is_built() -> bool:
    """Whether there are kernels for a GPU: where triton can be imported, GPU or not."""
    import triton_kernels

    return triton_kernels.availability().importable


def check(where: Device) -> Device:
    """`where` with its index; RuntimeError with the reason if it is not there."""
    there, reason = availability()
    if not there:
        raise RuntimeError(
            f"No CUDA GPUs are available\n  came: device {str(where)!r}; reason: {reason}; "
            "remedy: use the device 'cpu', or set TRITON_INTERPRET=1 to interpret the kernels"
        )
    index = where.index or 0
    if index >= device_count():
        raise RuntimeError(f"CUDA error: invalid device ordinal\n  came: {where}; devices there are: {device_count()}")
    return Device("cuda", index)


def map(program: Program, kind: Kind) -> Kernel | str:
    """The Triton kernel of a program, or why there is none."""
    there, reason = availability()
    if not there:
        return reason
    conditions = all(k == "bool" for k in program.kinds)
    if kind.dtype.name not in FLOATING and not (kind.dtype.name == "bool" and conditions):
        return f"takes {', '.join(FLOATING)}, got {kind.dtype.name}"
    from triton_kernels import elementwise
    from triton_kernels.primitives import PRIMITIVES

    lines, result = triton_lines(program, PRIMITIVES)
    bools = [n for n, k in zip(program.inputs, program.kinds, strict=True) if k == "bool"]
    kernel = elementwise.build(program.name, program.inputs, program.params, lines, result,
                               "bool" if program.is_bool else "same", bools)  # fmt: skip
    n, dtype, xp = len(program.inputs), np.dtype(bool) if program.is_bool else kind.dtype.numpy, array_library()

    def run(*args: Any) -> Any:
        shapes = [a.shape for a in args[:n] if hasattr(a, "shape")]
        shape = shapes[0] if all(s == shapes[0] for s in shapes) else np.broadcast_shapes(*shapes)
        out = xp.empty(shape, dtype)
        kernel(args[:n], args[n:], out)
        return out

    return Kernel(run, f"{program.name}_kernel", name)


def rows(name: str) -> tuple[Row, ...]:
    """The structured kernels that serve `name`."""
    return _table.get(name, ()) if availability()[0] else ()


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    there, reason = availability()
    return "no Triton kernel is written for this op" if there else reason
