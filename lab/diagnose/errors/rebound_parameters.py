"""A step by hand that binds the name to a new tensor: ``w = w - lr * w.grad`` where no graph is made. The new tensor
does not require a gradient, and the next backward() finds nothing to do, or passes it by."""

from __future__ import annotations

import ast
import re

from core.base import syntax

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, Span, code_of, last_line, library, listed, span, verb, where
from ..order import rule

_GRADIENT = re.compile(r"\.grad\b")
OFF = {"data", "detach"}  # ways to the values of a parameter


@rule(100)
def rebound(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """One finding for all names that are bound anew so."""
    steps = _steps(trace)
    if not steps:
        return []
    explained.update(leaf for _, leaf in steps)
    rows = [row for row, _ in steps]
    lines = list(dict.fromkeys(line for row in rows if (line := where(trace, row.chain)[0]) is not None))
    bound = _assignments(trace)
    statement = _statement(trace, rows[0], bound)
    names = list(dict.fromkeys(name for row in rows if (name := _name(_statement(trace, row, bound)))))
    code = ast.unparse(statement) if statement is not None and names else code_of(trace, rows[0])
    off = "under no_grad" if rows[0].quiet else "of values off the graph"
    at = f"line {lines[0]}" if len(lines) == 1 else f"lines {listed([str(line) for line in lines])}"
    does = f"{verb(lines, 'puts', 'put')} new tensors that do not require a gradient in place of the parameters"
    if names:
        new = verb(names, "a new tensor that does", "new tensors that do")
        does = f"{verb(lines, 'binds', 'bind')} {listed(names)} to {new} not require a gradient"
    ends = "its gradient ends with the first step" if len(names) == 1 else "their gradients end with the first step"
    if trace.failed:
        ends = f"backward() on {where(trace, trace.failed[0][1])[2]} has nothing to do the next time"
    elif error := rebinds(trace):
        ends = f"{error} is None the next time"
    message = f"{at.capitalize()} {does} (`{code}`, {off}): {ends}."
    leaves = list(dict.fromkeys(leaf for _, leaf in steps))
    remedy = _remedy(trace, rows[0], names[0] if names else "")
    line, col, _ = where(trace, rows[0].chain)
    return [
        Found(
            "no-gradient",
            "error" if trace.failed or rebinds(trace) else "warning",
            line,
            col,
            message,
            remedy,
            rows,
            leaves,
        )
    ]


def rebinds(trace: Trace) -> str:
    """The gradient that the cell's error finds to be None; "" for any other error."""
    error, lines = trace.error, trace.texts()
    if error is None or "'NoneType'" not in error.detail or error.line is None or not 0 < error.line <= len(lines):
        return ""
    read = re.search(r"[\w.\[\]]+\.grad\b", lines[error.line - 1])
    return read[0] if read else ""


def _steps(trace: Trace) -> list[tuple[Row, Leaf]]:
    """Ops without a graph that compute a new value of a parameter by its gradient, where a later loss is computed from
    what they gave."""
    used: dict[Ref, None] | None = None
    bound = _assignments(trace)
    found = []
    for row in trace.rows:
        if row.requires_grad or row.cut or row.op.endswith("_") or row.phase != "forward":
            continue
        leaf = next((leaf for ref in row.refs if (leaf := _parameter(ref)) in trace.gradients), None)
        if leaf is None:
            continue
        name = _name(_statement(trace, row, bound))
        if not _GRADIENT.search(code_of(trace, row)) and name != leaf.name:
            continue
        if name.isidentifier() and leaf.name.isidentifier() and name != leaf.name and not _becomes(bound, name, leaf):
            continue  # another thing than the parameter: an input that was moved against the model, say
        if name and _asked_again(trace, row, name):
            continue
        if used is None:
            used = ancestors([*(r for r in trace.rows if r.reached), *(ref for ref, _ in trace.failed)])
        if row in used:
            found.append((row, leaf))
    return found


def _asked_again(trace: Trace, row: Row, name: str) -> bool:
    """Return whether each turn of the loop around an op asks for a gradient of a variable anew: an input that is moved
    step by step, ``x.requires_grad_(); g, = grad(loss(x), x); x = x.detach() + step * g.sign()``."""
    place = trace.own_place(row.chain[:1])
    if place is None or place.line is None:
        return False
    loops = [n for n in trace.nodes() if isinstance(n, ast.For | ast.While) and n.lineno < place.line <= last_line(n)]
    inner = max(loops, key=lambda n: n.lineno, default=None)
    asked = [n for n in ast.walk(inner) if isinstance(n, ast.Attribute)] if inner is not None else []
    return any(
        ast.unparse(n.value) == name
        and (n.attr == "requires_grad_" or (n.attr == "requires_grad" and isinstance(n.ctx, ast.Store)))
        for n in asked
    )


def _becomes(bound: dict[Span, ast.Assign], name: str, leaf: Leaf) -> bool:
    """Whether a variable is given to that of a parameter afterwards: ``w = w_new``."""
    return any(ast.unparse(n.targets[0]) == leaf.name and ast.unparse(n.value) == name for n in bound.values())


def _parameter(ref: Ref) -> Leaf | None:
    """The parameter that a ref is, or whose values it is."""
    while isinstance(ref, Row) and (ref.cut in OFF or ref.view) and len(ref.refs) == 1:
        ref = ref.refs[0]
    return ref if isinstance(ref, Leaf) and ref.requires_grad else None


def _assignments(trace: Trace) -> dict[Span, ast.Assign]:
    """The assignments of the cell by where their values stand."""
    return {span(node.value): node for node in trace.nodes() if isinstance(node, ast.Assign)}


def _statement(trace: Trace, row: Row, bound: dict[Span, ast.Assign]) -> ast.Assign | None:
    """The assignment whose value an op computes."""
    place = trace.own_place(row.chain[:1])
    return None if place is None else bound.get((place.line, place.col, place.end_line, place.end_col))


def _name(statement: ast.Assign | None) -> str:
    """What a statement binds."""
    target = statement.targets[0] if statement is not None else None
    return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute | ast.Subscript) else ""


def _remedy(trace: Trace, row: Row, name: str) -> str:
    """The step in place."""
    try:
        tree = syntax.expression(code_of(trace, row))
    except SyntaxError:
        tree = None
    step = f"{name or 'w'} -= lr * {name or 'w'}.grad"
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Sub):
        left = name or re.sub(r"\.(data|detach\(\))$", "", ast.unparse(tree.left))
        step = f"{left} -= {ast.unparse(tree.right)}"
    kept = f"{name}.requires_grad_()" if name else "requires_grad_() on each new tensor"
    return f"Change it in place, with {library(trace)}.no_grad(): {step}; or call {kept} after it."
