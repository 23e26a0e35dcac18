"""Summing a gradient over the dimensions that its input was expanded along by broadcasting."""

from __future__ import annotations

from typing import Any

from .. import native
from ..base.device import Kind, cpu
from . import pick

_sum = native.module.entries["sum"] if native.module is not None else None  # the kernel itself: no row is looked for


def sum_to(a: Any, shape: tuple[int, ...] | None, kind: Kind) -> Any:
    """`a` summed over what `shape` lacks or has as 1."""
    shape = shape or ()
    lead = a.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and a.shape[lead + i] != 1)
    if _sum is not None and kind.device is cpu and a.dtype.char in "fd":
        return _sum(a, axes, False).reshape(shape)
    row = pick("sum", kind.device.type, (a,), {"dim": axes, "keepdim": False})
    total = row.run(a, dim=axes, keepdim=False) if row is not None else a.sum(axis=axes, dtype=a.dtype)
    return total.reshape(shape)
