"""A node of the graph: the op that ran, what its gradient needs, where its inputs came from, and on which line."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import native
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.source import describe
from ..native.bases import NodeBase, StorageBase

if TYPE_CHECKING:
    from ..declare.op import Op

_numbers = itertools.count(1)  # nodes are numbered in the order they are made
_handles = itertools.count(1).__next__


def newest() -> int:
    """Return the number of the node made last; the difference of two is how many ops were recorded between them."""
    return _numbers.__reduce__()[1][0] - 1  # type: ignore[index, return-value, operator, no-any-return]


next_number: Callable[[], int] = _numbers.__next__
if native.module is not None:
    next_number, newest = native.module.next_number, native.module.newest


class Storage(StorageBase):
    """What the views of one piece of memory share: how often it was written in place, and the last such write, the op
    and its place."""

    __slots__ = ()

    def wrote(self, op: str, place: tuple[CodeType, int] | None) -> None:
        self.version += 1
        self.write = (op, place)


class Node(NodeBase):
    """The record of one op that gradients flow back through.

    `edges` holds, for each input, the node it came from, the leaf tensor it is, or None where no gradient is wanted.
    A node's number is higher than those of all the nodes it points to, so the engine needs no other order.
    """

    # most nodes keep these defaults, and pay nothing for them
    prehooks: dict[int, Any] | None = None
    hooks: dict[int, Any] | None = None
    freed: tuple[CodeType, int] | bool
    tag: Any = None  # an observer's own note

    watchers: list[Watcher] | None = None
    unpacks_itself = False  # whether it unpacks what hooks have packed when it is asked for it
    hooked = False  # whether what was saved went through saved_tensors_hooks

    def __init__(self, op: Op, edges: tuple[Any, ...], kind: Any, code: CodeType | None, lasti: int) -> None:
        self.op, self.edges, self.kind = op, edges, kind
        self.code, self.lasti = code, lasti
        self.number = next_number()

    # -- what people read ----------------------------------------------------------------------------------------------

    def name(self) -> str:
        """PyTorch's name of the node: ``AddBackward0``."""
        return "".join(p.capitalize() for p in self.op.label.split("_")) + "Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that this one sends gradients to, each with the number of its output."""
        nrs = self.nrs or (0,) * len(self.edges)
        return tuple(
            (None, 0) if e is None else (e if isinstance(e, Node) else AccumulateGrad(e), n)
            for e, n in zip(self.edges, nrs, strict=True)
        )

    @property
    def place(self) -> tuple[CodeType, int] | None:
        """The user's line that ran the op."""
        return None if self.code is None else (self.code, self.lasti)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own notes."""
        return self.__dict__.setdefault("_metadata", {})

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after the node ran; what it returns replaces grad_inputs."""
        if self.hooks is None:
            self.hooks, self.special = {}, True
        return RemovableHandle(self.hooks, hook)

    def register_prehook(self, hook: Any) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before the node runs; what it returns replaces them."""
        if self.prehooks is None:
            self.prehooks, self.special = {}, True
        return RemovableHandle(self.prehooks, hook)

    def __repr__(self) -> str:
        return f"<{self.name()} at {describe(self.place)}>"

    # -- what the engine needs -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if what was saved is gone or has been changed in place."""
        if self.freed:
            freed_at = f" (it ran at {describe(self.freed)})" if isinstance(self.freed, tuple) else ""
            raise RuntimeError(
                text(
                    "Trying to backward through the graph a second time (or directly access saved tensors after they "
                    "have already been freed). Saved intermediate values of the graph are freed when you call "
                    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
                    "graph a second time or if you need to access saved tensors after calling backward.",
                    op=self.op.label,
                    came=f"a second backward through {self.op.label} of {describe(self.place)}, whose "
                    f"values the first backward freed{freed_at}",
                    remedy="backward(retain_graph=True) the first time, or run the forward pass again",
                )
            )
        for i, storage in enumerate(self.storages):
            if storage is not None and storage.version != (self.versions[i] if self.versions else 0):
                self._changed(i, storage)

    def _changed(self, i: int, storage: Storage) -> None:
        expected = self.versions[i] if self.versions else 0
        slot = self.op.slots[i]
        shape = tuple(getattr(self.saved[i], "shape", ())) if self.saved else ()
        which = "output" if slot.where == "output" else f"input {slot.name!r}"
        number = f" {slot.index}" if slot.where == "output" else ""
        op, place = storage.write or ("an in-place op", None)
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{self.kind.dtype.name} {list(shape)}], which is {which}{number} of {self.name()}, is at version "
            f"{storage.version}; expected version {expected} instead.\n"
            f"  op: {self.op.label} saved its {which} {shape} at {describe(self.place)}; {op} changed it at "
            f"{describe(place)}.\n"
            "  remedy: write the change out of place (y = y + ... instead of y += ...), or clone() before it"
        )

    def free(self, by: tuple[CodeType, int] | None) -> None:
        """Let go of what was saved; remembers who let go. Where only shapes were saved they stay."""
        if self.saved and any(map(_heavy, self.saved)):
            self.freed = by or True
            self.saved, self.storages = None, ()


def _heavy(value: Any) -> bool:
    """Return whether a saved value is an operand, or several, and no shape or dtype."""
    if value.__class__ is tuple:
        return any(v.__class__ is not int and _heavy(v) for v in value)
    return value is not None and not isinstance(value, Dtype)


class Watcher(NamedTuple):
    """A tensor that wants to hear of its gradient: its hooks, and where it retains the gradient a weak reference to it.

    The node must not keep the tensor alive: the tensor keeps the node."""

    nr: int
    hooks: dict[int, Any]
    retains: Any  # weakref.ref of the tensor, or None


class AccumulateGrad:
    """The end of the graph at a leaf: it adds what arrives to the leaf's `.grad`."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    next_functions: tuple[Any, ...] = ()

    def name(self) -> str:
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad of {tuple(self.variable.shape)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)


class RemovableHandle:
    """Removes a hook: `handle.remove()`, or at the end of a `with` block."""

    def __init__(self, hooks_dict: dict[int, Any], hook: Any = None, *, extra_dict: Any = None,
                 first: bool = False) -> None:  # fmt: skip
        """Keep the place of a hook in `hooks_dict`, whose key is `id`; without `hook` the caller puts it there.

        `extra_dict`: a dictionary, or several, in which something stands under the same key.
        """
        hooks, self._hooks = hooks_dict, hooks_dict
        self._more = [] if extra_dict is None else [extra_dict] if isinstance(extra_dict, dict) else [*extra_dict]
        self.id = _handles()
        if hook is None:
            return
        if not callable(hook):
            raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
        hooks[self.id] = hook
        if first:
            later = {k: hooks.pop(k) for k in list(hooks) if k != self.id}
            hooks.update(later)

    def remove(self) -> None:
        for hooks in (self._hooks, *self._more):
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
