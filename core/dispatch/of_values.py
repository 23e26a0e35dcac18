"""`OfValues`: tensors that consist of a dense tensor of values and of what says where those stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn, Self

from ..base.device import Kind
from ..graph.node import Node, RemovableHandle
from ..tensors.overriding import not_asked
from ..tensors.tensor import Tensor

seen = False  # whether there was ever one: until then no call looks for one


@cache
def apart(of: Kind) -> Kind:
    """Return a kind like `of` that no kernel knows, so that no fast path takes such a tensor for a dense one."""
    return Kind(of.dtype, of.device)


class OfValues(Tensor):
    """A tensor made of a dense one, its values, and of their places.

    Its history is that of its values: `requires_grad`, `grad_fn`, hooks and gradients are theirs, so that whatever is
    computed from places and values by ops of dense tensors has its gradients, and theirs, without a line for it.
    """

    __torch_function__ = not_asked

    _held: Tensor  # the values

    def with_values(self, values: Tensor) -> Self:
        """Return a tensor with the same places and other values."""
        raise NotImplementedError

    def refused(self, name: str) -> NoReturn:
        """Raise: an op has no rule for such a tensor."""
        raise NotImplementedError

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
        return None if g is None or isinstance(g, OfValues) else self.with_values(g)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self._held.grad = value._held if isinstance(value, OfValues) else value

    def retain_grad(self) -> None:
        self._held.retain_grad()

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        def of_values(g: Tensor) -> Tensor | None:
            changed = hook(self.with_values(g))
            return changed._held if isinstance(changed, OfValues) else changed

        return self._held.register_hook(of_values)

    def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Any = None) -> None:  # fmt: skip
        given = gradient._held if isinstance(gradient, OfValues) else gradient
        self._held.backward(given, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        return self.with_values(self._held.detach())

    def detach_(self) -> Tensor:
        self._held = self._held.detach()
        return self


def refuse_others(op: str, args: Sequence[Any]) -> Any:
    """Raise for a tensor made of values in an op that has no rule for it; NotImplemented where there is none."""
    for a in args:
        if isinstance(a, OfValues):
            a.refused(op)
    return NotImplemented


def with_history(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the tensors that are in the graph: in place of those made of values these."""
    if not seen or not any(isinstance(t, OfValues) for t in tensors):
        return tensors
    return tuple([t._held if isinstance(t, OfValues) else t for t in tensors])


def with_places(g: Tensor | None, t: Tensor) -> Tensor | None:
    """Return the gradient of a tensor: that of one made of values has its places."""
    return t.with_values(g) if g is not None and isinstance(t, OfValues) else g
