"""Values that are looked for in a list, one element after another, where a set finds them at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...recorder.cell_trace import Chain
from ..reading.expressions import Flow, flow_of
from ..reading.scope import flow_around, whole
from ..reading.sources import Source, assigned, called, sources
from .time_shares import Saving, Shares

SAVED = 0.9  # share of the time on the line
DEEP = 8
LISTS = {"list", "sorted", "sample", "choices", "tolist", "split", "readlines"}
"""Functions and methods that give lists."""


def looked_for(shares: Shares) -> Iterator[Saving]:
    """``[i for i in items if i not in seen]`` where `seen` is a list."""
    trace = shares.trace
    if not shares.fair:
        return
    for source in sources(trace):
        for node in source.nodes:
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.In | ast.NotIn):
                continue
            ns, chain = _met(shares, source, node.lineno)
            if not shares.worth(SAVED * ns, chain) or not holds_lists(source, node.comparators[0]):
                continue
            held = ast.unparse(node.comparators[0])
            yield from shares.saving(
                SAVED * ns,
                chain,
                f"looks for each value in a list, one element after another (`{ast.unparse(node)}`): about "
                f"{100 * ns / shares.total:.0f} % of this cell's time passes there.",
                f"Make a set of it once, before the loop (known = set({held})), which finds a value at once.",
            )


def _met(shares: Shares, source: Source, line: int) -> tuple[float, Chain]:
    """Return the time in which Python ran on a line itself, and the frames from there outwards."""
    trace, ns, longest = shares.trace, 0, (0, ())
    for sample in trace.samples.values():
        chain = sample.places
        if sample.kind == "import" or not chain or shares.line_of(chain[0]) != (source.name, line):
            continue
        ns += sample.ns
        longest = max(longest, (sample.ns, chain), key=lambda pair: pair[0])  # type: ignore[assignment]
    return ns / shares.looked * shares.total, longest[1]


def holds_lists(source: Source, node: ast.AST | None, level: int = 0, depth: int = DEEP) -> bool:
    """Return whether an expression is a list by the text, or at a `level` its elements, or theirs, are."""
    if node is None or not depth:
        return False
    if isinstance(node, ast.Name):
        flow = flow_around(source, node)
        value = _given(source, flow, node)
        if value is not None:
            return holds_lists(source, value, level, depth - 1)
        return any(holds_lists(source, of, level + 1, depth - 1) for of in _gone_over(flow, node.id))
    if isinstance(node, ast.Subscript):
        return holds_lists(source, node.value, level + (not isinstance(node.slice, ast.Slice)), depth - 1)
    if isinstance(node, ast.ListComp):
        return not level or holds_lists(source, node.elt, level - 1, depth - 1)
    if isinstance(node, ast.DictComp):
        return level > 0 and holds_lists(source, node.value, level - 1, depth - 1)
    if isinstance(node, ast.List | ast.Dict):
        parts = node.elts if isinstance(node, ast.List) else node.values
        if not level:
            return isinstance(node, ast.List)
        return bool(parts) and all(holds_lists(source, part, level - 1, depth - 1) for part in parts)
    if called(node) == "defaultdict" and level == 1:
        return isinstance(node, ast.Call) and [getattr(a, "id", "") for a in node.args[:1]] == ["list"]
    return not level and called(node) in LISTS


def _given(source: Source, flow: Flow, node: ast.Name) -> ast.expr | None:
    """Return what a variable was given; in a function also one of the whole program that is given a value once."""
    value = flow.value(node)
    if value is None and not flow.binds(node.id):
        given = [pair.value for pair in assigned(flow_of(source, whole(source)).nodes) if pair.name == node.id]
        return given[0] if len(given) == 1 else None
    return value


def _gone_over(flow: Flow, name: str) -> Iterator[ast.AST]:
    """Yield what loops of a function go over that give a name the elements, or the values of a dict."""
    for loop in flow.nodes:
        if not isinstance(loop, ast.For | ast.comprehension):
            continue
        over, target = loop.iter, loop.target
        if isinstance(target, ast.Name):
            if target.id == name:
                yield over.func.value if called(over) == "values" else over  # type: ignore[attr-defined]
        elif isinstance(target, ast.Tuple) and isinstance(over, ast.Call):
            names = [getattr(t, "id", "") for t in target.elts]
            if name not in names:
                continue
            at = names.index(name)
            if called(over) == "zip" and at < len(over.args):
                yield over.args[at]
            elif at == 1 and called(over) == "enumerate" and over.args:
                yield over.args[0]
            elif at == 1 and called(over) == "items" and isinstance(over.func, ast.Attribute):
                yield over.func.value


IDIOMS = (looked_for,)
