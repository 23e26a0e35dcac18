"""Slow code: of all idioms that cost this cell time, the ones whose remedy saves most."""

from __future__ import annotations

from ..recorder.cell_trace import Leaf, Trace
from . import slow_backward, slow_growth, slow_products, slow_python, slow_repeats
from .finding import Found
from .order import rule
from .time_shares import LEAST, Saving, Shares

MOST = 2  # findings of this kind on one card
IDIOMS = (*slow_growth.IDIOMS, *slow_products.IDIOMS, *slow_repeats.IDIOMS, *slow_backward.IDIOMS, *slow_python.IDIOMS)


@rule(805)
def slow(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """The idioms that cost most, by what their remedies would save."""
    if trace.error is not None or trace.wall_ns - trace.own_ns < 1e8:
        return []
    shares = Shares(trace)
    savings: list[Saving] = [saving for idiom in IDIOMS for saving in idiom(shares)]
    savings.sort(key=lambda saving: -saving.share)
    return [saving.found for saving in savings[:MOST] if saving.share >= LEAST]
