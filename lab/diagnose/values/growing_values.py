"""Values that grow from pass to pass of one op until one overflows: the cause lies there."""

from __future__ import annotations

import math

from widgets.figures import number

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, listed, where
from ..order import rule

PASSES = 4  # of one op, each on the result of the one before
TIMES = 1e6  # by which they made the values larger in all
PRODUCTS = {"matmul", "mv", "mm", "bmm", "mul", "mul_", "linear", "addmm", "einsum", "pow", "pow_", "div", "div_"}


@rule(320)
def growing(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """The first overflow of finite values that a chain of one op's runs has made large."""
    bad = [row for row in trace.rows if row.bad is not None and row.bad.inputs_finite and not row.cut]
    first = min(bad, key=lambda r: r.bad.when, default=None)  # type: ignore[union-attr]
    if (
        first is None
        or first.bad is None
        or (first.bad.run > 1 and not ("again" in first.flags and first.op in PRODUCTS))
    ):
        return []
    given = [s for _, s in first.bad.inputs if s is not None and s.max is not None]
    top = max((max(abs(s.min or 0.0), abs(s.max or 0.0)) for s in given), default=0.0)
    behind: dict[Ref, None] = ancestors([first])
    chains: dict[object, list[Row]] = {}
    for ref in behind:
        if isinstance(ref, Row) and (ref.requires_grad or not trace.gradients) and not ref.view and ref.shape:
            chains.setdefault((ref.op, ref.chain), []).append(ref)
    if not trace.gradients and not any(row.bad is not None and row.bad.nan for row in trace.rows):
        return []  # it may be told that a value is beyond all size
    if first.bad.run > 1:
        return _on_itself(trace, first, top)
    data = [ref.span for ref in behind if isinstance(ref, Leaf) and not ref.requires_grad and ref.span is not None]
    start = max((max(abs(low), abs(high)) for low, high in data), default=0.0)
    best: tuple[int, float, list[Row]] | None = None
    for rows in chains.values():
        rows.sort(key=lambda r: r.number)
        if len(rows) < PASSES or rows[0] not in ancestors([rows[1]]) or rows[-2] not in ancestors([rows[-1]]):
            continue
        growth = (_size(rows[-1]) or top) / (_size(rows[0]) or start or math.inf)
        trains = any(isinstance(ref, Leaf) and ref.requires_grad for ref in rows[-1].refs)
        if growth > TIMES and top > TIMES and (best is None or (trains, growth) > best[:2]):
            best = trains, growth, rows
    if best is None or math.isinf(best[1]):
        return []
    rows = best[2]
    line, col, place = where(trace, rows[0].chain)
    there = where(trace, first.chain)[2]
    weights = [ref for row in rows for ref in row.refs if isinstance(ref, Leaf) and ref.requires_grad]
    weights = list(dict.fromkeys(weights))
    explained.update(weights)
    over = "and then overflow" if there == place else f"and {there} (`{code_of(trace, first)}`) overflows"
    # a run that overflowed has no size, that of the run before is the last; before the first run it is that of the data
    sizes = [(k, size) for k, size in enumerate(map(_size, rows)) if size]
    first_at, begin = sizes[0] if sizes and sizes[0][0] == 0 else (-1, start)
    last_at, end = sizes[-1] if sizes and sizes[-1][0] > first_at else (len(rows) - 2, top)
    each = (end / begin) ** (1 / (last_at - first_at))
    message = capital(
        f"{place} lets values explode: `{code_of(trace, rows[0])}` ran {len(rows):,} times, each on the result of the "
        f"one before, and took them from {number(begin)} to {number(end)}, {each:.2g} times in each pass, {over}."
    )
    what = listed([leaf for leaf in weights if len(leaf.shape) > 1] or weights) if weights else "its weights"
    remedy = "Normalise in each pass: x = x / x.norm()."
    if trace.gradients:
        remedy = (
            f"Start {what} smaller (nn.init.orthogonal_ keeps the size), or normalise in each pass, or use an LSTM."
        )
    return [
        Found(
            "exploding",
            "error" if trace.gradients else "warning",
            line,
            col,
            message,
            remedy,
            [rows[0], first],
            weights,
        )
    ]


def _on_itself(trace: Trace, row: Row, top: float) -> list[Found]:
    """An op without a history that ran again and again on its own result, which is one row."""
    data = [ref.span for ref in row.refs if isinstance(ref, Leaf) and ref.span is not None]
    start = max((max(abs(low), abs(high)) for low, high in data), default=0.0)
    passes = row.bad.run - 1 if row.bad is not None else 0
    if passes < PASSES or not start or top < TIMES * start:
        return []
    line, col, place = where(trace, row.chain)
    message = capital(
        f"{place} lets values explode: `{code_of(trace, row)}` ran {row.count:,} times, each on the result of the one "
        f"before, and took them from {number(start)} to {number(top)} in {passes:,} passes, "
        f"{(top / start) ** (1 / passes):.2g} times in each, and then overflow."
    )
    remedy = "Normalise in each pass: x = x / x.norm()."
    return [Found("exploding", "warning", line, col, message, remedy, [row])]


def _size(row: Row) -> float:
    s = row.stats
    return 0.0 if s is None or s.mean is None or s.std is None else math.hypot(s.mean, s.std)
