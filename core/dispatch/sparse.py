"""`SparseTensor`, and the way from a call to its rule.

It stands in the dispatch because the engine makes one of a sparse gradient. What it can do is in core.sparse, which
hands its rules to `connect`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .. import native
from ..backends.sparse_array import SparseArray, refuse
from ..base.device import Kind
from ..base.device import kind as kind_of
from ..base.dtypes import int64
from ..base.errors import text
from ..base.layouts import by_name
from ..declare.op import Elementwise, Operation
from ..tensors.tensor import Tensor, wrap
from . import of_values
from .of_values import OfValues, apart, refuse_others

Map = Callable[[Elementwise, tuple[Any, ...], Any], Any]
Run = Callable[[Operation, tuple[Any, ...], dict[str, Any]], Any]

_map: Map
_run: Run


def connect(map_rule: Map, run_rule: Run) -> None:
    """Take the rules of core.sparse."""
    global _map, _run
    _map, _run = map_rule, run_rule


def any_sparse(args: Sequence[Any]) -> bool:
    """Return whether one of the arguments is a sparse tensor."""
    return any(isinstance(a, SparseTensor) for a in args)


def call_map(op: Elementwise, args: tuple[Any, ...], params: Any) -> Any:
    """Run an elementwise op by its rule; NotImplemented where nothing is sparse."""
    return _map(op, args, params) if any_sparse(args) else refuse_others(op.label, args)


def call_operation(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a structured op by its rule; NotImplemented where nothing is sparse."""
    return _run(op, tensors, params) if any_sparse(tensors) else refuse_others(op.name, tensors)


class SparseTensor(OfValues):
    """A tensor of which only what is not zero is there: places, and a dense tensor of values."""

    _places: tuple[Tensor, ...]  # one of all dimensions for COO; ends and indices for CSR and CSC
    is_sparse = is_sparse_csr = False

    def refused(self, name: str) -> NoReturn:
        refuse(name, self._a.layout, self._a.shape)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def layout(self) -> Any:  # type: ignore[override]
        return by_name[self._a.layout]

    def with_values(self, values: Tensor) -> SparseTensor:
        """Return a tensor with the same places and other values."""
        a = self._a
        shape = (*a.shape[: len(a.shape) - (values.ndim - 1)], *values.shape[1:])
        return made(a.layout, self._places, values, shape, a.coalesced)

    def without_values(self, dtype: Any = None, device: Any = None) -> Tensor:
        """Return a tensor of zeros like this one: no value is there."""
        y = self.detach().clone().zero_()  # type: ignore[attr-defined]
        return y.to(dtype or self.dtype).to(device or self.device)  # type: ignore[no-any-return]

    def stride(self, dim: int | None = None) -> Any:
        """Return zeros: there are no steps between elements that are not there."""
        return self._a.strides if dim is None else self._a.strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return False."""
        return False

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage\n"
                           "  op: data_ptr; came: a sparse tensor; remedy: x.values().data_ptr()")  # fmt: skip

    @property  # type: ignore[misc]
    def data(self) -> Tensor:  # type: ignore[override]
        return self.with_values(self._held.data)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, SparseTensor):
            refuse("data", self._a.layout, self._a.shape)
        keep = self.requires_grad
        fill(self, value._a, value._places, value._held.detach())
        self._held.requires_grad_(keep)

    # -- it does not leave for NumPy as it is --------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(text("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.", op="numpy",
                             came=f"a tensor of layout {self._a.layout}",
                             remedy="x.to_dense().numpy(), or x.values().numpy()"))  # fmt: skip

    def item(self) -> Any:
        return self._dense().item() if self._a.size == 1 else super().item()

    def tolist(self) -> Any:
        refuse("tolist", self._a.layout, self._a.shape)

    def __bool__(self) -> bool:
        return bool(self._dense()) if self._a.size == 1 else super().__bool__()

    def __dlpack__(self, **kwargs: Any) -> NoReturn:
        refuse("dlpack", self._a.layout, self._a.shape)

    def _dense(self) -> Tensor:
        return self.to_dense()  # type: ignore[attr-defined, no-any-return]


def made(kind: str, places: tuple[Tensor, ...], values: Tensor, shape: Sequence[int],
         coalesced: bool = False) -> SparseTensor:  # fmt: skip
    """Return a sparse tensor of places and values; nothing is checked.

    kind : the name of the layout.
    """
    out = Tensor.__new__(SparseTensor)
    coalesced = coalesced or (kind == "sparse_coo" and values._a.shape[0] < 2)
    a = SparseArray(kind, tuple([p._a for p in places]), values._a, tuple(map(int, shape)), coalesced)
    fill(out, a, places, values)
    return out


def fill(out: SparseTensor, a: SparseArray, places: tuple[Tensor, ...], values: Tensor) -> None:
    """Give a sparse tensor what it consists of."""
    of_values.seen = True
    out._a, out._kind = a, apart(values._kind)
    out._places, out._held = places, values
    out.is_sparse, out.is_sparse_csr = a.layout == "sparse_coo", a.layout == "sparse_csr"


def gradient_over(a: Any, k: Kind) -> Tensor:
    """Return a tensor over a gradient: an array, or sparse values."""
    if a.__class__ is not SparseArray:
        return wrap(a, k)
    out = Tensor.__new__(SparseTensor)
    fill(out, a, tuple([wrap(i, kind_of(int64, k.device)) for i in a.index]), wrap(a.values, k))
    return out


def gradient_of_leaf(own: bool, g: Any, leaf: Tensor) -> Tensor:
    """Return a gradient as `.grad` keeps it: a copy where it is another's too (`own` is False), or lies neither in
    row-major order nor as its leaf."""
    kept = own and (g.__class__ is SparseArray or g.flags.c_contiguous or g.strides == leaf._a.strides)
    return gradient_over(g if kept else native.copy_of(g), leaf._kind)


def held_by(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return what holds the numbers of tensors that are no part of a graph, gradients say: a dense one itself, a sparse
    one's values, after its equal places are brought together."""
    if not of_values.seen or not any_sparse(tensors):
        return list(tensors)
    for t in tensors:
        if isinstance(t, SparseTensor) and t._a.in_order() is not t._a:
            become(t, t._a.in_order())
    return [t._held if isinstance(t, SparseTensor) else t for t in tensors]


def become(t: SparseTensor, a: SparseArray) -> None:
    """Give a sparse tensor that is no part of a graph other places and values."""
    fresh = gradient_over(a, t._held._kind)
    assert isinstance(fresh, SparseTensor)
    fill(t, a, fresh._places, fresh._held)
