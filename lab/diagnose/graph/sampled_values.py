"""Draws on the way to a loss: a sample without a gradient of a distribution that could pass one on."""

from __future__ import annotations

import re

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, listed, where
from ..order import rule

DISCRETE = {"multinomial", "bernoulli", "poisson", "binomial", "one_hot", "argmax", "rand", "randint"}
_SAMPLE = re.compile(r"(?P<of>.+)\.sample\((?P<given>.*)\)$", re.S)
SCORED = ("log_prob(", ".cdf(", "entropy(")


@rule(120)
def sampled(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``q.sample()`` whose value a model goes on with: what is behind it learns nothing by that way."""
    readers = trace.consumers()
    losses = [row for rows in trace.roots.values() for row in rows]
    last: dict[object, Row] = {}
    for row in trace.rows:  # the last op of each such call
        drawn = (row.quiet and row.stops) or row.cut == "draw"
        if drawn and row.dtype.startswith("float") and _SAMPLE.match(code_of(trace, row)):
            last[row.chain] = row
    for row in last.values():
        if row.cut == "draw" and any(r.dtype.startswith(("int", "bool")) for r in readers.get(row, ())):
            continue
        if row.op in DISCRETE or any(isinstance(r, Row) and r.op in DISCRETE for r in row.refs):
            continue
        onward = _goes_on(trace, row, readers)
        before = ancestors([row])
        behind = [leaf for leaf in trace.leaves if leaf in before and leaf.requires_grad and leaf.name]
        if not onward or not behind or not any(after in ancestors(losses) for after in onward):
            continue
        explained.update(leaf for leaf in behind if leaf not in trace.gradients)
        row.flags.add("cut")
        match = _SAMPLE.match(code_of(trace, row))
        assert match is not None
        line, col, place = where(trace, row.chain)
        first = min(onward, key=lambda r: r.number)
        there = where(trace, first.chain)[2]
        by = f"`{code_of(trace, first)}`" + ("" if there == place else f" ({there})")
        named = [leaf for leaf in behind if leaf.module or not leaf.name.startswith("unnamed")]
        names = f" ({listed(named)})" if named else ""
        message = capital(
            f"{place} cuts the graph: `{code_of(trace, row)}` draws without a gradient, so {by}, which goes on with "
            f"it, trains nothing behind it{names}."
        )
        remedy = f"Draw by {match['of']}.rsample({match['given']}), which passes gradients on."
        return [Found("cut", "warning", line, col, message, remedy, [row], behind)]
    return []


def _goes_on(trace: Trace, row: Row, readers: dict[Ref, list[Row]]) -> list[Row]:
    """The ops on the graph that read a draw, or what is made of it, other than to ask how likely it was."""
    found, stack, seen = [], [row], {row}
    while stack and len(seen) < 256:
        for after in readers.get(stack.pop(), ()):
            if after in seen or after.cut:
                continue
            seen.add(after)
            if any(word in code_of(trace, after) for word in SCORED):
                continue
            if after.requires_grad and after.reached:
                found.append(after)
            elif after.chain == row.chain or after.view:
                stack.append(after)
    return found
