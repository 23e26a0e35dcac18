"""Remedies for what an earlier cell has made: an optimizer of an older model, a loader that takes rows one by one."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..elsewhere import cells_from
from ..remedies import remedy
from .steps import OPTIMIZERS


@remedy("optimizer")
def made_anew(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """The optimizer that an earlier cell made is made again, of the model as it is now."""
    models = re.search(r"those that were trained: ([A-Za-z_]\w*)", finding.message)
    whole = _outermost(cell, finding.line)
    if models is None or whole is None or "Make the optimizer after the model" not in finding.remedy:
        return
    model, used = models[1], {n.id for n in cell.all(ast.Name)}
    own = {ast.unparse(a.targets[0]) for a in cell.all(ast.Assign)}
    changed = [s for s in cell.tree.body if s.lineno < whole.lineno and _binds(s, model)]
    for name, call in _optimizers_before():
        if name in used and name not in own:
            rest = "".join(f", {ast.unparse(part)}" for part in (*call.args[1:], *call.keywords))
            line = f"{name} = {ast.unparse(call.func)}({model}.parameters(){rest})"
            put = cell.after(changed[-1], line) if changed else cell.before(whole, line)
            yield Patch("Make the optimizer after the model", cell.splice([put]))


def _optimizers_before() -> Iterator[tuple[str, ast.Call]]:
    """Go through the optimizers that earlier cells made, the last first, each name once."""
    seen = set()
    for _, text in reversed(cells_from("")):
        try:
            earlier = Cell(text)
        except (SyntaxError, ValueError):
            continue
        for assign in reversed(earlier.all(ast.Assign)):
            name, call = ast.unparse(assign.targets[0]), assign.value
            if isinstance(call, ast.Call) and last_name(call.func) in OPTIMIZERS and name not in seen:
                seen.add(name)
                yield name, call


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement gives a name, or an attribute of it, another value."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(re.split(r"[.\[]", ast.unparse(target))[0] == name for target in targets)


def _outermost(cell: Cell, line: int | None) -> ast.stmt | None:
    """Return the statement of the outermost level, or of a function's own, that a line is in."""
    statement = cell.statement(line)
    while statement is not None:
        up = cell.parents[statement]
        if isinstance(up, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) or not isinstance(up, ast.stmt):
            break
        statement = up
    return statement


@remedy("slow", "data-loader")
def whole_batches(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A loader of tensors in memory indexes them by the numbers of a whole batch, in the same order.

    Whether a set takes several numbers at once, and faster than one by one, a trial tells.
    """
    statement = cell.statement(finding.line)
    whole = _outermost(cell, finding.line)
    waits = finding.kind == "data-loader" or "data that are in memory" in finding.message
    if not waits or not isinstance(statement, ast.For) or whole is None:
        return
    names = [n for n in ast.walk(statement.iter) if isinstance(n, ast.Name | ast.Attribute)
             and not isinstance(cell.parents[n], ast.Attribute)]  # fmt: skip
    for loader in dict.fromkeys(map(ast.unparse, names)):
        if hasattr(builtins, loader) or loader.rpartition(".")[2] in ("tqdm", "islice", "cycle"):
            continue
        made = [a for a in cell.all(ast.Assign) if ast.unparse(a.targets[0]) == loader and a.lineno < statement.lineno]
        for function in ("DataLoader", "torch.utils.data.DataLoader"):
            code = f"{loader} = {function}({loader}.dataset, batch_size=None, sampler={loader}.batch_sampler)"
            put = cell.after(made[-1], code) if made else cell.before(whole, code)
            yield Patch("Index by whole batches", cell.splice([put]), guess=True)
