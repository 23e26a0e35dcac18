"""What a run of `lab.fit` shows, from its state: one moment of it, and its end."""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any

from widgets.training import Training, loss_text

from ..console.progress import timing


def moment(run: Any, before: str = "") -> Training:
    """This moment as plain data."""
    spent = perf_counter() - run.began
    rate = run.counted / spent
    history, expected = run.history, run.history.expected
    place = f"{before}epoch {run.epoch} of {run.epochs}, step {run.step:,}" + (f" of {expected:,}" if expected else "")
    figures = history.figures()
    if history.steps:
        recent = history.steps[-min(20, max(run.step, 1)) :]
        figures = [("loss", loss_text(sum(recent) / len(recent))), *(f for f in figures if f[0] != "loss")]
    done = left = extent = None
    if expected:
        whole, over = expected * run.epochs, (run.epoch - 1) * expected + run.step
        done, left = min(1.0, over / whole), max(whole - over, 0) / rate if rate else None
        extent = _extent(over / expected, run.epochs)
    return history.view(title=run.title, place=place, done=done, figures=figures + _waiting(run, spent), extent=extent,
                        message=run.note, timing=timing(rate, "steps", spent, left, True))  # fmt: skip


def _waiting(run: Any, spent: float) -> list[tuple[str, str]]:
    """Return how much of the time the data let it wait, where that is much."""
    return [("waiting for data", f"{100 * run.waited / spent:.0f} %")] if spent > 2 and run.waited > 0.2 * spent else []


def last(run: Any, message: str) -> Training:
    """Return the end of a run as plain data."""
    history = run.history
    spent = perf_counter() - run.began
    rate = run.counted / spent if spent > 0 else 0.0
    n = len(history.epochs)
    place = f"{n} epoch{'s' * (n != 1)}, {len(history.steps):,} steps"
    if history.state != "done":
        place = f"{n} of {run.epochs} epochs, {len(history.steps):,} steps"
    said = "; ".join(filter(None, [message[:1].upper() + message[1:], run.note]))
    return history.view(title=run.title, place=place, message=said, figures=history.figures() + _waiting(run, spent),
                        timing=timing(rate, "steps", spent, None, False))  # fmt: skip


def _extent(now: float, epochs: int) -> float:
    """How far the x axis reaches: a little further than where the run is, and not anew with every step."""
    reach = 1.0
    while reach < now * 1.05:
        reach *= 1.5
    return float(min(math.ceil(reach), epochs))
