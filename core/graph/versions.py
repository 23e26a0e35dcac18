"""A tensor's place in the graph as it changes: version counters, views after a write, what hears of the gradient."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ..base.errors import text
from ..base.modes import state as mode
from ..base.source import describe
from ..events import observe
from .node import Node, Storage, Watcher

if TYPE_CHECKING:
    from ..tensors.tensor import Tensor


def storage_of(t: Tensor) -> Storage:
    """Return the version counter that `t` and its views share."""
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
    """Return the version counter of a node's saved output, made now if need be; None if it did not save it."""
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
    version = 0 if t._storage is None else t._storage.version
    if t._view_version == version:
        return
    base, path = way(t)
    wanted = base.requires_grad and t._rule != "no_grad"
    if t._rule and wanted:
        _refuse(t)
    t._view_version = version
    if wanted:
        was, mode.enabled = mode.enabled, True
        try:
            with observe.muted():
                fresh = base
                for step in path:
                    fresh = step(fresh)
        finally:
            mode.enabled = was
        if t._node is not None and fresh._node is not None:
            fresh._node.code, fresh._node.lasti = t._node.code, t._node.lasti  # the view was made there, not here
        move_on(t, fresh._node, fresh._nr, True)


def way(t: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
    """Return the base of a view and the steps from it; first those that undo what ``base.squeeze_()`` and its like
    did."""
    base, path = t._base, t._way
    undo = base._undo or ()
    return (base, (*reversed(undo[t._undone :]), *path)) if len(undo) > t._undone else (base, path)


def _refuse(t: Tensor) -> None:
    """One of several views that an op made cannot follow a change of their base."""
    phrase = (
        f"Output {t._nr} of {str(t._rule).capitalize()}Backward0 is a view and its base or another view of its base "
        "has been modified inplace. This view is the output of a function that returns multiple views. Such functions "
        "do not allow the output views to be modified inplace. You should replace the inplace operation by an "
        "out-of-place one."
    )
    op, place = (t._storage.write if t._storage is not None else None) or ("an in-place op", None)
    raise RuntimeError(
        text(
            phrase,
            came=f"a view of shape {tuple(t._a.shape)}, made at {describe(t._node.place if t._node else None)}; "
            f"{op} changed its memory at {describe(place)}",
            remedy="make the view anew after the change",
        )
    )


def edge(t: Tensor) -> Any:
    """Return what a node that uses `t` points to: its node, the leaf itself, or None."""
    if t._base is not None:
        refresh(t)
    return t._node or (t if t._requires_grad else None)


def watch(t: Tensor) -> None:
    """Let the node of a computed tensor tell its hooks, and the tensor itself if it retains its gradient."""
    node = t._node
    assert node is not None
    if t._hooks is None:
        t._hooks = {}
    node.special = True
    node.watchers = [w for w in node.watchers or () if w.hooks is not t._hooks]
    node.watchers.append(Watcher(t._nr, t._hooks, weakref.ref(t) if t._retains_grad else None))


def move_on(t: Tensor, node: Node | None, nr: int, requires_grad: bool) -> None:
    """Give `t` another history after it was written in place. Hooks stay with the value they were registered on; a
    retained gradient is that of the newest value."""
    old = t._node
    t._node, t._nr, t._requires_grad = node, nr, requires_grad
    if t._hooks is None or old is None or old is node:
        return
    old.special = True
    old.watchers = [w._replace(retains=None) if w.hooks is t._hooks else w for w in old.watchers or ()]
    t._hooks = None
    if t._retains_grad and node is not None:
        watch(t)
