"""The CPU's rows of pooling: the greatest of each window over one or two dimensions, and the way back."""

from __future__ import annotations

import math
from typing import Any

from .. import native
from . import Row

c: Any = native.module
_MOST = 1 << 31  # items of a plane: places are counted in 32 bits while a row is made


def _declines(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, out: Any) -> str | None:
    n = len(kernel)
    if x.dtype.char not in "fd":
        return f"takes float32 and float64, got {x.dtype}"
    if n > 2:
        return f"takes windows over one or two dimensions, got {n}"
    return None if x.size and math.prod(x.shape[-n:]) < _MOST else "takes planes of 1 to 2^31 - 1 items"


def _max_pool(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, out: Any) -> Any:
    n = len(kernel)
    lead, planes = x.shape[:-n], x.reshape(-1, *(1,) * (2 - n), *x.shape[-n:])
    rest, none = (1,) * (2 - n), (0,) * (2 - n)
    y, places = c.max_pool(planes, rest + kernel, rest + stride, none + padding, rest + dilation, rest + out)
    return y.reshape(*lead, *out), places.reshape(*lead, *out)


def _scatter_declines(x: Any, indices: Any, sizes: Any, add: bool) -> str | None:
    if x.dtype.char not in "fd" or indices.dtype.char != "l":
        return f"takes float32 and float64 and int64 places, got {x.dtype} and {indices.dtype}"
    return None if add and x.size and x.shape == indices.shape else "adds as many items as there are places"


def _scatter(x: Any, indices: Any, sizes: Any, add: bool) -> Any:
    n = len(sizes)
    planes = math.prod(x.shape[: x.ndim - n])
    out = c.scatter_add(x.reshape(planes, -1), indices.reshape(planes, -1), math.prod(sizes))
    return out.reshape(*x.shape[: x.ndim - n], *sizes)


rows = {
    "max_pool": Row("max_pool_forward", "C", _max_pool, _declines),
    "pool_scatter": Row("pool_scatter_forward", "C", _scatter, _scatter_declines),
}
