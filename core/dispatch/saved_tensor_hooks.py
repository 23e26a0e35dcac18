"""What nodes save, through the user's hooks: packed when it is saved, unpacked when its gradient runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import text
from ..base.modes import state as mode
from ..graph.node import Node
from ..graph.versions import edge
from ..tensors.tensor import Tensor, from_array, wrap

Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]


class _Stack(threading.local):
    hooks: tuple[tuple[Pack, Unpack], ...] = ()
    refusal: str | None = None  # why hooks may not be used in this thread, if so


stack = _Stack()
active = 0  # blocks that are open in any thread: while it is 0, nobody asks the stack
_counting = threading.Lock()
_unpacking = threading.RLock()  # a node shows its unpacked values to one thread at a time


class Packed:
    """A saved tensor as a pack hook gave it."""

    __slots__ = ("history", "payload", "unpack")

    def __init__(self, t: Tensor, pack: Pack, unpack: Unpack) -> None:
        self.history = (edge(t), t._nr)  # of what a custom function saved; other nodes have it in their edges
        was, mode.enabled = mode.enabled, False
        try:
            self.payload, self.unpack = pack(t), unpack
        finally:
            mode.enabled = was

    def get(self) -> Tensor:
        """Return the tensor, as the unpack hook gives it, with the history that it had."""
        t = self.unpack(self.payload)
        if not isinstance(t, Tensor):
            raise TypeError(
                text("Output of saved tensor unpack_hook expected to be a Tensor", op="saved_tensors_hooks",
                     came=type(t).__name__)
            )  # fmt: skip
        origin, nr = self.history
        if origin is None or not mode.enabled:
            return t
        if not isinstance(origin, Node):
            return origin  # type: ignore[no-any-return] # a leaf
        t = wrap(t._a, t._kind)
        t._node, t._nr, t._requires_grad = origin, nr, True
        return t


def push(pack: Pack, unpack: Unpack) -> None:
    """Let a pair of hooks take part until `pop`."""
    global active
    if stack.refusal is not None:
        raise RuntimeError(stack.refusal)
    with _counting:  # no call between the two: Ctrl-C comes before both or after
        stack.hooks, active = (*stack.hooks, (pack, unpack)), active + 1


def back_to(hooks: tuple[tuple[Pack, Unpack], ...]) -> None:
    """End the newest pairs of hooks, down to those that stood when `hooks` was this thread's."""
    global active
    with _counting:
        stack.hooks, active = hooks, active + len(hooks) - len(stack.hooks)


def pack(node: Node) -> None:
    """Hand the tensors that a node has just saved to this thread's newest hooks."""
    if not stack.hooks or not node.saved:
        return
    hooks = stack.hooks[-1]

    def one(value: Any, leaf: Any) -> Any:
        t = value if isinstance(value, Tensor) else from_array(value, node.kind.device)
        return Packed(leaf if isinstance(leaf, Tensor) and leaf._a is value else t, *hooks)

    saved = list(node.saved)
    for k, (slot, value) in enumerate(zip(node.op.slots, node.saved, strict=False)):
        if slot.where not in ("input", "output") or value is None:
            continue
        if isinstance(value, tuple):
            saved[k] = tuple(one(v, e) for v, e in zip(value, node.edges, strict=True))
        elif hasattr(value, "dtype"):
            saved[k] = one(value, node.edges[slot.index] if slot.where == "input" and node.op.returns != 0 and
                           slot.index < len(node.edges) else None)  # fmt: skip
    node.special = True
    node.saved, node.storages, node.hooked = tuple(saved), (), True  # the hooks answer for what they give back


def _plain(value: Any) -> Any:
    if isinstance(value, Packed):
        return value.get()._a
    return tuple(_plain(v) for v in value) if isinstance(value, tuple) else value


@contextmanager
def unpacked(node: Node) -> Iterator[None]:
    """For the length of the block the node holds what its hooks give back."""
    with _unpacking:
        held, storages = node.saved, node.storages
        if isinstance(held, tuple) and not node.unpacks_itself:
            node.saved = tuple(_plain(v) for v in held)
            node.storages = (None,) * len(held)
        try:
            yield
        finally:
            if node.saved is not None:
                node.saved, node.storages = held, storages
