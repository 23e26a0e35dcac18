"""The methods of sparse tensors on all tensors: core.sparse is imported when one of them is first called."""

from __future__ import annotations

from typing import Any

from ..base.layouts import strided
from ..tensors.tensor import Tensor

NAMES = {
    "coalesce": "Return a COO tensor with its places in order and once each.",
    "is_coalesced": "Return whether a COO tensor's places are known to be in order and once each.",
    "indices": "Return the places of a coalesced COO tensor.",
    "values": "Return the values of a sparse tensor.",
    "_indices": "Return the places as they are, in no order.",
    "_values": "Return the values as they are.",
    "_nnz": "Return how many values there are.",
    "sparse_dim": "Return how many dimensions have places; of a dense tensor 0.",
    "dense_dim": "Return how many dimensions a value has; of a dense tensor all.",
    "crow_indices": "Return where the values of each row begin, of a CSR tensor.",
    "col_indices": "Return the column of every value, of a CSR tensor.",
    "ccol_indices": "Return where the values of each column begin, of a CSC tensor.",
    "row_indices": "Return the row of every value, of a CSC tensor.",
    "to_sparse": "Return what is not zero, as a COO tensor or in another layout.",
    "to_sparse_coo": "Return what is not zero, as a COO tensor.",
    "to_sparse_csr": "Return what is not zero of a matrix, by rows.",
    "to_sparse_csc": "Return what is not zero of a matrix, by columns.",
    "sparse_mask": "Return the elements that stand at the places of a sparse tensor.",
}


def _late(name: str, doc: str) -> Any:
    def method(self: Tensor, *args: Any, **keywords: Any) -> Any:
        from ..sparse import methods

        function = getattr(methods, name)
        setattr(Tensor, name, function)
        return function(self, *args, **keywords)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method


for _name, _doc in NAMES.items():
    setattr(Tensor, _name, _late(_name, _doc))
Tensor.layout = strided  # type: ignore[attr-defined]
