"""Rows of the norms: layer, RMS, group and batch norm, forward and backward."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import Row
from .shared import FLOATING, array_library, empty, name


def _takes(x: Any, *others: Any) -> str | None:
    """Return the reason to decline; weights and statistics may be wider than x."""
    for a in (x, *others):
        if a is not None and a.dtype.name not in FLOATING:
            return f"takes {', '.join(FLOATING)}, got {a.dtype}"
        if a is not None and (a.dtype == np.float64) != (x.dtype == np.float64):
            return f"takes float64 only alone, got {x.dtype} and {a.dtype}"
    return None if x.size else "takes no empty arrays"


def _dense(*arrays: Any) -> Any:
    xp = array_library()
    return [None if a is None else xp.ascontiguousarray(a) for a in arrays]


def _wide(x: Any) -> Any:
    return np.float64 if x.dtype == np.float64 else np.float32


def _like(a: Any) -> Any:
    return empty(a.shape, a.dtype)


def _of(dtype: Any) -> Any:
    return getattr(dtype, "numpy", dtype)


# -- rows --------------------------------------------------------------------------------------------------------------


def _layer(x: Any, weight: Any, bias: Any, normalized_ndim: int, eps: float) -> Any:
    from triton_kernels import norm

    x, weight, bias = _dense(x, weight, bias)
    kept = x.shape[: x.ndim - normalized_ndim]
    rows = x.reshape(math.prod(kept), -1)
    y, mean, rstd = _like(rows), empty(kept, _wide(x)), empty(kept, _wide(x))
    norm.norm_forward(rows, weight, bias, y, mean, rstd, eps)
    return y.reshape(x.shape), mean, rstd


def _rms(x: Any, weight: Any, normalized_ndim: int, eps: float) -> Any:
    from triton_kernels import norm

    x, weight = _dense(x, weight)
    kept = x.shape[: x.ndim - normalized_ndim]
    rows = x.reshape(math.prod(kept), -1)
    y, rstd = _like(rows), empty(kept, _wide(x))
    norm.norm_forward(rows, weight, None, y, None, rstd, eps)
    return y.reshape(x.shape), rstd


def _rows_backward(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, of_weight: Any, of_bias: Any, ndim: int) -> Any:
    """Return the gradient at x; `of_weight` and `of_bias` are written."""
    from triton_kernels import norm

    g, x, weight, mean, rstd = _dense(g, x, weight, mean, rstd)
    rows = x.reshape(math.prod(x.shape[: x.ndim - ndim]), -1)
    out = _like(rows)
    norm.norm_backward(g.reshape(rows.shape), rows, weight, mean, rstd, out, of_weight, of_bias)
    return out.reshape(x.shape)


def _layer_backward(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, weight_dtype: Any, bias_dtype: Any,
                    normalized_ndim: int, eps: float, needs: Any) -> Any:  # fmt: skip
    shape = x.shape[x.ndim - normalized_ndim :]
    gw = empty(shape, _of(weight_dtype)) if needs[1] else None
    gb = empty(shape, _of(bias_dtype)) if needs[2] else None
    return _rows_backward(g, x, weight, mean, rstd, gw, gb, normalized_ndim), gw, gb


def _rms_backward(g: Any, x: Any, weight: Any, rstd: Any, weight_dtype: Any, normalized_ndim: int, eps: float,
                  needs: Any) -> Any:  # fmt: skip
    gw = empty(x.shape[x.ndim - normalized_ndim :], _of(weight_dtype)) if needs[1] else None
    return _rows_backward(g, x, weight, None, rstd, gw, None, normalized_ndim), gw


def _group(x: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    from triton_kernels import norm

    x, weight, bias = _dense(x, weight, bias)
    rows = x.reshape(x.shape[0] * num_groups, -1)
    y, mean, rstd = _like(rows), *(empty((x.shape[0], num_groups), _wide(x)) for _ in range(2))
    norm.norm_forward(rows, weight, bias, y, mean, rstd, eps, num_groups, math.prod(x.shape[2:]))
    return y.reshape(x.shape), mean, rstd


def _group_backward(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, weight_dtype: Any, bias_dtype: Any,
                    num_groups: int, eps: float, needs: Any) -> Any:  # fmt: skip
    from triton_kernels import channel_norm, norm

    g, x, weight, mean, rstd = _dense(g, x, weight, mean, rstd)
    gx = gw = gb = None
    if needs[0]:
        rows = x.reshape(x.shape[0] * num_groups, -1)
        out = _like(rows)
        spatial = math.prod(x.shape[2:])
        norm.norm_backward(g.reshape(rows.shape), rows, weight, mean, rstd, out, None, None, num_groups, spatial)
        gx = out.reshape(x.shape)
    if needs[1] or needs[2]:
        gw = empty(x.shape[1:2], _of(weight_dtype)) if needs[1] else None
        gb = empty(x.shape[1:2], _of(bias_dtype)) if needs[2] else None
        channel_norm.channel_gradients(_images(g), _images(x), mean, rstd, gw, gb, num_groups)
    return gx, gw, gb


# -- channels in the middle --------------------------------------------------------------------------------------------


def _images(x: Any) -> Any:
    """Images x channels x places."""
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _batch(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    from triton_kernels import channel_norm

    x, weight, bias = _dense(x, weight, bias)
    y, mean, var = _like(x), empty(x.shape[1:2], _wide(x)), empty(x.shape[1:2], _wide(x))
    channel_norm.batch_forward(_images(x), weight, bias, y, mean, var, eps)
    return y, mean, var


def _evaluate(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    from triton_kernels import channel_norm

    x, mean, var, weight, bias = _dense(x, mean, var, weight, bias)
    y = _like(x)
    channel_norm.batch_apply(_images(x), weight, bias, y, mean, var, eps)
    return y


def _batch_gradients(g: Any, x: Any, weight: Any, mean: Any, var: Any, more: tuple[Any, Any], kinds: tuple[Any, Any],
                     eps: float, needs: Any, trained: bool) -> Any:  # fmt: skip
    from triton_kernels import channel_norm

    g, x, weight, mean, var = _dense(g, x, weight, mean, var)
    out = _like(x)
    gw, gb = (empty(x.shape[1:2], _of(d)) if need else None for d, need in zip(kinds, needs, strict=True))
    channel_norm.batch_backward(_images(g), _images(x), weight, mean, var, *more, out, gw, gb, eps, trained)
    return out, gw, gb


def _batch_backward(g: Any, x: Any, weight: Any, mean: Any, var: Any, weight_dtype: Any, bias_dtype: Any, eps: float,
                    needs: Any) -> Any:  # fmt: skip
    of_mean, of_var = _dense(*g[1:])
    kinds = (weight_dtype, bias_dtype)
    return _batch_gradients(g[0], x, weight, mean, var, (of_mean, of_var), kinds, eps, needs[1:], True)


def _evaluate_backward(g: Any, x: Any, mean: Any, var: Any, weight: Any, weight_dtype: Any, bias_dtype: Any, eps: float,
                       needs: Any, **_: Any) -> Any:  # fmt: skip
    kinds = (weight_dtype, bias_dtype)
    gx, gw, gb = _batch_gradients(g, x, weight, mean, var, (None, None), kinds, eps, needs[3:], False)
    return gx, None, None, gw, gb


ROWS = {
    "layer_norm": Row("norm_kernel", name, _layer, lambda x, weight, bias, **_: _takes(x, weight, bias)),
    "layer_norm.backward": Row("norm_backward_kernel", name, _layer_backward,
                               lambda g, x, weight, mean, **_: _takes(x, g, weight, mean)),
    "rms_norm": Row("norm_kernel", name, _rms, lambda x, weight, **_: _takes(x, weight)),
    "rms_norm.backward": Row("norm_backward_kernel", name, _rms_backward,
                             lambda g, x, weight, rstd, **_: _takes(x, g, weight, rstd)),
    "group_norm": Row("norm_kernel", name, _group, lambda x, weight, bias, **_: _takes(x, weight, bias)),
    "group_norm.backward": Row("norm_backward_kernel", name, _group_backward,
                               lambda g, x, weight, mean, **_: _takes(x, g, weight, mean)),
    "batch_norm": Row("channel_kernel", name, _batch, lambda x, weight, bias, eps: _takes(x, weight, bias)),
    "batch_norm.backward": Row("channel_backward_kernel", name, _batch_backward,
                               lambda g, x, weight, mean, **_: _takes(x, g[0], weight, mean)),
    "batch_norm_eval": Row("channel_kernel", name, _evaluate,
                           lambda x, mean, var, weight, bias, eps: _takes(x, mean, var, weight, bias)),
    "batch_norm_eval.backward": Row("channel_backward_kernel", name, _evaluate_backward,
                                    lambda g, x, mean, var, weight, needs, **_: _takes(x, g, mean, var, weight)
                                    or ("gives no gradient of the statistics" if needs[1] or needs[2] else None)),
}  # fmt: skip
