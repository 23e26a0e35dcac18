"""Products of sparse matrices with dense ones and with one another, on the graph of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.sparse_array import unflat
from ..base.errors import text
from ..dispatch.sparse import SparseTensor, made
from ..ops.creation import zeros
from ..ops.gathering import index_add
from ..ops.linalg import mm
from ..tensors.tensor import Tensor
from .pattern import as_coo, as_layout, coalesced, grouped_sum, library, places


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` of two matrices, one of them sparse at least: dense, or sparse where both are."""
    for t in (a, b):
        if t.ndim != 2 or (isinstance(t, SparseTensor) and as_coo(t)._a.values.ndim != 1):
            raise RuntimeError(text("matmul of sparse tensors: matrices are needed", op="matmul",
                                    came=f"{tuple(a.shape)} @ {tuple(b.shape)}", needed="two sparse dimensions",
                                    remedy="x.to_dense() for stacks and hybrid tensors"))  # fmt: skip
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return as_layout(_sparse_sparse(as_coo(a), coalesced(b)), a._a.layout)
    if isinstance(a, SparseTensor):
        return _sparse_dense(as_coo(a), b)
    assert isinstance(b, SparseTensor)
    return _sparse_dense(as_coo(_turned(b)), a.t()).t()  # type: ignore[attr-defined, no-any-return]


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices, the first one sparse: an older name of `core.sparse.mm`.

    >>> import core
    >>> core.spmm(core.eye(2).to_sparse(), core.ones(2, 1)).flatten()
    tensor([1., 1.])
    """
    return mm(input, mat2)  # type: ignore[no-any-return]


def _turned(x: SparseTensor) -> SparseTensor:
    """Return a sparse matrix with rows and columns exchanged."""
    x, xp = as_coo(x), library(x)
    index = places(xp.ascontiguousarray(x._a.index[0][::-1]), x.device)
    return made("sparse_coo", (index,), x._held, x._a.shape[::-1])


def _sparse_dense(a: SparseTensor, b: Tensor) -> Tensor:
    """Row i of the product is the sum of the rows of `b` that row i of `a` names, each times its value."""
    rows, columns = a._places[0][0], a._places[0][1]
    out = zeros(a._a.shape[0], b.shape[1], dtype=b.dtype, device=b.device)
    if not a._held.numel() or not b.numel():
        return out + (a._held.sum() + b.sum()) * 0 if a.requires_grad or b.requires_grad else out  # type: ignore[attr-defined, no-any-return]
    return index_add(out, 0, rows, b[columns] * a._held.unsqueeze(1))  # type: ignore[attr-defined]


def _sparse_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Every value of `a` meets those in the row of `b` that its column names; products at one place add up."""
    xp, where = library(a), a.device
    (rows, columns), (b_rows, b_columns) = a._a.index[0], b._a.index[0]
    starts = xp.searchsorted(b_rows, xp.arange(b._a.shape[0] + 1))
    left, right = runs(xp, starts[:-1][columns], (starts[1:] - starts[:-1])[columns])
    width = b._a.shape[1]
    numbers = rows[left] * width + b_columns[right]
    values: Any = a._held[places(left, where)] * b._held[places(right, where)]
    once, group = xp.unique(numbers, return_inverse=True)
    shape = (a._a.shape[0], width)
    held = grouped_sum(values, group.reshape(-1), len(once))
    return made("sparse_coo", (places(unflat(xp, once, shape), where),), held, shape, True)


def runs(xp: Any, starts: Any, lengths: Any) -> tuple[Any, Any]:
    """Return runs of numbers after one another: of each number the run it is in, and the number.

    >>> runs(np, np.array([5, 0]), np.array([2, 1]))
    (array([0, 0, 1]), array([5, 6, 0]))
    """
    counts = lengths if xp is np else lengths.tolist()  # CuPy's repeat takes counts of Python's
    before = xp.repeat(starts - xp.cumsum(lengths) + lengths, counts)
    return xp.repeat(xp.arange(len(starts)), counts), before + xp.arange(len(before))
