"""What the user calls a number that a line computes: read from the line itself, as `loss` in ``loss.backward()``."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from typing import NamedTuple

from core.base import syntax
from core.base.source import Location

LONGEST = 24
_KEEPS = (ast.Name, ast.Attribute, ast.Subscript)
_CARRIERS = {"accelerator", "autograd", "fabric", "engine", "strategy", "self"}
"""Objects whose backward() takes the loss as its argument."""


class Name(NamedTuple):
    """A name, and whether the line adds the number to a sum."""

    text: str
    summed: bool = False


@lru_cache(16)
def parsed(text: str) -> ast.Module | None:
    """Return the tree of a source; None of one that is none."""
    try:
        return syntax.parse(text)
    except (SyntaxError, ValueError):
        return None


def loss_in(text: str) -> str:
    """Return the name of a loss from the expression that calls backward().

    >>> [loss_in(t) for t in ("loss.backward()", "(a + b).backward()", "scaler.scale(loss).backward()", "fit(x)")]
    ['loss', 'a + b', 'scaled loss', 'loss']
    >>> loss_in("accelerator.backward(loss_d)"), loss_in("torch.autograd.backward(total, g)")
    ('loss_d', 'total')
    """
    call = _expression(text)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return "loss"
    of = call.func.value
    carrier = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
    if call.args and carrier in _CARRIERS:
        of = call.args[0]
    if isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr == "scale" and of.args:
        return f"scaled {_short(of.args[0], 'loss')}"
    return _short(of, "loss")


def of_number(place: Location, function: str) -> Name:
    """Return the name of a number that leaves the graph at a place, in a function."""
    tree = parsed("".join(linecache.getlines(place.file)))
    statement: ast.stmt | None = None
    for node in ast.walk(tree) if tree is not None else ():
        around = isinstance(node, ast.stmt) and node.lineno <= place.line <= (node.end_lineno or node.lineno)
        if around and (statement is None or node.lineno >= statement.lineno):  # type: ignore[attr-defined]
            statement = node  # type: ignore[assignment]
    return number_in(place.code, statement, function)


def number_in(text: str, statement: ast.stmt | None, function: str = "") -> Name:
    """Return the name of a number from the expression that made it, and the statement around that.

    >>> lines = ["acc = (p == y).float().mean().item()", "right += (p == y).sum().item()", "seen.append(f(x).item())"]
    >>> [number_in(t.split("= ")[-1], ast.parse(t).body[0]) for t in lines]
    [Name(text='acc', summed=False), Name(text='right', summed=True), Name(text='seen', summed=False)]
    >>> number_in("float(loss)", None).text, number_in("self.loss.item()", None).text
    ('loss', 'self.loss')
    """
    of = _expression(text)
    if isinstance(of, ast.Call):
        if isinstance(of.func, ast.Attribute) and of.func.attr in ("item", "__float__", "__format__"):
            of = of.func.value
        elif isinstance(of.func, ast.Name) and of.func.id in ("float", "round", "int") and of.args:
            of = of.args[0]
            if isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr == "item":
                of = of.func.value
    while isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr in ("detach", "cpu"):
        of = of.func.value
    summed = isinstance(statement, ast.AugAssign)
    if isinstance(of, _KEEPS) and len(said := ast.unparse(of)) <= LONGEST:
        return Name(said, summed)
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        target = statement.target
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "add", "update"):
            target = call.func.value
    elif isinstance(statement, ast.Return) and function.isidentifier():
        return Name(function, False)
    if isinstance(target, _KEEPS) and len(said := ast.unparse(target)) <= LONGEST:
        return Name(said, summed)
    return Name(_cut(text), summed)


def _expression(text: str) -> ast.expr | None:
    try:
        return syntax.expression(text.strip())
    except (SyntaxError, ValueError):
        return None


def _short(node: ast.expr, other: str) -> str:
    said = ast.unparse(node)
    return said if len(said) <= LONGEST else other


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
