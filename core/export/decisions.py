"""What a program cannot follow: values that Python reads, with a remedy each, random numbers, and whether a number that
a line asks for decides which way the code goes, as far as its source tells."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from typing import Any

from ..base import syntax

READS = {
    "bool": ("decides by a tensor's value (if, while, and, or, not)", "core.where(condition, a, b), or core.script"),
    "item": ("reads a tensor's value (item, float, int)", "stay with tensors: the value is another in each run"),
    "index": ("uses a tensor's value as an index", "core.index_select(x, dim, index), x[index[None]]"),
    "tolist": ("reads a tensor's values (tolist)", "stay with tensors: the values are others in each run"),
    "numpy": ("leaves for NumPy", "the op of the same name, or a core.autograd.Function written in ops"),
    "sent": ("goes to other processes (core.distributed)", "export what one process computes between collectives"),
    "equal": ("decides by tensors' values (equal, allclose)", "core.where((a == b).all(), x, y)"),
    "nonzero": (
        "has a result whose size depends on values (nonzero, x[mask])",
        "all elements, with core.where(mask, "
        "new, x) in place of those that the mask chooses; x[mask] = number is one op",
    ),
}

"""What a read is said to be, and what to do instead."""

RANDOM = ("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_")
"""Methods that fill a tensor with random numbers."""

_DECIDING = (ast.Compare, ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Assert)


@lru_cache(maxsize=32)
def _parsed(text: str) -> tuple[ast.Module, dict[ast.AST, ast.AST]] | None:
    """Return a source as a tree, and of each node the one around it."""
    try:
        tree = syntax.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return tree, {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def decides(place: Any) -> bool:
    """Return whether the call at a place stands in a comparison or a condition, or in an assignment to a name that
    does. False where there is no source to read."""
    if place is None:
        return False
    code, lasti = place
    line, _, column, _ = list(code.co_positions())[lasti // 2]
    found = _parsed("".join(linecache.getlines(code.co_filename)))
    if found is None or line is None:
        return False
    tree, around = found
    here = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and (n.lineno, n.col_offset) == (line, column)]
    return any(_decides(node, around) for node in here)


def _decides(node: ast.AST, around: dict[ast.AST, ast.AST]) -> bool:
    inside = node
    while not isinstance(node, ast.stmt):
        inside, node = node, around[node]
        if isinstance(node, _DECIDING) and inside is not getattr(node, "body", None):
            return True
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    scope: ast.AST = node
    while scope in around and not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        scope = around[scope]
    tests = [n for n in ast.walk(scope) if isinstance(n, ast.Compare)]
    tests += [n.test for n in ast.walk(scope) if isinstance(n, ast.If | ast.While | ast.IfExp | ast.Assert)]  # type: ignore[misc]
    return any(isinstance(n, ast.Name) and n.id in names for test in tests for n in ast.walk(test))
