"""ONNX's Attention, RotaryEmbedding and LinearAttention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import dtypes
from .table import DTYPES, Call, F, constant, row, t


def _heads(x: Any, count: Any) -> Any:
    """Return (batch, steps, heads * size) as (batch, heads, steps, size)."""
    return x.reshape((*x.shape[:2], count, x.shape[2] // count)).transpose(1, 2)


def _allowed(queries: int, keys: int, offset: Any, causal: int, left: int, right: int, like: Any) -> Any:
    """Return which keys each query may see, counted from where the keys before it end; None where it is all."""
    if not causal and left < 0 and right < 0:
        return None
    i = t.arange(queries, device=like.device).reshape((-1, 1)) + offset
    apart = i - t.arange(keys, device=like.device)
    seen = t.ones_like(apart, dtype=dtypes.bool_)
    seen = seen & (apart >= 0) if causal else seen
    seen = seen & (apart <= left) if left >= 0 else seen
    return seen & (-apart <= right) if right >= 0 else seen


@row("Attention")
def _attention(call: Call, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None, past_value: Any = None,
               lengths: Any = None, is_causal: int = 0, kv_num_heads: Any = None, q_num_heads: Any = None,
               qk_matmul_output_mode: int = 0, scale: Any = None, softcap: float = 0.0, softmax_precision: Any = None,
               left_window_size: int = -1, right_window_size: int = -1) -> Any:  # fmt: skip
    """Results: the attention, the keys and values with the past, and the scores at one of four stages."""
    flat = q.ndim == 3
    if flat:
        q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = t.cat([past_key, k], 2), t.cat([past_value, v], 2)
    present = (k, v)
    share = q.shape[1] // k.shape[1]
    if share > 1:
        k, v = t.repeat_interleave(k, share, 1), t.repeat_interleave(v, share, 1)
    root = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    bias = _bias(q, k, mask, past, lengths, is_causal, left_window_size, right_window_size)
    scores = t.matmul(q * root, (k * root).transpose(-1, -2))
    stages = [scores]
    if softcap:
        scores = t.tanh(scores / softcap) * softcap
    stages.append(scores)
    scores = scores if bias is None else scores + bias
    stages.append(scores)
    inside = scores if softmax_precision is None else scores.to(DTYPES[softmax_precision])
    weights = t.softmax(inside, -1)
    if bias is not None:  # what sees nothing gives 0
        blind = (bias == -math.inf).all(-1, keepdim=True)
        weights = t.where(blind, t.zeros_like(weights), weights)
    weights = weights.to(q.dtype)
    stages.append(weights)
    y = t.matmul(weights, v)
    if flat:
        y = y.transpose(1, 2).reshape((y.shape[0], y.shape[2], -1))
    return (y, *present, stages[qk_matmul_output_mode].to(q.dtype))[: call.outputs]


def _bias(q: Any, k: Any, mask: Any, past: int, lengths: Any, causal: int, left: int, right: int) -> Any:
    """Return what is added to the scores: 0 where a key is seen, minus infinity where not, and the mask's numbers."""
    queries, keys = q.shape[2], k.shape[2]
    zero, low = constant(0.0, q.dtype, q), constant(-math.inf, q.dtype, q)
    bias = None
    if mask is not None:
        bias = t.where(mask, zero, low) if mask.dtype == dtypes.bool_ else mask.to(q.dtype)
        if bias.shape[-1] < keys:
            bias = F.pad(bias, [0, keys - bias.shape[-1]], value=-math.inf)
    offset: Any = past
    if lengths is not None:
        if not past:
            offset = lengths.reshape((-1, 1, 1, 1)) - queries
        there = t.arange(keys, device=q.device) < lengths.reshape((-1, 1, 1, 1))
        bias = t.where(there, zero, low) if bias is None else bias + t.where(there, zero, low)
    seen = _allowed(queries, keys, offset, causal, left, right, q)
    if seen is not None:
        bias = t.where(seen, zero, low) if bias is None else bias + t.where(seen, zero, low)
    return bias


@row("RotaryEmbedding")
def _rotary(call: Call, x: Any, cosine: Any, sine: Any, positions: Any = None, interleaved: int = 0,
            num_heads: int = 0, rotary_embedding_dim: int = 0) -> Any:  # fmt: skip
    """Source: Su et al., RoFormer (2021)."""
    shape = x.shape
    rows = x.transpose(1, 2) if x.ndim == 4 else x.reshape((*shape[:2], num_heads, shape[2] // num_heads))
    width = rotary_embedding_dim or rows.shape[-1]
    turned, rest = rows[..., :width], rows[..., width:]
    if positions is not None:
        cosine, sine = cosine[positions], sine[positions]
    c, s = cosine.unsqueeze(2), sine.unsqueeze(2)
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    real, imaginary = c * a - s * b, s * a + c * b
    if interleaved:
        turned = t.stack([real, imaginary], -1).reshape(turned.shape)
    else:
        turned = t.cat([real, imaginary], -1)
    y = t.cat([turned, rest], -1)
    return y.transpose(1, 2) if x.ndim == 4 else y.reshape(shape)


@row("LinearAttention")
def _linear_attention(call: Call, q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None,
                      chunk_size: int = 0, kv_num_heads: int = 1, q_num_heads: int = 1, scale: float = 0.0,
                      update_rule: str = "gated_delta") -> Any:  # fmt: skip
    """A state of keys by values that decays, is corrected and is written at each step. Computed in float32."""
    dtype, (batch, steps, _) = q.dtype, q.shape
    q4 = _heads(q, q_num_heads).to(dtypes.float32)
    k4, v4 = (_heads(x, kv_num_heads).to(dtypes.float32) for x in (k, v))
    width = k4.shape[-1]
    fades = None if decay is None else _heads(decay, kv_num_heads).to(dtypes.float32)
    rates = None if beta is None else beta.transpose(1, 2).unsqueeze(-1).to(dtypes.float32)
    kept = dtype if past is None else past.dtype
    state = t.zeros((batch, kv_num_heads, width, v4.shape[-1]), device=q.device) if past is None else past.float()
    factor, outputs = scale or 1 / math.sqrt(width), []
    for i in range(steps):
        key, value = k4[:, :, i].unsqueeze(-1), v4[:, :, i].unsqueeze(-2)
        if fades is not None:
            state = state * t.exp(fades[:, :, i]).unsqueeze(-1)
        if rates is not None:
            value = rates[:, :, i].unsqueeze(-2) * (value - t.matmul(key.transpose(-1, -2), state))
        state = state + key * value
        seen = state if q_num_heads == kv_num_heads else t.repeat_interleave(state, q_num_heads // kv_num_heads, 1)
        outputs.append(factor * t.matmul(q4[:, :, i].unsqueeze(-2), seen).squeeze(-2))
    y = t.stack(outputs, 1).reshape((batch, steps, -1))
    return y.to(dtype), state.to(kept)


@row("NonMaxSuppression")
def _suppressed(call: Call, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None,
                center_point_box: int = 0) -> Any:  # fmt: skip
    """The boxes of each class by falling score, without those that overlap a better one too much."""
    b, s = np.asarray(boxes._a), np.asarray(scores._a)
    limit, most_shared = (0 if p is None else np.asarray(p._a).reshape(-1)[0].item() for p in (most, overlap))
    lowest = -math.inf if least is None else np.asarray(least._a).reshape(-1)[0].item()
    if center_point_box:
        corners = np.stack([b[..., 1] - b[..., 3] / 2, b[..., 0] - b[..., 2] / 2,
                            b[..., 1] + b[..., 3] / 2, b[..., 0] + b[..., 2] / 2], -1)  # fmt: skip
    else:
        corners = np.stack([np.minimum(b[..., 0], b[..., 2]), np.minimum(b[..., 1], b[..., 3]),
                            np.maximum(b[..., 0], b[..., 2]), np.maximum(b[..., 1], b[..., 3])], -1)  # fmt: skip
    found = []
    for n in range(s.shape[0]):
        for c in range(s.shape[1]):
            kept: list[int] = []
            for k in np.argsort(-s[n, c], kind="stable"):
                if len(kept) >= limit or s[n, c, k] <= lowest:
                    break
                if all(_shared(corners[n, k], corners[n, j]) <= most_shared for j in kept):
                    kept.append(int(k))
            found += [[n, c, k] for k in kept]
    return constant(np.array(found, np.int64).reshape(-1, 3), dtypes.int64, boxes)


def _shared(a: Any, b: Any) -> float:
    """Return the area that two boxes share over the area that they cover."""
    both = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0).prod()
    return float(both / max((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - both, 1e-30))
