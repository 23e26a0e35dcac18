"""A tensor's place in the graph as it changes: version counters, views after a write, what hears of the gradient."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import observe
from .modes import state as mode
from .node import Node, Storage, Watcher

if TYPE_CHECKING:
    from .tensor import Tensor


def storage_of(t: Tensor) -> Storage:
    """The version counter that `t` and its views share."""
    storage = t._storage
    if storage is None:
        node = t._node
        if node is not None and node.saved:  # the node that made it may have saved it, and must hear of writes
            storage = _storage_saved_by(node, t._a)
        if storage is None:
            storage = Storage()
        t._storage = storage
    return storage


def _storage_saved_by(node: Node, a: Any) -> Storage | None:
    """The version counter of a node's saved output, made now if need be; None if it did not save it."""
    for i, v in enumerate(node.saved or ()):
        if v is a:
            found = node.storages[i]
            if found is None:
                found = Storage()
                node.storages = (*node.storages[:i], found, *node.storages[i + 1 :])
            return found
    return None


def refresh(t: Tensor) -> None:
    """Give a view its node anew if its base was changed in place since."""
    assert t._view is not None
    version = 0 if t._storage is None else t._storage.version
    if t._view_version == version:
        return
    base, path = t._view
    t._view_version = version
    if base.requires_grad and t._rule != "no_grad":
        was, mode.enabled = mode.enabled, True
        looking, observe.observers = observe.observers, ()
        try:
            fresh = base
            for step in path:
                fresh = step(fresh)
        finally:
            mode.enabled = was
            observe.observers = looking
        if t._node is not None and fresh._node is not None:
            fresh._node.code, fresh._node.lasti = t._node.code, t._node.lasti  # the view was made there, not here
        move_on(t, fresh._node, fresh._nr, True)


def edge(t: Tensor) -> Any:
    """What a node that uses `t` points to: its node, the leaf itself, or None."""
    if t._view is not None:
        refresh(t)
    return t._node or (t if t._requires_grad else None)


def watch(t: Tensor) -> None:
    """Let the node of a computed tensor tell its hooks, and the tensor itself if it retains its gradient."""
    node = t._node
    assert node is not None
    if t._hooks is None:
        t._hooks = {}
    node.watchers = [w for w in node.watchers or () if w.hooks is not t._hooks]
    node.watchers.append(Watcher(t._nr, t._hooks, weakref.ref(t) if t._retains_grad else None))


def move_on(t: Tensor, node: Node | None, nr: int, requires_grad: bool) -> None:
    """Give `t` another history after it was written in place. Hooks stay with the value they were registered on; a
    retained gradient is that of the newest value."""
    old = t._node
    t._node, t._nr, t._requires_grad = node, nr, requires_grad
    if t._hooks is None or old is None or old is node:
        return
    old.watchers = [w._replace(retains=None) if w.hooks is t._hooks else w for w in old.watchers or ()]
    t._hooks = None
    if t._retains_grad and node is not None:
        watch(t)
