"""Rows of scaled dot product attention, forward and backward: no scores are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...rng.philox import place_of
from .. import Row
from .matmul import input_precision
from .shared import array_library, empty, name


def _declines(q: Any, k: Any, v: Any, mask: Any, **_: Any) -> str | None:
    from triton_kernels import attention

    if q.dtype.name not in attention.DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        return f"takes {', '.join(attention.DTYPES)}, one of them, got {q.dtype}, {k.dtype} and {v.dtype}"
    if max(q.shape[-1], v.shape[-1]) > attention.MOST:
        return f"takes rows of at most {attention.MOST} items, got {max(q.shape[-1], v.shape[-1])}"
    if not (q.size and k.size and v.size):
        return "takes no empty arrays"
    if q.ndim > 4 or q.ndim != k.ndim or q.ndim != v.ndim:
        return "takes at most two dimensions before the matrices, as many in q, k and v"
    if q.ndim > 2 and (k.shape[-3] != v.shape[-3] or q.shape[-3] % k.shape[-3]):
        return "takes as many heads of keys as of values, and of queries a multiple of them"
    if q.ndim > 3 and not q.shape[0] == k.shape[0] == v.shape[0]:
        return "takes one batch, equal in q, k and v"
    if mask is not None and (mask.ndim > q.ndim or mask.dtype not in (np.dtype(bool), q.dtype)):
        return f"takes a mask of bool or {q.dtype}, of no more dimensions than q, got {mask.dtype}"
    return None


def _four(a: Any) -> Any:
    """Return an array as (batch, head, row, item)."""
    return a if a.ndim == 4 else a.reshape((1,) * (4 - a.ndim) + a.shape)


def _like(a: Any, columns: int) -> Any:
    """Memory for what has the rows of `a`: laid out as it is, so that heads that lie side by side stay so."""
    b, h, n, _ = a.shape
    if h > 1 and abs(a.strides[1]) < abs(a.strides[2]):
        return empty((b, n, h, columns), a.dtype).transpose(0, 2, 1, 3)
    return empty((b, h, n, columns), a.dtype)


def _settings(q: Any, k: Any, mask: Any, causal: bool, p: float, seed: int, offset: int) -> dict[str, Any]:
    from triton_kernels.attention import Dropout

    shape = (*q.shape[:3], k.shape[2])
    return {"causal": causal, "mask": None if mask is None else array_library().broadcast_to(mask, shape),
            "dropout": Dropout(p, seed, offset, place_of(offset)) if p else None,
            "input_precision": input_precision()}  # fmt: skip


def _forward(q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, p: float, seed: int, offset: int) -> Any:
    from triton_kernels import attention

    lead = q.shape[:-2]
    q, k, v = _four(q), _four(k), _four(v)
    y, logs = _like(q, v.shape[3]), empty(q.shape[:3], np.float32)
    attention.attention_forward(q, k, v, y, logs, scale, **_settings(q, k, mask, causal, p, seed, offset))
    return y.reshape(*lead, *y.shape[2:]), logs.reshape(*lead, q.shape[2], 1)


def _backward_declines(g: Any, q: Any, k: Any, v: Any, mask: Any, needs: Any, **_: Any) -> str | None:
    return "gives no gradient of the mask" if needs[3] else _declines(q, k, v, mask)


def _backward(g: Any, q: Any, k: Any, v: Any, mask: Any, y: Any, logs: Any, scale: float, causal: bool, p: float,
              seed: int, offset: int, needs: Any) -> Any:  # fmt: skip
    from triton_kernels import attention_backward

    shapes = q.shape, k.shape, v.shape
    g, q, k, v, y = (_four(a) for a in (g, q, k, v, y))
    dq = _like(q, q.shape[3]) if needs[0] else None
    dk, dv = (_like(a, a.shape[3]) if needs[1] or needs[2] else None for a in (k, v))
    attention_backward.attention_backward(
        g, q, k, v, y, logs.reshape(q.shape[:3]), dq, dk, dv, scale,
        **_settings(q, k, mask, causal, p, seed, offset),
    )  # fmt: skip
    grads = (None if a is None or not need else a.reshape(shape)
             for a, need, shape in zip((dq, dk, dv), needs, shapes, strict=False))  # fmt: skip
    return (*grads, None)


ROWS = {
    "attention": Row("attention_kernel", name, _forward, _declines),
    "attention.backward": Row("keys_backward_kernel", name, _backward, _backward_declines),
}
