"""`SparseArray`: places and values, where a dense tensor has its array; and a gradient of that form."""

from __future__ import annotations

import math
import sys
from typing import Any, NoReturn

import numpy as np

from ..base.errors import text
from ..base.source import is_ours
from . import array_module
from .accumulate import add_rows

REMEDY = "x.to_dense() first"


class NotDense(AttributeError, NotImplementedError):
    """Something of a dense array's was asked of sparse values."""


class ArrayOfValues:
    """What an array that keeps its values in a dense one knows of itself without looking at them."""

    __slots__ = ()
    base = None  # it is a view of nothing
    shape: tuple[Any, ...]
    values: Any

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return int(self.values.dtype.itemsize)


class SparseArray(ArrayOfValues):
    """What is not zero: `index` names the places and `values` has one entry for each.

    layout : "sparse_coo": `index` is one array ``(sparse_dim, nnz)``, and equal places add up. "sparse_csr" and
        "sparse_csc": the pair of the ends of the rows (columns) and the columns (rows) themselves.
    coalesced : whether the places are in order and each is there once.

    It has a shape and a dtype, and adds to others of its kind and to dense arrays: that is all the engine asks of a
    gradient. Whatever else a dense array can do raises.
    """

    __slots__ = ("coalesced", "index", "layout", "shape", "values")
    __array_priority__ = 10_000  # before the arrays of a GPU

    def __init__(self, layout: str, index: tuple[Any, ...], values: Any, shape: tuple[int, ...],
                 coalesced: bool = False) -> None:  # fmt: skip
        self.layout, self.index, self.values, self.shape, self.coalesced = layout, index, values, shape, coalesced

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return (0,) * len(self.shape)  # PyTorch says so too

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes) + sum(int(i.nbytes) for i in self.index)

    def copy(self) -> SparseArray:
        index = tuple([i.copy() for i in self.index])
        return SparseArray(self.layout, index, self.values.copy(), self.shape, self.coalesced)

    def astype(self, dtype: Any, copy: bool = True) -> SparseArray:
        return SparseArray(self.layout, self.index, self.values.astype(dtype), self.shape, self.coalesced)

    def in_order(self) -> SparseArray:
        """Return the same with its places in order and once each, the values of equal ones added in their order."""
        if self.coalesced or self.layout != "sparse_coo":
            return self
        index, xp = self.index[0], _library(self.values)
        numbers = flat(xp, index, self.shape)
        once, group = xp.unique(numbers, return_inverse=True)
        values = xp.zeros((len(once), *self.values.shape[1:]), self.values.dtype)
        add_rows(xp, values.reshape(len(once), -1), group.reshape(-1), self.values.reshape(len(numbers), -1))
        places = unflat(xp, once, self.shape[: index.shape[0]])
        return SparseArray(self.layout, (places,), values, self.shape, True)

    def __mul__(self, number: float) -> SparseArray:
        return SparseArray(self.layout, self.index, self.values * self.values.dtype.type(number), self.shape,
                           self.coalesced)  # fmt: skip

    __rmul__ = __mul__

    def add_to(self, out: Any) -> None:
        """Add the values to a dense array in place; equal places in their order, so the bits are the same always."""
        if out.shape != self.shape:
            raise ValueError(f"a sparse gradient of shape {self.shape} for one of shape {out.shape}")
        index, xp = self.index[0], _library(self.values)
        n = index.shape[0]
        lead = math.prod(self.shape[:n])
        if not lead or not self.values.size:
            return
        rows = self.values.reshape(self.values.shape[0], -1).astype(out.dtype)
        whole = out.reshape(lead, -1)
        add_rows(xp, whole, flat(xp, index, self.shape), rows)
        if not out.flags.c_contiguous:  # then it was a copy
            out[...] = whole.reshape(out.shape)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SparseArray):
            xp = _library(self.values)
            index = xp.concatenate([self.index[0], other.index[0]], 1)
            return SparseArray(self.layout, (index,), xp.concatenate([self.values, other.values]), self.shape)
        out = other.copy()
        self.add_to(out)
        return out

    __radd__ = __iadd__ = __add__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **more: Any) -> Any:
        """Let ``dense + sparse`` and ``dense += sparse`` come here; nothing else is known."""
        if ufunc is not np.add or method != "__call__" or len(inputs) != 2:
            refuse(ufunc.__name__)
        dense = inputs[0] if inputs[1] is self else inputs[1]
        if out is None:
            return self + dense
        if out[0] is not dense:
            out[0][...] = dense
        self.add_to(out[0])
        return out[0]

    def __eq__(self, other: object) -> Any:
        raise NotDense(_refusal(asked() or "eq", self.layout, self.shape))

    __ne__, __hash__ = __eq__, object.__hash__

    def __array__(self, *given: Any, **more: Any) -> NoReturn:
        refuse("numpy")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotDense(_refusal(asked() or name, self.layout, self.shape))


def values_of(a: Any) -> Any:
    """Return the numbers that are there: of sparse values those, of any other array all."""
    return a.values if a.__class__ is SparseArray else a


def refuse(op: str, layout: str = "sparse_coo", shape: Any = None) -> NoReturn:
    """NotImplementedError for an op that knows no sparse tensors.

    >>> try:
    ...     refuse("exp", "sparse_coo", (2, 3))
    ... except NotImplementedError as e:
    ...     print(e)
    Could not run 'exp' with arguments from the 'Sparse' backend
      op: exp; came: a tensor of layout sparse_coo and shape (2, 3); needed: dense tensors; remedy: x.to_dense() first
    """
    raise NotImplementedError(_refusal(op, layout, shape))


def _refusal(op: str, layout: str, shape: Any) -> str:
    compressed = "SparseCsr" if layout in ("sparse_csr", "sparse_csc") else "Sparse"
    came = f"a tensor of layout {layout}" + ("" if shape is None else f" and shape {tuple(shape)}")
    return text(f"Could not run {op!r} with arguments from the '{compressed}' backend", op=op, came=came,
                needed="dense tensors", remedy=REMEDY)  # fmt: skip


def asked() -> str:
    """Return the name of the function of this package that was called from outside."""
    frame, name = sys._getframe(2), ""
    while frame is not None and is_ours(frame.f_code.co_filename):
        if "dispatch" not in frame.f_code.co_filename:  # which only hands on
            name = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return name


def _library(a: Any) -> Any:
    return np if isinstance(a, np.ndarray) else array_module("cuda")


def flat(xp: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """Return the places ``(sparse_dim, nnz)`` as numbers that count the elements row by row.

    >>> flat(np, np.array([[0, 1], [2, 0]]), (2, 3))
    array([2, 3])
    """
    place = xp.zeros(index.shape[1], np.int64)
    for k in range(index.shape[0]):
        place = place * shape[k] + index[k]
    return place


def unflat(xp: Any, numbers: Any, shape: tuple[int, ...]) -> Any:
    """Return the places whose row-by-row numbers these are, an array of one row a dimension."""
    if not shape:
        return xp.zeros((0, len(numbers)), np.int64)
    out = xp.empty((len(shape), len(numbers)), np.int64)
    for k in range(len(shape) - 1, -1, -1):
        out[k] = numbers % max(shape[k], 1)
        numbers = numbers // max(shape[k], 1)
    return out
