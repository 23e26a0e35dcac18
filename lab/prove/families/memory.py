"""Remedies for graphs and tensors that are kept alive."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy

_CUT = re.compile(r"([\w.]+) = \1\.detach\(\)")  # a state that is cut between iterations


@remedy("memory")
def the_number(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Keep `.detach()` of what is added or put into a container: no host waits for it, as `.item()` would."""
    if "goes on with what the iteration before" in finding.message or _CUT.search(finding.remedy):
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
    found = _CUT.search(finding.remedy)
    if not found:
        return
    name = found[1]
    line = re.search(r"line (\d+) makes", finding.message)
    statement = cell.statement(int(line[1]) if line else finding.line)
    retained = [k for k in cell.all(ast.keyword) if isinstance(k, ast.keyword) and k.arg == "retain_graph"]
    yield from _attribute_cut(cell, statement, name)
    cuts = [f"{name} = {name}.detach()", f"{name} = tuple(t.detach() for t in {name})"]
    begins = [a.value for a in cell.all(ast.Assign) if ast.unparse(a.targets[0]) == name]
    if any(isinstance(value, ast.Constant) and value.value is None for value in begins):
        cuts = [f"if {name} is not None: {cut}" for cut in cuts]
    statements = [] if statement is None else [statement]
    loops = [n.body[0] for n in cell.all(ast.stmt) if isinstance(n, ast.For | ast.While) and name in cell.code(n)]
    for where in (*statements, *loops):
        for cut in reversed(cuts) if _is_tuple(cell, name) else cuts:
            text = cell.splice([cell.before(where, cut)])
            if retained and "retain_graph" in finding.remedy:
                text = re.sub(r"(,\s*)?retain_graph=True", "", text)
            yield Patch(f"Cut {name} between iterations", text)


def _attribute_cut(cell: Cell, statement: ast.stmt | None, name: str) -> Iterator[Patch]:
    """Cut a state that an object keeps, where the remedy's name is only an example's."""
    if not isinstance(statement, ast.Assign) or any(n.id == name for n in cell.all(ast.Name)):
        return
    target = cell.code(statement.targets[0])
    if isinstance(statement.targets[0], ast.Attribute) and target in cell.code(statement.value):
        said = f"Cut {target} between iterations"
        yield Patch(said, cell.splice([cell.before(statement, f"{target} = {target}.detach()")]))
        yield Patch(said, cell.put((statement.value, f"({cell.code(statement.value)}).detach()")))


def _is_tuple(cell: Cell, name: str) -> bool:
    """Whether a text shows that a name is of several tensors: it is made so, taken apart, or comes of an LSTM."""
    for assign in cell.all(ast.Assign):
        target, value = assign.targets[0], assign.value
        if ast.unparse(target) == name and isinstance(value, ast.Tuple | ast.List):
            return True
        if isinstance(target, ast.Tuple) and ast.unparse(value) == name:
            return True
    goes = [n.iter for n in cell.all(ast.For)] + [g.iter for n in cell.all(ast.GeneratorExp) for g in n.generators]
    if any(ast.unparse(part) == name for part in goes):
        return True
    return bool(cell.calls("LSTM")) and not cell.calls("GRU", "RNN", "GRUCell", "RNNCell")
