"""Reductions over the elements that a mask lets through: ``torch.masked``.

The other elements take no part; a mask spreads over the tensor as in `where`.

>>> import core
>>> core.masked.mean(core.tensor([1.0, 2.0, 9.0]), 0, mask=core.tensor([True, True, False]))
tensor(1.5000)
"""

from __future__ import annotations

import math
from typing import Any

from .base import dtypes

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logsumexp", "mean", "norm", "prod",
           "softmax", "softmin", "std", "sum", "var"]  # fmt: skip


def _filled(x: Any, mask: Any, value: Any, dtype: Any = None) -> Any:
    x = x if dtype is None else x.to(dtype)
    return x if mask is None else x.masked_fill(~mask.broadcast_to(x.shape), value)


def _dims(x: Any, dim: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)


def _number(x: Any, mask: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Return how many elements take part in each result."""
    if mask is None:
        return math.prod(x.shape[d] for d in dims)
    return mask.broadcast_to(x.shape).sum(dims, keepdim=keepdim)


def sum(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the sum of the elements that the mask lets through; 0 of none."""
    return _filled(input, mask, 0, dtype).sum(_dims(input, dim), keepdim=keepdim)


def prod(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return their product; 1 of none."""
    found = _filled(input, mask, 1, dtype)
    for d in sorted((d % max(input.ndim, 1) for d in _dims(input, dim)), reverse=True):
        found = found.prod(d, keepdim=keepdim)
    return found


def mean(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return their mean; NaN of none."""
    dims = _dims(input, dim)
    return sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask) / _number(input, mask, dims, keepdim)


def var(input: Any, dim: Any = None, unbiased: bool = True, *, keepdim: bool = False, dtype: Any = None,
        mask: Any = None) -> Any:  # fmt: skip
    """Return their variance, over one less than their number if `unbiased`."""
    dims = _dims(input, dim)
    middle = mean(input, dims, keepdim=True, dtype=dtype, mask=mask)
    apart = (input if dtype is None else input.to(dtype)) - middle
    number = _number(input, mask, dims, keepdim) - int(unbiased)
    below = number.clamp(min=0) if mask is not None else max(number, 0)
    return sum(apart * apart.conj(), dims, keepdim=keepdim, mask=mask) / below


def std(input: Any, dim: Any = None, unbiased: bool = True, *, keepdim: bool = False, dtype: Any = None,
        mask: Any = None) -> Any:  # fmt: skip
    """Return their standard deviation."""
    return var(input, dim, unbiased, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def _edge(x: Any, sign: int) -> Any:
    """Return the value that is never the largest (sign -1) or the smallest (1) of a dtype."""
    if x.dtype.is_floating_point:
        return sign * math.inf
    least = 0 if x.dtype in (dtypes.bool_, dtypes.uint8) else -(2 ** (8 * x.dtype.itemsize - 1))
    most = 255 if x.dtype is dtypes.uint8 else 2 ** (8 * x.dtype.itemsize - 1) - 1
    return most if sign > 0 else least


def amax(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the largest of them; minus infinity, or the dtype's least, of none."""
    return _filled(input, mask, _edge(input, -1), dtype).amax(_dims(input, dim), keepdim=keepdim)


def amin(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the smallest of them; infinity, or the dtype's greatest, of none."""
    return _filled(input, mask, _edge(input, 1), dtype).amin(_dims(input, dim), keepdim=keepdim)


def argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the place of the largest of them."""
    return _filled(input, mask, _edge(input, -1), dtype).argmax(dim, keepdim=keepdim)


def argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the place of the smallest of them."""
    return _filled(input, mask, _edge(input, 1), dtype).argmin(dim, keepdim=keepdim)


def logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the logarithm of the sum of their exponentials."""
    return _filled(input, mask, -math.inf, dtype).logsumexp(_dims(input, dim), keepdim=keepdim)


def norm(input: Any, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Any:  # fmt: skip
    """Return their norm of order `ord`."""
    value = math.inf if ord is not None and ord < 0 else 0
    return _filled(input, mask, value, dtype).norm(2.0 if ord is None else ord, _dims(input, dim), keepdim=keepdim)


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the softmax over them; 0 elsewhere."""
    return _filled(input, mask, -math.inf, dtype).softmax(dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the logarithm of the softmax over them."""
    return _filled(input, mask, -math.inf, dtype).log_softmax(dim)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the softmax of their negatives; 0 elsewhere."""
    return (-_filled(input, mask, math.inf, dtype)).softmax(dim)


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the sums of them up to each place."""
    return _filled(input, mask, 0, dtype).cumsum(dim)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the products of them up to each place."""
    return _filled(input, mask, 1, dtype).cumprod(dim)
