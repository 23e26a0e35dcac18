"""Values that are lost where they are written: ``agg[dst] += msg`` keeps one value for each place."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Row, Trace
from ..finding import Found, library, where
from ..order import rule

REDUCE = {ast.Mult: "prod"}


@rule(500)
def lost(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """An augmented assignment to places of which some come more than once."""
    if not trace.repeated:
        return []
    writes = _writes(trace)
    for row, (values, places) in trace.repeated.items():
        line, col, _ = where(trace, row.chain)
        own = trace.own_place(row.chain[:1])
        target = writes.get((own.line, own.col)) if own is not None else None
        if target is None:
            continue
        into, index, value, op = target
        verb = "adds" if op in (ast.Add, ast.Sub) else "writes"
        message = (
            f"Line {line} {verb} {values:,} values to {places:,} places and keeps one for each: `{into}[{index}]` is "
            f"read once and written once, however often {index} names a place, so {values - places:,} of {values:,} "
            "are lost."
        )
        after = {r for r in trace.rows if row in r.refs}
        matters = row.requires_grad or any(r.requires_grad for r in after)
        severity = "warning" if matters else "note"
        remedy = _remedy(trace, row, into, index, value, op)
        return [Found("indexing", severity, line, col, message, remedy, [row])]
    return []


def _remedy(trace: Trace, row: Row, into: str, index: str, value: str, op: type[ast.operator]) -> str:
    name = index.replace(" ", "")
    parts = [p for p in name.strip("()").split(",") if p]
    single = len(row.refs) < 3 and ":" not in name and "..." not in name
    sign = "-" if op is ast.Sub else ""
    if op in REDUCE:
        return f"{into}.index_reduce_({max(len(parts) - 1, 0)}, {parts[-1]}, {value}, 'prod') multiplies them all."
    if op not in (ast.Add, ast.Sub):
        return "Bring the values of each place together first, with scatter_reduce."
    scalar = value.replace(".", "").isdigit()
    if scalar:
        ones = f"{library(trace)}.full({parts[-1]}.shape, {sign}{value}, dtype={into}.dtype)"
        value, sign = ones, ""
    wrapped = f"-({value})" if sign and not value.isidentifier() else sign + value
    if single and len(parts) == 1:
        return f"{into}.index_add_(0, {index}, {wrapped}) adds them all, and so does {into} = {into}.index_add(...)."
    if len(parts) > 1 and sum(":" not in p for p in parts) == 1 and "..." not in name:
        at = next(k for k, p in enumerate(parts) if ":" not in p)
        return f"{into}.index_add_({at}, {parts[at]}, {wrapped}) adds them all."
    return f"{into}.index_put_(({index.strip('()')}), {wrapped}, accumulate=True) adds them all."


def _index(node: ast.Subscript) -> str:
    text = ast.unparse(node.slice)
    return text[1:-1] if isinstance(node.slice, ast.Tuple) and text[:1] == "(" else text


def _writes(trace: Trace) -> dict[tuple[int, int], tuple[str, str, str, type[ast.operator]]]:
    """Of ``x[i] += v`` and ``x[i] = x[i] + v``: where x[i] is read -> x, i, v and the operator."""
    found: dict[tuple[int, int], tuple[str, str, str, type[ast.operator]]] = {}
    for node in trace.nodes():
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            into, index = ast.unparse(node.target.value), _index(node.target)
            read = (node.target.lineno, node.target.col_offset)
            found[read] = into, index, ast.unparse(node.value), type(node.op)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target, value = node.targets[0], node.value
            if not isinstance(value, ast.BinOp):
                continue
            for one, other in ((value.left, value.right), (value.right, value.left)):
                if ast.unparse(one) == ast.unparse(target):
                    into, index = ast.unparse(target.value), _index(target)
                    found[one.lineno, one.col_offset] = into, index, ast.unparse(other), type(value.op)
    return found
