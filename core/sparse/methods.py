"""Methods of sparse tensors, and those of dense ones that lead to them or say that there is nothing sparse."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from ..base import layouts
from ..base.errors import text
from ..base.modes import state as mode
from ..base.source import here
from ..dispatch.inplace import leaf_check
from ..dispatch.operands import need_tensors
from ..dispatch.sparse import SparseTensor, fill, made
from ..graph.versions import storage_of
from ..ops.movement import to
from ..tensors.printing import fields_text
from ..tensors.tensor import Tensor
from .pattern import as_coo, as_layout, coalesced, dense, need, places, sparse_of

_COO, _CSR, _CSC = "sparse_coo", "sparse_csr", "sparse_csc"
_SAID = {"coo": "sparse coordinate", "csr": "sparse row compressed", "csc": "sparse column compressed"}


# -- parts -------------------------------------------------------------------------------------------------------------


def coalesce(self: Tensor) -> Tensor:
    """Return the tensor with its places in order and once each."""
    return coalesced(need("coalesce", self, _COO, said=_SAID["coo"]))


def is_coalesced(self: Tensor) -> bool:
    """Return whether the places are known to be in order and each is there once."""
    return bool(need("is_coalesced", self, _COO, said=_SAID["coo"])._a.coalesced)


def _whole(self: Tensor, what: str) -> SparseTensor:
    x = need(what, self, *((_COO,) if what == "indices" else (_COO, _CSR, _CSC)),
             said=_SAID["coo"] if what == "indices" else "sparse")  # fmt: skip
    if x._a.layout == _COO and not x._a.coalesced:
        raise RuntimeError(text(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first", op=what,
                                remedy=f"x.coalesce().{what}(), or x._{what}() for them as they are"))  # fmt: skip
    return x


def indices(self: Tensor) -> Tensor:
    """Return the places ``(sparse_dim, nnz)`` of a coalesced COO tensor."""
    return _whole(self, "indices")._places[0].detach()


def values(self: Tensor) -> Tensor:
    """Return the values, on the graph: of a coalesced COO tensor, or of compressed rows or columns."""
    held = _whole(self, "values")._held
    return held.view(held.shape) if held.requires_grad and mode.enabled else held.detach()  # type: ignore[attr-defined]


def _indices(self: Tensor) -> Tensor:
    """Return the places as they are, in no order, outside the graph."""
    return need("_indices", self, _COO, said=_SAID["coo"])._places[0].detach()


def _values(self: Tensor) -> Tensor:
    """Return the values as they are, those of equal places apart, outside the graph."""
    return need("_values", self, _COO, _CSR, _CSC, said="sparse")._held.detach()


def _nnz(self: Tensor) -> int:
    """Return how many values there are."""
    return int(need("_nnz", self, _COO, _CSR, _CSC, said="sparse")._held.shape[0])


def sparse_dim(self: Tensor) -> int:
    """Return how many dimensions have places; of a dense tensor 0."""
    return int(as_coo(self)._a.index[0].shape[0]) if isinstance(self, SparseTensor) else 0


def dense_dim(self: Tensor) -> int:
    """Return how many dimensions a value has; of a dense tensor all."""
    return self.ndim - sparse_dim(self)


def _compressed_part(name: str, layout: str, k: int, doc: str) -> Any:
    def method(self: Tensor) -> Tensor:
        return need(name, self, "sparse_" + layout, said=_SAID[layout])._places[k].detach()

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method


crow_indices = _compressed_part("crow_indices", "csr", 0, "Where the values of each row begin, and the last ones end.")
col_indices = _compressed_part("col_indices", "csr", 1, "The column of every value.")
ccol_indices = _compressed_part("ccol_indices", "csc", 0, "Where the values of each column begin, and the last end.")
row_indices = _compressed_part("row_indices", "csc", 1, "The row of every value.")


# -- from one layout to another ----------------------------------------------------------------------------------------


def _need_int(op: str, name: str, value: Any) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(text(f"{op}(): argument '{name}' (position 1) must be int, not {type(value).__name__}", op=op,
                             came=f"{value!r:.60}"))  # fmt: skip


def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None,
              dense_dim: int | None = None) -> Tensor:  # fmt: skip
    """Return what is not zero, as COO or in another layout; with `sparse_dim` only so many dimensions have places."""
    if isinstance(sparse_dim, layouts.layout):
        layout, sparse_dim = sparse_dim, None
    _need_int("to_sparse", "sparse_dim", sparse_dim)
    _need_int("to_sparse", "dense_dim", dense_dim)
    kind = _COO if layout is None else layout.name
    if dense_dim and sparse_dim is None:
        sparse_dim = self.ndim - dense_dim
    x = self if isinstance(self, SparseTensor) else sparse_of(self, sparse_dim)
    return as_layout(x, kind)


def to_sparse_coo(self: Tensor) -> Tensor:
    """Return what is not zero, by its places in every dimension."""
    return to_sparse(self)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Return what is not zero of a matrix, by rows."""
    _need_int("to_sparse_csr", "dense_dim", dense_dim)
    return to_sparse(self, layout=layouts.sparse_csr)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Return what is not zero of a matrix, by columns."""
    _need_int("to_sparse_csc", "dense_dim", dense_dim)
    return to_sparse(self, layout=layouts.sparse_csc)


def to_dense(self: SparseTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return all elements, zeros too; on the graph.

    >>> import core
    >>> core.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,)).to_dense()
    tensor([0., 5., 0.])
    """
    y = dense(self)
    return y if dtype is None else to(y, dtype)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of a tensor that stand at the places of `mask`, a sparse tensor."""
    need_tensors("sparse_mask", ("mask",), (mask,))
    m = as_coo(need("sparse_mask", mask, _COO, _CSR, said="sparse"))
    whole: Any = to_dense(self) if isinstance(self, SparseTensor) else self
    index = m._places[0]
    return as_layout(m.with_values(whole[tuple(index[k] for k in range(index.shape[0]))]), mask._a.layout)


# -- in place ----------------------------------------------------------------------------------------------------------


def _become(self: SparseTensor, y: Tensor, name: str) -> SparseTensor:
    """Take the values, and where they differ the places, of a result."""
    if mode.enabled:
        leaf_check(self._held, name)
    if not isinstance(y, SparseTensor) or y._a.shape != self._a.shape:
        raise RuntimeError(text(f"{name}: the result is no sparse tensor of the same shape", op=name,
                                came=f"{tuple(y.shape)}", remedy="the form without the underscore"))  # fmt: skip
    held = y._held if y.dtype is self.dtype else to(y._held, self.dtype)
    if y._a.values.shape == self._a.values.shape and not held.requires_grad and not self._held.requires_grad:
        self._a.values[...] = held._a  # the same memory: a gradient's values may have another name
        storage_of(self._held).wrote(name, here(3))
        held = self._held
    fill(self, made(y._a.layout, y._places, held, y._a.shape, y._a.coalesced)._a, y._places, held)
    return self


def _in_place(name: str) -> Any:
    function = getattr(Tensor, name)

    def method(self: SparseTensor, *args: Any, **keywords: Any) -> SparseTensor:
        return _become(self, function(self, *args, **keywords), name + "_")

    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"In-place version of `{name}`."
    return method


def zero_(self: SparseTensor) -> SparseTensor:
    """Let go of all values: everything is zero."""
    if mode.enabled:
        leaf_check(self._held, "zero_")
    x = as_coo(self)
    index, held = places(x._a.index[0][:, :0].copy(), x.device), x._held.detach()[:0].clone()  # type: ignore[attr-defined]
    y = as_layout(made(_COO, (index,), held, x._a.shape, True), self._a.layout)
    fill(self, y._a, y._places, y._held)
    return self


def copy_(self: SparseTensor, src: Tensor, non_blocking: bool = False) -> SparseTensor:
    """Take another sparse tensor's places and values."""
    other = as_layout(need("copy_", src, _COO, _CSR, _CSC, said="sparse"), self._a.layout)
    y = to(other.clone(), self.dtype)  # type: ignore[attr-defined]
    if y._a.shape != self._a.shape or not isinstance(y, SparseTensor):
        raise RuntimeError(text("copy_: the shapes differ", op="copy_",
                                came=f"{tuple(y.shape)} into {tuple(self.shape)}"))  # fmt: skip
    fill(self, y._a, y._places, y._held)
    return self


# -- printing, copies --------------------------------------------------------------------------------------------------


def shown(self: SparseTensor) -> str:
    a = self._a
    names = {_COO: ("indices",), _CSR: ("crow_indices", "col_indices"), _CSC: ("ccol_indices", "row_indices")}[a.layout]
    parts = [*zip(names, self._places, strict=True), ("values", self._held.detach())]
    return fields_text(self, parts, tuple(a.shape), len(a.values), str(self.layout))


def copied(self: SparseTensor, memo: dict[int, Any]) -> SparseTensor:
    a, index = self._a, tuple(deepcopy(p, memo) for p in self._places)
    out = memo[id(self)] = made(a.layout, index, deepcopy(self._held, memo), a.shape, a.coalesced)
    return out


def rebuilt(layout: str, parts: Sequence[Tensor], held: Tensor, shape: Sequence[int], is_coalesced: bool) -> Tensor:
    """Return the tensor that was pickled."""
    return made(layout, tuple(parts), held, shape, is_coalesced)


def reduced(self: SparseTensor, protocol: int = 2) -> Any:
    return rebuilt, (self._a.layout, self._places, self._held, tuple(self._a.shape), self._a.coalesced)


_OF_SPARSE = {
    "to_dense": to_dense, "zero_": zero_, "copy_": copy_, "__repr__": shown, "__deepcopy__": copied,
    "__reduce_ex__": reduced, "__copy__": lambda self: self.with_values(self._held),
    **{name + "_": _in_place(name) for name in ("add", "sub", "mul", "div", "neg", "abs", "sqrt", "pow", "square")},
}  # fmt: skip
for _name, _method in _OF_SPARSE.items():
    setattr(SparseTensor, _name, _method)
for _operator in ("add", "sub", "mul"):
    setattr(SparseTensor, f"__i{_operator}__", _OF_SPARSE[_operator + "_"])
SparseTensor.__itruediv__ = _OF_SPARSE["div_"]  # type: ignore[method-assign]
