"""Remedies for gradients of one output after the other: all of them in one pass back, by `is_grads_batched`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy
from .loops import SLOW, loops_of


@remedy(*SLOW)
def in_one_pass(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`for i in range(n): J[i] = grad(y[i], x, retain_graph=True)[0]` is one pass with a gradient for each output."""
    if "is_grads_batched" not in finding.remedy:
        return
    for loop in loops_of(cell, finding):
        asked = [n for n in ast.walk(loop) if isinstance(n, ast.Call) and last_name(n.func) == "grad"]
        code = _once(cell, loop, asked[0]) if len(asked) == 1 else None
        if code is not None:
            yield Patch("Take all outputs in one pass", cell.put((loop, code)), guess=True)


def _once(cell: Cell, loop: ast.For, asked: ast.Call) -> str | None:
    """Return what a loop over outputs does, in one pass; None where it does more than gather their gradients."""
    over = loop.iter
    counts = isinstance(over, ast.Call) and last_name(over.func) == "range" and len(over.args) == 1
    if not counts or not isinstance(over, ast.Call) or not isinstance(loop.target, ast.Name) or len(asked.args) < 2:
        return None
    i, n = loop.target.id, cell.code(over.args[0])
    output = _output(asked.args[0], i)
    first = cell.parents[asked]
    if output is None or not isinstance(first, ast.Subscript) or ast.unparse(first.slice) != "0":
        return None
    *before, last = loop.body
    named = before[0].targets[0] if len(before) == 1 and isinstance(before[0], ast.Assign) else None
    if len(before) > 1 or (before and (named is None or before[0].value is not first)):  # type: ignore[attr-defined]
        return None
    given = [ast.unparse(named)] if named is not None else [ast.unparse(first)]
    y = ast.unparse(output)
    more = "".join(f", {cell.code(word)}" for word in asked.keywords if word.arg in ("create_graph", "allow_unused"))
    each = f"torch.eye({n}).reshape({n}, *[1] * ({y}.dim() - 1), {n}).expand({n}, *{y}.shape)"
    rows = f"{cell.code(asked.func)}({y}, {cell.code(asked.args[1])}, {each}, is_grads_batched=True{more})[0]"
    return _gathered(last, given, rows, i)


def _output(node: ast.expr, i: str) -> ast.expr | None:
    """Return the `y` of `y[i]`, `y[:, i]` or `y[:, i].sum()`."""
    if isinstance(node, ast.Call) and last_name(node.func) == "sum" and isinstance(node.func, ast.Attribute):
        node = node.func.value
    if not isinstance(node, ast.Subscript):
        return None
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return node.value if ast.unparse(index[-1]) == i and all(":" in ast.unparse(x) for x in index[:-1]) else None


def _gathered(last: ast.stmt, given: list[str], rows: str, i: str) -> str | None:
    """Return the statement that puts all rows where each went."""
    if isinstance(last, ast.Assign) and isinstance(target := last.targets[0], ast.Subscript):
        index = [ast.unparse(x) for x in (target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice])]
        if ast.unparse(last.value) not in given or index.count(i) != 1:
            return None
        at = index.index(i)
        turned = ".transpose(0, 1)" if at and ":" in index[at - 1] else ""
        return f"{ast.unparse(target.value)}[{', '.join([*index[:at], ':', *index[at + 1 :]])}] = {rows}{turned}"
    call = last.value if isinstance(last, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        return None
    return f"{ast.unparse(call.func.value)}.extend({rows})" if [ast.unparse(x) for x in call.args] == given else None
