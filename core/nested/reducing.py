"""Reductions, softmax and sums up to each place of nested tensors: across the ragged dimension, or along others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..base.shape import normalize_dim
from ..ops.reduce import sum as total
from ..tensors.tensor import Tensor
from .of_sequences import NestedTensor
from .padding import padded, unpadded
from .pointwise import pointwise
from .results import back, unsupported


def _least(x: Tensor, sign: int) -> Any:
    """Return the value that is never the largest of a dtype (sign -1), or the smallest (1)."""
    if x.dtype.is_floating_point:
        return sign * math.inf
    bits = 8 * x.dtype.itemsize
    if x.dtype.category == 0 or not x.dtype.is_signed:
        return 0 if sign < 0 else 1 if x.dtype.category == 0 else 2**bits - 1
    return -(2 ** (bits - 1)) if sign < 0 else 2 ** (bits - 1) - 1


ALONG = {"softmax": -math.inf, "log_softmax": -math.inf, "softmin": math.inf, "cumsum": 0, "cumprod": 1}
NEUTRAL: dict[str, Callable[[Tensor], Any]] = {
    **dict.fromkeys(["sum", "mean", "any", "count_nonzero"], lambda x: 0),
    **dict.fromkeys(["prod", "all"], lambda x: 1),
    **dict.fromkeys(["amax", "max", "argmax", "logsumexp"], lambda x: _least(x, -1)),
    **dict.fromkeys(["amin", "min", "argmin"], lambda x: _least(x, 1)),
}
REDUCTIONS = (*NEUTRAL, "var", "std")


def along(func: Any, input: NestedTensor, dim: Any = None, *given: Any, **options: Any) -> Any:
    """Run what keeps the dimension it goes along."""
    name = func.__name__
    if dim is None:
        input.refused(name)
    d = normalize_dim(dim, input.ndim, name)
    if d == 0:
        raise unsupported(name, "not supported when reducing across the batch dimension for NestedTensor", input)
    if d != input._ragged:
        return back(func(input._held, d - 1, *given, **options), input._structure, input._ragged)
    x = input.compacted()
    return unpadded(func(padded(x, ALONG[name]), d, *given, **options), x._structure, d)


def reduction(func: Any, input: NestedTensor, dim: Any = None, *given: Any, **options: Any) -> Any:
    """Run what reduces all, the batch with the ragged dimension, the ragged dimension alone, or others."""
    name = func.__name__
    if isinstance(dim, Tensor):  # the larger of two
        return pointwise(func, input, dim)
    options = {{"axis": "dim"}.get(k, k): v for k, v in options.items()}
    dim = options.pop("dim", dim)
    x = input.compacted()
    if dim is None:
        if name.startswith("arg"):
            raise unsupported(name, "needs a dim for NestedTensor", x)
        return func(x._held, *given, **options)
    dims = [normalize_dim(d, x.ndim, name) for d in ((dim,) if isinstance(dim, int) else dim)]
    across, ragged = 0 in dims, x._ragged in dims
    if across and not ragged:
        raise unsupported(name, "reducing along the batch dimension but not the ragged dimension is not supported "
                           "for nested tensors", x)  # fmt: skip
    if ragged and not across and len(dims) > 1:
        raise unsupported(name, "reducing along a ragged and non-batch dimension is not supported for nested tensors",
                           x)  # fmt: skip
    inner: Any = [d - 1 for d in dims if d]
    inner = inner[0] if len(inner) == 1 else inner
    if across:
        y = func(x._held, inner, *given, **options)
        return y.unsqueeze(0) if y.ndim == x._held.ndim else y
    if ragged:
        return _over_sequences(func, x, given, options)
    y = func(x._held, inner, *given, **options)
    one = y if isinstance(y, Tensor) else y[0]
    gone = 0 if one.ndim == x._held.ndim else sum(d < x._ragged for d in dims)
    return back(y, x._structure, x._ragged - gone)


def _over_sequences(func: Any, x: NestedTensor, given: Any, options: dict[str, Any]) -> Any:
    name = func.__name__
    if name not in NEUTRAL:
        raise unsupported(name, "not supported over the ragged dimension", x, NotImplementedError)
    whole = padded(x, NEUTRAL[name](x))
    if name != "mean":
        return func(whole, x._ragged, *given, **options)
    y = total(whole, x._ragged, *given, **options)
    counts: Any = x._structure.index(x._structure.counts)
    return y / counts.reshape(-1, *(1,) * (y.ndim - 1)).to(y.dtype)
