"""The fields that every tensor and every node has: C structures where the extension is built, else Python's own.

The C path through the commonest ops (binding/graph/state.c) reads and writes these fields; everything else is Python
above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import module


class _TensorFields:
    _a: Any  # the array
    _kind: Any  # its dtype and device
    _node: Any = None  # what made it
    _nr = 0  # which output of the node
    _storage: Any = None  # the version counter; made when somebody first asks
    _base: Any = None  # of a view: the tensor that it views
    _way: tuple[Any, ...] = ()  # the steps from there
    _rule: str | None = None  # why a view must not be written in place: "no_grad", or its node's name
    _undo: Any = None  # what takes back the shapes that squeeze_ and its kin gave
    _requires_grad = False
    _grad: Any = None
    _came: tuple[tuple[Any, str], ...] | None = (
        None  # the way by which it came back from NumPy; core.events.lineage keeps it
    )
    _note: Any = None  # what an observer remembers of it, which no copy, pickle or `vars` has


class _NodeFields:
    op: Any
    edges: tuple[Any, ...]
    kind: Any
    code: Any
    lasti: int
    number: int
    special = False  # hooks or watchers are to be heard, or what was saved went through hooks
    saved: tuple[Any, ...] | None = ()
    storages: tuple[Any, ...] = ()  # of what was saved, where somebody may write to it
    nrs: tuple[int, ...] | None = None  # which output of each edge's node, where not 0
    params: Any = ()
    in_shapes: tuple[tuple[int, ...] | None, ...] | None = None  # where the op broadcast its inputs
    out_meta: tuple[tuple[tuple[int, ...], Any], ...] | None = None  # shapes and kinds, of ops with several outputs
    versions: tuple[int, ...] | None = None  # of the storages; None: all 0
    freed: Any = False  # who let go of what was saved: a place, or True


class _StorageFields:
    version = 0  # how often the memory was written
    write: tuple[str, Any] | None = None


if TYPE_CHECKING:  # each by itself, so that a type checker takes them for the classes they are
    from .generated.methods import Methods  # printed by core.stubs: what core.dispatch.publish binds

    class TensorBase(_TensorFields, Methods): ...

    NodeBase = _NodeFields
    StorageBase = _StorageFields
elif module is None:
    TensorBase, NodeBase, StorageBase = _TensorFields, _NodeFields, _StorageFields
else:
    TensorBase, NodeBase, StorageBase = module.TensorBase, module.NodeBase, module.StorageBase
