"""One config: what a worker is asked in which order, for how long at most, and what comes of the answers."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest

from triton_kernels.tune import attempt as trying
from triton_kernels.tune.attempt import Attempt, Task, attempt
from triton_kernels.tune.measure import Built, Failed
from triton_kernels.tune.race import Race

MINE, DEFAULT, BEST = {"A": 2}, {"A": 0}, {"A": 1}


class Asked:
    """A worker whose answers are given by method, one after the other; `said` is what it was asked."""

    def __init__(self, **answers):
        self.answers = {name: list(each) for name, each in answers.items()}
        self.said = []
        self.facts = {"device": "d"}

    def call(self, method, *arguments, limit_s):
        self.said.append((method, arguments, limit_s))
        if not self.answers.get(method):
            return {"build": Built("code", 1.0), "check": 0.25}[method]
        found = self.answers[method].pop(0)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The check takes 0.5 s."""
    times = itertools.cycle([10.0, 10.5])
    monkeypatch.setattr(trying, "time", SimpleNamespace(monotonic=lambda: next(times)))


def test_how_long_a_call_may_take():
    assert trying.check_limit(Task(MINE, DEFAULT)) == 60.0
    task = Task(MINE, DEFAULT, BEST, value=300.0, check_s=0.25)
    assert trying.check_limit(task) == 1.0 + 10 * 0.3 + 2 * 0.25
    assert trying.timing_limit(8, 50.0) == 1.0 + 8 * 10 * 0.05
    assert trying.timing_limit(8, 0.001) == pytest.approx(1.0 + 8 * 10 * 0.0002)  # a sample of it is several calls


def test_the_default_is_timed_by_itself_and_checked_again():
    worker = Asked(pairs=[([5.0, 1.0, 2.0, 3.0, 4.0, 9.0], [])])
    done = attempt(worker, Task(DEFAULT, DEFAULT))
    assert worker.said == [
        ("build", (DEFAULT,), 90.0), ("check", (DEFAULT, 0, False), 60.0), ("pairs", (DEFAULT, None, 6), 60.0),
        ("check", (DEFAULT, 0, False), 60.0)]  # fmt: skip
    samples = (5.0, 1.0, 2.0, 3.0, 4.0, 9.0)
    assert done == Attempt(DEFAULT, Built("code", 1.0), None, 0.25, Race(1.0, 6, False, samples), 3.5, 3.5, (), 6, 0.5,
                           "d")  # fmt: skip


def test_steady_times_are_taken_once():
    worker = Asked(pairs=[([5.0], [])])
    done = attempt(worker, Task(MINE, DEFAULT, BEST, 4.0, 8.0, steady=True), Built("code", 1.0))
    assert [call[0] for call in worker.said] == ["check", "pairs"]
    assert worker.said[1] == ("pairs", (MINE, None, 1), 90.0)
    assert (done.race, done.value, done.time_ms, done.launches) == (Race(1.0, 1, False, (5.0,)), 5.0, 5.0, 0)


def test_one_that_loses_its_race_is_not_looked_at_again():
    worker = Asked(pairs=[([6.0, 8.0], [3.0, 4.0])])
    done = attempt(worker, Task(MINE, DEFAULT, BEST, 100.0, 150.0, 0.5), Built("code", 1.0))
    assert worker.said == [
        ("check", (MINE, 0, False), 1.0 + 1.0 + 1.0),
        ("pairs", (MINE, BEST, 2), 1.0 + (2 * 2 + 4) * 1.0),
    ]
    assert (done.value, done.time_ms, done.launches, done.race.lost) == (200.0, 7.0, 4, True)
    assert (done.between, done.max_error) == ((), 0.25)


def race_won(by):
    """Pairs of a race in which each ratio is this."""
    return [([2.0 * by] * count, [2.0] * count) for count in (2, 2, 4, 8)]


@pytest.mark.parametrize(("rounds", "value"), [
    # of config, default and best: the worse of the two ratios counts
    ([[2.0] * 6, [8.0] * 6, [2.5] * 6], 80.0), ([[2.0] * 6, [4.0] * 6, [4.0] * 6], 75.0),
    ([[2.0, 2.0, 2.0, 2.0, 2.0, 9.0], [4.0] * 6, [2.5] * 6], 80.0),
])  # fmt: skip
def test_one_that_wins_is_timed_anew_with_the_best_and_the_default(rounds, value):
    worker = Asked(pairs=race_won(0.5), rounds=[rounds])
    done = attempt(worker, Task(MINE, DEFAULT, BEST, 100.0, 150.0, known=frozenset("abc")), Built("code", 1.0))
    assert [call[0] for call in worker.said] == ["check", *["pairs"] * 4, "rounds", "check"]
    assert worker.said[5] == ("rounds", ([MINE, DEFAULT, BEST], 6, 3), 1.0 + (18 + 6) * 10 * 0.15)
    assert done.value == pytest.approx(value)
    assert done.time_ms == 2.0
    assert done.launches == 32 + 18
    ratios = [a / b for a, b in zip(*rounds[:2], strict=True)]
    assert done.between == (min(ratios), max(ratios))


def test_the_default_is_asked_for_once_where_it_is_the_best():
    worker = Asked(pairs=race_won(0.5), rounds=[[[2.0] * 6, [4.0] * 6]])
    done = attempt(worker, Task(MINE, DEFAULT, DEFAULT, 100.0, 100.0), Built("code", 1.0))
    assert worker.said[5][1] == ([MINE, DEFAULT], 6, 0)
    assert (done.value, done.launches) == (50.0, 44)


def test_a_race_that_is_even_is_not_won():
    worker = Asked(pairs=race_won(1.0))
    done = attempt(worker, Task(MINE, DEFAULT, BEST, 100.0, 150.0), Built("code", 1.0))
    assert [call[0] for call in worker.said] == ["check", *["pairs"] * 4]
    assert (done.value, done.race.lost) == (100.0, False)


def test_what_fails_has_no_value():
    task = Task(MINE, DEFAULT, BEST, 100.0, 150.0)
    built = Built("code", 1.0)
    failed = attempt(Asked(), task, Failed("compile", "why"))
    assert (failed.failure.reason, failed.built, failed.value) == ("why", None, None)
    failed = attempt(Asked(build=[Failed("compile", "why")]), task)
    assert (failed.failure.reason, failed.built) == ("why", None)
    failed = attempt(Asked(check=[Failed("correctness", "wrong")]), task, built)
    assert (failed.failure.reason, failed.built, failed.max_error) == ("wrong", built, None)
    worker = Asked(check=[0.0, Failed("correctness", "wrong", "all of it")], pairs=race_won(0.5),
                   rounds=[[[2.0] * 6, [4.0] * 6, [4.0] * 6]])  # fmt: skip
    failed = attempt(worker, task, built)
    assert failed.value is None
    assert str(failed.failure) == "correctness: right at first, and no more when it is called again: wrong"
    assert failed.failure.detail == "all of it"


def test_machine_code_that_is_known_is_not_called():
    task = Task(MINE, DEFAULT, BEST, 100.0, 150.0, known=frozenset({"code"}))
    worker = Asked()
    done = attempt(worker, task, Built("code", 1.0))
    assert (worker.said, done.value, done.failure, done.device) == ([], None, None, "d")
    assert math.isnan(done.time_ms)
    worker = Asked(pairs=[([6.0, 8.0], [3.0, 4.0])])
    attempt(worker, task, Built("", 1.0))  # of which nothing is known
    assert len(worker.said) == 2
