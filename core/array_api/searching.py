"""Order, places and sets of elements, by the array API standard."""

from __future__ import annotations

from typing import NamedTuple

from ..base import dtypes
from ..base.errors import text
from ..dispatch.publish import namespaces
from ..ops import creation
from ..tensors.tensor import Tensor
from .manipulation import concat, diff
from .promotion import together

_f = namespaces[""]


def _best(op: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    y: Tensor = _f[op](x, axis, keepdims)
    return y.reshape((1,) * x.ndim) if axis is None and keepdims else y  # type: ignore[attr-defined,no-any-return]


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the place of the greatest element, the first of several; without an axis that in the flattened array.

    >>> import core.array_api as xp
    >>> xp.argmax(xp.asarray([1, 3, 2]))
    tensor(1)
    """
    return _best("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the place of the least element, the first of several; without an axis that in the flattened array.

    >>> import core.array_api as xp
    >>> xp.argmin(xp.asarray([1, 3, 2]))
    tensor(0)
    """
    return _best("argmin", x, axis, keepdims)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the places of the elements in their order along an axis.

    >>> import core.array_api as xp
    >>> xp.argsort(xp.asarray([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return _f["argsort"](x, axis, descending, stable)  # type: ignore[no-any-return]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements in order along an axis.

    >>> import core.array_api as xp
    >>> xp.sort(xp.asarray([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return _f["sort"](x, axis, descending, stable).values  # type: ignore[no-any-return]


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the places of the elements that are not 0, an array for each axis.

    >>> import core.array_api as xp
    >>> xp.nonzero(xp.asarray([0, 5, 7]))
    (tensor([1, 2]),)
    """
    if not x.ndim:
        raise ValueError(text("an array without axes has no places", op="nonzero", remedy="reshape it to (1,)"))
    return tuple(_f["nonzero"](x, as_tuple=True))


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Return the places at which the elements of `x2` keep `x1` in order: before ("left") or after its equals.

    >>> import core.array_api as xp
    >>> xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 4]))
    tensor([1, 2])
    """
    ordered, sought = together(x1, x2)
    return _f["searchsorted"](ordered, sought, side=side, sorter=sorter)  # type: ignore[no-any-return]


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return the slices of `x` at the places `indices` along an axis; negative ones count from its end.

    >>> import core.array_api as xp
    >>> xp.take(xp.asarray([1, 3, 5]), xp.asarray([-1, 0]))
    tensor([5, 1])
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(text("an axis is required unless the array has one dimension", op="take",
                                  came=f"shape {tuple(x.shape)}", remedy="axis="))  # fmt: skip
        axis = 0
    return x[(slice(None),) * (axis % x.ndim) + (indices.to(dtypes.int64),)]  # type: ignore[attr-defined,no-any-return]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the elements at places that `indices` has for each line along an axis.

    >>> import core.array_api as xp
    >>> xp.take_along_axis(xp.asarray([[1, 2], [3, 4]]), xp.asarray([[1], [0]]), axis=1)
    tensor([[2],
            [3]])
    """
    n = x.shape[axis]
    places = _f["where"](indices < 0, indices + n, indices)  # type: ignore[operator]
    return _f["take_along_dim"](x, places.to(dtypes.int64), axis)  # type: ignore[no-any-return]


class unique_all_result(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class unique_counts_result(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class unique_inverse_result(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> unique_all_result:
    """Return the different elements in order, where each stands first, which of them every element is, and how often
    each is there. Every NaN is a value of its own.

    >>> import core.array_api as xp
    >>> xp.unique_all(xp.asarray([3, 1, 3])).counts
    tensor([1, 2])
    """
    flat: Tensor = x.reshape(-1)  # type: ignore[attr-defined]
    if x.dtype.is_complex:  # by the real parts, of equals by the imaginary ones
        order = argsort(flat.imag)  # type: ignore[attr-defined]
        order = order[argsort(flat.real[order])]  # type: ignore[attr-defined]
    else:
        order = argsort(flat)
    ordered = flat[order]
    n = len(ordered)
    first = creation.ones(n, dtype=dtypes.bool_, device=x.device)
    if n > 1:
        first[1:] = ordered[1:] != ordered[:-1]
    starts = nonzero(first)[0]
    inverse = creation.empty(n, dtype=dtypes.int64, device=x.device)
    inverse[order] = first.cumsum(0) - 1  # type: ignore[attr-defined]
    counts = diff(concat([starts, creation.full((1,), n, device=x.device)]))
    return unique_all_result(ordered[starts], order[starts], inverse.reshape(x.shape), counts)  # type: ignore[attr-defined]


def unique_counts(x: Tensor, /) -> unique_counts_result:
    """Return the different elements in order, and how often each is there.

    >>> import core.array_api as xp
    >>> xp.unique_counts(xp.asarray([3, 1, 3])).values
    tensor([1, 3])
    """
    found = unique_all(x)
    return unique_counts_result(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> unique_inverse_result:
    """Return the different elements in order, and which of them every element is.

    >>> import core.array_api as xp
    >>> xp.unique_inverse(xp.asarray([3, 1, 3])).inverse_indices
    tensor([1, 0, 1])
    """
    found = unique_all(x)
    return unique_inverse_result(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Return the different elements in order.

    >>> import core.array_api as xp
    >>> xp.unique_values(xp.asarray([3, 1, 3]))
    tensor([1, 3])
    """
    return unique_all(x).values
