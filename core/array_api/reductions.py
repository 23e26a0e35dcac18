"""Sums, extrema, moments and running sums, over one axis, several, none or all, by the array API standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..dispatch.publish import namespaces
from ..ops import creation
from ..tensors.tensor import Tensor
from .creation import named

_f = namespaces[""]
Axis = int | tuple[int, ...] | None


def _over(op: Callable[..., Any], x: Tensor, axis: Axis, keepdims: bool, **words: Any) -> Tensor:
    """Run a reduction. ``axis=()`` reduces nothing, where PyTorch reads it as all: so over an axis of one element."""
    if axis == ():
        return op(x.unsqueeze(-1), -1, **words)  # type: ignore[attr-defined,no-any-return]
    axes = tuple(range(x.ndim)) if axis is None else axis
    if axes == ():  # of an array without axes
        return op(x, **words)  # type: ignore[no-any-return]
    return op(x, axes, keepdim=keepdims, **words)  # type: ignore[no-any-return]


def _plain(name: str, op: str = "") -> Callable[..., Tensor]:
    reduce = _f[op or name]

    def function(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return _over(reduce, x, axis, keepdims)

    return named(function, name, op)


def _typed(name: str) -> Callable[..., Tensor]:
    reduce = _f[name]

    def function(x: Tensor, /, *, axis: Axis = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
        return _over(reduce, x, axis, keepdims, dtype=dtype)

    return named(function, name)


def _moment(name: str) -> Callable[..., Tensor]:
    reduce = _f[name]

    def function(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        return _over(reduce, x, axis, keepdims, correction=correction)

    return named(function, name)


max, mean, min = _plain("max", "amax"), _plain("mean"), _plain("min", "amin")
prod, sum = _typed("prod"), _typed("sum")
std, var = _moment("std"), _moment("var")


def _truth(name: str) -> Callable[..., Tensor]:
    reduce = _f[name]

    def function(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return _over(reduce, x.bool(), axis, keepdims)  # type: ignore[attr-defined]

    return named(function, name)


all, any = _truth("all"), _truth("any")


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return how many elements are not 0.

    >>> import core.array_api as xp
    >>> xp.count_nonzero(xp.asarray([[1, 0], [2, 3]]), axis=1)
    tensor([1, 2])
    """
    return _over(_f["sum"], x != 0, axis, keepdims, dtype=dtypes.int64)  # type: ignore[arg-type]


def _running(name: str, op: str, first: int) -> Callable[..., Tensor]:
    run = _f[op]

    def function(x: Tensor, /, *, axis: int | None = None, dtype: Dtype | None = None,
                 include_initial: bool = False) -> Tensor:  # fmt: skip
        if axis is None:
            if x.ndim != 1:
                raise ValueError(text("an axis is required unless the array has one dimension", op=name,
                                      came=f"shape {tuple(x.shape)}", remedy="axis="))  # fmt: skip
            axis = 0
        y: Tensor = run(x, axis, dtype=dtype)
        if not include_initial:
            return y
        shape = list(y.shape)
        shape[axis] = 1
        return _f["cat"]([creation.full(shape, first, dtype=y.dtype, device=y.device), y], axis)  # type: ignore[no-any-return]

    return named(function, name, op)


cumulative_sum, cumulative_prod = _running("cumulative_sum", "cumsum", 0), _running("cumulative_prod", "cumprod", 1)
