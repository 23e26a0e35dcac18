"""How long a cell was on each of its lines: all of its time is some line's, and ops only split it.

The samples say where the time passed. Ops, steps and backward passes are timed one by one, so a line has at least what
its own took; the samples share out what is left. In a cell of a few milliseconds, with hardly a sample, that is most of
what is known.
"""

from __future__ import annotations

from ..recorder.cell_trace import Trace


def line_times(trace: Trace) -> dict[int, int]:
    """Return line -> ns, without what listening took and other programs had; {} where nothing was sampled."""
    sampled: dict[int | None, int] = {}
    for spent in trace.spent.values():
        line = None if spent.place is None else trace.line((spent.place,))
        sampled[line] = sampled.get(line, 0) + spent.ns
    if not trace.sampled_ns or not sampled:
        return {}
    known = timed(trace)
    whole = max(trace.wall_ns - trace.own_ns - trace.around_ns - starved(trace), 0)
    return _shared_out(sampled, known, whole)


def starved(trace: Trace) -> int:
    """Return the time of other programs, without that which the recorder's own clock has counted as its own.

    >>> starved(Trace(wall_ns=100, own_ns=25, starved_ns=40))
    30
    """
    own = min(trace.own_ns + trace.around_ns, trace.wall_ns)
    return min(trace.starved_ns, trace.wall_ns) * (trace.wall_ns - own) // max(trace.wall_ns, 1)


def timed(trace: Trace) -> dict[int, int]:
    """Return line -> ns of what was timed by itself: ops going forward, steps, whole backward passes where they ran."""
    known: dict[int, int] = {}
    for row in trace.rows:
        if row.cut or row.line is None or row.phase == "backward" or (row.phase == "update" and trace.update_ns):
            continue
        known[row.line] = known.get(row.line, 0) + row.forward_ns
    for chain, (_, took) in trace.spans.items():
        line = trace.line(chain)
        if line is not None:
            known[line] = known.get(line, 0) + took
    for line, spent in trace.lines.items():
        known[line] = known.get(line, 0) + spent[0]  # of steps; what it has of backward() is in the spans
    return known


def _shared_out(sampled: dict[int | None, int], known: dict[int, int], whole: int) -> dict[int, int]:
    """Share `whole` out: each line gets what is known of it, and of the rest as the samples tell.

    >>> _shared_out({1: 30, 2: 70}, {}, 200)
    {1: 60, 2: 140}
    >>> _shared_out({1: 90, 2: 10}, {2: 60}, 160)  # a single sample fell on line 2
    {2: 60, 1: 100}
    >>> _shared_out({None: 50, 1: 50}, {1: 10}, 100)  # before the cell came to a line
    {1: 50}
    >>> _shared_out({1: 5}, {1: 8, 2: 8}, 12)  # ops of several threads overlap
    {1: 6, 2: 6}
    """
    timed = sum(known.values())
    if timed >= whole:
        return {line: ns * whole // timed for line, ns in known.items()} if timed else {}
    beyond = {line: ns if line is None else max(ns - known.get(line, 0), 0) for line, ns in sampled.items()}
    total = sum(beyond.values())
    times = dict(known)
    for line, ns in beyond.items():
        if line is not None and total:
            times[line] = times.get(line, 0) + ns * (whole - timed) // total
    return times
