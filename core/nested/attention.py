"""Attention among the positions of each sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import text
from ..ops.joining import cat as join
from .of_sequences import NestedTensor, made
from .structure import Structure


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
    return _by_lengths(func, [t.compacted() for t in three], (None, dropout_p, is_causal, *given), options)


def _by_lengths(func: Any, three: list[NestedTensor], given: tuple[Any, ...], options: dict[str, Any]) -> NestedTensor:
    """Return what `func` gives of the sequences, those of the same lengths in one call."""
    structures, dim = [t._structure for t in three], three[0]._ragged - 1
    lengths = np.stack([structures[0].counts, structures[1].counts], 1)
    _, group, many = np.unique(lengths, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    firsts = order[np.cumsum(many) - many]  # a sequence of each group
    divided = []
    for t, s in zip(three, structures, strict=True):
        rows = _rows(t._held, s.rows_of(order), dim, s)
        sizes = zip(rows.split((many * s.counts[firsts]).tolist(), dim), many, s.counts[firsts], strict=True)
        divided.append([part.unflatten(dim, (int(n), int(length))).movedim(dim, 0) for part, n, length in sizes])
    parts = [func(*q_k_v, *given, **options) for q_k_v in zip(*divided, strict=True)]
    y = join([part.movedim(0, dim).flatten(dim, dim + 1) for part in parts], dim)
    back = np.argsort(structures[0].rows_of(order), kind="stable")
    return made(_rows(y, back, dim, structures[0]), structures[0], dim + 1)


def _rows(values: Any, rows: Any, dim: int, structure: Structure) -> Any:
    """Return rows of values, themselves where that is all of them in order."""
    in_order = np.array_equal(rows, np.arange(len(rows)))
    return values if in_order else values.index_select(dim, structure.index(rows))
