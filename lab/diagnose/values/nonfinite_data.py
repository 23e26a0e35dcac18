"""Data that are not finite when they come: where they lie, and the line that made them before the recording."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...recorder.cell_trace import Leaf, Row, Trace
from ...recorder.tensor_stats import on_host
from ..finding import code_of, listed
from ..reading.pure import data
from ..reading.safe_forms import VARIANCE, variance
from ..reading.sources import Function, Place, Source, called, names_in, sources
from .origins import Cause, explained, is_finite, origin, range_of

SPREADS = {"std", "var", "ptp", "norm", "max", "sum", "std_", "nanstd"}
LOGS = {"log", "log2", "log10", "log1p", "sqrt", "power", "arccos", "arcsin"}
LIMIT = 1 << 22  # values that are looked at


def told(trace: Trace, leaf: Leaf, text: str) -> tuple[str, str, str, Place | None] | None:
    """Which of a tensor's values are not finite, why, a remedy, the place that made them; None if nobody can tell.

    text : what reads it, of a tensor that has no name.
    """
    t = leaf.alive()
    a = on_host(t._a) if t is not None else None
    if a is None or a.dtype.kind != "f" or not 0 < a.size <= LIMIT or np.isfinite(a).all():
        a = None
    words, columns = ("some of their values are not finite", []) if a is None else _where(leaf.name, a)
    known = origin(trace, leaf.name)
    if known.cause is not None:
        why, remedy = explained(known.cause)
        return words, why, remedy, known.cause.source.place(known.cause.node)
    read = re.findall(r"[A-Za-z_]\w*", text if leaf.name.startswith("unnamed ") else leaf.name)
    names = [known.start] if known.start else [leaf.name, *read]
    cause = None if known.followed else _cause(trace, names, _axis(columns, words))
    if cause is None:
        if a is None:
            return None
        if columns:
            remedy = "Look at what these columns hold, and leave them out if they are empty or constant."
        else:
            remedy = "Fill in or leave out what is missing: x = torch.nan_to_num(x), or keep rows without NaN."
        return words, "", remedy, None
    place = cause.source.place(cause.node)
    if cause.kind == "log" and variance(cause.text):
        return words, f"`{cause.text}` is the root of what rounding has left of a variance", VARIANCE, place
    if cause.kind == "log":
        return words, f"`{cause.text}` has no value there", f"Keep its argument {_within(cause.text)}.", place
    add = f"Add a small number to the divisor, ({cause.text} + 1e-8)"
    if columns:
        why = f"it divides by `{cause.text}`, which is 0 for a column whose values are all the same"
        return words, why, f"{add}, or leave constant columns out.", place
    return words, f"it divides by `{cause.text}`, which is 0 there", f"{add}.", place


def weights(trace: Trace, row: Row) -> tuple[str, Cause] | None:
    """The weights of classes that were not finite when a loss was made of them: their variable, and what made them."""
    own = sources(trace)[:1]
    made = own[0].given.get(code_of(trace, row).partition("(")[0], []) if own and not own[0].name else []
    calls = [call for call in made if isinstance(call, ast.Call)]
    given = [k.value for call in calls for k in call.keywords if k.arg in ("weight", "pos_weight")]
    for name in sorted({name for value in given for name in names_in(value)}):
        held = trace.space.get(name)
        if data(held) and not is_finite(held) and (cause := origin(trace, name).cause) is not None:
            return name, cause
    return None


def _where(name: str, a: np.ndarray) -> tuple[str, list[int]]:
    """In words: how many values are not finite, and in which rows or columns they lie; the columns."""
    bad = ~np.isfinite(a)
    count = int(bad.sum())
    what = "NaN" if np.isnan(a).any() else "infinite"
    words = f"{count:,} of the {a.size:,} values of {name} {'is' if count == 1 else 'are'} {what}"
    if a.ndim != 2 or a.shape[0] < 2:
        return words, []
    columns = [int(k) for k in np.flatnonzero(bad.all(axis=0))]
    if columns and int(bad[:, columns].sum()) == count and len(columns) < a.shape[1]:
        many = len(columns) > 1
        shown = listed([str(k) for k in columns])
        return words + f", all of column{'s' if many else ''} {shown} ({name}[:, {columns[0]}])", columns
    rows = [int(k) for k in np.flatnonzero(bad.any(axis=1))]
    if len(rows) <= a.shape[0] // 2:
        words += f", in row{'s' if len(rows) > 1 else ''} {listed([str(k) for k in rows], 4)}"
    return words, []


def _axis(columns: list[int], words: str) -> re.Pattern[str] | None:
    """How a divisor is spelt that is 0 for whole columns, or for whole rows."""
    if columns:
        return re.compile(r"\((\w+, )?((axis|dim)=)?0\b")
    return re.compile(r"\((\w+, )?((axis|dim)=)?(1|-1)\b") if ", in row" in words else None


def _within(text: str) -> str:
    """Where a function has values, and what keeps its argument there."""
    if "arc" in text:
        return "between -1 and 1: np.clip(x, -1, 1)"
    return "above 0: log1p(x), or log(x + 1e-8)" if "log" in text else "at 0 or above: np.maximum(x, 0)"


class Suspect(NamedTuple):
    """A division or a logarithm that may have made them."""

    kind: str
    node: ast.AST
    source: Source
    text: str


Made = dict[str, list[tuple[ast.stmt, Source]]]


def _cause(trace: Trace, names: list[str], axis: re.Pattern[str] | None = None) -> Suspect | None:
    """The division or logarithm among the assignments that a variable's values go back to, by the text alone: of this
    cell, of those before, and in the functions and classes that they call."""
    made: Made = {}
    bodies: dict[str, list[tuple[ast.AST, Source]]] = {}
    for source in (source for source in sources(trace) if source.session is None):  # the program has earlier cells'
        for node in ast.walk(source.tree if source.name else source.program):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for part, value in _pairs(target, node.value):
                        made.setdefault(ast.unparse(part), []).append((_stand_in(node, value), source))
            elif isinstance(node, ast.For):
                given = ast.copy_location(ast.Assign([node.target], node.iter), node)
                for one in ast.walk(node.target):
                    made.setdefault(getattr(one, "id", ""), []).append((given, source))
            elif isinstance(node, Function | ast.ClassDef) and not _layers(node):
                bodies.setdefault(node.name, []).append((node, source))
    seen: set[str] = set()
    queue = list(names)
    found: list[Suspect] = []
    while queue and len(seen) < 64:
        key = queue.pop(0)
        held = trace.space.get(key)
        if key in seen or (held is not None and key != names[0] and data(held) and is_finite(held)):
            continue
        seen.add(key)
        for statement, source in made.get(key, []):
            found += _suspects(trace, made, statement, source)
            value = statement.value  # type: ignore[attr-defined]
            queue += [ast.unparse(n) for n in ast.walk(value) if isinstance(n, ast.Name | ast.Attribute)]
        for body, source in bodies.get(key, []):
            found += _suspects(trace, made, body, source)
    divisors = [
        f for f in found if f.kind == "div" and any(f".{word}(" in f.text or f"{word}_" in f.text for word in SPREADS)
    ]
    if axis is not None:
        divisors.sort(key=lambda f: axis.search(f.text) is None)
        logs = [f for f in found if f.kind == "log"]
        if divisors and logs and axis.search(divisors[0].text) is None:
            return logs[0]
    return next(iter(divisors), None) or next((f for f in found if f.kind == "log"), None)


def _layers(node: ast.AST) -> bool:
    """Whether a class is a module, which makes no data."""
    return isinstance(node, ast.ClassDef) and any("Module" in ast.unparse(base) for base in node.bases)


def _suspects(trace: Trace, made: Made, part: ast.AST, source: Source) -> Iterator[Suspect]:
    """Yield the divisions and logarithms of a statement, a function or a class."""
    for inner in ast.walk(part):
        if isinstance(inner, ast.AugAssign) and isinstance(inner.op, ast.Div) and not _safe(trace, inner.value):
            yield Suspect("div", inner, source, _resolved(made, inner.value))
        elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div) and not _safe(trace, inner.right):
            yield Suspect("div", inner, source, _resolved(made, inner.right))
        elif isinstance(inner, ast.Call) and called(inner) in LOGS and isinstance(inner.func, ast.Attribute):
            yield Suspect("log", inner, source, ast.unparse(inner))


def _safe(trace: Trace, divisor: ast.expr) -> bool:
    """Whether a divisor is a variable that still holds what is not 0."""
    value: Any = trace.space.get(divisor.id) if isinstance(divisor, ast.Name) else None
    span = range_of(value) if data(value) else None
    return span is not None and not span[0] <= 0 <= span[1]


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


def _resolved(made: Made, divisor: ast.expr) -> str:
    """The divisor's text, or of a variable's what it was given."""
    text = ast.unparse(divisor)
    given = made.get(text, [])
    if len(given) == 1 and isinstance(divisor, ast.Name | ast.Attribute):
        value = ast.unparse(given[0][0].value)  # type: ignore[attr-defined]
        return value if len(value) < 48 else text
    return text
