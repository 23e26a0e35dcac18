"""Attention of several heads, with its projections: the function behind `MultiheadAttention`."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..binding import public
from ..creation import zeros
from ..errors import text
from ..tensor import Tensor
from .attention import scaled_dot_product_attention
from .dropout import dropout
from .joining import cat
from .linalg import bmm, linear
from .padding import pad
from .softmax import softmax


def _additive(mask: Tensor | None, name: str, dtype: Any) -> Tensor | None:
    """A mask to add to the scores: -inf where a bool one is true."""
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool_ and mask.dtype.category != 2:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if mask.dtype is dtypes.bool_:
        return zeros(tuple(mask.shape), dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)
    return mask


def _check(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None,
           heads: int) -> bool:  # fmt: skip
    """Whether the inputs are a batch."""
    op = "multi_head_attention_forward"
    if query.ndim not in (2, 3):
        raise AssertionError(text(f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D "
                                  "query tensor", op=op))  # fmt: skip
    batched = query.ndim == 3
    kind = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(text(f"For {kind} `query`, expected `key` and `value` to be {query.ndim}-D but found "
                                  f"{key.ndim}-D and {value.ndim}-D tensors respectively", op=op))  # fmt: skip
    if key_padding_mask is not None and key_padding_mask.ndim != query.ndim - 1:
        raise AssertionError(text(f"For {kind} `query`, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D "
                                  f"but found {key_padding_mask.ndim}-D tensor instead", op=op))  # fmt: skip
    if attn_mask is not None and attn_mask.ndim not in (2, 3):
        raise AssertionError(text(f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
                                  f"{attn_mask.ndim}-D tensor instead", op=op))  # fmt: skip
    return batched


def _projected(
    query: Tensor, key: Tensor, value: Tensor, packed: Tensor | None, weights: Any, bias: Tensor | None
) -> Any:
    """Queries, keys and values, each through its own part of the weights."""
    if packed is not None:
        weights = packed.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]


@public(namespace="nn.functional", method=False)
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of `num_heads` heads, each over its share of the embedding, between two projections.

    Masks that are bool say what may *not* be looked at; others are added to the scores.

    *Shapes*: query ``(l, n, e)`` or ``(l, e)``, key and value ``(s, n, e)`` -> output as query, and the weights
    ``(n, l, s)``, for each head ``(n, heads, l, s)`` unless averaged, None unless needed. Source: arXiv 1706.03762.

    >>> import core
    >>> x, w = core.ones(3, 1, 4), core.eye(4)
    >>> y, share = core.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, core.cat([w, w, w]), None, None, None, False, 0.0, w, None)
    >>> y.shape, share.shape
    (core.Size([3, 1, 4]), core.Size([1, 3, 3]))
    """
    op = "multi_head_attention_forward"
    batched = _check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, n, size = query._a.shape
    if is_causal and attn_mask is None:
        raise RuntimeError(text("Need attn_mask if specifying the is_causal hint.", op=op))
    if size != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {size}")
    if size % num_heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    padding, mask = (_additive(m, what, query.dtype) for m, what in ((key_padding_mask, "key_padding_mask"),
                                                                     (attn_mask, "attn_mask")))  # fmt: skip
    packed = None if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected(query, key, value, packed, (q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias)
    if mask is not None:
        sizes = (length, key._a.shape[0]) if mask.ndim == 2 else (n * num_heads, length, key._a.shape[0])
        if tuple(mask.shape) != sizes:
            raise RuntimeError(
                text(f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {sizes}.", op=op)
            )
        mask = mask.unsqueeze(0) if mask.ndim == 2 else mask
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must be given together")
    longer = 0
    if bias_k is not None and bias_v is not None:
        k, v, longer = cat([k, bias_k.expand(1, n, size)]), cat([v, bias_v.expand(1, n, size)]), 1
    each = size // num_heads

    def heads(x: Tensor) -> Tensor:
        return x.reshape(x._a.shape[0], n * num_heads, each).transpose(0, 1)

    q = heads(q)
    k, v = static_k if static_k is not None else heads(k), static_v if static_v is not None else heads(v)
    if add_zero_attn:
        nothing = zeros(n * num_heads, 1, each, dtype=k.dtype, device=k.device)
        k, v, longer = cat([k, nothing], 1), cat([v, nothing], 1), longer + 1
    source = k._a.shape[1]
    if longer:
        mask = None if mask is None else pad(mask, (0, longer))
        padding = None if padding is None else pad(padding, (0, longer))
    if padding is not None:
        padding = padding.reshape(n, 1, 1, source).expand(n, num_heads, 1, source).reshape(n * num_heads, 1, source)
        mask = padding if mask is None else mask + padding
    p = dropout_p if training else 0.0
    weights: Tensor | None = None
    if need_weights:
        scores = bmm(q * math.sqrt(1.0 / each), k.transpose(1, 2))
        weights = softmax(scores if mask is None else scores + mask, -1)
        weights = dropout(weights, p) if p > 0 else weights
        y = bmm(weights, v)
        weights = weights.reshape(n, num_heads, length, source)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        y = scaled_dot_product_attention(q, k, v, mask, p)
    y = linear(y.transpose(0, 1).reshape(length * n, size), out_proj_weight, out_proj_bias)
    y = y.reshape(length, n, y._a.shape[1])
    if not batched:
        y, weights = y.squeeze(1), None if weights is None else weights.squeeze(0)
    return y, weights
