"""Normalisation by hand that divides by a variance, or by its square, where the standard deviation belongs."""

from __future__ import annotations

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..order import rule
from ..speed.time_shares import through

NEXT_TO = {"add", "add_", "clamp", "clamp_min", "maximum", "expand", "unsqueeze", "view", "reshape", "getitem", "cast"}
"""Ops that leave a spread what it is: an eps is added, a dimension."""
SQUARES = {"pow", "square", "mul"}
APART = {"sub", "sub_"}


@rule(327)
def by_variance(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(x - mean) / (var + eps)`` or ``(x - mean) / (var + eps) ** 2``, of a mean and a variance of the same x."""
    for row in trace.rows:
        if row.op not in ("div", "div_") or len(row.refs) != 2 or not row.shape:
            continue
        given, divisor = row.refs
        factors = given.refs if isinstance(given, Row) and given.op == "mul" else (given,)
        over = next((r for r in factors if isinstance(r, Row) and r.op in APART and r.refs), None)
        if over is None:
            continue
        squared: Row | None = None
        for ref in through(divisor, NEXT_TO):
            if isinstance(ref, Row) and ref.op in ("pow", "square") and _twice(trace, ref):
                squared = ref
                break
        spread = squared.refs[0] if squared is not None and squared.refs else divisor
        variance = next((ref for ref in through(spread, NEXT_TO) if _is_variance(trace, ref)), None)
        if variance is None or not _same(over, variance):
            continue
        at = squared or row
        line, col, place = where(trace, at.chain)
        what = "the square of a variance" if squared is not None else "a variance"
        code = f"`{code_of(trace, at)}`"
        divides = code if squared is None else f"{code}, by which `{code_of(trace, row)}` divides,"
        message = capital(
            f"{place} takes {what} for a standard deviation: {divides} does not bring the values to a spread of 1."
        )
        remedy = "Take the root of the variance: (var + eps).sqrt(), or (var + eps) ** 0.5."
        return [Found("scale", "warning", line, col, message, remedy, [at, row])]
    return []


def _twice(trace: Trace, row: Row) -> bool:
    code = code_of(trace, row).replace(" ", "")
    return row.op == "square" or "**2" in code or "pow(2)" in code or ",2)" in code or code.endswith("square()")


def _is_variance(trace: Trace, ref: Ref) -> bool:
    """Whether a value is a variance: by its op, or a mean of squares of differences."""
    if not isinstance(ref, Row):
        return False
    if ref.op in ("var", "var_mean"):
        return True
    square = ref.refs[0] if ref.op == "mean" and ref.refs else None
    if not isinstance(square, Row) or square.op not in SQUARES or not square.refs:
        return False
    if square.op == "pow" and not _twice(trace, square):
        return False
    return all(isinstance(r, Row) and r.op in APART for r in square.refs)


def _same(over: Row, variance: Ref) -> bool:
    """Whether a variance was taken of what stands over it, before or after its mean was subtracted."""
    behind = set(ancestors([variance]))
    return over in behind or over.refs[0] in behind
