"""Remedies for graphs and tensors that are kept alive."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy


@remedy("memory")
def the_number(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Keep `.detach()` of what is added or put into a container: no host waits for it, as `.item()` would."""
    if "goes on with what the iteration before" in finding.message:
        return
    statements = cell.statements(finding.line) or [s for s in [cell.statement(finding.line)] if s is not None]
    for statement in statements:
        for kept in _kept(cell, statement):
            code = cell.code(kept)
            simple = isinstance(kept, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
            yield Patch(
                "Keep it without its graph", cell.put((kept, f"{code}.detach()" if simple else f"({code}).detach()"))
            )


def _kept(cell: Cell, statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement keeps: the argument of append(), what is added to a sum, what a name or a key is given."""
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    for call in calls:
        if last_name(call.func) in ("append", "add", "insert", "put") and call.args:
            argument = call.args[-1]
            if isinstance(argument, ast.Tuple | ast.List):
                yield from (e for e in argument.elts if not isinstance(e, ast.Constant))
            yield argument
    if isinstance(statement, ast.AugAssign):
        yield statement.value
    if isinstance(statement, ast.Assign):
        value = statement.value
        if isinstance(value, ast.Dict):
            yield from value.values
        target = ast.unparse(statement.targets[0])
        names = [n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id != target]
        yield from (n for n in names if not isinstance(cell.parents[n], ast.Call | ast.Attribute))
        yield value
    for inner in ast.walk(statement):
        if isinstance(inner, ast.ListComp):
            yield inner.elt


@remedy("memory")
def under_no_grad(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Run an evaluation under no_grad: a `with` around its loop, or a decorator of its function."""
    if "no_grad" not in finding.remedy:
        return
    statement = cell.statement(finding.line)
    names = {n.id for n in cell.all(ast.Name) if isinstance(n, ast.Name)}
    library = next((n for n in ("torch", "core") if n in names), "torch")
    around: ast.AST | None = statement
    target = statement
    while around is not None and around in cell.parents:
        if isinstance(around, ast.For | ast.While):
            target = around
        if isinstance(around, ast.FunctionDef):
            row = around.lineno - 1
            indent = re.match(r"\s*", cell.lines[row])[0]  # type: ignore[index]
            lines = [*cell.lines[:row], f"{indent}@{library}.no_grad()", *cell.lines[row:]]
            yield Patch("Run it under no_grad()", "\n".join(lines))
            return
        around = cell.parents.get(around)
    if target is not None:
        first, last = target.lineno - 1, target.end_lineno or target.lineno
        indent = re.match(r"\s*", cell.lines[first])[0]  # type: ignore[index]
        inner = [f"    {line}" if line.strip() else line for line in cell.lines[first:last]]
        lines = [*cell.lines[:first], f"{indent}with {library}.no_grad():", *inner, *cell.lines[last:]]
        yield Patch("Run it under no_grad()", "\n".join(lines))


@remedy("memory", "error", "slow")
def state_cut(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Cut a state between iterations: `h = h.detach()` where an iteration begins."""
    found = re.search(r"([\w.]+) = \1\.detach\(\)", finding.remedy)
    if not found:
        return
    name = found[1]
    line = re.search(r"line (\d+) makes", finding.message)
    statement = cell.statement(int(line[1]) if line else finding.line)
    retained = [k for k in cell.all(ast.keyword) if isinstance(k, ast.keyword) and k.arg == "retain_graph"]
    for cut in (f"{name} = {name}.detach()", f"{name} = tuple(t.detach() for t in {name})"):
        places = []
        if statement is not None:
            places.append(cell.before(statement, cut))
        for loop in cell.all(ast.For, ast.While):
            if name in cell.code(loop):
                places.append(cell.before(loop.body[0], cut))  # type: ignore[attr-defined]
        for place in places:
            text = cell.splice([place])
            if retained and "retain_graph" in finding.remedy:
                text = re.sub(r"(,\s*)?retain_graph=True", "", text)
            yield Patch(f"Cut {name} between iterations", text)
