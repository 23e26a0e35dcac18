"""The engine: walks the graph backwards, without recursion, and hands every gradient on.

A node's number is higher than those of all it points to. Taking the highest number first therefore guarantees that a
node runs only after everything that feeds it. Leaves are served at the end, when all has gone well; those with a hook
that runs after accumulation as soon as their gradient is whole, so that it may be sent while the rest is computed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from threading import RLock
from time import perf_counter_ns
from typing import Any

import numpy as np

from .. import backends, native
from ..backends.errstate import Quiet
from ..backends.sparse_array import values_of
from ..base.device import kind as kind_of
from ..base.dtypes import from_numpy
from ..base.errors import text
from ..base.modes import state as mode
from ..base.source import describe, here
from ..dispatch import saved_tensor_hooks, sparse
from ..dispatch.sparse import SparseTensor, gradient_of_leaf, gradient_over
from ..events import observe
from ..events.lineage import story
from ..graph.node import Node
from ..graph.versions import edge, storage_of
from ..tensors.tensor import Tensor, wrap
from . import anomaly, put_off
from .vjp import gradients

# An edge and the gradient gathered for it so far; a third item says that the sum is the engine's own memory.
Entry = list[Any]
Place = Any

# The loop over a plain graph, which asks Python for the nodes that are not: native/binding/graph/engine.c.
walk: Callable[..., Any] | None = native.module.walk if native.module is not None else None


def run(roots: Sequence[Tensor], root_grads: Sequence[Tensor | None], retain_graph: bool, create_graph: bool,
        inputs: Sequence[Tensor] | None, accumulate: bool) -> list[Any]:  # fmt: skip
    """Send gradients from `roots` to the leaves; with `inputs`, to these only.

    Returns the gradients of `inputs` (tensors, or None where a path is missing) when not `accumulate`.
    """
    place = here(3)
    observe.tally.passes += 1
    watched = observe.listening()
    with_history = create_graph
    create_graph = create_graph or observe.wanted("as ops")  # in tensors, by ops
    begin = perf_counter_ns() if watched else 0
    sources: list[Any] = []
    starts: list[tuple[Any, int, Any]] = []
    for t, g in zip(roots, root_grads, strict=True):
        e = edge(t)
        if e is None:
            raise _no_history(t, len(sources), place)
        sources.append(e)
        starts.append((e, t._nr, _root_gradient(t, g, create_graph)))
    asked = None if inputs is None else {edge(t) for t in inputs}
    path = None if asked is None else _path(sources, asked)
    fields = mode.__dict__  # this thread's: half of what nine look-ups cost
    was = fields.get("enabled", True), fields.get("phase", "forward"), fields.get("task")
    quiet = Quiet()
    fields["enabled"], fields["phase"], fields["task"] = with_history, "backward", (sources, path, asked)
    around: Sequence[Any] = ()
    try:  # from here on: Ctrl-C may come wherever a function is called
        if backends.many:
            around = backends.current()

        def serve(entry: Entry) -> None:
            """Hand a leaf its gradient: its hooks, the observers, `.grad`."""
            leaf = entry[0]
            if backends.many:
                backends.make_current(leaf._kind.device)
            if leaf._hooks:
                entry[1:] = [_apply(leaf._hooks, entry[1], leaf._kind, create_graph)]
            if watched:
                array = values_of(entry[1]._a if create_graph else entry[1])
                observe.notify(watched, "gradient", observe.GradientEvent(leaf, array, accumulate))
                del array
            if accumulate and leaf._requires_grad:  # it may have been detached since
                if leaf._grad is not None:
                    quiet.begin()
                _accumulate(leaf, entry, create_graph)

        arrived: Iterable[Entry]
        plain = not (create_graph or watched or anomaly.enabled or backends.many)
        if plain and walk is not None and inputs is None:

            def other(node: Node, g: Any) -> Any:
                return _through(node, node.edges, g, False, retain_graph, place)[0]

            arrived = walk(starts, None if retain_graph else place or True, other, quiet.begin, _plus,
                           serve if observe.hooked else None)  # fmt: skip
        else:
            early = _edges_of_hooked(sources) if observe.hooked and inputs is None else None
            leaves, captured = _walk(starts, asked, path, retain_graph, create_graph, place, watched, quiet, early,
                                     serve)  # fmt: skip
            arrived = leaves.values()
        del starts
        for entry in arrived:
            serve(entry)
        if inputs is not None and accumulate:
            for t in {id(t): t for t in inputs if t._node is not None}.values():
                found = captured.get((t._node, t._nr))  # type: ignore[arg-type]
                if found is not None:
                    _accumulate(t, found, create_graph)
        put_off.finish()
    finally:
        fields["enabled"], fields["phase"], fields["task"] = was
        try:
            quiet.end()
        finally:  # Ctrl-C that came as it began has left it undone; a second call does nothing more
            quiet.end()
            for where in around:
                backends.make_current(where)
    if watched:
        span = observe.SpanEvent(
            "backward" if accumulate and inputs is None else "grad", begin, perf_counter_ns(), place
        )
        observe.notify(watched, "span", span)
    if inputs is None or accumulate:
        return []
    return [
        _answer(leaves.get(t) if t._node is None else captured.get((t._node, t._nr)), t, create_graph) for t in inputs
    ]


Arrived = tuple[dict[Tensor, Entry], dict[tuple[Node, int], Entry]]  # at leaves, and at outputs that were asked for


def _walk(starts: list[tuple[Any, int, Any]], asked: set[Any] | None, path: dict[Node, tuple[Any, ...]] | None,
          retain_graph: bool, create_graph: bool, place: Place,
          watched: tuple[observe.Observer, ...], quiet: Quiet, early: dict[Tensor, int] | None,
          serve: Callable[[Entry], None]) -> Arrived:  # fmt: skip
    """Run the nodes; gives what arrived at the leaves, and at those outputs of nodes that were asked for. The leaves of
    `early` are served as soon as the last of so many edges has run."""
    heap: list[int] = []  # the numbers of the nodes that wait, negative: the smallest is the next
    waiting: dict[int, Entry] = {}
    leaves: dict[Tensor, Entry] = {}
    captured: dict[tuple[Node, int], Entry] = {}

    def send(e: Any, nr: int, g: Any) -> None:
        if not isinstance(e, Node):
            entry = leaves.get(e)
            if entry is None:
                leaves[e] = [e, g]
            else:
                quiet.begin()
                _add(entry, g, create_graph)
            return
        entry = waiting.get(e.number)
        if entry is None:
            heappush(heap, -e.number)
            entry = waiting[e.number] = [e, g if e.out_meta is None else [None] * len(e.out_meta)]
            if e.out_meta is None:
                return
        quiet.begin()
        if e.out_meta is None:
            _add(entry, g, create_graph)
        else:
            slots = entry[1]
            slots[nr] = g if slots[nr] is None else _plus(slots[nr], g)

    for e, nr, g in starts:
        if path is None or e in path or (asked is not None and e in asked):
            send(e, nr, g)
    quiet.begin()
    while heap:
        entry = waiting.pop(-heappop(heap))
        node, g = entry[0], entry[1]
        if backends.many:
            backends.make_current(node.kind.device)
        start = perf_counter_ns() if watched else 0
        if node.watchers:
            g = _tell_tensors(node, g, create_graph)
        edges = node.edges
        if path is not None:
            if asked is not None and node in asked:
                for nr, one in enumerate(g if isinstance(g, list) else (g,)):
                    if one is not None:
                        captured[node, nr] = [node, one]
            if node not in path:
                continue
            edges = path[node]
        results, kernel = _gradients(node, edges, g, create_graph)
        nrs = node.nrs
        for i, e in enumerate(edges):
            if e is not None and results[i] is not None:
                send(e, nrs[i] if nrs else 0, results[i])
        if watched:
            event = observe.BackwardEvent(node, kernel, start, perf_counter_ns(), tuple(map(values_of, results)))
            observe.notify(watched, "backward", event)
        if not retain_graph:
            node.free(place)
        for e in edges if early else ():
            if e in early:  # type: ignore[operator]
                early[e] -= 1  # type: ignore[index]
                if not early[e] and e in leaves:  # type: ignore[index]
                    serve(leaves.pop(e))
    return leaves, captured


def _edges_of_hooked(sources: Sequence[Any]) -> dict[Tensor, int] | None:
    """Return the leaves with a hook that runs after accumulation, and how many edges lead to each; None without any."""
    found: dict[Tensor, int] = {}
    seen = {e for e in sources if isinstance(e, Node)}
    stack = list(seen)
    while stack:
        for e in stack.pop().edges:
            if isinstance(e, Node):
                if e not in seen:
                    seen.add(e)
                    stack.append(e)
            elif e is not None and e._post_hooks:
                found[e] = found.get(e, 0) + 1
    return found or None


def _through(node: Node, edges: tuple[Any, ...], g: Any, create_graph: bool, retain_graph: bool,
             place: Place) -> tuple[Any, str]:  # fmt: skip
    """All that happens at a node when nobody observes: its gradients, and it lets go of what it saved."""
    if node.watchers:
        g = _tell_tensors(node, g, create_graph)
    found = _gradients(node, edges, g, create_graph)
    if not retain_graph:
        node.free(place)
    return found


def _gradients(node: Node, edges: tuple[Any, ...], g: Any, create_graph: bool) -> tuple[Any, str]:
    """Return the gradients of a node's inputs, its hooks heard, and the name of the kernel that made them."""
    node.check()
    if node.prehooks:
        g = _prehooks(node, g, create_graph)
    if node.hooked:
        with saved_tensor_hooks.unpacked(node):
            results, kernel = gradients(node, edges, g, create_graph)
    else:
        results, kernel = gradients(node, edges, g, create_graph)
    if anomaly.enabled:
        anomaly.examine(node, g, results)
    if node.hooks:
        results = _hooks(node, results, g, create_graph)
    if len(results) < len(edges):
        raise RuntimeError(f"{node.name()} returned {len(results)} gradients for {len(edges)} inputs")
    return results, kernel


def reached(task: tuple[list[Any], dict[Node, Any] | None, set[Any] | None]) -> set[Any]:
    """Return the nodes and leaves that a running pass sends gradients to."""
    sources, path, asked = task
    if path is not None:
        return {*path, *(asked or ())}
    found, stack = set(sources), list(sources)
    while stack:
        node = stack.pop()
        fresh = [e for e in getattr(node, "edges", ()) if e is not None and e not in found]
        found.update(fresh)
        stack.extend(fresh)
    return found


def _path(sources: list[Any], asked: set[Any]) -> dict[Node, tuple[Any, ...]]:
    """Return the nodes on a path from the sources to what is asked for, each with those of its edges that lead
    there."""
    reached: dict[Node, None] = {}
    stack = [e for e in sources if isinstance(e, Node)]
    while stack:
        node = stack.pop()
        if node not in reached:
            reached[node] = None
            stack.extend(e for e in node.edges if isinstance(e, Node) and e not in reached)
    path: dict[Node, tuple[Any, ...]] = {}
    for node in sorted(reached, key=lambda n: n.number):
        edges = tuple(e if e is not None and (e in asked or e in path) else None for e in node.edges)
        if any(e is not None for e in edges):
            path[node] = edges
    return path


# -- gradients and whose memory they are -------------------------------------------------------------------------------


def _plus(a: Any, b: Any) -> Any:
    """Return the sum of two gradients: arrays, or tensors whose sum is on the graph."""
    total = b + a if isinstance(a, SparseTensor) else native.sum_of(a, b)  # a sparse one adds to a dense one only
    return np.asarray(total) if isinstance(total, np.generic) else total


def _add(entry: Entry, g: Any, create_graph: bool) -> None:
    """Add a gradient to those that arrived before: the third one and later in place, in the memory of the first sum."""
    if len(entry) == 3 and not create_graph:
        entry[1] += g
    else:
        entry[1:] = [_plus(entry[1], g), True]


def _alone(entry: Entry) -> bool:
    """Return whether the gradient is nobody else's memory: no other name for it, and no view of another array.

    Gradients pass through many ops as they are, and hooks and custom functions may keep them; the count sees it all."""
    return sys.getrefcount(entry[1]) == _ONE_NAME and not isinstance(entry[1].base, type(entry[1]))


def _names_of_one() -> int:
    entry = [None, object()]
    return sys.getrefcount(entry[1])


_adding = RLock()  # backward may run in several threads, and the leaves are shared
_ONE_NAME = _names_of_one()  # what the count says where there is none but the entry: interpreters differ


def _accumulate(t: Tensor, entry: Entry, create_graph: bool) -> None:
    """Add a gradient to `.grad`, in place unless the gradient has a graph of its own."""
    with _adding:
        before = t._grad
        if before is None and not create_graph:
            first = gradient_of_leaf(_alone(entry), entry[1], t)
            before = t._grad  # a pass that ends in C takes no lock: one may have come while this one was copied
            if before is None:
                t._grad = first
        if isinstance(before, SparseTensor):
            t._grad = _plus(before, entry[1]) if create_graph else gradient_over(before._a + entry[1], t._kind)
        elif create_graph and before is not None and not mode.enabled:
            before.add_(entry[1])  # type: ignore[attr-defined] # the very tensor that was there, as without ops
        elif create_graph:
            t._grad = entry[1].clone() if before is None else before + entry[1]
        elif before is None:
            pass
        elif before._requires_grad:
            t._grad = before.detach() + wrap(entry[1], t._kind)
        else:
            before._a += entry[1]
            storage_of(before).wrote("backward", None)
    if t._post_hooks:
        for hook in tuple(t._post_hooks.values()):
            hook(t)


def _answer(entry: Entry | None, t: Tensor, create_graph: bool) -> Tensor | None:
    """Return a gradient as `autograd.grad` gives it: in memory of its own, so that the caller may write to it."""
    if entry is None:
        return None
    if create_graph:
        return entry[1]  # type: ignore[no-any-return]
    return gradient_over(entry[1] if _alone(entry) else native.copy_of(entry[1]), t._kind)


def _arrive(entry: Entry) -> None:
    """Hand a gradient to its leaf, its hooks heard."""
    leaf = entry[0]
    if leaf._hooks:
        entry[1:] = [_apply(leaf._hooks, entry[1], leaf._kind, False)]
    if leaf._requires_grad:
        _accumulate(leaf, entry, False)


def _root_gradient(t: Tensor, g: Tensor | None, create_graph: bool) -> Any:
    if g is None:
        if t._a.size != 1:
            made = describe(t._node.place if t._node else None)
            raise RuntimeError(
                text(
                    "grad can be implicitly created only for scalar outputs",
                    op="backward",
                    came=f"a tensor of shape {tuple(t._a.shape)} made at {made}",
                    needed="one element, or a gradient of the same shape",
                    remedy="loss.sum().backward(), loss.mean().backward(), or loss.backward(gradient)",
                )
            )
        if t._kind.dtype.category == 3:
            raise RuntimeError(
                text(f"grad can be implicitly created only for real scalar outputs but got {t._kind.dtype}",
                     op="backward", remedy="a real loss: z.abs().sum().backward(), or loss.backward(gradient)")
            )  # fmt: skip
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
                remedy="a gradient has one element for each of the output's",
            )
        )
    if g._kind is not t._kind:
        g = g.to(t._kind)
    return g if create_graph else g._a


def _no_history(t: Tensor, i: int, place: Place) -> RuntimeError:
    phrase = f"element {i} of tensors does not require grad and does not have a grad_fn"
    came = f"a {t._kind} tensor of shape {tuple(t._a.shape)} that nothing with requires_grad=True led to"
    told = story(t)
    error = RuntimeError(
        text(phrase, op="backward", came=came + (": " + told if told else ""),
             needed="a loss computed from parameters by ops of this package",
             remedy="requires_grad=True on what is trained; look for detach(), .numpy(), .item() or no_grad() on the "
             "way")
    )  # fmt: skip
    observe.notify(observe.listening(), "op_failed", "backward", (t,), place, error)
    return error


# -- hooks -------------------------------------------------------------------------------------------------------------


def _apply(hooks: dict[int, Any], g: Any, kind: Any, create_graph: bool) -> Any:
    """Run tensor hooks over a gradient; gives it back in the engine's own form."""
    given = t = g if create_graph else gradient_over(g, kind)
    for hook in tuple(hooks.values()):
        changed = hook(t)
        if changed is not None:
            name = getattr(hook, "__name__", type(hook).__name__)
            if not isinstance(changed, Tensor):
                raise TypeError(f"a tensor hook must return a Tensor or None, but {name!r} returned "
                                f"{type(changed).__name__}")  # fmt: skip
            if changed._kind is not given._kind and not sparse.any_sparse((changed, given)):
                raise RuntimeError(
                    f"hook '{name}' has changed the type of value (was {given._kind} got {changed._kind})"
                )
            if changed._a.shape != given._a.shape:
                raise RuntimeError(f"hook '{name}' has changed the size of value\n  came: {tuple(changed._a.shape)}; "
                                   f"needed: {tuple(given._a.shape)}, the gradient's own shape")  # fmt: skip
            t = changed
    return t if create_graph else t._a


def _tell_tensors(node: Node, g: Any, create_graph: bool) -> Any:
    """Hooks and retained gradients of the tensors that this node made."""
    for nr, hooks, retains in node.watchers or ():
        one = g[nr] if isinstance(g, list) else g
        if one is None:
            continue
        one = _apply(hooks, one, node.kind if node.out_meta is None else node.out_meta[nr][1], create_graph)
        if isinstance(g, list):
            g[nr] = one
        else:
            g = one
        t = retains() if retains is not None else None
        if t is not None:
            _accumulate(t, [node, one], create_graph)
    return g


def _tensors(gs: Any, kinds: Sequence[Any], create_graph: bool) -> tuple[Any, ...]:
    if create_graph:
        return tuple(gs)
    return tuple(None if g is None else gradient_over(g, kind) for g, kind in zip(gs, kinds, strict=False))


def _outputs(node: Node, g: Any, create_graph: bool) -> tuple[Any, ...]:
    """Return the gradients that came to a node, as tensors."""
    if node.out_meta is None:
        return _tensors((g,), (node.kind,), create_graph)
    return _tensors(g, [kind for _, kind in node.out_meta], create_graph)


def _replaced(given: tuple[Any, ...], changed: Any) -> tuple[Any, ...]:
    return given if changed is None else changed if isinstance(changed, tuple) else (changed,)


def _prehooks(node: Node, g: Any, create_graph: bool) -> Any:
    given = _outputs(node, g, create_graph)
    for hook in tuple((node.prehooks or {}).values()):
        given = _replaced(given, hook(given))
    back = [t if t is None or create_graph else t._a for t in given]
    return back if node.out_meta is not None else back[0]


def _hooks(node: Node, results: Any, g: Any, create_graph: bool) -> tuple[Any, ...]:
    kinds = [None if e is None else e._kind if isinstance(e, Tensor) else _kind_of(e, nr)
             for e, nr in zip(node.edges, node.nrs or (0,) * len(node.edges), strict=True)]  # fmt: skip
    if not create_graph:  # a function may give gradients that nobody asked for, and hooks see them
        kinds = [kind_of(from_numpy(g.dtype), node.kind.device) if k is None and g is not None else k
                 for k, g in zip(kinds, results, strict=True)]  # fmt: skip
    given, incoming = _tensors(results, kinds, create_graph), _outputs(node, g, create_graph)
    for hook in tuple((node.hooks or {}).values()):
        given = _replaced(given, hook(given, incoming))
    return tuple(t if t is None or create_graph else t._a for t in given)


def _kind_of(node: Node, nr: int) -> Any:
    return node.kind if node.out_meta is None else node.out_meta[nr][1]


if native.module is not None:
    native.module.connect_engine(_through, Quiet, _plus, _arrive, put_off.finish, vars(anomaly), vars(backends))
