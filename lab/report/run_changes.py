"""This run beside the last ones of the same cell: what is different in code, data, time, memory and outcome.

What two runs of one cell differ by anyway is no change: a time counts when it leaves the range of all earlier runs by
more than a sixth, a loss when it leaves theirs by more than both have of noise.
"""

from __future__ import annotations

import difflib
from itertools import pairwise
from statistics import fmean, median, pstdev

from widgets.difference import GREW, GREW_BYTES, SLOWER
from widgets.figures import number, shorten, size_text, time_text
from widgets.record import Record
from widgets.run_card import thinned
from widgets.run_curves import Curve, PastRun, RunCurves

KEPT = 3  # earlier runs
LINES = 5  # changed lines that are listed
INPUTS = 8
CODE = 70  # characters of a line
STEPS = 20  # from which on the time of a step is compared


def beside(before: Record, record: Record) -> None:
    """Put the earlier runs of a cell, and what is different beside the last one, into the course of a record."""
    run, last = record.course, before.course
    if run is None or last is None:
        return
    run.before = [past(before.title, before.source, last), *last.before][:KEPT]
    run.changes = changes(record.source, run)


def past(title: str, source: str, run: RunCurves) -> PastRun:
    """Return what is kept of a run."""
    kept = [thinned(c) for c in run.curves if c.kind in ("loss", "validation", "metric")]
    return PastRun(title, run.seconds, run.steps, run.memory_bytes, source, run.inputs, kept)


def changes(source: str, run: RunCurves) -> list[str]:
    """Return what is different beside the last run, in sentences.

    >>> loss = Curve("loss", at=list(range(1, 9)), values=[4.0, 3.0, 2.0, 1.0] * 2)
    >>> last = PastRun("In [3]", 1.0, 8, 10**8, "lr = 1", {"x": "float32 8×2 #a1"}, [loss])
    >>> data = {"x": "float32 8×2 #b2"}
    >>> run = RunCurves(8, seconds=1.05, curves=[loss], memory_bytes=10**8, inputs=data, before=[last])
    >>> changes("lr = 2", run)
    ['Code, line 1: `lr = 1` → `lr = 2`.', 'x: float32 8×2, other values.']
    >>> changes("lr = 1", RunCurves(8, seconds=1.05, curves=[loss], inputs=last.inputs, before=[last]))
    []
    """
    last = run.before[0]
    found = [*_code(last.source, source), *_inputs(last.inputs, run.inputs)]
    if run.steps != last.steps:
        found.append(f"{run.steps:,} {run.unit}s, before {last.steps:,}.")
    found += _time(run)
    a, b = last.memory_bytes, run.memory_bytes
    most = max(p.memory_bytes for p in run.before)
    if a and b > GREW * most and b - most > GREW_BYTES:
        found.append(f"Memory: at most {size_text(b)}, before {size_text(a)}.")
    for curve in run.curves:
        if curve.kind in ("loss", "validation", "metric"):
            found += _outcome(run, curve)
    return found


def _code(before: str, after: str) -> list[str]:
    a, b = before.split("\n"), after.split("\n")
    found: list[str] = []
    for kind, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        old, new = ([shorten(line.strip(), CODE) for line in part] for part in (a[a1:a2], b[b1:b2]))
        if kind == "replace" and len(old) == len(new):
            found += [f"Code, line {b1 + k + 1}: `{o}` → `{n}`." for k, (o, n) in enumerate(zip(old, new, strict=True))]
        elif kind != "equal":
            found += [f"Code, line {a1 + k + 1} is gone: `{o}`." for k, o in enumerate(old) if o]
            found += [f"Code, line {b1 + k + 1} is new: `{n}`." for k, n in enumerate(new) if n]
    more = len(found) - LINES
    return found if more <= 0 else [*found[:LINES], f"Code: {more:,} more lines are different."]


def _inputs(before: dict[str, str], after: dict[str, str]) -> list[str]:
    found = []
    for name, now in after.items():
        was = before.get(name)
        if was is None or was == now:
            continue
        (a, _, one), (b, _, other) = was.partition(" #"), now.partition(" #")
        if a != b:
            found.append(f"{name}: {a} → {b}.")
        elif one and other:
            found.append(f"{name}: other code." if b in ("function", "class") else f"{name}: {b}, other values.")
    return found[:INPUTS]


def _time(run: RunCurves) -> list[str]:
    known = [p for p in run.before if p.steps >= STEPS and p.seconds]
    if run.steps < STEPS or not run.seconds or not known:
        return []
    now, was = run.seconds / run.steps, [p.seconds / p.steps for p in known]
    if min(was) / SLOWER <= now <= max(was) * SLOWER:
        return []
    return [f"A {run.unit} takes {time_text(1e3 * now)}, before {time_text(1e3 * was[0])}."]


def _outcome(run: RunCurves, curve: Curve) -> list[str]:
    earlier = [same for p in run.before if (same := _same(p, curve)) is not None]
    if not earlier or _same(run.before[0], curve) is None:
        return []
    step = min(c.finite()[0][-1] for c in (curve, *earlier))  # runs of other lengths are compared where both were
    now, noise = _near(curve, step)
    ends = [_near(c, step) for c in earlier]
    wide = max(noise, *(n for _, n in ends), 0.01 * abs(now))
    low, high = min(v for v, _ in ends) - 2 * wide, max(v for v, _ in ends) + 2 * wide
    if low <= now <= high:
        return []
    return [f"{curve.name} at step {step:,}: {number(now)}, before {number(ends[0][0])}."]


def _same(past: PastRun, curve: Curve) -> Curve | None:
    found = next((c for c in past.curves if c.name == curve.name and c.kind == curve.kind), None)
    return found if found is not None and found.finite()[0] and curve.finite()[0] else None


def _near(curve: Curve, step: int) -> tuple[float, float]:
    """Return where a curve is at a step, and how far its values lie apart there."""
    at, values = curve.finite()
    until = [v for a, v in zip(at, values, strict=True) if a <= step] or values[:1]
    tail = until[-max(len(until) // 10, 1) :]
    wide = until[-max(len(until) // 4, 1) :]
    drift = [b - a for a, b in pairwise(wide)]
    return median(tail), pstdev(drift, fmean(drift)) if len(drift) > 1 else 0.0
