"""Slow code: of all idioms that cost this cell time, the ones whose remedy saves most."""

from __future__ import annotations

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule
from . import (
    slow_backward,
    slow_evaluation,
    slow_growth,
    slow_handmade,
    slow_lookups,
    slow_loops,
    slow_parts,
    slow_products,
    slow_python,
    slow_repeats,
    slow_samples,
    slow_sequences,
)
from .time_shares import LEAST, Saving, Shares

MOST = 2  # findings of this kind on one card
FILES = (slow_growth, slow_loops, slow_products, slow_repeats, slow_backward, slow_python, slow_samples, slow_handmade,
         slow_parts, slow_evaluation, slow_sequences, slow_lookups)  # fmt: skip
IDIOMS = [idiom for file in FILES for idiom in file.IDIOMS]


@rule(805, proof="the lines were timed")
def slow(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """The idioms that cost most, by what their remedies would save."""
    return [saving.found for saving in savings(trace)]


def savings(trace: Trace) -> list[Saving]:
    """Return the idioms that cost most, and what their remedies would save."""
    if trace.error is not None or trace.wall_ns - trace.own_ns < 1e8:
        return []
    shares = Shares(trace)
    found: list[Saving] = [saving for idiom in IDIOMS for saving in idiom(shares)]
    found.sort(key=lambda saving: -saving.share)
    return [saving for saving in found[:MOST] if saving.share >= LEAST]
