"""Variances by sums of squares that are added up in float64, where float32 loses their difference."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..examples import enclosing
from ..remedies import remedy

_ADD = ("index_add_", "index_add", "scatter_add_", "scatter_add")
_COUNTS = ("shape", "size", "numel", "len", "dim", "device", "dtype")


@remedy("dtype")
def in_float64(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """Sums that begin as zeros are of float64, what is added to them becomes so first, what is told float32 again."""
    if "loses all digits of a variance" not in finding.message or "add up in float64" not in finding.remedy:
        return
    line = cell.statement(finding.line)
    home = _home(cell, line) if line is not None else None
    if line is None or home is None:
        return
    sums = _sums(home)
    changes: dict[ast.AST, str] = {}
    for node in ast.walk(home):
        target, value = _added(node)
        if target in sums and value is not None:
            for name in _data(cell, value):
                changes[name] = f"{cell.code(name)}.double()"
        if isinstance(node, ast.Call) and last_name(node.func) == "zeros" and _name_of(cell, node) in sums:
            changes[node] = f"{cell.code(node)[:-1]}, dtype={_library(node)}.float64)"
    own = {f.name: f for f in ast.walk(home) if isinstance(f, ast.FunctionDef)}
    for node in ast.walk(line):
        made = own.get(node.attr) if isinstance(node, ast.Attribute) else None
        last = made.body[-1] if made is not None else None
        if isinstance(last, ast.Return) and last.value is not None and made is not None and made.decorator_list:
            changes[node] = f"({cell.code(last.value)})"  # not rounded between
    for function in own.values():
        if function is enclosing(cell, line) or _reads(function, sums):
            for told in [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]:
                for part in told.elts if isinstance(told, ast.Tuple) else [told]:
                    changes[part] = f"({cell.code(part)}).float()"
    if any(isinstance(node, ast.Call) for node in changes):
        yield Patch("Add up in float64", cell.put(*changes.items()))


def _home(cell: Cell, node: ast.AST) -> ast.AST | None:
    """Return the class or, outside of classes, the function that a statement is in."""
    function: ast.AST | None = enclosing(cell, node)
    up = cell.parents.get(function) if function is not None else None
    return up if isinstance(up, ast.ClassDef) else function


def _sums(home: ast.AST) -> set[str]:
    """Return what is added to: by `+=`, or by index_add_ into zeros; numbers that count are not among them."""
    zeros = {ast.unparse(n.targets[0]) for n in ast.walk(home) if isinstance(n, ast.Assign)
             and any(isinstance(c, ast.Call) and last_name(c.func) == "zeros" for c in ast.walk(n.value))}  # fmt: skip
    return {target for n in ast.walk(home) if (target := _added(n)[0]) in zeros}


def _added(node: ast.AST) -> tuple[str, ast.expr | None]:
    """Return what a statement adds to, and what it adds."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return ast.unparse(node.target), node.value
    call = node.value if isinstance(node, ast.Assign) else None
    if isinstance(node, ast.Assign) and isinstance(call, ast.Call) and call.args and last_name(call.func) in _ADD:
        return ast.unparse(node.targets[0]), call.args[-1]
    return "", None


def _data(cell: Cell, value: ast.expr) -> list[ast.Name]:
    """Return the names in an expression that are tensors of data: not functions, sizes, arguments or `self`."""
    found = []
    for name in [n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id not in ("self", "torch", "core")]:
        up = cell.parents[name]
        called = isinstance(up, ast.Call) and (up.func is name or last_name(up.func) in _COUNTS)
        counted = isinstance(up, ast.Attribute) and up.attr in _COUNTS
        if not called and not counted and not isinstance(up, ast.keyword):
            found.append(name)
    return found


def _name_of(cell: Cell, node: ast.AST) -> str:
    statement = cell.of(node)
    return ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""


def _library(call: ast.Call) -> str:
    return re.sub(r"\.?zeros$", "", ast.unparse(call.func)) or "torch"


def _reads(function: ast.FunctionDef, sums: set[str]) -> bool:
    parts = [ast.unparse(n) for n in ast.walk(function) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
    return bool(sums & set(parts))
