"""What unrecorded steps add to a trace: as much, each, as the recorded steps of their loop took on average.

Only figures that are sums over a cell are made to stand for all of it: the runs of rows, and times. What the diagnoses
compare with each other (steps, gradients, what a step found) stays as it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from .cell_trace import Row, Trace
from .op_to_row import latest

STEPS = 64  # recorded steps of a loop whose sums are kept apart
Sums = dict[Any, tuple[int, ...]]


def _gauges(trace: Trace) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Yield what is summed up, each with its runs first."""
    for row in trace.rows:
        yield row, (row.count, row.forward_ns, row.backward_ns, row.waited_ns)
    for table in ("kernels", "spans"):
        for key, values in getattr(trace, table).items():
            yield (table, key), tuple(values)
    for line, (forward, backward, runs) in trace.lines.items():
        yield ("lines", line), (runs, forward, backward)
    for row, copied in trace.copies.items():
        yield ("copies", row), (copied.count, copied.size, copied.ns)
    passes = sum(runs for runs, _ in trace.spans.values())
    yield ("all", None), (trace.steps.count or passes, trace.backward_ns, trace.update_ns)


class Loop:
    """The steps of one loop: how many there were, how many of them were recorded, and what these added to the trace."""

    def __init__(self) -> None:
        self.recorded = self.unrecorded = 0
        self.unrecorded_ns = 0
        """How long the unrecorded steps took, as far as that is known."""
        self._steps: list[Sums] = []  # what recorded steps added
        self._before: Sums | None = None

    def begin(self, trace: Trace) -> None:
        """What is added from here on is of one whole step."""
        self._before = dict(_gauges(trace)) if len(self._steps) < STEPS else None

    def left_out(self) -> None:
        """What is added until the next `begin` is of no whole step alone."""
        self._before = None

    def end(self, trace: Trace) -> None:
        """That step has ended."""
        before, self._before = self._before, None
        if before is None:
            return
        folded: Sums = {}  # rows that became one since
        for key, sums in before.items():
            at = latest(key)
            folded[at] = _plus(sums, folded[at]) if at in folded else sums
        self._steps.append(
            {
                key: more
                for key, sums in _gauges(trace)
                if any(more := tuple(a - b for a, b in zip(sums, folded.get(key, (0,) * len(sums)), strict=True)))
            }
        )

    def stand_for_all(self, trace: Trace) -> None:
        """Add to the trace what the loop's unrecorded steps took, as far as the recorded ones tell."""
        if not self.unrecorded or not self._steps:
            return
        found: dict[Any, list[tuple[int, ...]]] = {}
        for step in self._steps:
            for key, sums in step.items():
                found.setdefault(latest(key), []).append(sums)
        more = {key: _of_all(several, self.unrecorded / len(self._steps)) for key, several in found.items()}
        if self.unrecorded_ns and (ops := _op_ns(more)) > self.unrecorded_ns:  # an op that is heard takes longer
            share = self.unrecorded_ns / ops
            more = {key: _shortened(key, sums, share) for key, sums in more.items()}
        for key, added in more.items():
            _add(trace, key, added)


def _plus(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _of_all(several: list[tuple[int, ...]], factor: float) -> list[int]:
    """Return what the unrecorded steps have of some sums, the first of which counts runs: as many runs, each step, as
    the recorded ones, and each of the usual size. A mean would take a thousand times the one run in which the processor
    was another program's.

    >>> _of_all([(2, 20), (2, 22), (2, 9000)], 10.0)
    [60, 660]
    """
    runs = factor * sum(sums[0] for sums in several)
    usual = [median(sums[k] / max(sums[0], 1) for sums in several) for k in range(1, len(several[0]))]
    return [round(runs), *(round(runs * each) for each in usual)]


def _op_ns(more: dict[Any, list[int]]) -> int:
    """Return how long ops, passes and updates took together: a time that no clock on the wall can be shorter than."""
    forward = sum(sums[1] for key, sums in more.items() if isinstance(key, Row) and key.phase != "update")
    return forward + sum(more.get(("all", None), [0, 0, 0])[1:])


def _shortened(key: Any, sums: list[int], share: float) -> list[int]:
    """Return sums with their times at a share, and with the runs and bytes that they have.

    >>> _shortened(("copies", None), [4, 4096, 100], 0.5), _shortened(("kernels", "mul"), [4, 100, 4096], 0.5)
    ([4, 4096, 50], [4, 50, 4096])
    """
    table = "rows" if isinstance(key, Row) else key[0]
    times = {"copies": (2,), "kernels": (1,)}.get(table) or range(1, len(sums))
    return [round(value * share) if k in times else value for k, value in enumerate(sums)]


def _add(trace: Trace, key: Any, more: list[int]) -> None:
    if isinstance(key, Row):
        key.unseen += more[0]
        key.forward_ns += more[1]
        key.backward_ns += more[2]
        key.waited_ns += more[3]
        return
    table, inner = key
    if table == "all":
        trace.backward_ns += more[1]
        trace.update_ns += more[2]
    elif table == "copies":
        copied = trace.copies[inner]
        copied.count, copied.size, copied.ns = copied.count + more[0], copied.size + more[1], copied.ns + more[2]
    else:
        values: list[int] = getattr(trace, table)[inner]
        if table == "lines":
            more = [*more[1:], more[0]]
        values[:] = [a + b for a, b in zip(values, more, strict=True)]
