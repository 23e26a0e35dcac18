"""Loops of which a turn needs what the turn before has computed, so that none can run beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..reading.sources import called, names_in
from .time_shares import Loop

ACTING = {"step", "act", "send", "forward_step"}  # methods that change what they are called on: a simulator, a game
TURNS_ALONE = (
    "Each turn needs the one before: do what does not need it before the loop, for all turns at once, and take "
    "several sequences in one batch."
)


def sequential(loop: Loop) -> bool:
    """Return whether each turn of a loop needs what the turn before computed, sums aside.

    >>> sequential(ast.parse("for t in range(9):\\n    h = f(x[t], h)").body[0])
    True
    >>> sequential(ast.parse("for t in range(9):\\n    total = total + f(x[t])").body[0])
    False
    >>> sequential(ast.parse("for t in range(9):\\n    a = f(A)\\n    A[a] += x[t]").body[0])
    True
    """
    if not isinstance(loop, ast.For | ast.AsyncFor | ast.While):
        return False
    bound: set[str] = set()
    before: set[str] = set()  # what a turn reads before it gives it a value
    changed: set[str] = set()
    for node in _statements(loop.body):
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        before |= {name for part in parts for name in names_in(part)} - bound
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            changed |= {name for name in names_in(node.target.value) if _read_beside(loop, node, name)}
        for target in node.targets if isinstance(node, ast.Assign) else ():
            names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            changed |= {name for name in names if not _adds(node, name)}  # type: ignore[arg-type]
            bound |= names
    return bool(before & changed)


def _read_beside(loop: ast.stmt, node: ast.AugAssign, name: str) -> bool:
    """Whether another statement of a loop reads what one adds to some elements of."""
    own = set(ast.walk(node))
    return any(isinstance(n, ast.Name) and n.id == name and n not in own for n in ast.walk(loop))


def carried_in_place(loop: Loop) -> str:
    """Return the variable of which a loop reads elements and writes others, as a recurrence does; "" for none.

    >>> carried_in_place(ast.parse("for i in range(1, 9):\\n    d[i] = d[i - 1] + c[i]").body[0])
    'd'
    >>> carried_in_place(ast.parse("for i in range(9):\\n    out[i] = c[i] * 2").body[0])
    ''
    """
    parts = [n for n in ast.walk(loop) if isinstance(n, ast.Subscript)]
    nodes = [n for n in parts if isinstance(n.value, ast.Name | ast.Attribute)]
    written = {ast.unparse(n.value): ast.unparse(n.slice) for n in nodes if isinstance(n.ctx, ast.Store)}
    for node in nodes:
        name = ast.unparse(node.value)
        if isinstance(node.ctx, ast.Load) and written.get(name, ast.unparse(node.slice)) != ast.unparse(node.slice):
            return name
    return ""


def acts(loop: Loop) -> bool:
    """Return whether a loop tells something to go on by a step, as a simulator is told."""
    return any(called(node) in ACTING for node in ast.walk(loop))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements in their order, those inside others after them."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []))


def _adds(node: ast.Assign, name: str) -> bool:
    """Return whether a statement only adds to a name: ``total = total + x``, ``sums = sums.index_add(0, ends, x)``."""
    value = node.value
    if called(value) in ("index_add", "scatter_add") and isinstance(value.func, ast.Attribute):  # type: ignore[attr-defined]
        return ast.unparse(value.func.value) == name and ast.unparse(value).count(name) == 1  # type: ignore[attr-defined]
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add)
        and name in (ast.unparse(value.left), ast.unparse(value.right))
        and ast.unparse(value).count(name) == 1
    )
