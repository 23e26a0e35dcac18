"""Which operations belong together, who waited for whom, and what that adds up to: on rows written by hand."""

from __future__ import annotations

import pytest

from lab.ranks.compare import Comparison
from lab.ranks.findings import findings
from lab.ranks.pool import RankOf

SITES = [{"file": "In [1]", "line": 3, "text": "dist.all_reduce(t)"},
         {"file": "In [1]", "line": 2, "text": "work()"}]  # fmt: skip
LOG = {"steps": [], "calls": [], "stepped": 0, "lines": [], "final": {}, "loaders": []}


def rank(number, begun, done, start=0.0, stop=10.0, ahead=0.0, lines=()):
    """A rank that enters an all_reduce of a kilobyte at each of `begun`, and leaves it at each of `done`."""
    rows = {k: [k, [0, 1], k, "all_reduce", 1000, False, 0, a, a, b, False]
            for k, (a, b) in enumerate(zip(begun, done, strict=True))}  # fmt: skip
    return RankOf(number, state="done", rows=rows, sites=SITES, span=(start, stop), ahead=ahead,
                  log={**LOG, "lines": list(lines)})  # fmt: skip


def compared(*ranks):
    return Comparison(ranks, "In [1]", "%%ranks 2\nwork()\ndist.all_reduce(t)")


def test_a_rank_waits_until_the_last_one_has_come():
    c = compared(rank(0, [1.0], [4.5]), rank(1, [4.0], [5.0]))
    first, second = c.lanes()
    assert first.spans == [(0.0, 1.0, "computing"), (1.0, 4.0, "waiting"), (4.0, 4.5, "communicating"),
                           (4.5, 10.0, "computing")]  # fmt: skip
    assert second.total("waiting") == 0
    [sent] = c.sent()
    assert (sent.line, sent.count, sent.size_bytes, sent.waiting_s) == ("line 3", 1, 1000, 1.5)
    assert sent.last == "rank 1, by 3 s"


def test_clocks_are_aligned():
    c = compared(rank(0, [1.0], [4.5]), rank(1, [104.0], [105.0], 100.0, 110.0, ahead=-100.0))
    assert c.lanes()[0].total("waiting") == 3.0
    assert c.seconds == 10.0


def test_an_operation_that_a_rank_has_not_reached_is_waiting_to_the_end():
    c = compared(rank(0, [1.0], [None]), rank(1, [], []))
    assert c.lanes()[0].spans[-1] == (1.0, 10.0, "waiting")


def late(by):
    """Ten operations, to which rank 1 comes later by so much; the rest of the time both compute."""
    times = [k + 0.4 for k in range(10)]
    done = [t + by + 0.01 for t in times]
    return [
        rank(0, times, done, lines=[(1, 4.0, 0.0)]),
        rank(1, [t + by for t in times], done, lines=[(1, 4 + 10 * by, 0.0)]),
    ]


@pytest.mark.parametrize(("by", "kinds"), [(0.3, ["late-rank"]), (0.05, [])])
def test_a_rank_is_late_where_it_costs_time(by, kinds):
    found = findings(compared(*late(by)), "")
    assert [f.kind for f in found] == kinds
    if found:
        assert "it is 3.00 s longer on line 2 (`work()`)" in found[0].message
        assert "wait for it 30 % of the time" in found[0].message


def test_now_one_and_now_the_other_is_no_late_rank():
    a, b = late(0.3)
    for k in range(0, 10, 2):
        a.rows[k], b.rows[k] = b.rows[k], a.rows[k]
    assert findings(compared(a, b), "") == []
