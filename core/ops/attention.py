"""Scaled dot product attention."""

from __future__ import annotations

import math

from .. import dtypes
from ..binding import public
from ..creation import ones
from ..errors import text
from ..tensor import Tensor
from .dropout import dropout
from .elementwise import where
from .linalg import matmul
from .softmax import softmax


@public(method=False, namespace="nn.functional")
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False) -> Tensor:  # fmt: skip
    """softmax(query @ keyᵀ * scale + mask) @ value; the scale is 1 / √d unless given. Source: arXiv 1706.03762.

    A bool mask says what may be looked at; any other is added to the scores. `is_causal` lets each position look at
    itself and what came before. `enable_gqa` lets several heads of queries share one of keys and values.

    *Shapes*: query ``(..., l, d)``, key ``(..., s, d)``, value ``(..., s, v)`` -> ``(..., l, v)``.

    >>> import core
    >>> q = core.ones(1, 2, 4)
    >>> core.nn.functional.scaled_dot_product_attention(q, q, q).shape
    core.Size([1, 2, 4])
    """
    op = "scaled_dot_product_attention"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            text(
                "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
                f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead.",
                op=op,
            )
        )
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            text(
                f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype.c_type} "
                f"key.dtype: {key.dtype.c_type} and value.dtype: {value.dtype.c_type} instead.",
                op=op,
            )
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            text("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True", op=op)
        )
    if enable_gqa:
        key, value = (t.repeat_interleave(query._a.shape[-3] // t._a.shape[-3], -3) for t in (key, value))
    width = query._a.shape[-1]
    # half on each side: the product of the two halves cannot overflow where the scaled product does not
    factor = math.sqrt(1 / math.sqrt(width) if scale is None else abs(scale)) if width else 1.0
    sign = -1.0 if scale is not None and scale < 0 else 1.0
    scores = matmul(query * (sign * factor), (key * factor).mT)
    if is_causal:
        l, s = scores._a.shape[-2:]  # noqa: E741
        attn_mask = ones(l, s, dtype=dtypes.bool_, device=query.device).tril()
    if attn_mask is not None:
        if attn_mask.dtype is dtypes.bool_:
            scores = where(attn_mask, scores, -math.inf)
        elif attn_mask.dtype is not query.dtype:
            raise RuntimeError(
                text(
                    "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                    f"{attn_mask.dtype.c_type} and  query.dtype: {query.dtype.c_type} instead.",
                    op=op,
                )
            )
        else:
            scores = scores + attn_mask
    seen = None
    if attn_mask is not None:
        seen = attn_mask if attn_mask.dtype is dtypes.bool_ else attn_mask > -math.inf
        seen = seen.any(-1, keepdim=True)
        seen = None if bool(seen._a.all()) else seen
    if seen is None:
        weights = softmax(scores, -1)
    else:  # a row that may look at nothing gives 0, not NaN, and so do its gradients
        weights = where(seen, softmax(where(seen, scores, 0.0), -1), 0.0)
    if dropout_p > 0:
        weights = dropout(weights, dropout_p)
    return matmul(weights, value)
