"""Rows of sort, topk, kthvalue and median over any dimension, which is moved to the end and sorted with its indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import Row
from .shared import array_library, empty, name


def _rows(x: Any, dim: int) -> tuple[Any, tuple[int, ...]]:
    """x as a dense matrix whose rows run along `dim`, and the shape before it."""
    xp = array_library()
    moved = xp.ascontiguousarray(xp.moveaxis(x, dim, -1))
    return moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1]), moved.shape[:-1]


def _back(a: Any, lead: tuple[int, ...], dim: int) -> Any:
    return array_library().moveaxis(a.reshape(*lead, a.shape[-1]), -1, dim)


def _first(x: Any, k: int, descending: bool) -> tuple[Any, Any]:
    """Return the first k of each row in order, and their indices."""
    from triton_kernels import sort

    values, indices = empty((x.shape[0], k), x.dtype), empty((x.shape[0], k), np.int64)
    sort.topk_forward(x, values, indices, descending)
    return values, indices


def _topk(x: Any, dim: int, k: int, largest: bool) -> Any:
    rows, lead = _rows(x, dim)
    return tuple(_back(a, lead, dim) for a in _first(rows, k, largest))


def _kthvalue(x: Any, dim: int, k: int) -> Any:
    rows, lead = _rows(x, dim)
    return tuple(_back(a[:, k - 1 :], lead, dim) for a in _first(rows, k, False))


def _median(x: Any, dim: int, ignore_nan: bool) -> Any:
    xp = array_library()
    rows, lead = _rows(x, dim)
    n = rows.shape[1]
    values, indices = _first(rows, n, False)
    if x.dtype.kind in "iub":
        at = slice((n - 1) // 2, (n - 1) // 2 + 1)
        return tuple(_back(a[:, at], lead, dim) for a in (values, indices))
    present = (values == values).sum(axis=1, keepdims=True)  # NaN stand at the end
    middle = xp.maximum(present - 1, 0) // 2
    at = middle if ignore_nan else xp.where(present < n, present, middle)
    return tuple(_back(xp.take_along_axis(a, at, 1), lead, dim) for a in (values, indices))


def _declines(x: Any, dim: int) -> str | None:
    from triton_kernels import sort

    if not x.ndim:
        return "needs a dimension to sort along, got a 0-d tensor"
    return sort.declined(x.dtype, x.shape[dim]) or (None if x.shape[dim] else "takes no empty rows")


ROWS = {
    "sort": Row("sort_kernel", name, lambda x, dim, descending: _topk(x, dim, x.shape[dim], descending),
                lambda x, dim, descending: _declines(x, dim)),
    "topk": Row("sort_kernel", name, _topk, lambda x, dim, k, largest: _declines(x, dim)),
    "kthvalue": Row("sort_kernel", name, _kthvalue, lambda x, dim, k: _declines(x, dim)),
    "median": Row("sort_kernel", name, _median, lambda x, dim, ignore_nan: _declines(x, dim)),
}  # fmt: skip
