"""Loops over the elements of a tensor that compare neighbours: the slices that do it at once."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Trace
from ..finding import last_line, listed


def recipe(trace: Trace, line: int | None) -> tuple[str, str] | None:
    """Of a line in loops over indices that reads x[i + 1] and x[i]: the loops in words, and the slices."""
    if line is None:
        return None
    loops = [n for n in trace.nodes() if isinstance(n, ast.For) and n.lineno < line <= last_line(n)]
    loops = [n for n in loops if isinstance(n.iter, ast.Call) and getattr(n.iter.func, "id", "") == "range"]
    variables = [n.target.id for n in loops if isinstance(n.target, ast.Name)]
    offsets: dict[str, dict[tuple[int, ...], None]] = {}
    for node in trace.nodes():
        if not isinstance(node, ast.Subscript) or node.lineno != line:
            continue
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        read = [_offset(part, variables) for part in parts]
        if all(k is not None for k in read):
            offsets.setdefault(ast.unparse(node.value), {})[tuple(k for k in read if k is not None)] = None
    for name, found in offsets.items():
        ends = list(found)
        pairs = [(a, b) for a in ends for b in ends if a != b and len(a) == len(b) and _one_apart(a, b)]
        if pairs:
            shown = list(dict.fromkeys(f"{name}[{_slices(a, b)}] - {name}[{_slices(b, a)}]" for a, b in pairs if a > b))
            where = f"in the {'loop' if len(loops) == 1 else 'loops'} of line{'s' if len(loops) > 1 else ''} "
            numbers = listed([str(n.lineno) for n in sorted(loops, key=lambda n: n.lineno)])
            return where + numbers, " and ".join(shown[:3])
    return None


def _offset(node: ast.expr, variables: list[str]) -> int | None:
    """0 for ``i``, 1 for ``i + 1``; None for anything that is no loop's index."""
    if isinstance(node, ast.Name) and node.id in variables:
        return 0
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return None
    of, by = node.left, getattr(node.right, "value", None)
    if isinstance(of, ast.Name) and of.id in variables and isinstance(by, int):
        return by if isinstance(node.op, ast.Add) else -by
    return None


def _one_apart(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) == sum(x != y for x, y in zip(a, b, strict=True)) == 1


def _slices(mine: tuple[int, ...], other: tuple[int, ...]) -> str:
    return ", ".join("1:" if m > o else ":-1" if m < o else ":" for m, o in zip(mine, other, strict=True))
