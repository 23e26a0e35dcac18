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
    found = (all_hidden(trace, row) for row in trace.values.hidden if row in trace.rows and row.reached)
    return [one for one in [next(found, None)] if one is not None]


def all_hidden(trace: Trace, row: Row, spoilt: str = "", leaves: list[Leaf] | None = None) -> Found | None:
    """Return the finding of a cross entropy whose gradient is NaN in PyTorch; an error where it has spoilt parameters,
    which `spoilt` says in words."""
    mask = unviewed(row.refs[0])
    if row not in trace.values.hidden or not isinstance(mask, Row):
        return None
    hidden, samples = trace.values.hidden[row]
    line, col, place = where(trace, mask.chain)
    then = "here they count for nothing, but PyTorch's gradient of such a sample is NaN, and one step makes all "
    then += "weights NaN"
    if leaves:
        then = f"the loss is finite, but the gradient of such a sample is NaN{spoilt}"
    message = capital(
        f"{place} hides every class of {hidden:,} of {samples:,} samples (`{code_of(trace, mask)}`), which "
        f"{where(trace, row.chain)[2]} leaves out: {then}."
    )
    remedy = "Hide nothing where the target is left out, or hide with a large finite number (-1e9)."
    return Found("nan", "error" if leaves else "note", line, col, message, remedy, [mask, row], leaves or [])
