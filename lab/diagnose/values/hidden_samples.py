"""Samples of which a mask hides every class, and which the loss leaves out."""

from __future__ import annotations

from ...recorder.cell_trace import Leaf, Row, Trace
from ..finding import Found, capital, code_of, where
from ..order import rule
from .nonfinite_effects import unviewed


@rule(334)
def hidden_samples(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``logits.masked_fill(~legal, -inf)`` of padded places, which ``ignore_index`` leaves out: the loss is finite, and
    PyTorch's gradient is NaN."""
    if any(g.nonfinite for g in trace.gradients.values()):
        return []  # what it has led to is told
    for row, (hidden, samples) in trace.values.hidden.items():
        mask = unviewed(row.refs[0])
        if row not in trace.rows or not isinstance(mask, Row) or not row.reached:
            continue
        line, col, place = where(trace, mask.chain)
        message = capital(
            f"{place} hides every class of {hidden:,} of {samples:,} samples (`{code_of(trace, mask)}`), which "
            f"{where(trace, row.chain)[2]} leaves out: here they count for nothing, but PyTorch's gradient of such a "
            "sample is NaN, and one step makes all weights NaN."
        )
        remedy = "Hide nothing where the target is left out, or hide with a large finite number (-1e9)."
        return [Found("nan", "note", line, col, message, remedy, [mask, row])]
    return []
