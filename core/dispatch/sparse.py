"""`SparseTensor`, and the way from a call to its rule.

It stands in the dispatch because the engine makes one of a sparse gradient. What it can do is in core.sparse, which
hands its rules to `connect`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

from ..backends.sparse_array import SparseArray, refuse
from ..base.device import Kind
from ..base.device import kind as kind_of
from ..base.dtypes import int64
from ..base.errors import text
from ..base.layouts import by_name
from ..declare.op import Elementwise, Operation
from ..graph.node import Node, RemovableHandle
from ..tensors.overriding import not_asked
from ..tensors.tensor import Tensor, wrap

Map = Callable[[Elementwise, tuple[Any, ...], Any], Any]
Run = Callable[[Operation, tuple[Any, ...], dict[str, Any]], Any]

seen = False  # whether there was ever a sparse tensor: until then no call looks for one
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
    return _map(op, args, params) if any_sparse(args) else NotImplemented


def call_operation(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a structured op by its rule; NotImplemented where nothing is sparse."""
    return _run(op, tensors, params) if any_sparse(tensors) else NotImplemented


@cache
def _apart(of: Kind) -> Kind:
    """Return a kind like `of` that no kernel knows, so that no fast path takes a sparse tensor for a dense one."""
    return Kind(of.dtype, of.device)


class SparseTensor(Tensor):
    """A tensor of which only what is not zero is there: places, and a dense tensor of values that may be on the graph.

    Its history is that of its values: `requires_grad`, `grad_fn`, hooks and gradients are theirs, so that whatever is
    computed from places and values by ops of dense tensors has its gradients, and theirs, without a line for it.
    """

    __torch_function__ = not_asked

    _held: Tensor  # the values
    _places: tuple[Tensor, ...]  # one of all dimensions for COO; ends and indices for CSR and CSC
    is_sparse = is_sparse_csr = False

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

    # -- its place in the graph: that of its values --------------------------------------------------------------------

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:  # type: ignore[override]
        return self._held.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._held.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        self._held.requires_grad_(requires_grad)
        return self

    @property
    def grad_fn(self) -> Node | None:
        return self._held.grad_fn

    @property
    def is_leaf(self) -> bool:
        return self._held.is_leaf

    @property  # type: ignore[misc]
    def grad(self) -> Tensor | None:  # type: ignore[override]
        g = self._held.grad
        return None if g is None or isinstance(g, SparseTensor) else self.with_values(g)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self._held.grad = value._held if isinstance(value, SparseTensor) else value

    def retain_grad(self) -> None:
        self._held.retain_grad()

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        def of_values(g: Tensor) -> Tensor | None:
            changed = hook(self.with_values(g))
            return changed._held if isinstance(changed, SparseTensor) else changed

        return self._held.register_hook(of_values)

    def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Any = None) -> None:  # fmt: skip
        given = gradient._held if isinstance(gradient, SparseTensor) else gradient
        self._held.backward(given, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        return self.with_values(self._held.detach())

    def detach_(self) -> Tensor:
        self._held = self._held.detach()
        return self

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
    global seen
    seen = True
    out._a, out._kind = a, _apart(values._kind)
    out._places, out._held = places, values
    out.is_sparse, out.is_sparse_csr = a.layout == "sparse_coo", a.layout == "sparse_csr"


def gradient_over(a: Any, k: Kind) -> Tensor:
    """Return a tensor over a gradient: an array, or sparse values."""
    if a.__class__ is not SparseArray:
        return wrap(a, k)
    out = Tensor.__new__(SparseTensor)
    fill(out, a, tuple([wrap(i, kind_of(int64, k.device)) for i in a.index]), wrap(a.values, k))
    return out


def with_history(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the tensors that are in the graph: in place of sparse ones their values."""
    if not seen or not any_sparse(tensors):
        return tensors
    return tuple([t._held if isinstance(t, SparseTensor) else t for t in tensors])


def with_places(g: Tensor | None, t: Tensor) -> Tensor | None:
    """Return the gradient of a tensor: a sparse tensor's has its places."""
    return t.with_values(g) if g is not None and isinstance(t, SparseTensor) else g


def held_by(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return what holds the numbers of tensors that are no part of a graph, gradients say: a dense one itself, a sparse
    one's values, after its equal places are brought together."""
    if not seen or not any_sparse(tensors):
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
