"""The sparse gradient of a table of which rows were read."""

from __future__ import annotations

from typing import Any

from ..base.errors import text
from ..dispatch.sparse import SparseTensor, made
from ..tensors.tensor import Tensor
from .pattern import library, places


def rows_at(
    g: Tensor, index: Tensor, shape: tuple[int, ...], padding_idx: int, scale_grad_by_freq: bool
) -> SparseTensor:
    """Return the gradient of a table of `shape`: the rows of `g` at the places `index`, those of `padding_idx` left
    out.

    *Raises*: RuntimeError for rows that are to be scaled by how often they were read.

    >>> import core
    >>> from core.sparse.gradient import rows_at
    >>> rows_at(core.ones(2, 3), core.tensor([4, 0]), (5, 3), -1, False)
    tensor(indices=tensor([[4, 0]]),
           values=tensor([[1., 1., 1.],
                          [1., 1., 1.]]),
           size=(5, 3), nnz=2, layout=core.sparse_coo)
    """
    if scale_grad_by_freq:
        raise RuntimeError(text("embedding_backward: scale_grad_by_freq not supported with sparse gradients",
                                op="embedding", remedy="sparse=False, or scale_grad_by_freq=False"))  # fmt: skip
    xp, at = library(g), index._a.reshape(-1)
    rows: Any = g.reshape(-1, shape[1])  # type: ignore[attr-defined]
    if padding_idx >= 0:
        kept = xp.nonzero(at != padding_idx)[0]
        if len(kept) < len(at):
            at, rows = at[kept], rows[places(kept, g.device)]
    return made("sparse_coo", (places(at.reshape(1, -1), g.device),), rows, shape)
