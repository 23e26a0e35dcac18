"""The operation that made what is not finite before the recording, by the values that the variables still hold."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...recorder.cell_trace import Trace
from ..reading.pure import data, is_tensor
from ..reading.replay import Replay
from ..reading.safe_forms import VARIANCE, variance
from ..reading.sources import Source, called, sources

LIMIT = 1 << 22  # values that are looked at
NAMED = re.compile(r"\b(inf|infinity|nan)\b", re.IGNORECASE)
SPREADS = re.compile(r"\b(std|var|ptp|nanstd|norm|max|min|amax|amin|sum)\b|std|scale|range")
LOGARITHMS = {"log", "log2", "log10"}
OUTSIDE_ONE = {"arccos", "arcsin", "acos", "asin", "arctanh", "atanh"}
MASK = "Let every row keep at least one value, or hide values with a large finite number (-1e9)."
AVERAGES = {"mean", "average", "nanmean", "median", "std", "var", "nanstd"}


@dataclass
class Cause:
    """An expression whose result is not finite though what it was given is."""

    node: ast.expr
    source: Source
    given: list[Any]
    result: Any
    deliberate: bool = False
    """Whether its text says so: ``float("-inf")``."""


class Origins(Replay):
    """The statements that some variables come from, each result looked at."""

    def __init__(self, trace: Trace, source: Source) -> None:
        super().__init__(trace, source)
        self.causes: dict[int, Cause | None] = {}
        self.unfollowed: list[str] = []
        """Variables whose values are not finite and whose statements nobody can follow."""
        self._finite: dict[int, bool] = {}

    def finite(self, value: Any) -> bool:
        """Return whether a value holds neither NaN nor infinity."""
        if value is None or isinstance(value, int | str):
            return True
        known = self._finite.get(id(value))
        if known is None:
            self.kept.append(value)
            known = self._finite[id(value)] = is_finite(value)
        return known

    def made(self, node: ast.AST, result: Any, given: list[Any]) -> Any:
        """Note where a result first is not finite."""
        if id(result) in self.own:
            self._finite.pop(id(result), None)  # it was written into
        elif id(result) in self.causes:
            return result
        if self.finite(result) or not isinstance(node, ast.expr):
            return result
        bad = [value for value in given if not self.finite(value)]
        cause = next((found for value in bad if (found := self.causes.get(id(value))) is not None), None)
        new = cause is not None and cause.deliberate and has_nan(result) and not any(map(has_nan, bad))
        if not bad or new:
            deliberate = not new and NAMED.search(ast.unparse(node)) is not None
            cause = Cause(node, self.inside[-1], given, result, deliberate)
        self._note(result, cause)
        return result

    def unknown(self, statement: ast.stmt, name: str, value: Any) -> Any:
        """Note a variable that is not finite, and nobody knows why."""
        if not self.finite(value) and not isinstance(statement, ast.For | ast.While):
            self.unfollowed.append(name)
        return value

    def appended(self, values: list[Any], item: Any) -> None:
        """Note that a list has got what is not finite."""
        if not self.finite(item):
            self._finite[id(values)] = False
            self.causes.setdefault(id(values), self.causes.get(id(item)))

    def _note(self, value: Any, cause: Cause | None) -> None:
        self.causes[id(value)] = cause
        self.kept.append(value)
        for item in value if isinstance(value, list | tuple) else ():
            if id(item) not in self.causes and not self.finite(item):
                self._note(item, cause)


def is_finite(value: Any) -> bool:
    """Return whether a number, an array, a tensor or a container of these holds neither NaN nor infinity."""
    if isinstance(value, list | tuple):
        return all(map(is_finite, value[:LIMIT]))
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if is_tensor(value):
        return not value.is_floating_point() or value.numel() > LIMIT or bool(value.detach().isfinite().all())
    if isinstance(value, float | np.ndarray | np.generic):
        a = np.asarray(value)
        return a.dtype.kind not in "fc" or a.size > LIMIT or bool(np.isfinite(a).all())
    return True


def has_nan(value: Any) -> bool:
    """Return whether a value holds NaN."""
    if isinstance(value, list | tuple):
        return any(map(has_nan, value))
    if is_tensor(value):
        return bool(value.is_floating_point() and value.detach().isnan().any())
    a = np.asarray(value) if isinstance(value, float | np.ndarray | np.generic) else None
    return a is not None and a.dtype.kind in "fc" and bool(np.isnan(a).any())


class Origin(NamedTuple):
    """What is known of where values come from that are not finite."""

    cause: Cause | None = None
    start: str = ""
    """Where nobody can follow it: the first variable that was given such values."""
    followed: bool = False
    """Whether all is followed: without a cause they were given, or meant."""


def origin(trace: Trace, name: str) -> Origin:
    """Return what first made a variable's values not finite, or those of what the cell's other data come from."""
    own = sources(trace)[:1]
    if not own or own[0].name:
        return Origin()
    space = trace.space
    bad = {n for n in Origins(trace, own[0]).bound if n in space and data(space[n]) and not is_finite(space[n])}
    for wanted in ({name} & bad, bad):
        replay = Origins(trace, own[0])
        found = [replay.causes.get(id(value)) for value in replay.run(wanted).values()] if wanted else []
        causes = [cause for cause in found if cause is not None and not cause.deliberate]
        if causes:
            return Origin(min(causes, key=lambda cause: getattr(cause.node, "lineno", 0)))
        if name in wanted and not isinstance(replay.statements[replay.bound[name][-1]], ast.For | ast.While):
            return Origin(None, next(iter(replay.unfollowed), ""), not replay.unfollowed)
    return Origin()


def range_of(value: Any) -> tuple[float, float] | None:
    """Return the least and the largest value; None of what has none."""
    try:
        a = np.asarray(value.detach().double().numpy() if is_tensor(value) else value, dtype=float)
    except (TypeError, ValueError):
        return None
    a = a[np.isfinite(a)]
    return (float(a.min()), float(a.max())) if a.size else None


def explained(cause: Cause) -> tuple[str, str]:
    """Return why an expression has no finite result, and a remedy."""
    node, given = cause.node, cause.given
    text, name = ast.unparse(node), called(node)
    spans = [span for value in given if (span := range_of(value)) is not None]
    low, high = spans[0] if spans else (0.0, 0.0)
    divides = (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)) or name in ("div", "divide", "true_divide")
    if divides and len(given) == 2 and (divisor := range_of(given[1])) is not None and divisor[0] <= 0 <= divisor[1]:
        right = node.right if isinstance(node, ast.BinOp) else node.args[-1]  # type: ignore[attr-defined]
        made = cause.source.given.get(ast.unparse(right), [])
        return divided(ast.unparse(right), given[1], SPREADS.search(ast.unparse(ast.List([right, *made]))) is not None)
    if name in LOGARITHMS or name == "log1p":
        why = f"`{text}` is the {name} of values down to {low:.3g}, which has none there"
        return why, "Keep its argument above 0: log1p(x), or log(x + 1e-8)."
    if low < 0 and variance(text):
        why = f"`{text}` is the root of values down to {low:.3g}, all that rounding has left of a variance"
        return why, VARIANCE
    if name in ("sqrt", "rsqrt"):
        return f"`{text}` is the {name} of values down to {low:.3g}", "Keep its argument at 0 or above: x.clamp(min=0)."
    if name in OUTSIDE_ONE:
        why = f"`{text}` is the {name} of values from {low:.3g} to {high:.3g}"
        return why, "Keep its argument between -1 and 1: x.clamp(-1 + 1e-6, 1 - 1e-6)."
    if name in ("exp", "exp2", "expm1", "cosh", "sinh"):
        why = f"`{text}` is the {name} of values up to {high:.3g}, which overflows"
        return why, "Subtract the maximum first, or bound it."
    if name in AVERAGES and given and not spans:
        return f"`{text}` is the {name} of no values", "Look at what selects them: none is left here."
    if name in ("std", "var"):
        why = f"`{text}` is the {name} of a single value in each place"
        return why, "Divide by n (correction=0), or leave it out."
    if name in ("softmax", "log_softmax"):
        return f"`{text}` is a {name} over nothing but -inf", MASK
    at = f" of values from {low:.3g} to {high:.3g}" if spans else ""
    return (
        f"`{text}` gives {'NaN' if has_nan(cause.result) else 'infinity'}{at}",
        "Keep its argument where it is finite.",
    )


def divided(text: str, divisor: Any, spread: bool) -> tuple[str, str]:
    """Return what is said of a division by 0, and its remedy."""
    constant = spread and any(size > 1 for size in tuple(getattr(divisor, "shape", ()) or ()))
    why = f"it divides by `{text}`, which is 0 " + ("where all values are the same" if constant else "there")
    more = ", or leave what is constant out" if constant else ""
    return why, f"Add a small number to the divisor, ({text} + 1e-8){more}."
