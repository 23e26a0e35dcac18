"""A final's steps by a worker that is made up: who is asked what, how often and for how long, and what follows."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from triton_kernels.tune import events as ev
from triton_kernels.tune import final as finals
from triton_kernels.tune.final import Final
from triton_kernels.tune.measure import VENDOR, Built, Failed
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.replay import ReplayMeasure
from triton_kernels.tune.space import Space
from triton_kernels.tune.store import Store
from triton_kernels.tune.strategy import make
from triton_kernels.tune.table import Table
from triton_kernels.tune.trials import Trials
from triton_kernels.tune.worker import Late


def config(k):
    return {"A": k}


class Asked:
    """A worker whose configs take `times` (a number, or one a round), and in which a call may fail: `fails` is asked
    with the method, the config and how often it was asked for that before."""

    def __init__(self, times, fails=lambda method, config, before: None, facts=()):
        self.times, self.fails, self.facts = times, fails, {"device": "d", **dict(facts)}
        self.said, self.process = [], 0

    def call(self, method, about, *more, limit_s):
        before = sum(said[:2] == (method, about) for said in self.said)
        self.said.append((method, about, *more, limit_s))
        if (error := self.fails(method, about, before)) is not None:
            raise error
        if method == "build":
            return Built(f"code {about['A']}", 1.0, {"registers": about["A"]})
        if method == "rounds":
            return [[self._time(c, k) for k in range(more[0])] for c in about]
        return ([1.0] * more[-1], []) if method == "pairs" else 0.0

    def _time(self, config, k):
        found = self.times["vendor" if config == VENDOR else config["A"]]
        return found if isinstance(found, float) else found[self.process % len(found)][k]

    def renew(self):
        self.process += 1
        self.said.append(("renew",))

    def of(self, method):
        return [said[1:] for said in self.said if said[0] == method]


def trials_of(count, values=None, store=None, **measure):
    """Trials of so many configs whose races have been run; the first is the default, of 2 ms."""
    times = {(k,): 1.0 for k in range(count)}
    problem = Problem("k", (8, 9), "float32", Space.of([config(k) for k in range(count)]),
                      ReplayMeasure(times, **{"steady": False, **measure}), "s", "d", "m")  # fmt: skip
    table = Table(problem.space)
    trials = Trials(problem, table, make("exhaustive", table), store)
    trials.default_ms, trials.check_s = 2.0, 0.5
    for k in range(count):
        trials.strategy.tell(k, 2.0 - 0.1 * k if values is None else values[k])
    trials.become(config(count - 1), 1.0)
    return trials


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that stands still unless it is moved."""
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(finals, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def held(trials, worker, limit_s=20.0, seed=7):
    final = Final(trials, limit_s, seed)
    return final, list(final.run(worker))


def test_finalists_are_checked_and_timed_in_three_processes():
    worker = Asked({0: 2.0, 1: 1.5, 2: 1.0})
    final, events = held(trials_of(3), worker)
    assert events == []
    check = 1.0 + 10 * 1.0 / 1e3 + 2 * 0.5 + 10.0
    for k in (2, 1):  # the best of the races first
        assert worker.said[5 * (2 - k) :][:5] == [
            ("build", config(k), 90.0), ("check", config(k), 1, False, check), ("check", config(k), 0, True, check),
            ("check", config(k), 1, False, check), ("check", config(k), 0, False, check)]  # fmt: skip
    entrants = [config(0), config(2), config(1)]
    limit = 10.0 + 1.0 + 12 * 10.0 * 4.0 / 1e3
    assert worker.of("rounds") == [(entrants, 4, 7 + 100 * k + n, limit) for k in range(3) for n in range(0, 24, 4)]
    assert worker.process == 2
    checks = worker.of("check")[8:]
    assert [c[:2] for c in checks] == [(config(2), 0), (config(2), 1), (config(1), 0), (config(1), 1)] + [
        (config(2), 0), (config(1), 0)] * 2  # fmt: skip
    assert (final.verdict, final.ran, final.ties, final.notes, final.vendor) == ("faster", True, [], [], None)
    assert [(p.config["A"], p.time_ms, p.ratio, p.low, p.high) for p in final.places] == [
        (2, 1.0, 0.5, 0.5, 0.5), (1, 1.5, 0.75, 0.75, 0.75), (0, 2.0, 1.0, 1.0, 1.0)]  # fmt: skip
    assert final.places[0].facts == {"registers": 2}
    assert final.default == final.places[2]


def test_a_process_runs_rounds_for_an_eighth_of_the_time(clock):
    worker = Asked({0: 2.0, 1: 1.0})

    def late(method, about, before):
        clock.s += 1.0 if method == "rounds" else 0.0

    worker.fails = late
    held(trials_of(2), worker, limit_s=16.0)
    assert [said[2] for said in worker.of("rounds")] == [7, 11, 15, 107, 111, 115, 207, 211, 215]  # until beyond 2 s


def test_processes_follow_until_intervals_are_narrow_or_the_time_is_over(clock):
    apart = {0: 2.0, 1: [[1.0 + 0.1 * p] * 4 for p in range(9)]}
    worker = Asked(apart)
    final, _ = held(trials_of(2), worker)
    assert worker.process == 7  # eight at most
    assert "the final's time was over before its intervals were narrow" in final.notes[0]
    worker = Asked(apart)
    worker.fails = lambda method, about, before: setattr(clock, "s", clock.s + (20.0 if method == "rounds" else 0.0))
    held(trials_of(2), worker)
    assert worker.process == 2  # yet three at least
    clock.s = 0.0
    worker = Asked(apart)
    worker.fails = lambda method, about, before: setattr(clock, "s", clock.s + (4.0 if method == "rounds" else 0.0))
    held(trials_of(2), worker)
    assert worker.process == 5  # at just 20 s one more


def test_as_many_as_have_places_are_in_it_and_the_next_takes_the_place_of_who_fails():
    wrong = Failed("correctness", "wrong")

    def fails(method, about, before):
        if method == "check" and about == config(9):
            return wrong if before == 3 else None  # at its fourth check
        return wrong if method == "check" and about == config(8) and before == 0 else None

    worker = Asked(dict.fromkeys(range(10), 1.0), fails)
    final, events = held(trials_of(10), worker)
    assert [(e.config["A"], e.reason) for e in events] == [
        (9, "right at first, and no more when it is called again: wrong"), (8, "wrong")]  # fmt: skip
    assert [c["A"] for c in worker.of("rounds")[0][0]] == [0, 7, 6, 5, 4, 3, 2]  # the default and six others
    assert (final.verdict, final.places[0].config) == ("default", config(0))


def test_who_is_wrong_when_all_have_run_is_replaced_and_all_begin_anew():
    wrong = Failed("correctness", "wrong")

    def fails(method, about, before):
        return wrong if method == "check" and about == config(2) and before == 6 else None

    worker = Asked({0: 2.0, 1: 1.5, 2: 1.0}, fails)
    final, events = held(trials_of(3), worker)
    assert [e.reason for e in events] == ["right at first, and no more when it is called again: wrong"]
    assert isinstance(events[0], ev.Rejected)
    assert [len(said[0]) for said in worker.of("rounds")] == [3] * 12 + [2] * 18  # noticed in the second process
    assert (final.places[0].config, final.verdict) == (config(1), "faster")


def test_who_ends_the_process_while_timing_is_found_by_itself():
    gone = Failed("runtime", "gone")

    def fails(method, about, before):
        if method == "rounds" and config(2) in about:
            return gone
        return gone if method == "pairs" and about == config(2) else None

    worker = Asked({0: 2.0, 1: 1.5, 2: 1.0}, fails)
    final, events = held(trials_of(3), worker)
    assert worker.of("pairs") == [(c, None, 8, 1.0 + 12 * 10 * 2.0 / 1e3) for c in (config(2), config(1))]
    assert [(e.config["A"], e.reason) for e in events] == [(2, "gone")]
    assert final.places[0].config == config(1)
    final, events = held(trials_of(2), Asked({0: 2.0, 1: 1.5}, lambda m, a, b: gone if m == "rounds" else None))
    assert events == []
    assert final.notes == ["the final was cut short: gone"]
    assert (final.verdict, final.ran, [p.config for p in final.places]) == ("noisy", False, [config(0)])


def test_one_process_tells_of_no_winner():
    def fails(method, about, before):
        return Late() if method == "rounds" and worker.process == 1 else None

    worker = Asked({0: 2.0, 1: 1.0}, fails)
    final, _ = held(trials_of(2), worker)
    assert final.notes == ["the budget was over: the final was held in 1 of at least 3 processes"]
    assert (final.verdict, final.ran, final.places[0].config) == ("noisy", True, config(0))
    assert final.ties == []
    worker = Asked({0: 2.0, 1: 1.0}, lambda m, a, b: Late() if m == "rounds" and worker.process == 3 else None)
    final, _ = held(trials_of(2), worker)
    assert (final.verdict, final.notes) == ("faster", [])


def test_a_busy_machine_is_told_of():
    for spread, told in ((1.5, True), (1.2, False)):
        times = [1.0, 1.0, spread, spread] * 6
        final, _ = held(trials_of(2), Asked({0: [times], 1: [times]}))
        assert any(note.startswith("the machine is busy: the middle half of the default's own times spreads by 40%")
                   for note in final.notes) == told, final.notes  # fmt: skip


def test_what_the_vendors_library_takes_beside_the_best():
    worker = Asked({0: 2.0, 1: 1.0, "vendor": 4.0}, facts={"vendor": "BLAS"})
    final, _ = held(trials_of(2), worker)
    assert worker.of("check")[4] == (VENDOR, 0, False, 60.0)
    assert worker.of("rounds")[0][:2] == ([config(0), config(1), VENDOR], 4)
    assert final.vendor == ev.Vendor("BLAS", 4.0, 2.0, 2.0, 2.0, (0.25, 0.25, 0.25), 4.0)
    wrong = Failed("correctness", "wrong")
    worker = Asked({0: 2.0, 1: 1.0}, lambda m, a, b: wrong if a == VENDOR else None, {"vendor": "BLAS"})
    final, _ = held(trials_of(2), worker)
    assert final.vendor is None
    assert final.notes == ["BLAS was not compared with: wrong"]


def test_half_of_the_time_is_for_checks(clock):
    trials = trials_of(4)
    trials.clock = SimpleNamespace(until=10.0, left_s=10.0)
    seen = []

    def fails(method, about, before):
        seen.append((method, trials.clock.until))
        return Late() if method == "build" and about == config(1) else None

    worker = Asked(dict.fromkeys(range(4), 1.0), fails)
    final, _ = held(trials, worker)
    assert {until for method, until in seen if method == "build"} == {5.0}
    assert {until for method, until in seen if method == "rounds"} == {10.0}
    assert final.notes == ["the budget was over: 2 of the best configs were checked anew for the final, the others "
                           "left out"]  # fmt: skip
    assert [c["A"] for c in worker.of("rounds")[0][0]] == [0, 3, 2]


def test_second_data_that_the_default_does_not_take_are_left_out():
    trials = trials_of(2)
    trials.problem.measure.derived = True
    wrong = Failed("correctness", "wrong")
    worker = Asked({0: 2.0, 1: 1.0}, lambda m, a, b: wrong if m == "check" and a == config(0) else None)
    final, _ = held(trials, worker)
    assert [said[:3] for said in worker.of("check")][:3] == [
        (config(0), 1, False), (config(1), 0, True), (config(1), 0, False)]  # fmt: skip
    assert all(said[1] == 0 for said in worker.of("check")[1:])
    assert final.notes == ["no config was checked on second data: with three quarters of its floating inputs the "
                           "default differs from the reference (wrong)"]  # fmt: skip
    final, _ = held(
        trials, Asked({0: 2.0, 1: 1.0}, lambda m, a, b: Late() if m == "check" and a == config(0) else None)
    )
    assert final.notes == ["the budget was over: the finalists were not checked anew"]


def test_who_may_be_in_it():
    trials = trials_of(8, [2.0, math.nan, 1.0, 1.0, None, 0.5, 0.5, 3.0])
    for k, code in ((0, "default's"), (2, "twins"), (3, "twins"), (5, ""), (6, ""), (7, "default's")):
        trials.built[trials.table.code(config(k))] = Built(code, 1.0)
    final = Final(trials, 1.0, 0)
    assert [c["A"] for c in final._ranked()] == [5, 6, 2]  # one of each machine code; of "" nothing is known
    trials = trials_of(300, [float(k) for k in range(300)])
    assert len(list(Final(trials, 1.0, 0)._ranked())) == 199  # of two hundred that are looked at
    assert len(Final(trials, 1.0, 0).entrants()) == 6


def test_the_winner_of_an_earlier_session_comes_first(tmp_path):
    with Store(tmp_path) as kept:
        trials = trials_of(4, store=kept)
        key = trials.problem.key
        for k, of in ((2, key), (3, {**key, "shape": [1, 1]}), (3, {**key, "mode": "another"})):
            won = {"config": config(k), "ratio": 0.5, "low": 0.4, "high": 0.6, "ties": []}
            kept.win(of, kept.begin(of, {}, "x"), won)
            if of is key:
                assert [c["A"] for c in Final(trials, 1.0, 0)._ranked()] == [2, 3, 1]
        assert Final(trials, 1.0, 0)._stored_winner() == 2
        trials.problem.measure.estimate = True
        assert Final(trials, 1.0, 0)._stored_winner() is None


def test_times_that_do_not_scatter_are_ranked_as_they_are():
    trials = trials_of(3, [2.0, 4.0, 1.0], steady=True)
    final, events = held(trials, None)
    assert [(p.config["A"], p.time_ms, p.ratio, p.low, p.high) for p in final.places] == [
        (2, 1.0, 0.5, 0.5, 0.5), (0, 2.0, 1.0, 1.0, 1.0), (1, 4.0, 2.0, 2.0, 2.0)]  # fmt: skip
    assert (final.verdict, final.ran, events) == ("faster", True, [])
    final, _ = held(trials_of(2, [2.0, 4.0], steady=True), None)
    assert final.verdict == "default"
    final, _ = held(trials_of(2, [2.0, 4.0], steady=True, estimate=True), None)
    assert final.verdict == "estimate"


class Elsewhere:
    """The worker of another measure, in which some are wrong, and which has time for so many."""

    wrong, most, said = (), 99, []

    def __init__(self, measure, *, stopping, clock):
        self.measure = measure

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def call(self, method, config, seed, odd, limit_s):
        if len(self.said) >= self.most:
            raise Late
        self.said.append((method, config["A"], seed, odd, limit_s))
        if config["A"] in self.wrong:
            raise Failed("correctness", "wrong")


@pytest.mark.parametrize(("wrong", "most", "places", "verdict", "notes"), [
    ((), 99, [2, 1, 0], "faster", ["3 of 3 finalists give the right answer in Triton's interpreter, at 5x7"]),
    ((2,), 99, [1, 0], "faster", ["2 of 3 finalists give the right answer in Triton's interpreter, at 5x7"]),
    ((0,), 99, [], "failed", ["2 of 3 finalists give the right answer in Triton's interpreter, at 5x7"]),
    ((), 2, [2, 0], "faster", [
        "the budget was over: 1 of 3 finalists were not run in Triton's interpreter, and are left out",
        "2 of 3 finalists give the right answer in Triton's interpreter, at 5x7"]),
])  # fmt: skip
def test_what_is_only_compiled_is_checked_by_another_measure(monkeypatch, wrong, most, places, verdict, notes):
    made = type("Made", (Elsewhere,), {"wrong": wrong, "most": most, "said": []})
    monkeypatch.setattr(finals, "Worker", made)
    trials = trials_of(3, steady=True)
    object.__setattr__(trials.problem, "check", SimpleNamespace(shape=(5, 7)))
    final, events = held(trials, None)
    assert [p.config["A"] for p in final.places] == places
    assert (final.verdict, final.notes) == (verdict, notes)
    assert [e.config["A"] for e in events] == list(wrong)
    assert made.said[0] == ("check", 0, 0, False, 120.0)


def test_where_all_but_the_default_are_wrong_the_next_best_are_looked_at(monkeypatch):
    made = type("Made", (Elsewhere,), {"wrong": range(7, 30), "said": []})
    monkeypatch.setattr(finals, "Worker", made)
    trials = trials_of(20, [2.0 - 0.01 * k for k in range(20)], steady=True)
    object.__setattr__(trials.problem, "check", SimpleNamespace())
    final, events = held(trials, None)
    assert [e.config["A"] for e in events] == list(range(19, 6, -1))
    assert [p.config["A"] for p in final.places] == [6, 5, 4, 3, 2, 0]
    assert final.notes[0] == "1 of 7 finalists give the right answer in Triton's interpreter, at this shape"
