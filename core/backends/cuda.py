"""The rows of the device `cuda`: op name -> Triton kernels. Arrays are CuPy's, or NumPy's under Triton's interpreter."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..device import Kind, device as Device
from ..expr import Program, triton_lines
from . import Kernel, Row

name = "Triton"

_FLOATING = ("float16", "bfloat16", "float32", "float64")


@cache
def availability() -> tuple[bool, str]:
    """Whether the device is there, and why (not), in a sentence."""
    import triton_kernels

    able = triton_kernels.availability()
    if not able.importable:
        return False, able.reason
    if able.interpreted:
        return True, able.reason
    try:
        import cupy
    except ImportError:
        return False, "CuPy, which holds the arrays of a GPU, is not installed; pip install 'gradlab[gpu]'"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as e:
        return False, f"CuPy finds no GPU ({e})"
    if not count:
        return False, "CuPy finds no GPU"
    from triton_kernels import runtime

    runtime.connect(cupy)
    return True, f"{count} GPU(s); {able.reason}"


@cache
def array_library() -> Any:
    """NumPy under the interpreter, CuPy on a GPU."""
    import triton_kernels

    if triton_kernels.interpreting():
        return np
    import cupy

    return cupy


def device_count() -> int:
    """How many devices there are; one under the interpreter."""
    if not availability()[0]:
        return 0
    xp = array_library()
    return 1 if xp is np else int(xp.cuda.runtime.getDeviceCount())


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
        raise RuntimeError(f"CUDA error: invalid device ordinal\n  came: {where}; there are {device_count()} device(s)")
    return Device("cuda", index)


def map(program: Program, kind: Kind) -> Kernel | str:
    """The Triton kernel of a program, or why there is none."""
    there, reason = availability()
    if not there:
        return reason
    conditions = all(k == "bool" for k in program.kinds)
    if kind.dtype.name not in _FLOATING and not (kind.dtype.name == "bool" and conditions):
        return f"takes {', '.join(_FLOATING)}, got {kind.dtype.name}"
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
    return ()


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    return "no Triton kernel is written for this op"
