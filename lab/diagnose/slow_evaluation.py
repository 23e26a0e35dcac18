"""A model that is run on far more than a step learns from, after every step, to see how good it is."""

from __future__ import annotations

from collections.abc import Iterator

from ..recorder.cell_trace import Chain, Leaf, Row
from .slow_loops import used_after
from .time_shares import Saving, Shares, common, quoted, spent

STEPS, TIMES, OFTEN = 16, 8, 0.8  # steps, times the batch of a step, and runs for each step
LEAST = 0.25  # share of the cell's time
FIRST = ("linear", "conv", "embedding", "matmul", "gru", "lstm")


def judged_each_step(shares: Shares) -> Iterator[Saving]:
    """``accuracy.append((net(X).argmax(1) == Y).float().mean())`` after each step on a batch."""
    trace = shares.trace
    steps = trace.steps.ran
    if steps < STEPS:
        return
    layers = [row for row in shares.rows if row.phase == "forward" and row.shape and row.op.startswith(FIRST) and
              any(isinstance(ref, Leaf) and ref in trace.optimized for ref in row.refs)]  # fmt: skip
    batch = max((row.shape[0] for row in layers if row.reached), default=0)
    large = [row for row in layers if not row.reached and row.shape[0] >= TIMES * batch > 0]
    by_call: dict[Chain, list[Row]] = {}
    for row in large:
        by_call.setdefault(row.chain[-1:], []).append(row)
    for rows in by_call.values():
        runs = max(row.runs for row in rows)
        if runs < OFTEN * steps:
            continue
        chain = common(row.chain for row in rows)
        ns = spent(row for row in shares.rows if row.chain[-len(chain) :] == chain)
        if not chain or shares.worth(ns) < LEAST or next(used_after(shares), None) is not None:
            continue
        yield from shares.saving(
            0.95 * ns,
            chain,
            f"runs the model on {rows[0].shape[0]:,} rows after each of {steps:,} steps, which learn from {batch:,}: "
            f"{quoted(trace, chain)} is there to look at, and nothing learns from it.",
            "Evaluate once an epoch, or every so many steps, on a part of the data, under torch.no_grad().",
            rows[:1],
        )


IDIOMS = (judged_each_step,)
