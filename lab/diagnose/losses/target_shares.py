"""Targets of a cross entropy that are meant to be probabilities and are not."""

from __future__ import annotations

from ...recorder.cell_trace import Leaf, Row, Trace
from ..finding import Found, capital, code_of, where
from ..order import rule


@rule(434)
def several_at_once(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``cross_entropy(logits, labels)`` with as many ones in a row as a sample has labels."""
    for row in trace.rows:
        if row.sums is None or not row.reached or row.op not in ("mul", "cross_entropy") or len(row.refs) < 2:
            continue
        low, high = row.sums
        target = row.refs[1]
        stats = target.stats if isinstance(target, Row) else None
        if max(abs(low - 1), abs(high - 1)) < 0.05 or low < 0 or (low == high == 0):
            continue
        if stats is not None and stats.min is not None and stats.min < 0:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} gives cross_entropy targets that are no probabilities (`{code_of(trace, row)}`): those of a "
            f"sample sum to {low:.3g} to {high:.3g} and not to 1, so the classes, which share one softmax, cannot all "
            "be right."
        )
        remedy = "Where a sample has several labels use binary_cross_entropy_with_logits; else divide by their sum."
        return [Found("loss", "warning", line, col, message, remedy, [row])]
    return []
