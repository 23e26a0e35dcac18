"""The data loaders of a cell: which loops went over them, whether those took steps, and where a loader is made."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Chain, Trace
from ...recorder.loader_waits import Fetched
from ...recorder.user_files import shown_name
from .expressions import Flow, flow_of
from .sources import Source, assigned, called

AROUND = {"enumerate", "tqdm", "iter", "list", "islice", "zip"}
DEEP = 8
NAMED = re.compile(r"loader|_dl\b|\bdl\b|\bdl_|batch|\.split\(|range\(0, .*,", re.I)


def fetched_at(trace: Trace, chain: Chain) -> tuple[str, int]:
    """Return the source, as sentences call it, and the line of the innermost place of a chain."""
    code, lasti = chain[0]
    line, offset = trace.place(code, lasti).line, trace.files.get(code.co_filename)
    return (shown_name(code.co_filename), line) if offset is None else ("", line + offset)


def gone_over(trace: Trace, source: Source, loop: ast.For | ast.comprehension) -> list[Fetched]:
    """Return what a loop of the text, or a loop within an expression, fetched of data loaders."""
    first, last = loop.iter.lineno, loop.iter.end_lineno or loop.iter.lineno
    places = ((fetched_at(trace, chain), fetched) for chain, fetched in trace.fetched.items())
    return [fetched for (name, line), fetched in places if name == source.name and first <= line <= last]


def over_batches(trace: Trace, source: Source, loop: ast.For | ast.comprehension) -> bool:
    """Return whether a loop goes over batches: of a loader, as it ran or by its name, of parts, or in steps of their
    size."""
    return NAMED.search(ast.unparse(loop.iter)) is not None or bool(gone_over(trace, source, loop))


def loader_of(loop: ast.For | ast.comprehension) -> ast.expr:
    """Return what a loop goes over, without enumerate() and the like."""
    node = loop.iter
    while called(node) in AROUND and isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return node


def settled(source: Source, node: ast.expr, flow: Flow, depth: int = DEEP) -> ast.expr:
    """Return an expression with its variable put in, in a function also one of the whole program that is given a value
    once, and of a dictionary, tuple or list the item that it asks for."""
    if not depth:
        return node
    if isinstance(node, ast.Name):
        value = flow.value(node)
        if value is None:
            top = flow_of(source, source.tree)
            given = [pair.value for pair in assigned(top.nodes) if pair.name == node.id]
            value = given[0] if len(given) == 1 and flow is not top and not flow.binds(node.id) else None
            flow = top
        return node if value is None else settled(source, value, flow, depth - 1)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        whole, key = settled(source, node.value, flow, depth - 1), node.slice.value
        if isinstance(whole, ast.Dict):
            items = {k.value: v for k, v in zip(whole.keys, whole.values, strict=True) if isinstance(k, ast.Constant)}
            return items.get(key, node)
        if isinstance(whole, ast.Tuple | ast.List) and isinstance(key, int) and -1 <= key < len(whole.elts):
            return settled(source, whole.elts[key], flow, depth - 1)
    return node
