"""Time that ranks lose: one that is always late, and sums that wait for the end of the backward pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from statistics import median

from widgets.figures import time_text
from widgets.record import Finding

from .compare import Comparison, Site
from .words import quoted

LATE_SHARE, LATE_TIMES, LATE_LEAST = 0.15, 0.7, 5  # of the time; of the operations; so many of them at least
LATE_S, LINE_S = 1e-3, 0.02  # from which a rank is late; from which a line is longer on one rank
WHOLE, WORTH, MUCH = 0.8, 0.02, 0.15  # of the gradients' bytes; of a step's time, for a note; for a warning


def late(c: Comparison, cause: str) -> Iterator[Finding]:
    """A rank for which the others wait again and again."""
    whole = [t for t in c.together if t.whole and t.alike and len(t.parts) > 1]
    if len(whole) < LATE_LEAST or not c.seconds:
        return
    cost: dict[int, float] = defaultdict(float)
    delays: dict[int, list[float]] = defaultdict(list)
    for t in whole:
        rank, by = t.late()
        cost[rank] += sum(t.waited(p) for p in t.parts.values()) / (len(t.parts) - 1)
        if by > LATE_S:
            delays[rank].append(by)
    rank = max(cost, key=lambda k: cost[k])
    times = len(delays[rank])
    if cost[rank] < max(LATE_SHARE * c.seconds, LATE_TIMES * sum(cost.values())) or \
            times < max(LATE_LEAST, LATE_TIMES * sum(map(len, delays.values()))):  # fmt: skip
        return
    site, more = _excess(c, rank)
    text = quoted(c.text(c.line(site)) or site.text)
    longer = f": it is {time_text(1e3 * more)} longer on {c.words(site)}{text} than the others" if more else ""
    yield Finding("late-rank", "warning", c.line(site),
                  message=f"Rank {rank} is late to {times} of {len(whole)} operations, by "
                          f"{time_text(1e3 * median(delays[rank]))} each time; the others wait for it "
                          f"{100 * cost[rank] / c.seconds:.0f} % of the time{longer}.",
                  remedy="See what it does there that the others do not: more data, a slower device, writing files, or "
                         "logging on one rank.")  # fmt: skip


def _excess(c: Comparison, rank: int) -> tuple[Site, float]:
    """Return the line on which a rank is longer than the others, and by how much."""
    others = [c.lines_of(r) for r in c.ranks if r.number != rank]
    found = {site: s - median([o.get(site, 0.0) for o in others]) for site, s in c.lines_of(c.ranks[rank]).items()}
    site = max(found, key=lambda k: found[k], default=Site())
    return (site, found[site]) if found.get(site, 0.0) > LINE_S else (Site(), 0.0)


def by_hand(c: Comparison, cause: str) -> Iterator[Finding]:
    """Gradients that are summed one after the other when the backward pass is over."""
    r = c.ranks[0]
    if len(c.ranks) < 2 or not r.log:
        return
    parts = [p for t in c.together if (p := t.parts.get(0)) and p.op in ("all_reduce", "reduce", "all_gather")]
    spent = took = 0.0
    sites: Counter[Site] = Counter()
    steps = []
    for step in r.log["steps"]:
        begin, end = (step[k] + r.ahead - c.begin for k in ("passed", "begun"))
        inside = [p for p in parts if begin <= p.begun <= end]
        size = sum(p.size_bytes for p in inside)
        if not step["bytes"] or size < WHOLE * step["bytes"] or any(p.bucket for p in inside):
            continue
        steps.append(step)
        took += end - begin
        spent += sum((p.done or p.begun) - p.begun for p in inside)
        sites.update(p.site for p in inside)
    if len(steps) < 2 or spent < WORTH * took:
        return
    site = sites.most_common(1)[0][0]
    yield Finding("no-overlap", "warning" if spent > MUCH * took else "note", c.line(site),
                  message=f"Gradients are summed on {c.words(site)} after the backward pass on "
                          f"{c.words(c.site(r, steps[0]['backward']))} is over, {sum(sites.values()) / len(steps):.0f} "
                          f"operations a step, one after the other: they take {100 * spent / took:.0f} % of the time "
                          "from `backward()` to the step.",
                  remedy="`DistributedDataParallel(model)` sums them in buckets while the backward pass goes "
                         "on.")  # fmt: skip
