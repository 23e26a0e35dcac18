"""The graph as users may look at it and change it: hooks on what is saved, hooks on several gradients, edges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..base.modes import state
from ..base.source import here
from ..base.uninterrupted import Around
from ..dispatch import saved_tensor_hooks
from ..graph.node import AccumulateGrad, Node, RemovableHandle
from ..graph.versions import edge, storage_of
from ..tensors.tensor import Tensor
from .engine import reached


class saved_tensors_hooks(Around):
    """What ops save in the block goes through `pack_hook`, and comes back through `unpack_hook` when it is needed.

    A pack hook may change nothing in place. Saved values that go through hooks are not checked for changes in place.

    >>> import core
    >>> x, seen = core.tensor([1.0, 2.0], requires_grad=True), []
    >>> with core.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.shape) or t.numpy(force=True).copy(),
    ...                                              lambda a: core.from_numpy(a)):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> len(seen), x.grad
    (2, tensor([2., 4.]))
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before: list[Any] = []  # the hooks before each block that is open

    def __enter__(self) -> None:
        before = saved_tensor_hooks.stack.hooks
        try:
            saved_tensor_hooks.push(self.pack_hook, self.unpack_hook)
        except BaseException:
            saved_tensor_hooks.back_to(before)
            raise
        self._before = [*self._before, before]

    def _leave(self) -> None:
        saved_tensor_hooks.back_to(self._before[-1])
        del self._before[-1]  # at the very end: a call that was interrupted is repeated


class save_on_cpu(saved_tensors_hooks):
    """What ops save in the block waits in the memory of the CPU, and goes back to its device when it is needed.

    pin_memory : taken for PyTorch's sake; the copies wait for the transfer either way.

    >>> import core
    >>> x = core.ones(3, requires_grad=True)
    >>> with core.autograd.graph.save_on_cpu():
    ...     y = x.exp().sum()
    >>> y.backward()
    >>> x.grad
    tensor([2.7183, 2.7183, 2.7183])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.detach().to("cpu")), lambda held: held[1].to(held[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """In the block, using `saved_tensors_hooks` raises RuntimeError with this message.

    >>> import core
    >>> with core.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     with core.autograd.graph.save_on_cpu():
    ...         pass
    Traceback (most recent call last):
        ...
    RuntimeError: not here
    """
    was, saved_tensor_hooks.stack.refusal = saved_tensor_hooks.stack.refusal, error_message
    try:
        yield
    finally:
        saved_tensor_hooks.stack.refusal = was


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor flows to: a node, and which of its outputs."""

    node: Any
    output_nr: int
    ownership_token: Any = None  # PyTorch's keeps a node alive by it; the node itself does here


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge that a node using `tensor` would have.

    *Raises*: RuntimeError for a tensor that requires no gradient.

    >>> import core
    >>> x = core.ones(2, requires_grad=True)
    >>> core.autograd.graph.get_gradient_edge(x.exp()).node.name()
    'ExpBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    e = edge(tensor)
    return GradientEdge(e if isinstance(e, Node) else AccumulateGrad(e), tensor._nr)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write that happened behind the package's back, so that a gradient that needs the old value raises.

    >>> import core
    >>> x = core.ones(2)
    >>> core.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        storage_of(t).wrote("increment_version", here(2))


class MultiHandle:
    """Removes the hooks of a `register_multi_grad_hook`."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Let the hook hear no more."""
        for h in self.handles:
            h.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all") -> MultiHandle:
    """Call `fn` once a backward pass, when the gradients of all `tensors` that it reaches are there.

    fn : with mode "all" hears a list of gradients, None for tensors that the pass does not reach; with "any" the first
        gradient that comes.

    *Raises*: ValueError for another mode.

    >>> import core
    >>> a, b = core.ones(1, requires_grad=True), core.ones(1, requires_grad=True)
    >>> handle = core.autograd.graph.register_multi_grad_hook((a, b), lambda gs: print([g.item() for g in gs]))
    >>> (a * 2 + b * 3).backward()
    [2.0, 3.0]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    passes: dict[int, Any] = {}  # by thread: the pass, how many are still expected, the gradients, whether one came
    targets = [edge(t) for t in tensors]

    def hook_of(i: int) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            task, thread = state.task, threading.get_ident()
            with lock:
                now = passes.get(thread)
                if now is None or now[0] is not task:  # what a pass that ended in an error left behind goes
                    reach = reached(task)
                    now = passes[thread] = [task, sum(e in reach for e in targets), [None] * len(targets), False]
                now[1] -= 1
                now[2][i] = g
                last, first, now[3] = now[1] == 0, not now[3], True
                if last:
                    del passes[thread]
            if mode == "any" and first:
                fn(g)
            elif mode == "all" and last:
                fn(now[2])

        return hook

    return MultiHandle(tuple(t.register_hook(hook_of(i)) for i, t in enumerate(tensors)))


__all__ = ["GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
           "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]  # fmt: skip
