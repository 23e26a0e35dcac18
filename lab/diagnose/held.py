"""Tensors that keep the graphs of earlier iterations alive: `total += loss`, or a list of losses."""

from __future__ import annotations

import ast

from widgets.figures import size_text

from ..gathered import Leaf, Row, Trace, ancestors
from .found import Found, capital, code_of, where

AGAIN = 3  # so many links make a chain
ADDING = ("append", "extend", "insert")


def held(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A sum that nothing runs backward through, and a list of tensors with history."""
    return [] if explained else _summed(trace) or _listed(trace)


def _summed(trace: Trace) -> list[Found]:
    links: dict[Row, int] = {}
    for row in trace.rows:
        if row.op not in ("add", "add_") or not row.requires_grad or row.reached or row.shape:
            continue
        before = [r for r in row.refs if isinstance(r, Row) and r.op == row.op and r.chain == row.chain]
        links[row] = 1 + max((links.get(r, 0) for r in before), default=0)
    if not links:
        return []
    row, count = max(links.items(), key=lambda pair: pair[1])
    if count < AGAIN or any(r.reached for r in trace.consumers().get(row, ())):
        return []
    line, col, place = where(trace, row.chain)
    alive = [r for r in ancestors([row]) if isinstance(r, Row) and r.requires_grad and not r.reached]
    size = sum(r.size * r.count for r in alive)
    backward = (
        "" if any(r.reached for r in ancestors([row]) if isinstance(r, Row)) else f", {size_text(size)} of results"
    )
    message = capital(
        f"{place} keeps the graph of every iteration alive: `{code_of(trace, row)}` adds tensors with their history, "
        f"{count:,} so far{backward}."
    )
    remedy = "Add the number: loss.item(), or loss.detach() to stay on the device."
    severity = "warning"
    return [Found("memory", severity, line, col, message, remedy, [row], [])]


def _listed(trace: Trace) -> list[Found]:
    for name, (count, size) in trace.kept.items():
        line, col, code = _append(trace, name)
        if line is None:
            continue
        message = (
            f"Line {line} keeps the graph of every iteration alive: `{code}` puts tensors with their history into "
            f"{name}, {count:,} of them{f', {size_text(size)} of saved values' if size else ''}."
        )
        remedy = "Keep the number (loss.item()) or loss.detach()."
        if not trace.backwards:
            remedy = "Run it under torch.no_grad() where nothing is trained, or keep the number (.item()) or .detach()."
        return [Found("memory", "warning", line, col, message, remedy)]
    return []


def _means(tree: ast.AST, at: ast.expr, name: str) -> bool:
    """Whether an expression is what the cell calls `name`: itself, self.x for model.x, or what a function returns."""
    text = ast.unparse(at)
    if text == name or (text.startswith("self.") and text.partition(".")[2] == name.partition(".")[2]):
        return True
    made = [n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and name in map(ast.unparse, n.targets)]
    called = {ast.unparse(v.func) for v in made if isinstance(v, ast.Call)}
    return any(
        isinstance(inner, ast.Return) and inner.value is not None and ast.unparse(inner.value) == text
        for f in ast.walk(tree)
        if isinstance(f, ast.FunctionDef) and f.name in called
        for inner in ast.walk(f)
    )


def _append(trace: Trace, name: str) -> tuple[int | None, int | None, str]:
    """Where the cell adds to a list."""
    try:
        tree = ast.parse(trace.code)
    except (SyntaxError, ValueError):
        return None, None, ""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("append", "extend", "insert")
        ):
            if _means(tree, node.func.value, name):
                return node.lineno, node.col_offset, ast.unparse(node)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id == name and isinstance(node.value, ast.ListComp):
                return node.lineno, node.col_offset, ast.unparse(node)
    return None, None, ""
