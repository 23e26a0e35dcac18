"""Remedies for what an earlier cell has made: an optimizer of an older model, a loader that takes rows one by one."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import replace

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..elsewhere import cells_from, sources
from ..remedies import remedy
from .arguments import GIVEN, WITHOUT, with_argument
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


@remedy()
def argument_of_what_made_it(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`drop_last=True` goes to the call of an earlier cell that made the loader which the line, or its loop, reads."""
    asked = [(key, value) for key, value in GIVEN.findall(finding.remedy) if key in WITHOUT]
    statement = cell.statement(finding.line)
    if not asked or statement is None:
        return
    around: list[ast.AST] = [statement]
    while (loop := cell.loop(around[-1])) is not None:
        around.append(loop)
    heads = [n.iter if isinstance(n, ast.For) else n for n in around if not isinstance(n, ast.While)]
    names = {n.id for head in heads for n in ast.walk(head) if isinstance(n, ast.Name)}
    names -= {ast.unparse(a.targets[0]) for a in cell.all(ast.Assign)}
    for place in sources(cell.text):
        try:
            earlier = Cell(place.text)
        except (SyntaxError, ValueError):
            continue
        for assign in earlier.all(ast.Assign):
            call = assign.value
            if not isinstance(call, ast.Call) or ast.unparse(assign.targets[0]) not in names:
                continue
            for key, value in dict.fromkeys(asked):
                if last_name(call.func) in WITHOUT[key]:
                    for patch in with_argument(earlier, call, key, value):
                        yield replace(patch, file=place.file, name=place.name, was=place.text)


@remedy("slow", "cost", "overhead")
def factorised(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A matrix that a loop solves with again and again, and does not change, is factorised before it."""
    for call in cell.calls("solve", line=finding.line):
        loop = cell.loop(call)
        made = (
            {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            if loop
            else set()
        )
        if loop is None or len(call.args) != 2 or not isinstance(call.args[0], ast.Name) or call.args[0].id in made:
            continue
        linalg = cell.code(call.func).removesuffix(".solve")
        matrix, given = map(cell.code, call.args)
        code = f"{linalg}.lu_solve(*factors, ({given}).reshape(len({given}), -1)).reshape(({given}).shape)"
        put = cell.before(loop, f"factors = {linalg}.lu_factor({matrix})")
        yield Patch("Factorise it before the loop", cell.splice([put, (*cell.span(call), code)]), guess=True)


@remedy("dtype")
def in_float32(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Data that one cell has made float64, and the model that another has made so for them, become float32 here."""
    if not re.search(r"Convert the data|Make float32 tensors", finding.remedy):
        return
    models, data = [], []
    for place in sources(cell.text):
        try:
            earlier = Cell(place.text)
        except (SyntaxError, ValueError):
            continue
        for assign in (a for a in earlier.all(ast.Assign) if isinstance(a.targets[0], ast.Name)):
            made = [last_name(n.func) for n in ast.walk(assign.value) if isinstance(n, ast.Call)]
            if made[:1] == ["double"]:
                models.append(ast.unparse(assign.targets[0]))
            elif {"from_numpy", "as_tensor", "tensor"} & set(made):
                data.append(ast.unparse(assign.targets[0]))
    used = {n.id for n in cell.all(ast.Name)}
    runs = [
        s for s in cell.tree.body if not isinstance(s, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)
    ]
    lines = [f"{name}.float()" for name in dict.fromkeys(models) if name in used]
    lines += [f"{name} = {name}.float() if {name}.is_floating_point() else {name}"
              for name in dict.fromkeys(data) if name in used]  # fmt: skip
    if lines and runs:
        yield Patch("Make them float32 first", cell.splice([cell.before(runs[0], *lines)]), guess=True)


@remedy("slow")
def frozen_once(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What a frozen model gives for `x[index]` in each epoch becomes rows of what it gives for `x`, computed before."""
    statement = cell.statement(finding.line)
    if "before the epochs" not in finding.remedy or not isinstance(statement, ast.Assign):
        return
    loops = [n for n in (cell.loop(statement),) if n is not None]
    while loops and (up := cell.loop(loops[-1])) is not None:
        loops.append(up)
    made = {name for loop in loops for name in _stored(loop)}
    rows = [n for n in ast.walk(statement.value) if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Name)]
    indices = {cell.code(n.slice) for n in rows}
    read = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
    if len(indices) == 1 and indices <= made and not (read - indices) & made:
        inner = Cell(cell.code(statement.value))
        parts = [n for n in inner.all(ast.Subscript) if inner.code(n.slice) in indices]
        whole = inner.put(*((n, inner.code(n.value)) for n in parts))
        first = cell.before(loops[-1], "with torch.no_grad():", f"    rows = {whole}")
        yield Patch(
            "Run it once over the data", cell.splice([first, (*cell.span(statement.value), f"rows[{indices.pop()}]")])
        )


def _stored(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
