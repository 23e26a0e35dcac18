"""Attention among the positions of each sequence."""

from __future__ import annotations

from typing import Any

from ..base.errors import text
from ..ops.joining import cat as join
from .of_sequences import NestedTensor, made


def attention(func: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
              is_causal: bool = False, *given: Any, **options: Any) -> Any:  # fmt: skip
    """Return ``softmax(q k^T / sqrt(D)) v`` of each sequence alone: no position sees padding, because there is none.

    *Shapes*: query ``(B, H, j1, D)``, key ``(B, H, j2, D)``, value ``(B, H, j2, E)``; the result ``(B, H, j1, E)``.
    """
    three = (query, key, value)
    if not all(isinstance(t, NestedTensor) for t in three):
        raise ValueError(
            text("Expected query, key, and value to be nested tensors, but got query.is_nested: "
                 f"{query.is_nested}, key.is_nested: {key.is_nested}, and value.is_nested: {value.is_nested} instead.",
                 op="scaled_dot_product_attention",
                 remedy="core.nested.as_nested_tensor(x, layout=core.jagged)"))  # fmt: skip
    if attn_mask is not None:
        raise ValueError(text("Masks are not yet supported!", op="scaled_dot_product_attention",
                              came="attn_mask beside nested tensors", remedy="is_causal=True, or padded tensors and "
                              "a mask: to_padded_tensor(0.0)"))  # fmt: skip
    n = query.ndim
    fit = all(t.ndim == n and t._ragged == n - 2 and len(t) == len(query) for t in three)
    if n < 3 or not fit or key._structure.size != value._structure.size:
        raise RuntimeError(
            text("scaled_dot_product_attention(): nested tensors of other shapes",
                 op="scaled_dot_product_attention", came=", ".join(str(tuple(t.shape)) for t in three),
                 needed="(B, H, j, D), with one j for key and value",
                 remedy="x.unflatten(-1, (H, D)).transpose(1, 2)"))  # fmt: skip
    each = zip(*(t.pieces() for t in three), strict=True)
    parts = [func(q, k, v, None, dropout_p, is_causal, *given, **options) for q, k, v in each]
    structure = query._structure if query._structure.rows is None else query._structure.compact()
    return made(join(parts, n - 3), structure, n - 2)
