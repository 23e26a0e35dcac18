"""Remedies for formulas: a root that is missing, a maximum to subtract, rows to look up, a mean's count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy


def _group(cell: Cell, node: ast.expr) -> str:
    """Return a node's text as it can stand before a dot or behind a sign."""
    code = cell.code(node)
    plain = isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
    return code if plain or (code.startswith("(") and code.endswith(")") and ast.unparse(node) in code) else f"({code})"


@remedy("scale")
def rooted(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """The root of a variance, where it or its square stood for a standard deviation."""
    if "root of the variance" not in finding.remedy:
        return
    statement = cell.statement(finding.line)
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and cell.code(node.right) in ("2", "2.0"):
            yield Patch("Take the root", cell.put((node.right, "0.5")))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield Patch("Take the root", cell.put((node.right, f"({cell.code(node.right)}) ** 0.5")))
        if last_name(getattr(node, "func", node)) in ("pow", "square") and isinstance(node, ast.Call):
            inner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if isinstance(inner, ast.expr):
                yield Patch("Take the root", cell.put((node, f"{_group(cell, inner)}.sqrt()")))


@remedy("nan")
def maximum_subtracted(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """``exp(z - z.max())`` in a softmax by hand."""
    if "Subtract the maximum" not in finding.remedy:
        return
    for call in cell.calls("exp", line=finding.line):
        inner = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        if inner is None or re.search(r"\blog\(1(?:\.0)? \+|\blog1p\(", cell.text):  # no softmax: a sum beside 1
            continue
        for dim in ("-1", "1", "0"):
            less = f"{cell.code(inner)} - {_group(cell, inner)}.max({dim}, keepdim=True).values"
            code = less if call.args else f"({less})"
            yield Patch("Subtract the maximum", cell.put((inner, code)))


@remedy("slow", "cost")
def looked_up(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """``weight[classes]`` for ``one_hot(classes) @ weight``."""
    if "by a product" not in finding.message or "one-hot" not in finding.message:
        return
    hot = {}
    for assign in cell.all(ast.Assign):
        if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Name):
            calls = [n for n in ast.walk(assign.value) if isinstance(n, ast.Call) and last_name(n.func) == "one_hot"]
            if calls and calls[0].args:
                hot[assign.targets[0].id] = cell.code(calls[0].args[0])
    for node in cell.all(ast.BinOp):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.MatMult) or node.lineno != finding.line:
            continue
        classes = hot.get(ast.unparse(node.left)) or _classes(cell, node.left)
        if classes:
            yield Patch("Look the rows up", cell.put((node, f"{_group(cell, node.right)}[{classes}]")))


def _classes(cell: Cell, node: ast.expr) -> str:
    """Return what `one_hot` is given in an expression; "" where there is none."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and last_name(n.func) == "one_hot" and n.args]
    return cell.code(calls[0].args[0]) if calls else ""  # type: ignore[attr-defined]


@remedy("evaluation")
def by_batches(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """A sum of means over the number of batches, a count of samples over that of samples."""
    statement = cell.statement(finding.line)
    for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)] if statement is not None else []:
        if last_name(call.func) != "len" or len(call.args) != 1:
            continue
        given = call.args[0]
        if "Divide by the batches" in finding.remedy and isinstance(given, ast.Attribute) and given.attr == "dataset":
            yield Patch("Divide by the batches", cell.put((call, f"len({cell.code(given.value)})")))
        if "Divide by the samples" in finding.remedy and not isinstance(given, ast.Attribute):
            yield Patch("Divide by the samples", cell.put((call, f"len({cell.code(given)}.dataset)")))


@remedy("nan")
def rooted_with_eps(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """``(x + eps).sqrt()``, where the root is a method."""
    for call in cell.calls("sqrt", "rsqrt", line=finding.line):
        if not call.args and isinstance(call.func, ast.Attribute):
            inner = call.func.value
            yield Patch("Add a small eps in the root", cell.put((inner, f"({cell.code(inner)} + 1e-12)")))
