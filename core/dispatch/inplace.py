"""In-place operations: the out-of-place op, its result written into the target, the target's history moved on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backends, native
from ..backends.sparse_array import refuse
from ..base.errors import text
from ..base.modes import state as mode
from ..base.source import describe, here
from ..declare import op as declarations
from ..declare.op import Operation
from ..events import observe
from ..graph.node import Node, Storage, newest
from ..graph.versions import edge, move_on, storage_of, way
from ..tensors.tensor import Tensor, wrap
from . import saved_tensor_hooks
from .autocast import elementwise_call_of
from .sparse import SparseTensor
from .type_errors import guarded


def in_place(
    name: str, function: Callable[..., Any], known: Any = None, parser: str | None = None
) -> Callable[..., Any]:
    """Return the method ``x.name_(...)`` of a function ``name(x, ...)``; `known` is what is public of it, `parser`
    the key of the method's own fast path, if it has one."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return write(input, name + "_", lambda t: _differentiable(function(t, *args, **kwargs), t, args))

    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"In-place version of `{name}`."
    method.of = method.__wrapped__ = function  # type: ignore[attr-defined]  # whose signature is its own
    if native.module is None:
        return guarded(method)

    def finish(self: Tensor, result: Tensor, args: tuple[Any, ...], began: int) -> Tensor:
        return _written(self, name + "_", _differentiable(result, self, args), began, here(2))

    # native/binding/calls/inplace.c takes plain targets, and gives `finish` the results that are not as plain
    writes = known or function, elementwise_call_of(function), sys.intern(name + "_"), finish
    return native.module.PublicFunction(method, method, parser=parser, writes=writes)  # type: ignore[no-any-return]


def _differentiable(result: Tensor, target: Tensor, args: tuple[Any, ...]) -> Tensor:
    """Return a truth written into a floating tensor keeps a history, of zeros, for the tensors that were compared."""
    if result._kind.dtype.category or target._kind.dtype.category < 2 or not mode.enabled:
        return result
    return declarations.functions["constant"](result.to(target._kind.dtype), target, *args)  # type: ignore[attr-defined]


def write(target: Tensor, name: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Write ``compute(target)`` into `target`.

    Raises
    ------
    RuntimeError
        For a leaf that requires a gradient, or a view of one; for a result of another shape or a higher type.
    """
    if mode.batch is not None and (found := mode.batch.write(target, name, compute)) is not NotImplemented:
        return found  # type: ignore[no-any-return]
    place = here(3)
    if isinstance(target, SparseTensor):
        refuse(name, target._a.layout, target._a.shape)
    if mode.enabled:
        leaf_check(target, name)
    if 0 in target._a.strides and target._a.size > 1 and name not in ("fill_", "zero_", "masked_fill_"):
        _check_overlap(target, name)
    if not getattr(target._a.flags, "writeable", True):
        make_writeable(target, name)
    began = newest()
    result = compute(_aside(target) if saved_tensor_hooks.active and mode.enabled else target)
    if mode.batch is not None:
        mode.batch.check_write(target, result, name)
    return _written(target, name, result, began, place)


def _written(target: Tensor, name: str, result: Tensor, began: int, place: Any) -> Tensor:
    """Write a result into `target`; `began` is the newest node from before it was computed."""
    if mode.enabled and target._rule:
        _check_rule(target, result, name)
    if result._a.shape != target._a.shape:
        raise RuntimeError(
            text(
                f"output with shape {list(target._a.shape)} doesn't match the broadcast shape {list(result._a.shape)}",
                op=name,
                remedy="write it out of place, or bring the other operand to the target's shape",
            )
        )
    have, want = result._kind.dtype, target._kind.dtype
    if have.category > want.category:
        raise RuntimeError(
            text(
                f"result type {have.scalar_type} can't be cast to the desired output type {want.scalar_type}",
                op=name,
                came=f"a result of {have}",
                needed=f"{want} or lower",
                remedy=f"x = x.to({have!r}) first",
            )
        )
    if target._storage is not None:
        _keep_as_it_was(result._node, began, target._storage)
    if have is not want:
        result = result.to(want)
    if observe.observers:
        observe.notify(observe.listening(), "write", observe.WriteEvent(name, target, result, place))
    if backends.many:
        backends.on_device(target._a.__setitem__, target._kind.device)(..., result._a)
    else:
        target._a[...] = result._a
    storage = storage_of(target)
    storage.wrote(name, place)
    if mode.enabled:
        _move_on(target, result, storage, place)
    return target


def _aside(target: Tensor) -> Tensor:
    """`target` in memory of its own: hooks may keep what is saved, and the write must not reach it."""
    aside = wrap(target._a.copy(), target._kind)
    aside._requires_grad = target.requires_grad
    aside._node, aside._nr = target._node, target._nr
    return aside


def _keep_as_it_was(node: Node | None, began: int, shared: Storage) -> None:
    """What the gradients of the ops that ran since `began` need of this memory (through any view of it) must be what
    it was before the write."""
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, Node) and node.number > began:
            stack.extend(node.edges)
            if shared in node.storages and node.saved:
                mine = [st is shared for st in node.storages]
                node.saved = tuple(v.copy() if m else v for v, m in zip(node.saved, mine, strict=True))
                node.storages = tuple(None if m else st for st, m in zip(node.storages, mine, strict=True))


def _check_overlap(target: Tensor, name: str) -> None:
    if any(step == 0 and n > 1 for step, n in zip(target._a.strides, target._a.shape, strict=True)):
        raise RuntimeError(
            text(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation.",
                op=name,
                came=f"an expanded tensor of shape {tuple(target._a.shape)}",
                remedy="clone() it first",
            )
        )


def make_writeable(target: Tensor, name: str) -> None:
    """NumPy marks what it expanded as read-only, though nothing may be stretched; a read-only array stays so."""
    root = target._a
    while isinstance(root.base, np.ndarray):
        root = root.base
    if root is target._a or not root.flags.writeable:
        raise RuntimeError(
            text(
                "the tensor shares the memory of a NumPy array that is not writable", op=name, remedy="clone() it first"
            )
        )
    target._a.flags.writeable = True


def _check_rule(target: Tensor, result: Tensor, name: str) -> None:
    """Views that must not take part in the graph's history may not be written where there is a history to write."""
    assert target._base is not None
    if not (target._base.requires_grad or result.requires_grad):
        return
    if target._rule == "no_grad":
        phrase = (
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this "
            "use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view "
            "and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or "
            "both outside (if you want the inplace to be tracked)."
        )
    else:
        phrase = (
            f"Output {target._nr} of {str(target._rule).capitalize()}Backward0 is a view and is being modified "
            "inplace. This view is the output of a function that returns multiple views. Such functions do not allow "
            "the output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    remedy = "narrow() or x[a:b] for a piece that may be written"
    made = "" if target._node is None else f" made at {describe(target._node.place)}"
    raise RuntimeError(text(phrase, op=name, came=f"a view of shape {tuple(target._a.shape)}{made}", remedy=remedy))


def leaf_check(target: Tensor, name: str) -> None:
    """Raise if `target` is a leaf that requires a gradient, or a view of a leaf where either requires one.

    The base of a view of a leaf may itself require none: ``x[1:].requires_grad_()`` is a leaf and a view.
    """
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(target).__name__}")
    base = target._base
    if base is not None and base._node is None and (base._requires_grad or target.requires_grad):
        raise RuntimeError(
            text(
                "a view of a leaf Variable that requires grad is being used in an in-place operation.",
                op=name,
                came=f"a view of a leaf of shape {tuple(base._a.shape)}",
                remedy="do it under core.no_grad()",
            )
        )
    if target._requires_grad and target._node is None:
        raise RuntimeError(
            text(
                "a leaf Variable that requires grad is being used in an in-place operation.",
                op=name,
                came=f"a leaf of shape {tuple(target._a.shape)}",
                remedy="do it under core.no_grad(), or out of place",
            )
        )


def _move_on(target: Tensor, result: Tensor, storage: Storage, place: Any) -> None:
    """Give the target the result's history; through a view, give it to the base."""
    if target._base is None:
        node = result._node
        if node is not None and node.saved and any(v is result._a for v in node.saved):
            node.saved = tuple(target._a if v is result._a else v for v in node.saved)
            node.storages = tuple(storage if s.where == "output" else st
                                  for s, st in zip(node.op.slots, node.storages, strict=True))  # fmt: skip
            node.versions = tuple(0 if st is None else st.version for st in node.storages)
        move_on(target, node, result._nr, result._requires_grad)
        return
    base, path = way(target)
    edges = (edge(base), edge(result))
    if edges == (None, None):
        return
    code, lasti = place or (None, 0)
    node = Node(view_scatter, edges, base._kind, code, lasti)
    node.nrs = (base._nr, result._nr)
    node.params = {"path": path}
    move_on(base, node, 0, True)
    target._view_version = -1  # its own node is made anew when next it is used


def rewritten(target: Tensor, node: Node, nr: int) -> None:
    """Give `target`, which a custom function wrote in place, that function's node as its history."""
    result = wrap(target._a, target._kind)
    result._node, result._nr, result._requires_grad = node, nr, True
    _move_on(target, result, storage_of(target), node.place)


def _scatter_vjp(g: Tensor, path: Any) -> tuple[Tensor, Tensor]:
    """Return the base's gradient where the view was not written, and the view's."""
    kept = g.clone()  # type: ignore[attr-defined]
    hole, passed = kept, g
    for step in path:
        hole, passed = step(hole), step(passed)
    hole.zero_()  # type: ignore[attr-defined]
    return kept, passed


def _never(xp: Any, base: Any, view: Any, path: Any) -> Any:
    raise AssertionError("view_scatter is written by in-place operations, never called")


view_scatter = Operation("view_scatter", _never, inputs="base view", params={"path": ()}, outputs="y", returns=1,
                         shape="", over="", vjp=_scatter_vjp, view=False, samples=None, doc="",
                         label="copy_slices")  # fmt: skip
