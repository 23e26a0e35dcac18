"""The rows of the device `cuda`: op name -> Triton kernels. Arrays are CuPy's; NumPy's under Triton's interpreter.

A file an op family; the elementwise kernels are printed from the declarations.
"""

from __future__ import annotations

from ...base.device import device as Device
from ...base.shadowing import hidden
from .. import Row
from . import (
    attention,
    conv,
    dropout,
    faults,
    indexing,
    loss,
    matmul,
    norm,
    pool,
    quantised,
    recurrent,
    reduce,
    scan,
    softmax,
    sort,
)
from .devices import count as device_count
from .devices import current
from .maps import map, map_joint
from .shared import array_library, availability, name

__all__ = ["FAMILIES", "absent", "array_library", "availability", "check", "device_count", "is_built", "map",
           "map_joint", "name", "rows"]  # fmt: skip

# an op's rows are tried in this order
FAMILIES = (
    reduce,
    softmax,
    matmul,
    quantised,
    attention,
    loss,
    indexing,
    norm,
    conv,
    sort,
    pool,
    scan,
    dropout,
    recurrent,
)

_table: dict[str, tuple[Row, ...]] = {}
for _rows in (*(family.ROWS for family in FAMILIES), indexing.SUMS):
    for _op, _row in _rows.items():
        _table[_op] = (*_table.get(_op, ()), _row)


def is_built() -> bool:
    """Whether there are kernels for a GPU: where triton can be imported, GPU or not."""
    if hidden("triton_kernels"):
        return False
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
    index = current() if where.index is None else where.index
    if index >= device_count():
        raise RuntimeError(f"CUDA error: invalid device ordinal\n  came: {where}; devices there are: {device_count()}")
    return Device("cuda", index)


def rows(name: str) -> tuple[Row, ...]:
    """The structured kernels that serve `name`."""
    return _table.get(name, ()) if availability()[0] else ()


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    there, reason = availability()
    return "no Triton kernel is written for this op" if there else reason
