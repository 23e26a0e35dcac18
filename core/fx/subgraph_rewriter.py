"""Parts of a graph that look like a pattern, and another in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..nn.modules.module import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, put_attribute
from .node import Node, map_arg
from .printed import resolve

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where a pattern was found: its last node, and the graph's nodes by the pattern's."""

    anchor: Node
    nodes_map: dict[Node, Node]


class ReplacedPatterns(NamedTuple):
    """Where a pattern was found, and the nodes that stand there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def _graph(given: Any) -> Graph:
    if isinstance(given, Graph):
        return given
    return given.graph if isinstance(given, GraphModule) else symbolic_trace(given).graph


def _matches(pattern: Node, node: Any, found: dict[Node, Any], root: Any) -> bool:
    """Return whether a node, and what it uses, is as the pattern's; fill `found`."""
    if pattern in found:
        return found[pattern] is node
    if pattern.op == "placeholder":  # an argument of the pattern stands for any value
        found[pattern] = node
        return True
    if not isinstance(node, Node) or pattern.op != node.op or not _same_target(pattern, node, root):
        return False
    found[pattern] = node
    return _alike(pattern.args, node.args, found, root) and _alike(pattern.kwargs, node.kwargs, found, root)


def _same_target(pattern: Node, node: Node, root: Any) -> bool:
    if pattern.op in ("call_module", "get_attr") and pattern.graph.owning_module is not None:
        try:  # by what they are, since names differ
            ours, theirs = resolve(root, node.target), resolve(pattern.graph.owning_module, pattern.target)
        except AttributeError:
            return bool(pattern.target == node.target)
        return type(ours) is type(theirs) and (pattern.op == "call_module" or pattern.target == node.target)
    return bool(pattern.target == node.target)


def _alike(pattern: Any, given: Any, found: dict[Node, Any], root: Any) -> bool:
    if isinstance(pattern, Node):
        return _matches(pattern, given, found, root)
    if isinstance(pattern, list | tuple) and isinstance(given, list | tuple):
        return len(pattern) == len(given) and all(
            _alike(a, b, found, root) for a, b in zip(pattern, given, strict=True))  # fmt: skip
    if isinstance(pattern, dict) and isinstance(given, dict):
        return pattern.keys() == given.keys() and all(_alike(pattern[k], given[k], found, root) for k in pattern)
    return type(pattern) is type(given) and bool(pattern == given)


def _ends(graph: Graph) -> list[Node]:
    """Return the nodes that a pattern or a replacement gives."""
    ends: list[Node] = []
    map_arg(graph.output_node().args, lambda n: ends.append(n) or n)  # type: ignore[func-returns-value]
    return ends


def _stands_alone(found: dict[Node, Any], inner: list[Node], ends: list[Node]) -> bool:
    """Return whether what is to go is used by nothing outside of the part."""
    gone = {found[n] for n in inner}
    return all(user in gone for n in inner if n not in ends for user in found[n].users)


def _search(graph: Graph, pattern: Graph, root: Any) -> list[dict[Node, Any]]:
    ends = _ends(pattern)
    inner = [n for n in pattern.nodes if n.op not in ("placeholder", "output")]
    parts: list[dict[Node, Any]] = []
    taken: set[Node] = set()
    for node in graph.nodes:
        found: dict[Node, Any] = {}
        if node in taken or not _matches(ends[0], node, found, root):
            continue
        if not all(n in found or any(_matches(n, x, found, root) for x in graph.nodes) for n in ends[1:]):
            continue
        part = {found[n] for n in inner if n in found}
        if len(part) == len(inner) and not part & taken and _stands_alone(found, inner, ends):
            taken |= part
            parts.append(found)
    return parts


def replace_pattern(gm: GraphModule, pattern: Callable[..., Any] | GraphModule,
                    replacement: Callable[..., Any] | GraphModule) -> list[Match]:  # fmt: skip
    """Put a replacement wherever a graph has a pattern; both are functions or modules of the same arguments.

    A part does not count whose inner values are used elsewhere, and parts do not overlap.

    >>> import core
    >>> traced = core.fx.symbolic_trace(lambda x, y: core.relu(core.add(x, y)))
    >>> found = core.fx.replace_pattern(traced, lambda a, b: core.add(a, b), lambda a, b: core.mul(a, b))
    >>> len(found), [node.name for node in traced.graph.nodes]
    (1, ['x', 'y', 'mul', 'relu', 'output'])
    """
    return [Match(r.anchor, r.nodes_map) for r in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(gm: GraphModule, pattern: Any, replacement: Any = None,
                                 match_filters: list[Callable[[Any, Graph, Graph], bool]] | None = None,
                                 ignore_literals: bool = False,
                                 replacement_callback: Callable[[Any, Graph, Graph], Graph] | None = None,
                                 ) -> list[ReplacedPatterns]:  # fmt: skip
    """Put a replacement wherever a graph has a pattern and every filter says so."""
    if ignore_literals:
        raise NotImplementedError("replace_pattern_with_filters: ignore_literals is not here; write the numbers of the "
                                  "pattern as arguments, which stand for any value")  # fmt: skip
    graph, looked_for = gm.graph, _graph(pattern)
    arguments = [n for n in looked_for.nodes if n.op == "placeholder"]
    ends = _ends(looked_for)
    done: list[ReplacedPatterns] = []
    replaced: dict[Any, Any] = {}
    for found in _search(graph, looked_for, gm):
        match = Match(found[ends[0]], found)
        if not all(f(match, graph, looked_for) for f in match_filters or ()):
            continue
        new = replacement_callback(match, graph, looked_for) if replacement_callback else _graph(replacement)
        _bring(new, gm)
        inputs = [n for n in new.nodes if n.op == "placeholder"]
        values = [found.get(n) for n in arguments]
        known: dict[Node, Any] = {n: replaced.get(v, v) for n, v in zip(inputs, values, strict=True)}
        last = max((found[n] for n in ends), key=list(graph.nodes).index)
        before = set(graph.nodes)
        with graph.inserting_before(last):
            graph.graph_copy(new, known)
        made = [n for n in graph.nodes if n not in before]
        for old, result in zip((found[n] for n in ends), _ends(new), strict=True):
            replaced[old] = known[result]
            old.replace_all_uses_with(known[result])
        for n in reversed(list(looked_for.nodes)):
            if n.op not in ("placeholder", "output"):
                graph.erase_node(found[n])
        done.append(ReplacedPatterns(match.anchor, found, made))
    gm.recompile()
    return done


def _bring(new: Graph, gm: GraphModule) -> None:
    """Give a module what a replacement's graph names, and it has not."""
    owner = new.owning_module
    for node in new.nodes:
        if node.op in ("call_module", "get_attr") and isinstance(owner, Module):
            try:
                resolve(gm, node.target)
            except AttributeError:
                put_attribute(gm, node.target, resolve(owner, node.target))
