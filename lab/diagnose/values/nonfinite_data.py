"""Data that are not finite when they come: where they lie, and the line of NumPy's that made them."""

from __future__ import annotations

import ast

import numpy as np

from ...recorder.cell_trace import Leaf, Trace
from ...recorder.tensor_stats import on_host
from ..finding import listed

SPREADS = {"std", "var", "ptp", "norm", "max", "sum", "std_", "nanstd"}
LOGS = {"log", "log2", "log10", "log1p", "sqrt", "power", "arccos", "arcsin"}
LIMIT = 1 << 22  # values that are looked at


def told(trace: Trace, leaf: Leaf) -> tuple[str, str, str, int | None] | None:
    """Which of a tensor's values are not finite, why, a remedy, the line that made them; None if it has gone."""
    t = leaf.tensor()
    a = on_host(t._a) if t is not None else None
    if a is None or a.dtype.kind != "f" or not 0 < a.size <= LIMIT:
        return None
    bad = ~np.isfinite(a)
    count = int(bad.sum())
    if not count:
        return None
    what = "NaN" if np.isnan(a).any() else "infinite"
    words = f"{count:,} of the {a.size:,} values of {leaf.name} {'is' if count == 1 else 'are'} {what}"
    columns: list[int] = []
    if a.ndim == 2 and a.shape[0] > 1:
        columns = [int(k) for k in np.flatnonzero(bad.all(axis=0))]
        if columns and int(bad[:, columns].sum()) == count and len(columns) < a.shape[1]:
            many = len(columns) > 1
            shown = listed([str(k) for k in columns])
            words += f", all of column{'s' if many else ''} {shown} ({leaf.name}[:, {columns[0]}])"
        else:
            columns = []
            rows = [int(k) for k in np.flatnonzero(bad.any(axis=1))]
            if len(rows) <= a.shape[0] // 2:
                words += f", in row{'s' if len(rows) > 1 else ''} {listed([str(k) for k in rows], 4)}"
    cause = _cause(trace, leaf.name)
    if cause is None:
        if columns:
            remedy = "Look at what these columns hold, and leave them out if they are empty or constant."
        else:
            remedy = "Fill in or leave out what is missing: x = torch.nan_to_num(x), or keep rows without NaN."
        return words, "", remedy, None
    kind, line, text = cause
    if kind == "log":
        return words, f"`{text}` has none there", f"Keep its argument {_within(text)}.", line
    add = f"Add a small number to the divisor, ({text} + 1e-8)"
    if columns:
        why = f"it divides by `{text}`, which is 0 for a column whose values are all the same"
        return words, why, f"{add}, or leave constant columns out.", line
    return words, f"it divides by `{text}`, which is 0 there", f"{add}.", line


def _within(text: str) -> str:
    """Where a function has values, and what keeps its argument there."""
    if "arc" in text:
        return "between -1 and 1: np.clip(x, -1, 1)"
    return "above 0: log1p(x), or log(x + 1e-8)" if "log" in text else "at 0 or above: np.maximum(x, 0)"


def _cause(trace: Trace, name: str) -> tuple[str, int, str] | None:
    """The division or logarithm of NumPy's among the assignments that a variable's values go back to."""
    made: dict[str, list[ast.stmt]] = {}
    for node in trace.nodes():
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part, value in _pairs(target, node.value):
                    key = ast.unparse(part)
                    made.setdefault(key, []).append(_stand_in(node, value))
    seen: set[str] = set()
    queue = [name]
    found: list[tuple[str, int, str]] = []
    while queue and len(seen) < 64:
        key = queue.pop(0)
        if key in seen:
            continue
        seen.add(key)
        for node in made.get(key, []):
            value = node.value  # type: ignore[attr-defined]
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
                found.append(("div", node.lineno, _resolved(made, value)))
            for inner in ast.walk(value):
                if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
                    found.append(("div", inner.lineno, _resolved(made, inner.right)))
                elif isinstance(inner, ast.Call) and getattr(inner.func, "attr", "") in LOGS:
                    found.append(("log", inner.lineno, ast.unparse(inner)))
                if isinstance(inner, ast.Name | ast.Attribute):
                    queue.append(ast.unparse(inner))
    divisors = [
        f for f in found if f[0] == "div" and any(f".{word}(" in f[2] or f"{word}_" in f[2] for word in SPREADS)
    ]
    return next(iter(divisors), None) or next((f for f in found if f[0] == "log"), None)


def _pairs(target: ast.expr, value: ast.expr | None) -> list[tuple[ast.expr, ast.expr]]:
    """``X, y = a, b`` as two assignments."""
    if value is None:
        return []
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(part, value) for part in (target.elts if isinstance(target, ast.Tuple) else [target])]


def _stand_in(node: ast.stmt, value: ast.expr) -> ast.stmt:
    """A statement for one of the values of a tuple."""
    if isinstance(node, ast.Assign) and node.value is not value:
        return ast.copy_location(ast.Assign(targets=node.targets, value=value), node)
    return node


def _resolved(made: dict[str, list[ast.stmt]], divisor: ast.expr) -> str:
    """The divisor's text, or of a variable's what it was given."""
    text = ast.unparse(divisor)
    given = made.get(text, [])
    if len(given) == 1 and isinstance(divisor, ast.Name):
        value = ast.unparse(given[0].value)  # type: ignore[attr-defined]
        return value if len(value) < 48 else text
    return text
