"""The methods of sparse tensors on all tensors: core.sparse is imported when one of them is first called."""

from __future__ import annotations

from typing import Any

from ..base.layouts import strided
from ..declare.kinds import Ints, Layout
from ..tensors.tensor import Tensor


def _methods() -> Any:
    from ..sparse import methods

    return methods


def coalesce(self: Tensor) -> Tensor:
    """Return the tensor with its places in order, each once, and the values of equal ones added; itself if so already.

    *Raises*: RuntimeError for what is no COO tensor.

    >>> import core
    >>> core.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (2,)).coalesce().values()
    tensor([2., 4.])
    """
    return _methods().coalesce(self)  # type: ignore[no-any-return]


def is_coalesced(self: Tensor) -> bool:
    """Return whether the places are known to be in order and each is there once."""
    return _methods().is_coalesced(self)  # type: ignore[no-any-return]


def indices(self: Tensor) -> Tensor:
    """Return the places ``(sparse_dim, nnz)`` of a coalesced COO tensor.

    >>> import core
    >>> core.eye(2).to_sparse().indices()
    tensor([[0, 1],
            [0, 1]])
    """
    return _methods().indices(self)  # type: ignore[no-any-return]


def values(self: Tensor) -> Tensor:
    """Return the values, on the graph: of a coalesced COO tensor, or of compressed rows or columns.

    >>> import core
    >>> core.eye(2).to_sparse().values()
    tensor([1., 1.])
    """
    return _methods().values(self)  # type: ignore[no-any-return]


def _indices(self: Tensor) -> Tensor:
    """Return the places as they are, in no order, outside the graph."""
    return _methods()._indices(self)  # type: ignore[no-any-return]


def _values(self: Tensor) -> Tensor:
    """Return the values as they are, those of equal places apart, outside the graph."""
    return _methods()._values(self)  # type: ignore[no-any-return]


def _nnz(self: Tensor) -> int:
    """Return how many values there are."""
    return _methods()._nnz(self)  # type: ignore[no-any-return]


def sparse_dim(self: Tensor) -> int:
    """Return how many dimensions have places; of a dense tensor 0."""
    return _methods().sparse_dim(self)  # type: ignore[no-any-return]


def dense_dim(self: Tensor) -> int:
    """Return how many dimensions a value has; of a dense tensor all."""
    return _methods().dense_dim(self)  # type: ignore[no-any-return]


def crow_indices(self: Tensor) -> Tensor:
    """Return where the values of each row begin, and the last ones end, of a CSR tensor."""
    return _methods().crow_indices(self)  # type: ignore[no-any-return]


def col_indices(self: Tensor) -> Tensor:
    """Return the column of every value of a CSR tensor."""
    return _methods().col_indices(self)  # type: ignore[no-any-return]


def ccol_indices(self: Tensor) -> Tensor:
    """Return where the values of each column begin, and the last ones end, of a CSC tensor."""
    return _methods().ccol_indices(self)  # type: ignore[no-any-return]


def row_indices(self: Tensor) -> Tensor:
    """Return the row of every value of a CSC tensor."""
    return _methods().row_indices(self)  # type: ignore[no-any-return]


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Layout | None = None,
    blocksize: Ints | None = None,
    dense_dim: int | None = None,
) -> Tensor:
    """Return what is not zero, as COO or in another layout; with `sparse_dim` only so many dimensions have places.

    *Raises*: RuntimeError for a `sparse_dim` that the tensor does not have; NotImplementedError for blocks.

    >>> import core
    >>> core.tensor([0.0, 5.0]).to_sparse()
    tensor(indices=tensor([[1]]),
           values=tensor([5.]),
           size=(2,), nnz=1, layout=core.sparse_coo)
    """
    return _methods().to_sparse(self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)  # type: ignore[no-any-return]


def to_sparse_coo(self: Tensor) -> Tensor:
    """Return what is not zero, by its places in every dimension."""
    return _methods().to_sparse_coo(self)  # type: ignore[no-any-return]


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Return what is not zero of a matrix, by rows.

    >>> import core
    >>> core.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return _methods().to_sparse_csr(self, dense_dim)  # type: ignore[no-any-return]


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Return what is not zero of a matrix, by columns."""
    return _methods().to_sparse_csc(self, dense_dim)  # type: ignore[no-any-return]


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of a tensor that stand at the places of `mask`, a sparse tensor.

    >>> import core
    >>> core.ones(2, 2).sparse_mask(core.eye(2).to_sparse()).values()
    tensor([1., 1.])
    """
    return _methods().sparse_mask(self, mask)  # type: ignore[no-any-return]


for _method in (coalesce, is_coalesced, indices, values, _indices, _values, _nnz, sparse_dim, dense_dim, crow_indices,
                col_indices, ccol_indices, row_indices, to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc,
                sparse_mask):  # fmt: skip
    setattr(Tensor, _method.__name__, _method)
Tensor.layout = strided  # type: ignore[attr-defined]
