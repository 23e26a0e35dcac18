"""Attention of several heads, with its projections: the function behind `MultiheadAttention`."""

from __future__ import annotations

import math
from typing import Any

from ..base import dtypes
from ..base.errors import text
from ..base.source import warn
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .attention import scaled_dot_product_attention
from .creation import zeros
from .dropout import dropout
from .joining import cat
from .linalg import linear, matmul
from .padding import pad
from .softmax import softmax


def _additive(mask: Tensor | None, name: str, dtype: Any) -> Tensor | None:
    """Return a mask to add to the scores: -inf where a bool one is true."""
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool_ and mask.dtype.category != 2:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if mask.dtype is dtypes.bool_:
        return zeros(tuple(mask.shape), dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)
    return mask


def _check(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None,
           heads: int) -> bool:  # fmt: skip
    """Return whether the inputs are a batch."""
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


def _projected(query: Tensor, key: Tensor, value: Tensor, packed: Tensor | None, weights: Any, bias: Tensor | None,
               heads: int) -> Any:  # fmt: skip
    """Queries, keys and values ``(a, b, heads, each)``, each through its own part of the weights."""

    def split(x: Tensor, *lead: int) -> Tensor:
        return x.reshape(*x._a.shape[:-1], *lead, heads, x._a.shape[-1] // heads // math.prod(lead))

    if packed is not None and query is key is value:  # one product instead of three
        return split(linear(query, packed, bias), 3).unbind(2)
    if packed is not None:
        weights = packed.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return [split(linear(x, w, b)) for x, w, b in zip((query, key, value), weights, biases, strict=True)]


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
    return attend(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
                  add_zero_attn, dropout_p if training else 0.0, out_proj_weight, out_proj_bias, key_padding_mask,
                  need_weights, attn_mask, (q_proj_weight, k_proj_weight, v_proj_weight)
                  if use_separate_proj_weight else None, static_k, static_v, average_attn_weights, is_causal,
                  False)  # fmt: skip


def _masks(op: str, query: Tensor, attn_mask: Tensor | None, padding: Tensor | None, n: int, heads: int, length: int,
           source: int, longer: int, batched: bool) -> Tensor | None:  # fmt: skip
    """Both masks as one to add to scores ``(n, heads, length, source + longer)``; the longer part is always seen."""
    if attn_mask is not None and padding is not None and attn_mask.dtype is not padding.dtype:
        warn("Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.")
    mask = _additive(attn_mask, "attn_mask", query.dtype)
    if mask is not None:
        sizes = (length, source) if mask.ndim == 2 else (n * heads, length, source)
        came = tuple(mask._a.shape)
        if mask.ndim == 3 and not batched and came != sizes:
            raise AssertionError(text(f"Expected `attn_mask` shape to be {sizes} but got {mask.shape}", op=op))
        if came != sizes:
            raise RuntimeError(
                text(f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {sizes}.", op=op)
            )
        mask = mask.reshape(n, heads, length, source) if mask.ndim == 3 else mask
    padding = _additive(padding, "key_padding_mask", query.dtype)
    if padding is not None:
        for d, want in enumerate((n, source)):
            if padding._a.shape[d] != want:
                raise AssertionError(
                    text(f"Expected key_padded_mask.shape[{d}] to be {want}, but got {padding._a.shape[d]}", op=op)
                )
        padding = padding.reshape(n, 1, 1, source)
        mask = padding if mask is None else mask + padding
    return pad(mask, (0, longer)) if longer and mask is not None else mask


def attend(query: Tensor, key: Tensor, value: Tensor, size: int, heads: int, packed: Tensor | None,
           bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, p: float,
           out_weight: Tensor, out_bias: Tensor | None, padding: Tensor | None, need_weights: bool,
           attn_mask: Tensor | None, apart: Any, static_k: Tensor | None, static_v: Tensor | None, average: bool,
           is_causal: bool, batch_first: bool) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """As `multi_head_attention_forward`; with `batch_first` the batch is the inputs' first dimension, and nothing needs
    to be turned round."""
    op = "multi_head_attention_forward"
    if query.is_nested or key.is_nested or value.is_nested:
        raise AssertionError(
            text("MultiheadAttention does not support NestedTensor", op=op, came=f"shape {tuple(query.shape)}",
                 remedy="x.to_padded_tensor(0.0) with a key_padding_mask, or linear layers of the nested tensor and "
                 "scaled_dot_product_attention"))  # fmt: skip
    batched = _check(query, key, value, padding, attn_mask, heads)
    if not batched:
        batch_first = True
        same = query is key is value
        query = query.unsqueeze(0)
        key, value = (query, query) if same else (key.unsqueeze(0), value.unsqueeze(0))
        padding = None if padding is None else padding.unsqueeze(0)
    n, length = query._a.shape[:2] if batch_first else query._a.shape[1::-1]
    if is_causal and attn_mask is None:
        raise RuntimeError(
            text("Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                 "`generate_square_subsequent_mask` to create this mask.", op=op)
        )  # fmt: skip
    if query._a.shape[2] != size:
        raise AssertionError(f"was expecting embedding dimension of {size}, but got {query._a.shape[2]}")
    if size % heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {heads}")
    if apart is not None:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if key._a.shape[0 if batch_first else 1] != n:
        raise RuntimeError(
            text(f"shape '{[key._a.shape[1 if batch_first else 0], n * heads, size // heads]}' is invalid for input of "
                 f"size {math.prod(key._a.shape[:2]) * size}", op=op,
                 came=f"query {tuple(query.shape)} and key {tuple(key.shape)}", needed="one batch size")
        )  # fmt: skip
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must be given together")
    # (n, heads, l, each), as views
    order = (0, 2, 1, 3) if batch_first else (1, 2, 0, 3)
    q, k, v = (x.permute(order) for x in _projected(query, key, value, None if apart is not None else packed, apart,
                                                     bias, heads))  # fmt: skip
    each, longer = size // heads, 0
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value")
        k, v = (cat([x, b.reshape(1, heads, 1, each).expand(n, heads, 1, each)], 2)
                for x, b in ((k, bias_k), (v, bias_v)))  # fmt: skip
        longer = 1
    source = key._a.shape[1 if batch_first else 0]
    if static_k is not None:
        k, source = static_k.reshape(n, heads, *static_k._a.shape[1:]), static_k._a.shape[1]
    if static_v is not None:
        v = static_v.reshape(n, heads, *static_v._a.shape[1:])
    if add_zero_attn:
        nothing = zeros(n, heads, 1, each, dtype=k.dtype, device=k.device)
        k, v, longer = cat([k, nothing], 2), cat([v, nothing], 2), longer + 1
    weights: Tensor | None = None
    # as a hint, is_causal spares reading the mask where nothing else is hidden and nobody asks for the weights
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else _masks(op, query, attn_mask, padding, n, heads, length, source, longer, batched)
    if need_weights:
        scores = matmul(q * math.sqrt(1.0 / each), k.mT)
        weights = softmax(scores if mask is None else scores + mask, -1)
        weights = dropout(weights, p) if p > 0 else weights
        y = matmul(weights, v)
        weights = weights.mean(1) if average else weights
    else:
        y = scaled_dot_product_attention(q, k, v, mask, p, causal)
    y = y.permute(0, 2, 1, 3) if batch_first else y.permute(2, 0, 1, 3)
    y = linear(y.reshape(*y._a.shape[:2], size), out_weight, out_bias)
    if not batched:
        y, weights = y.squeeze(0), None if weights is None else weights.squeeze(0)
    return y, weights
