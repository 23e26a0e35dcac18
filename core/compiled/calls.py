"""What a replay asks of C, and the same in Python where the extension is not built."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import native
from ..tensors.tensor import Tensor, wrap


def _point(table: int, at: int, tensors: Sequence[Tensor]) -> None:
    """Write the addresses of tensors into a table of pointers."""
    pointers = (ctypes.c_void_p * (at + len(tensors))).from_address(table)
    for k, t in enumerate(tensors):
        pointers[at + k] = address(t)


def _make(table: int, at: int, what: Sequence[tuple[int, tuple[int, ...], Any]]) -> list[Tensor]:
    """Return new tensors of (type number, shape, kind) each, their addresses in the table."""
    made = [wrap(np.empty(shape, kind.dtype.numpy), kind) for _, shape, kind in what]
    _point(table, at, made)
    return made


def _run_loops(function: int, arena: int, table: int) -> None:
    """Run compiled loops."""
    if ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(function)(arena, table):
        raise MemoryError("no memory for a product of matrices")


def address(t: Tensor) -> int:
    """Return where a tensor's first element lies."""
    return int(t._a.ctypes.data)


def kernel_addresses() -> dict[str, int]:
    """Return the addresses of core's kernels that loops call, by name."""
    return {} if native.module is None else native.module.kernel_addresses()


point, make, run_loops = _point, _make, _run_loops
if native.module is not None:
    point, make, run_loops = native.module.point, native.module.make, native.module.run_loops
