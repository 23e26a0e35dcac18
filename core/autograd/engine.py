"""The engine: walks the graph backwards, without recursion, and hands every gradient on.

A node's number is higher than those of all it points to. Taking the highest number first therefore guarantees that a
node runs only after everything that feeds it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from .. import observe
from ..errors import text
from ..source import describe, here
from ..tensor import Tensor, edge, storage_of, wrap
from ..modes import state as mode
from ..node import Node
from .vjp import gradients


def run(roots: Sequence[Tensor], root_grads: Sequence[Tensor | None], retain_graph: bool, create_graph: bool,
        inputs: Sequence[Tensor] | None, accumulate: bool) -> list[Any]:  # fmt: skip
    """Send gradients from `roots` to the leaves; with `inputs`, to these only.

    Returns the gradients of `inputs` (tensors, or None where a path is missing) when not `accumulate`.
    """
    place = here(3)
    watched = observe.observers
    begin = perf_counter_ns() if watched else 0
    targets = None if inputs is None else [(edge(t), t._nr) for t in inputs]
    captured: dict[int, Any] = {}
    pending: dict[Any, Any] = {}
    heap: list[tuple[int, Node]] = []
    leaves: dict[int, tuple[Tensor, Any]] = {}
    device_kind = roots[0]._kind

    def send(e: Any, nr: int, g: Any, owned: bool) -> None:
        if type(e) is Tensor or isinstance(e, Tensor):
            before = leaves.get(id(e))
            leaves[id(e)] = (e, (g, owned) if before is None else (_plus(before[1][0], g), True))
            return
        if e.out_meta is None:
            before = pending.get(e)
            if before is None:
                heapq.heappush(heap, (-e.number, e))
                pending[e] = g
            else:
                pending[e] = _plus(before, g)
        else:
            slots = pending.get(e)
            if slots is None:
                heapq.heappush(heap, (-e.number, e))
                slots = pending[e] = [None] * len(e.out_meta)
            slots[nr] = g if slots[nr] is None else _plus(slots[nr], g)

    for t, g in zip(roots, root_grads, strict=True):
        e = edge(t)
        if e is None:
            error = RuntimeError(_no_history(t))
            for o in watched:
                o.op_failed("backward", (t,), place, error)
            raise error
        send(e, t._nr, _root_gradient(t, g, create_graph), False)

    wanted = None if targets is None else _needed([edge(t) for t in roots], targets)
    was_enabled, mode.enabled = mode.enabled, create_graph
    was_phase, observe.phase = observe.phase, "backward"
    try:
        while heap:
            node = heapq.heappop(heap)[1]
            g = pending.pop(node)
            start = perf_counter_ns() if watched else 0
            if "watchers" in node.__dict__:
                g = _tell_tensors(node, g, create_graph)
            if targets is not None:
                for k, (e, nr) in enumerate(targets):
                    if e is node:
                        captured[k] = g[nr] if isinstance(g, list) else g
                if wanted is not None and node not in wanted:
                    continue
            node.check()
            if node.prehooks:
                g = _prehooks(node, g, create_graph)
            results, kernel = gradients(node, g, create_graph)
            if node.hooks:
                results = _hooks(node, results, g, create_graph)
            if len(results) < len(node.edges):
                raise RuntimeError(f"{node.name()} returned {len(results)} gradients for {len(node.edges)} inputs")
            nrs = node.nrs
            for i, e in enumerate(node.edges):
                r = results[i]
                if e is not None and r is not None:
                    fresh = r is not g and not create_graph and _own_memory(r) and sum(r is x for x in results) == 1
                    send(e, nrs[i] if nrs else 0, r, fresh)
            if watched:
                event = observe.BackwardEvent(node, kernel, start, perf_counter_ns(), tuple(results))
                for o in watched:
                    o.backward(event)
            if not retain_graph:
                node.free(place)
        for leaf, (g, owned) in leaves.values():
            g = _leaf_hooks(leaf, g, create_graph)
            if targets is not None:
                hit = False
                for k, (e, _) in enumerate(targets):
                    if e is leaf:
                        captured[k], hit = g, True
                if not hit:
                    continue
            if accumulate:
                _accumulate(leaf, g, owned, create_graph)
            if watched:
                array = g._a if isinstance(g, Tensor) else g
                for o in watched:
                    o.gradient(observe.GradientEvent(leaf, array))
    finally:
        mode.enabled, observe.phase = was_enabled, was_phase
    if watched:
        span = observe.SpanEvent("backward", begin, perf_counter_ns(), place)
        for o in watched:
            o.span(span)
    if inputs is None or accumulate:
        if inputs is not None:
            for k, t in enumerate(inputs):
                if t._node is not None and k in captured:
                    _accumulate(t, captured[k], False, create_graph)
        return []
    return [_as_tensor(captured.get(k), t._kind if inputs else device_kind) for k, t in enumerate(inputs)]


def _plus(a: Any, b: Any) -> Any:
    """The sum of two gradients: arrays, or tensors whose sum is on the graph."""
    total = a + b
    return np.asarray(total) if isinstance(total, np.generic) else total


def _as_tensor(g: Any, kind: Any) -> Tensor | None:
    return g if g is None or isinstance(g, Tensor) else wrap(g, kind)


def _own_memory(a: Any) -> bool:
    """Whether a fresh array is nobody else's, so that a leaf may keep it as it is."""
    return not isinstance(a.base, type(a))


def _root_gradient(t: Tensor, g: Tensor | None, create_graph: bool) -> Any:
    if g is None:
        if t._a.size != 1:
            raise RuntimeError(
                text(
                    "grad can be implicitly created only for scalar outputs",
                    op="backward",
                    came=f"a tensor of shape {tuple(t._a.shape)} made at {describe(t._node.place if t._node else None)}",
                    needed="one element, or a gradient of the same shape",
                    remedy="loss.sum().backward(), loss.mean().backward(), or loss.backward(gradient)",
                )  # fmt: skip
            )
        one = t._a.copy()
        one.fill(1)
        return wrap(one, t._kind) if create_graph else one
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g._a.shape != t._a.shape:
        raise RuntimeError(
            text(
                "Mismatch in shape: grad_output[0] has a shape of "
                f"{list(g._a.shape)} and output[0] has a shape of {list(t._a.shape)}.",
                op="backward",
            )  # fmt: skip
        )
    if g._kind.dtype is not t._kind.dtype:
        g = g.to(t._kind.dtype)  # type: ignore[attr-defined]
    return g if create_graph else g._a


def _no_history(t: Tensor) -> str:
    from ..lineage import story

    phrase = "element 0 of tensors does not require grad and does not have a grad_fn"
    came = f"a {t._kind} tensor of shape {tuple(t._a.shape)} that nothing with requires_grad=True led to"
    told = story(t)
    return text(phrase, op="backward", came=came + (": " + told if told else ""),
                needed="a loss computed from parameters by ops of this package",
                remedy="requires_grad=True on what is trained; look for detach(), .numpy(), .item() or no_grad() on the way")  # fmt: skip


def _needed(roots: list[Any], targets: list[tuple[Any, int]]) -> set[Any]:
    """The nodes on a path from the roots to a target."""
    ids = {id(e) for e, _ in targets}
    reach: dict[Node, None] = {}
    stack = [e for e in roots if isinstance(e, Node)]
    while stack:
        node = stack.pop()
        if node in reach:
            continue
        reach[node] = None
        stack.extend(e for e in node.edges if isinstance(e, Node) and e not in reach)
    wanted: set[Any] = set()
    for node in sorted(reach, key=lambda n: n.number):
        if any(e is not None and (id(e) in ids or e in wanted) for e in node.edges):
            wanted.add(node)
    return wanted


def _accumulate(leaf: Tensor, g: Any, owned: bool, create_graph: bool) -> None:
    """Add a gradient to a leaf's `.grad`, in place unless the gradient has a graph of its own."""
    if create_graph:
        leaf._grad = g if leaf._grad is None else leaf._grad + g  # type: ignore[operator]
    elif leaf._grad is None:
        leaf._grad = wrap(g if owned else g.copy(), leaf._kind)
    elif leaf._grad._requires_grad:
        leaf._grad = leaf._grad.detach() + wrap(g, leaf._kind)  # type: ignore[operator]
    else:
        leaf._grad._a += g
        storage_of(leaf._grad).wrote("backward", None)
    if leaf._post_hooks:
        for hook in tuple(leaf._post_hooks.values()):
            hook(leaf)


def _apply(hooks: dict[int, Any], g: Any, kind: Any, create_graph: bool) -> Any:
    """Run tensor hooks over a gradient; gives it back in the engine's own form."""
    t = g if create_graph else wrap(g, kind)
    for hook in tuple(hooks.values()):
        changed = hook(t)
        if changed is not None:
            if not isinstance(changed, Tensor):
                raise TypeError(f"a tensor hook must return a Tensor or None, got {type(changed).__name__}")
            t = changed
    return t if create_graph else t._a


def _leaf_hooks(leaf: Tensor, g: Any, create_graph: bool) -> Any:
    return _apply(leaf._hooks, g, leaf._kind, create_graph) if leaf._hooks else g


def _tell_tensors(node: Node, g: Any, create_graph: bool) -> Any:
    """Hooks and retained gradients of the tensors that this node made."""
    for nr, (hooks, ref) in node.__dict__["watchers"].items():
        many = isinstance(g, list)
        one = g[nr] if many else g
        if one is None:
            continue
        kind = node.kind if node.out_meta is None else node.out_meta[nr][1]
        one = _apply(hooks, one, kind, create_graph)
        if many:
            g[nr] = one
        else:
            g = one
        t = ref()
        if t is not None and t._retains_grad:
            _accumulate(t, one, False, create_graph)
    return g


def _tensors(gs: Any, node: Node, create_graph: bool) -> tuple[Any, ...]:
    many = tuple(gs) if isinstance(gs, list | tuple) else (gs,)
    return tuple(g if g is None or create_graph else wrap(g, node.kind) for g in many)


def _prehooks(node: Node, g: Any, create_graph: bool) -> Any:
    given = _tensors(g, node, create_graph)
    for hook in tuple((node.prehooks or {}).values()):
        changed = hook(given)
        if changed is not None:
            given = changed if isinstance(changed, tuple) else (changed,)
    back = [t if t is None or create_graph else t._a for t in given]
    return back if isinstance(g, list) else back[0]


def _hooks(node: Node, results: Any, g: Any, create_graph: bool) -> tuple[Any, ...]:
    given, incoming = _tensors(results, node, create_graph), _tensors(g, node, create_graph)
    for hook in tuple((node.hooks or {}).values()):
        changed = hook(given, incoming)
        if changed is not None:
            given = changed if isinstance(changed, tuple) else (changed,)
    return tuple(t if t is None or create_graph else t._a for t in given)
