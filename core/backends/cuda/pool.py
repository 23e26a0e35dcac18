"""Rows of pooling, forward and backward, of images as columns, and of resampling."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from .. import Row
from ..resample_tables import taps, transposed_taps
from . import devices
from .shared import array_library, empty, floating, name

_MOST = 2**31 - 1
_MOST_TAPS = 256  # from which on it is better to go one dimension after another


def _planes(x: Any, n: int) -> Any:
    """`x` with two dimensions before its last `n`: a view where what lies before merges."""
    lead = x.shape[: x.ndim - n]
    return x if len(lead) == 2 else x.reshape((1, math.prod(lead), *x.shape[x.ndim - n :]))


def _declines(x: Any, out: int) -> str | None:
    reason = floating(x)
    if reason is None and max(x.size, out) > _MOST:
        reason = f"counts its places in 31 bits, got {max(x.size, out)}"
    return reason


def _few(dims: Any) -> str | None:
    return None if 1 <= len(dims) <= 3 else f"slides over one to three dimensions, got {len(dims)}"


def _max_pool(x: Any, window: Any, out: Any) -> Any:
    from triton_kernels import pool

    planes, lead = _planes(x, len(out)), x.shape[: x.ndim - len(out)]
    y = empty((*planes.shape[:2], *out), x.dtype)
    index = empty(y.shape, np.int64)
    pool.max_pool_forward(planes, y, index, window)
    return y.reshape(*lead, *out), index.reshape(*lead, *out)


def _max_pool_backward(g: Any, indices: Any, x_shape: Any, window: Any, out: Any) -> Any:
    from triton_kernels import pool

    n = len(out)
    planes = _planes(g[0], n)
    found = empty((*planes.shape[:2], *x_shape[-n:]), planes.dtype)
    pool.max_pool_backward(planes, _planes(indices, n), found, window)
    return found.reshape(x_shape)


def _windows(x: Any, kernel: Any, stride: Any, padding: Any, out: Any, launcher: str) -> Any:
    from triton_kernels import pool

    planes = _planes(x, len(kernel))
    y = empty((*planes.shape[:2], *out), x.dtype)
    getattr(pool, launcher)(planes, y, kernel, stride, padding)
    return y.reshape(*x.shape[: x.ndim - len(kernel)], *out)


def _unfold(x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    from triton_kernels import pool, windows

    out = windows.out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    columns = empty((*x.shape[:2], *kernel, *out), x.dtype)
    pool.unfold(x, columns, (kernel, stride, padding, dilation))
    return columns.reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(out))


def _fold(x: Any, sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    from triton_kernels import pool, windows

    out = windows.out_sizes(sizes, kernel, stride, padding, dilation)
    channels = x.shape[1] // math.prod(kernel)
    y = empty((x.shape[0], channels, *sizes), x.dtype)
    pool.fold(x.reshape(x.shape[0], channels, *kernel, *out), y, (kernel, stride, padding, dilation))
    return y


@lru_cache(maxsize=256)
def _table(
    turned: bool, n: int, out: int, mode: str, align: bool, factor: float | None, dtype: Any, device: int
) -> Any:
    """Return a dimension's taps on the device."""
    at, w = (transposed_taps if turned else taps)(n, out, mode, align, factor)
    place = array_library().asarray
    return place(np.ascontiguousarray(at, np.int32)), place(np.ascontiguousarray(w, dtype))


def _taps(x: Any, sizes: Any, mode: str, align: bool, scales: Any, turned: bool) -> list[Any]:
    from triton_kernels import resample

    dtype, device = np.dtype(resample.weight_type(x.dtype)), devices.current()
    every = zip(x.shape[x.ndim - len(sizes) :], sizes, scales, strict=True)
    return [_table(turned, *((o, n) if turned else (n, o)), mode, align, f, dtype, device) for n, o, f in every]


def _resample(x: Any, sizes: Any, mode: str, align: bool, scales: Any, turned: bool) -> Any:
    from triton_kernels import resample

    planes = _planes(x, len(sizes))
    y = empty((*planes.shape[:2], *sizes), x.dtype)
    resample.resample(planes, _taps(x, sizes, mode, align, scales, turned), y)
    return y.reshape(*x.shape[: x.ndim - len(sizes)], *sizes)


def _resample_declines(x: Any, sizes: Any, mode: str, align: bool, scales: Any, turned: bool) -> str | None:
    reason = _few(sizes) or _declines(x, math.prod((*x.shape[: x.ndim - len(sizes)], *sizes)))
    if reason is None:
        taps = math.prod(at.shape[1] for at, _ in _taps(x, sizes, mode, align, scales, turned))
        reason = f"adds up at most {_MOST_TAPS} inputs an output, got {taps}" if taps > _MOST_TAPS else None
    return reason


ROWS = {
    "max_pool": Row("max_pool_kernel", name,
                    lambda x, kernel, stride, padding, dilation, out:
                    _max_pool(x, (kernel, stride, padding, dilation), out),
                    lambda x, out, **_: _few(out) or _declines(x, 0)),
    "max_pool.backward": Row("max_pool_backward_kernel", name,
                             lambda g, indices, x_shape, kernel, stride, padding, dilation, out, needs:
                             _max_pool_backward(g, indices, x_shape, (kernel, stride, padding, dilation), out),
                             lambda g, x_shape, out, **_: _few(out) or _declines(g[0], math.prod(x_shape))),
    "adaptive_max_pool": Row("max_pool_kernel", name, lambda x, out: _max_pool(x, None, out),
                             lambda x, out: _few(out) or _declines(x, 0)),
    "adaptive_max_pool.backward": Row("max_pool_backward_kernel", name, lambda g, indices, x_shape, out, needs:
                                      _max_pool_backward(g, indices, x_shape, None, out),
                                      lambda g, x_shape, out, **_: _few(out) or _declines(g[0], math.prod(x_shape))),
    "window_sum": Row("window_sum_kernel", name, lambda x, kernel, stride, padding, out:
                      _windows(x, kernel, stride, padding, out, "window_sum"),
                      lambda x, kernel, **_: _few(kernel) or _declines(x, 0)),
    "window_spread": Row("window_spread_kernel", name, lambda x, kernel, stride, padding, sizes:
                         _windows(x, kernel, stride, padding, sizes, "window_spread"),
                         lambda x, kernel, sizes, **_: _few(kernel) or _declines(
                             x, math.prod((*x.shape[: x.ndim - len(kernel)], *sizes)))),
    "im2col": Row("unfold_kernel", name, _unfold, lambda x, kernel, **_: _few(kernel)
                  or _declines(x, x.size * math.prod(kernel))),
    "col2im": Row("window_spread_kernel", name, _fold, lambda x, kernel, sizes, **_: _few(kernel)
                  or _declines(x, len(x) * x.shape[1] * math.prod(sizes))),
    "resample": Row("resample_kernel", name, lambda x, out, mode, align, scales:
                    _resample(x, out, mode, align, scales, False),
                    lambda x, out, mode, align, scales: _resample_declines(x, out, mode, align, scales, False)),
    "resample_transposed": Row("resample_kernel", name, lambda x, sizes, mode, align, scales:
                               _resample(x, sizes, mode, align, scales, True),
                               lambda x, sizes, mode, align, scales:
                               _resample_declines(x, sizes, mode, align, scales, True)),
}  # fmt: skip
