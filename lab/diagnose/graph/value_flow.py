"""Where a plain number or an array went, read from the cell's source: what `.item()`, `.tolist()` or a NumPy call that
drops the lineage leaves for us to go by."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from core.base.source import Location

from ...recorder.cell_trace import Ref, Row, Trace

Span = tuple[int, int, int, int]  # line, column, end line, end column
MUTATORS = ("append", "extend", "add", "insert", "update", "setdefault", "appendleft")

MAKERS = ("from_numpy", "tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "asarray", "Parameter")
"""Functions that make a tensor of numbers."""


def edges(trace: Trace) -> dict[Ref, list[Ref]]:
    """For every op that seems to use a value that left the graph: the cuts it came from.

    Of what runs inside of one call of a function from elsewhere, the cell's text does not tell the order.
    """
    returned = {ref for row in trace.rows if row.cut == "return" for ref in row.refs}
    lost = [row for row in trace.rows if row.cut in ("item", "tolist", "numpy") and row not in returned]
    if not lost:
        return {}
    tree = trace.tree()
    if tree is None:
        return {}
    places = [(row, place) for row in trace.rows if not row.cut and (place := _raw(trace, row)) is not None]
    spans = list(dict.fromkeys(_span(place) for _, place in places))
    names = _names(tree, spans)
    flows = _flows(tree, spans)
    found: dict[Ref, list[Ref]] = {}
    # a loss that is made anew of a number, which begins a graph of its own
    begun = [leaf for leaf in trace.gradients if leaf.made is None and leaf.name and leaf not in trace.optimized]
    for cut in lost:
        place = _raw(trace, cut)
        if place is None:
            continue
        span = _span(place)
        tainted = _tainted(flows, span)
        for row, at in places:
            around = _inside(span, _span(at)) and (span != _span(at) or row.chain[0][0].co_filename in trace.files)
            if around or tainted & names[_span(at)]:
                found.setdefault(row, []).append(cut)
        for leaf in begun:
            if leaf.name in tainted:
                found.setdefault(leaf, []).append(cut)
    return found


def brought(trace: Trace, cut: Row) -> int | None:
    """The line on which the cell makes a tensor of the numbers or the array that a cut gave."""
    tree = trace.tree()
    if tree is None:
        return None
    place = _raw(trace, cut)
    if place is None:
        return None
    span = _span(place)
    tainted = _tainted(_flows(tree), span)
    for node in trace.nodes():
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        at = _of(node)
        if name not in MAKERS or at is None or (at[0] < span[0] and not _inside(span, at)):
            continue
        read = {name for part in node.args for name in _read(part)}
        if _inside(span, at) or read & tainted:
            shown = trace.own_place(cut.chain)
            return at[0] + (shown.line - place.line if shown is not None else 0)
    return None


def _raw(trace: Trace, row: Row) -> Location | None:
    """The innermost place in this cell, its line as Python counts it."""
    for code, lasti in row.chain:
        if code.co_filename in trace.files:
            place = trace.place(code, lasti)
            offset = trace.files[code.co_filename]
            return place._replace(line=place.line + offset, end_line=place.end_line + offset) if offset > 0 else place
    return None


def _span(place: Location) -> Span:
    return place.line, place.col, place.end_line, place.end_col


def _inside(inner: Span, outer: Span) -> bool:
    return inner[:2] >= outer[:2] and inner[2:] <= outer[2:]


def _of(node: ast.AST) -> Span | None:
    line = getattr(node, "lineno", None)
    if line is None:
        return None
    return line, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _read(node: ast.AST) -> Iterator[str]:
    """Variables, attributes and functions that a node reads: "x", ".hidden"."""
    return (name for _, name in _reads(node))


def _bound(target: ast.AST) -> Iterator[str]:
    """What a target binds: ``self.h`` is ".h", ``d[k]`` is "d"."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute):
        yield f".{target.attr}"
    elif isinstance(target, ast.Subscript | ast.Starred):
        yield from _bound(target.value)
    elif isinstance(target, ast.Tuple | ast.List):
        for inner in target.elts:
            yield from _bound(inner)


def _names(tree: ast.AST, spans: Sequence[Span]) -> dict[Span, set[str]]:
    """Variables that are read inside stretches of source."""
    reads = sorted(_reads(tree))
    found = {}
    for span in spans:
        first = bisect_left(reads, span[:2], key=lambda read: read[0][:2])
        within = takewhile(lambda read, end=span[2:]: read[0][:2] <= end, reads[first:])  # type: ignore[misc]
        found[span] = {name for at, name in within if _inside(at, span)}
    return found


class Flow(NamedTuple):
    """A value that goes into variables."""

    at: Span | None
    reads: list[tuple[Span, str]]
    """What it reads, and where."""
    into: set[str]
    ops: list[Span]
    """Those of some ops that stand in it."""


def _flows(tree: ast.AST, ops: Sequence[Span] = ()) -> list[Flow]:
    """Return every value that goes into variables, with what it reads and the ops in it."""
    found = []
    for value, targets in _values(tree):
        at = _of(value)
        inside = [op for op in ops if at is not None and _inside(op, at)]
        found.append(Flow(at, list(_reads(value)), {name for t in targets for name in _bound(t)}, inside))
    return found


def _values(tree: ast.AST) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    """Every value that goes into variables: the value and the targets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield node.value, node.targets
        elif isinstance(node, ast.FunctionDef):  # what a function gives is where its name is called
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    names = [node.name, f".{node.name}", *_modules(tree, node)]
                    yield inner.value, [ast.Name(name, ast.Store()) for name in names]
            yield from _passed(tree, node)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            yield node.value, [node.target]
        elif isinstance(node, ast.For | ast.comprehension):
            yield node.iter, [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            for argument in node.args:
                yield argument, [node.func.value]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield node.context_expr, [node.optional_vars]


def _modules(tree: ast.AST, function: ast.FunctionDef) -> set[str]:
    """The variables that hold an object which is called by a function's name: ``criterion`` for the forward() of the
    class of ``criterion = Dice()``."""
    if function.name not in ("forward", "__call__"):
        return set()
    kinds = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and function in node.body}
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") in kinds
        for target in node.targets
        for name in _bound(target)
    }


def _passed(tree: ast.AST, function: ast.FunctionDef) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    """What the calls of a function hand to its parameters."""
    modules = _modules(tree, function)
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "id", None), getattr(node.func, "attr", None)
        method = isinstance(node.func, ast.Attribute) or called[0] in modules
        if function.name not in called and not modules & {called[0], f".{called[1]}"}:
            continue
        inside = names[1:] if method and names[:1] == ["self"] else names
        pairs = [*zip(inside, node.args, strict=False), *((k.arg, k.value) for k in node.keywords if k.arg)]
        for name, given in pairs:
            yield given, [ast.Name(name, ast.Store())]


def _tainted(flows: Sequence[Flow], span: Span) -> set[str]:
    """Variables that hold what the expression at `span` gave, directly or through others; not through one of a flow's
    ops, which takes it up: from there on the graph tells where it goes."""
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        for flow in flows:
            if flow.into <= found:
                continue
            given = [span] if flow.at is not None and _inside(span, flow.at) else []
            given += [place for place, name in flow.reads if name in found]
            if not given or (flow.ops and all(any(_inside(g, op) and g != op for op in flow.ops) for g in given)):
                continue
            found |= flow.into
            grown = True
    return found


def _reads(node: ast.AST) -> Iterator[tuple[Span, str]]:
    """Where a node reads variables and attributes, and which."""
    for inner in ast.walk(node):
        at = _of(inner)
        if at is not None and isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield at, inner.id
        elif at is not None and isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Load):
            yield at, f".{inner.attr}"
