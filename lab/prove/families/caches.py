"""Remedies that keep what a loop computes anew in each turn: a state that a model returns, a matrix's factors, rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..examples import enclosing, lines_of, with_imports
from ..remedies import remedy
from ..rewriting import in_its_place
from .loops import SLOW


@remedy("slow")
def state_given_back(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A model that returns its state is given it in the next turn, with what is new alone.

    ``out, _ = model(x)`` and ``x = torch.cat([x, new], 1)`` in one loop.
    """
    if not re.search(r"Keep the (?:hidden state|keys and values)", finding.remedy):
        return
    for grown in cell.all(ast.Assign):
        loop, join = cell.loop(grown), grown.value
        if loop is None or not isinstance(join, ast.Call) or last_name(join.func) not in ("cat", "concat"):
            continue
        parts = join.args[0].elts if join.args and isinstance(join.args[0], ast.List | ast.Tuple) else []
        name = ast.unparse(grown.targets[0])
        if len(parts) != 2 or ast.unparse(parts[0]) != name:
            continue
        for call in [n for n in ast.walk(loop) if isinstance(n, ast.Call)]:
            made = cell.parents[call]
            targets = made.targets[0] if isinstance(made, ast.Assign) else None
            if not isinstance(targets, ast.Tuple) or len(targets.elts) != 2 or [*map(ast.unparse, call.args)] != [name]:
                continue
            if call.keywords or not isinstance(targets.elts[1], ast.Name):
                continue
            state = targets.elts[1].id if targets.elts[1].id != "_" else "state"
            pieces = [
                cell.before(loop, f"{state}, new = None, {name}"),
                (*cell.span(targets.elts[1]), state),
                (*cell.span(call.args[0]), f"new, {state}"),
                cell.before(grown, f"new = {cell.code(parts[1])}"),
                (*cell.span(parts[1]), "new"),
            ]
            yield Patch("Give it its state, and what is new alone", cell.splice(pieces))


@remedy(*SLOW)
def factors_kept(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A matrix that an object keeps and does not change is factorised when it is first solved with."""
    calls = [c for line in lines_of(finding) for c in cell.calls("solve", line=line) if len(c.args) == 2]
    for matrix in dict.fromkeys(ast.unparse(call.args[0]) for call in calls):
        function = enclosing(cell, calls[0])
        home = cell.parents.get(function) if function is not None else None
        if not re.fullmatch(r"self\.\w+", matrix) or function is None or not isinstance(home, ast.ClassDef):
            continue
        writers = [f for f in home.body if isinstance(f, ast.FunctionDef) and _writes(f, matrix)]
        if [f.name for f in writers] != ["__init__"]:
            continue
        solves = [c for c in ast.walk(function) if isinstance(c, ast.Call) and last_name(c.func) == "solve"
                  and len(c.args) == 2 and ast.unparse(c.args[0]) == matrix]  # fmt: skip
        for said, kept, form, use in _KEPT_OF_A_MATRIX if solves else ():
            pieces = []
            for call in solves:
                linalg, given = cell.code(call.func).removesuffix(".solve"), cell.code(call.args[1])
                rows = given if isinstance(call.args[1], ast.Name | ast.Attribute | ast.Call) else f"({given})"
                code = use.format(linalg=linalg, name=f"{matrix}_{kept}", rows=rows)
                pieces.append((*cell.span(call), in_its_place(cell, call, code)))
            made = form.format(linalg=linalg, matrix=matrix)
            lines = f'if not hasattr(self, "{matrix[5:]}_{kept}"):', f"    {matrix}_{kept} = {made}"
            yield Patch(said, cell.splice([cell.before(function.body[0], *lines), *pieces]), guess=True)


_KEPT_OF_A_MATRIX = (
    ("Factorise it once", "factors", "{linalg}.lu_factor({matrix})",
     "{linalg}.lu_solve(*{name}, {rows}.reshape(len({rows}), -1)).reshape({rows}.shape)"),
    ("Invert it once", "inverse", "{linalg}.inv({matrix})", "{name} @ {rows}"),
)  # fmt: skip


def _writes(function: ast.FunctionDef, name: str) -> bool:
    stores = [n for n in ast.walk(function) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    return any(ast.unparse(n) == name for n in stores)


@remedy("slow", "cost")
def sparse(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A function makes the full matrix of zeros that it is given sparse, and multiplies by that."""
    if "Keep it sparse" not in finding.remedy:
        return
    for line in lines_of(finding)[:1]:
        function = enclosing(cell, cell.statement(line)) if cell.statement(line) is not None else None  # type: ignore[arg-type]
        given = {a.arg for a in function.args.args} if function is not None else set()
        for name in sorted(given - {"self"}):
            products = [n for n in ast.walk(function) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult)
                        and ast.unparse(n.left) == name] if function is not None else []  # fmt: skip
            if products and function is not None:
                pieces = [(*cell.span(n), f"torch.sparse.mm({name}, {cell.code(n.right)})") for n in products]
                put = cell.before(function.body[0], f"{name} = {name}.to_sparse()")
                yield Patch("Make it sparse", cell.splice([put, *pieces]), guess=True)


@remedy("slow")
def listed(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A deque of which samples are drawn becomes a list that drops its oldest."""
    if "Keep them in a list" not in finding.remedy:
        return
    for made in cell.all(ast.Assign):
        call, name = made.value, ast.unparse(made.targets[0])
        words = call.keywords if isinstance(call, ast.Call) and last_name(call.func) == "deque" else []
        most = next((cell.code(w.value) for w in words if w.arg == "maxlen"), "")
        adds = [c for c in cell.calls("append") if ast.unparse(c.func) == f"{name}.append"]
        if most and adds and isinstance(call, ast.Call) and not call.args:
            pieces = [cell.after(made, f"{name}_most = {most}"), (*cell.span(call), "[]")]
            pieces += [cell.after(cell.of(c), f"del {name}[: -{name}_most]") for c in adds]
            yield Patch("Keep a list", cell.splice(pieces), guess=True)


_READS = re.compile(r"np\.(?:load|loadtxt|genfromtxt)|torch\.load|pd\.read_\w+")


@remedy("slow", "data-loader", "overhead")
def read_once(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A file that a data set reads whole for each sample is read once, and kept by its name."""
    for line in lines_of(finding)[:2]:
        statement = cell.statement(line)
        function = enclosing(cell, statement) if statement is not None else None
        home = cell.parents.get(function) if function is not None else None
        if function is None or function.name == "__init__" or not isinstance(home, ast.ClassDef):
            continue
        for call in [n for n in ast.walk(function) if isinstance(n, ast.Call) and len(n.args) == 1]:
            if _READS.fullmatch(ast.unparse(call.func)) and not call.keywords:
                lines = ["@functools.lru_cache(maxsize=None)", "def kept(path):",
                         f"    found = {cell.code(call.func)}(path)",
                         '    return dict(found) if hasattr(found, "files") else found', "", ""]  # fmt: skip
                pieces = [cell.before(home, *lines), (*cell.span(call), f"kept({cell.code(call.args[0])})")]
                yield Patch("Read it once", with_imports("functools.", cell, *pieces), guess=True)
