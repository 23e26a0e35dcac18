"""A session's own book-keeping: its budget and what of it is left to the final, pauses, what is taken over, what is
kept; and trials as strategy, store and world are told of them."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.tune import beside as beside_
from triton_kernels.tune import elsewhere, lookup, recall
from triton_kernels.tune import events as ev
from triton_kernels.tune import session as sessions
from triton_kernels.tune.attempt import Attempt
from triton_kernels.tune.beside import Beside
from triton_kernels.tune.measure import Built, Failed
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.race import Race
from triton_kernels.tune.replay import ReplayMeasure, replayed
from triton_kernels.tune.session import Session
from triton_kernels.tune.space import Space, Tunable
from triton_kernels.tune.store import Store
from triton_kernels.tune.strategy import make
from triton_kernels.tune.table import Table
from triton_kernels.tune.trials import Trials
from triton_kernels.tune.worker import Stopped


class Noisy(ReplayMeasure):
    """Recorded times that are taken as if they scattered; `binary` may be given by config."""

    def build(self, config):
        return Built(getattr(self, "codes", {}).get(config["BLOCK"], f"code {config['BLOCK']}"), 1.0)


def noisy(times, **changes):
    problem = replayed(times)
    return dataclasses.replace(problem, measure=Noisy(problem.measure.times, steady=False), **changes)


@pytest.fixture
def clock(monkeypatch):
    """The session's clock; a wait takes no time."""
    now = SimpleNamespace(s=1000.0)
    monkeypatch.setattr(sessions, "time", SimpleNamespace(
        monotonic=lambda: now.s, sleep=lambda seconds: setattr(now, "s", now.s + seconds)))  # fmt: skip
    return now


# -- the budget --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "start_s", "check_s", "kind", "check", "reserve"), [
    ("60s", 1.0, 0.1, "cpu", None, 12.0),  # 3 (1 + 1) + 8 5 0.1 = 10 are less than a fifth
    ("60s", 2.0, 0.2, "cpu", None, 17.0), ("60s", 1.0, 0.5, "cpu", None, 21.0),  # at most 35 %
    ("1h", 1.0, 0.1, "cpu", None, 60.0), ("40s", 0.0, 0.0, "cuda", None, 8.0), ("40s", 0.0, 0.0, "static", "any", 13.0),
    ("60s", 9.0, 9.0, "replay", None, 0.0), (None, 9.0, 9.0, "cpu", None, 0.0),
])  # fmt: skip
def test_what_is_left_to_the_final(budget, start_s, check_s, kind, check, reserve):
    session = Session(noisy({1: 1.0}), budget=budget)
    session._start_s, session.trials.check_s = start_s, check_s
    session.problem = dataclasses.replace(session.problem, check=check)
    session.problem.measure.kind = kind
    assert session._reserve() == pytest.approx(reserve)


def test_what_is_spent_and_what_is_allowed(clock):
    session = Session(noisy({1: 1.0, 2: 1.0}), budget=60)
    assert session.spent_s == 0.0
    iter(session)
    clock.s += 10.0
    session._paused_s = 4.0
    assert session.spent_s == 6.0
    session._allow(5.0)
    assert session.trials.clock.until == 1010.0 + 60.0 - 6.0 - 5.0
    assert session._final_s() == 20.0
    clock.s += 44.0
    assert session._final_s() == 10.0
    assert session._spent() == ""
    clock.s += 10.0  # just 60
    assert session._spent() == ""
    clock.s += 0.1
    assert session._spent() == "budget"
    endless = Session(noisy({1: 1.0}), budget=None, evaluations=3)
    endless._allow(5.0)
    assert endless.trials.clock.until == math.inf
    assert endless._final_s() == 10.0
    for count, why in ((2, ""), (3, "evaluations"), (4, "evaluations")):
        endless.trials.count = count
        assert endless._spent() == why
    with pytest.raises(RuntimeError, match="a session runs once"):
        iter(session)


def test_a_pause_takes_nothing_of_the_budget(clock, monkeypatch):
    session = Session(noisy({1: 1.0}), budget=60)
    session.trials.clock.until = 1050.0
    session._wait()
    assert (session._paused_s, clock.s) == (0.0, 1000.0)
    session.pause()
    waits = []

    def wait(seconds):
        waits.append(seconds)
        clock.s += seconds
        if len(waits) == 3:
            session.go_on()
        return session._going.is_set.__call__()

    monkeypatch.setattr(session._going, "wait", wait)
    session._wait()
    assert waits == [0.05] * 3
    assert session._paused_s == pytest.approx(0.15)
    assert session.trials.clock.until == pytest.approx(1050.15)
    session.pause()
    session.stop()
    session._wait()
    assert len(waits) == 4


def test_how_many_are_tried_at_once(monkeypatch):
    monkeypatch.setattr(sessions, "cpu_count", lambda: 3)
    assert Session(noisy({1: 1.0})).jobs == 1
    apart = noisy({1: 1.0})
    apart.measure.apart = True
    assert Session(apart).jobs == 3
    monkeypatch.setattr(sessions, "cpu_count", lambda: 8)
    assert Session(apart).jobs == 4
    assert Session(apart, jobs=6).jobs == 6
    session = Session(noisy(dict.fromkeys(range(9), 1.0)), evaluations=5, strategy="exhaustive")
    session.trials.count = 2
    assert len(session._next(2)) == 2
    assert len(session._next(9, 1)) == 2  # two are left of five
    assert session._next(9, 3) == []


def test_where_others_are_waited_for(clock):
    session = Session(noisy(dict.fromkeys(range(3), 1.0)), strategy="exhaustive")
    session.trials.strategy.asked[:] = True
    assert session._next(2) == []
    assert clock.s == 1000.0
    session.beside.waiting = {1: math.inf}
    assert session._next(2, 1) == []
    assert clock.s == 1000.0
    assert session._next(2) == []
    assert clock.s == 1000.05


def test_a_space_that_is_drawn_from_is_told_of():
    big = Space([Tunable(n, tuple(range(40)), 3) for n in "ABCDE"])
    problem = dataclasses.replace(noisy({1: 1.0}), space=big, notes=("first",))
    session = Session(problem)
    drawn = "the space is too large to enumerate: 20,000 of its configs were drawn, and those around the best join"
    assert session._notes == ["first", drawn]


# -- what is taken over ------------------------------------------------------------------------------------------------


def kept(problem, folder, *trials):
    store = Store(folder)
    session = store.begin(problem.key, {}, "x")
    for config, more in trials:
        store.add(problem.key, session, {"config": config, "status": "correct", "n": 4, **more})
    return store


def test_earlier_trials_are_scaled_by_the_best_of_them_which_is_timed_anew(tmp_path):
    problem = noisy({1: 4.0, 2: 3.0, 3: 2.0, 5: 1.0, 6: 1.0, 7: 9.0})
    before = (2, 0.6), (3, 0.4), (1, 1.0)
    trials = [({"BLOCK": b}, {"ratio": r, "median_ms": r, "binary": f"code {b}"}) for b, r in before]
    trials += [
        ({"BLOCK": 5}, {"status": "runtime", "reason": "gone", "binary": "code 5"}),
        ({"BLOCK": 6}, {"status": "timeout"}),
        ({"BLOCK": 99}, {"ratio": 0.1, "median_ms": 1.0}),
        ({"BLOCK": 7}, {"status": "runtime", "reason": elsewhere.LOST}),
    ]
    with kept(problem, tmp_path, *trials) as store:
        session = Session(problem, store=store, budget=None, strategy="exhaustive")
        events = list(session)
        result = session.result
    assert events[0] == ev.Started(6, 5, "recorded")  # what ran out of time or was lost is tried again
    assert (result.resumed, result.evaluations) == (3, 3)
    assert [e.config["BLOCK"] for e in events if isinstance(e, ev.Compiled)] == [1, 6, 7]
    values = dict(zip((1, 2, 3, 5, 6, 7), session.trials.strategy.values.tolist(), strict=True))
    assert values[3] == pytest.approx(2.0)  # timed anew: half of the default's 4, where it was 0.4 of it
    assert values[2] == pytest.approx(0.6 * 4.0 * 2.0 / 4.0 / 0.4)
    assert values[5] == math.inf
    assert session.trials.of_binary["code 5"] == ({"BLOCK": 5}, None, "runtime|gone")
    assert session.trials.of_binary["code 2"][1] == pytest.approx(3.0)
    assert result.config == {"BLOCK": 6}
    assert session.trials.built[session.table.code({"BLOCK": 3})].binary == "code 3"


def test_the_best_of_before_that_is_wrong_now_and_steady_times(tmp_path):
    problem = noisy({1: 4.0, 2: 3.0, 3: "runtime"})
    trials = [({"BLOCK": b}, {"ratio": r, "median_ms": r}) for b, r in ((2, 0.5), (3, 0.4))]
    with kept(problem, tmp_path / "a", *trials) as store:
        session = Session(problem, store=store, budget=None)
        list(session)
        assert session.trials.strategy.values.tolist() == [4.0, 2.0, math.inf]
    with kept(problem, tmp_path / "b", *trials) as store:
        fresh = Session(problem, store=store, budget=None, resume=False)
        assert next(iter(fresh)) == ev.Started(3, 0, "recorded")
    problem.measure.steady = True
    with kept(problem, tmp_path / "c", *trials) as store:
        session = Session(problem, store=store, budget=None)
        list(session)
        assert session.trials.strategy.values.tolist() == [4.0, 2.0, pytest.approx(1.6)]


def test_a_default_that_is_wrong_at_an_odd_shape_ends_it():
    class Odd(Noisy):
        def check(self, config, seed=0, odd=False):
            if odd:
                raise Failed("correctness", "wrong at an odd shape")
            return super().check(config, seed, odd)

    problem = noisy({1: 4.0, 2: 3.0})
    problem = dataclasses.replace(problem, measure=Odd(problem.measure.times, steady=False))
    session = Session(problem, budget=None)
    events = list(session)
    assert [type(e).__name__ for e in events] == ["Started", "Compiled", "Measured", "Rejected", "Finished"]
    assert (session.result.verdict, session.result.best, session.result.ended) == ("failed", None, "complete")
    assert session.result.reasons == (("correctness: BLOCK=1: wrong at an odd shape", 1),)


# -- the result --------------------------------------------------------------------------------------------------------


def test_a_result_in_figures(tmp_path):
    problem = noisy({1: 4.0, 2: 3.0, 3: 1.0, 4: "runtime", 5: "compile"}, notes=("a note",))
    with Store(tmp_path) as store:
        session = Session(problem, store=store, budget=None, strategy="exhaustive", seed=3)
        events = list(session)
        (told,) = store.problems()
    r = session.result
    assert events[-1] == ev.Finished(r)
    assert (r.kernel, r.shape, r.dtype, r.kind, r.device, r.strategy) == (
        "recorded", (1,), "float32", "replay", "recorded", "exhaustive")  # fmt: skip
    assert (r.verdict, r.config, r.default.time_ms, r.best.ratio) == ("faster", {"BLOCK": 3}, 4.0, 0.25)
    assert [p.config["BLOCK"] for p in r.top] == [3, 2, 1]
    assert (r.evaluations, r.resumed, r.merged, r.space_size, r.ended) == (5, 0, 0, 5, "complete")
    assert (r.stored, r.notes, r.vendor, r.ties) == (str(tmp_path / "tuning.db"), ("a note",), None, ())
    assert r.rejected == {"runtime": 1, "compile": 1}
    assert 0 <= r.seconds < 60
    assert (told["winner"]["config"], told["winner"]["ratio"], len(told["trials"])) == ({"BLOCK": 3}, 0.25, 5)
    lookup.forget()


def test_nothing_is_kept_of_estimates_and_of_what_was_not_told_apart(tmp_path, monkeypatch):
    problem = noisy({1: 4.0, 2: 3.0})
    problem.measure.estimate = problem.measure.steady = True
    with Store(tmp_path / "a") as store:
        session = Session(problem, store=store, budget=None)
        list(session)
        assert store.trials(problem.key) == []
        assert (session.result.stored, session.result.verdict) == ("", "estimate")
    problem = noisy({1: 4.0, 2: 3.0})
    monkeypatch.setattr(sessions.Final, "_rounds", lambda self, entrants, worker: iter(()))
    with Store(tmp_path / "b") as store:
        session = Session(problem, store=store, budget=None)
        list(session)
        assert (session.result.verdict, session.result.config) == ("noisy", {"BLOCK": 1})
        assert store.problems()[0]["winner"] is None
        assert session.result.stored == str(tmp_path / "b" / "tuning.db")


def test_stopped_while_it_searches(monkeypatch):
    seen = []
    final = sessions.Final.__init__

    def noted(self, trials, limit_s, seed):
        seen.append((limit_s, seed, trials.stopping.is_set()))
        final(self, trials, limit_s, seed)

    monkeypatch.setattr(sessions.Final, "__init__", noted)
    session = Session(noisy({1: 4.0, 2: 3.0, 3: 2.0}), budget=None, strategy="exhaustive", seed=8)
    events = []
    for event in session:
        events.append(event)
        if isinstance(event, ev.Improved):
            session.stop()
    assert seen == [(2.0, 8, False)]
    assert ev.Stopped("stopped") in events
    assert (session.result.ended, session.result.config) == ("stopped", {"BLOCK": 2})
    session = Session(noisy({1: 4.0, 2: 3.0}), budget=None, evaluations=1)
    assert ev.Stopped("evaluations") in list(session)
    assert (session.result.ended, seen[1]) == ("evaluations", (10.0, 0, False))


# -- trials ------------------------------------------------------------------------------------------------------------


class Kept:
    def __init__(self):
        self.added = []

    def add(self, key, session, trial):
        self.added.append((session, dict(trial)))


def trials_of(count=6):
    problem = noisy(dict.fromkeys(range(count), 1.0))
    table = Table(problem.space)
    trials = Trials(problem, table, make("exhaustive", table), Kept())
    trials.session = "mine"
    return trials


def tried(k, value, **more):
    return Attempt({"BLOCK": k}, Built(f"code {k}", 7.0), None, 0.25, Race(0.5, 4, False, (1.0, 2.0)), value, 3.0,
                   launches=8, check_s=0.5, **more)  # fmt: skip


def test_each_trial_is_told_to_all():
    trials = trials_of()
    assert list(trials.concluded(tried(0, 4.0))) == [ev.Measured({"BLOCK": 0}, 3.0, 4)]
    assert (trials.default_ms, trials.check_s, trials.anchor, trials.value) == (4.0, 0.5, {"BLOCK": 0}, 4.0)
    assert trials.store.added == [("mine", {
        "config": {"BLOCK": 0}, "binary": "code 0", "compile_ms": 7.0, "status": "correct", "median_ms": 3.0,
        "ratio": 1.0, "n": 4, "samples": [1.0, 2.0], "max_error": 0.25})]  # fmt: skip
    better = tried(1, 2.0, between=(0.4, 0.6))
    assert list(trials.concluded(better)) == [
        ev.Measured({"BLOCK": 1}, 3.0, 4), ev.Improved({"BLOCK": 1}, 3.0, 0.5, 0.4, 0.6)]  # fmt: skip
    assert (trials.default_ms, trials.check_s, trials.anchor) == (4.0, 0.5, {"BLOCK": 1})
    assert [type(e) for e in trials.concluded(tried(2, 2.0))] == [ev.Measured]  # as fast is no better
    lost = dataclasses.replace(tried(3, 8.0), race=Race(2.0, 2, True, (1.0, 2.0)))
    assert list(trials.concluded(lost)) == [ev.Measured({"BLOCK": 3}, 3.0, 2, raced_out=True)]
    failed = Attempt({"BLOCK": 4}, Built("code 4", 7.0), Failed("runtime", "gone", "all of it"), launches=2)
    assert list(trials.concluded(failed)) == [ev.Rejected({"BLOCK": 4}, "runtime", "gone", "all of it")]
    assert trials.store.added[-1][1] == {"config": {"BLOCK": 4}, "binary": "code 4", "compile_ms": 7.0,
                                         "status": "runtime", "reason": "gone", "detail": "all of it"}  # fmt: skip
    assert list(trials.concluded(Attempt({"BLOCK": 5}, failure=Failed("compile", "no")))) == [
        ev.Rejected({"BLOCK": 5}, "compile", "no")]  # fmt: skip
    assert (trials.count, trials.launches, trials.merged, len(trials.rejected)) == (6, 34, 0, 2)
    assert trials.strategy.values.tolist() == [4.0, 2.0, 2.0, 8.0, math.inf, math.inf]
    assert set(trials.of_binary) == {f"code {k}" for k in range(5)}


def test_equal_machine_code_is_told_of_once():
    trials = trials_of()
    list(trials.concluded(tried(0, 4.0)))
    again = dataclasses.replace(tried(1, None), built=Built("code 0", 1.0), race=None)
    assert list(trials.concluded(again)) == [ev.Measured({"BLOCK": 1}, 4.0, 0, {"BLOCK": 0})]
    assert trials.store.added[-1][1] == {"config": {"BLOCK": 1}, "binary": "code 0", "compile_ms": 1.0,
                                         "status": "correct", "median_ms": 4.0, "ratio": 1.0, "n": 0}  # fmt: skip
    list(trials.concluded(Attempt({"BLOCK": 2}, Built("code 2", 1.0), Failed("runtime", "gone|away"))))
    assert list(trials.concluded(Attempt({"BLOCK": 3}, Built("code 2", 1.0)))) == [
        ev.Rejected({"BLOCK": 3}, "runtime", "gone|away")]  # fmt: skip
    assert trials.merged == 2
    list(trials.concluded(dataclasses.replace(tried(4, 5.0), built=Built("", 1.0))))
    assert [type(e) for e in trials.concluded(dataclasses.replace(tried(5, 6.0), built=Built("", 1.0)))] == [
        ev.Measured
    ]
    assert trials.merged == 2


def test_a_task_is_against_the_best_or_the_default():
    trials = trials_of()
    list(trials.concluded(tried(0, 4.0)))
    list(trials.concluded(tried(1, 2.0)))
    trials.device = "d"
    task = trials.task({"BLOCK": 2})
    assert (task.anchor, task.value, task.default_ms, task.check_s, task.device) == ({"BLOCK": 1}, 2.0, 4.0, 0.5, "d")
    assert (task.known, task.default, task.steady) == ({"code 0", "code 1"}, {"BLOCK": 0}, False)
    anew = trials.task({"BLOCK": 2}, {"BLOCK": 0})
    assert (anew.anchor, anew.value, anew.known) == ({"BLOCK": 0}, 4.0, frozenset())


def test_building_and_what_others_know():
    trials = trials_of()
    failed, stopped = Failed("compile", "no"), Stopped()
    for error in (failed, stopped):
        worker = SimpleNamespace(call=lambda *a, limit_s, error=error: (_ for _ in ()).throw(error))
        assert trials.build_or_why({"BLOCK": 1}, worker) is error
        with pytest.raises(type(error)):
            trials.build({"BLOCK": 1}, worker)
    with pytest.raises(Stopped):
        next(trials.measured({"BLOCK": 1}, stopped, None))
    trials.know({"binary": "b", "status": "runtime", "reason": "r", "config": {"BLOCK": 3}}, None)
    trials.know({"binary": "b", "status": "correct", "config": {"BLOCK": 4}}, 1.0)
    trials.know({"binary": None, "status": "correct", "config": {"BLOCK": 4}}, 1.0)
    assert trials.of_binary == {"b": ({"BLOCK": 3}, None, "runtime|r")}


# -- others at the same moment -----------------------------------------------------------------------------------------


class Others:
    """A store in which others claim configs and tell of trials."""

    def __init__(self):
        self.claimed, self.told, self.asked = set(), [], []

    def claim(self, key, session, config):
        self.asked.append(config["BLOCK"])
        return config["BLOCK"] not in self.claimed

    def news(self, key, session):
        told, self.told = self.told, []
        return told


def test_what_others_try_is_put_off(monkeypatch):
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(beside_, "time", SimpleNamespace(monotonic=lambda: now.s))
    trials, others = trials_of(), Others()
    trials.default_ms = 4.0
    beside = Beside(trials, others)
    others.claimed = {1, 3}
    assert [c["BLOCK"] for c in beside.choose(3)] == [0, 2, 4]
    assert beside.waiting == {1: 100.3, 3: 100.3}
    others.claimed = {3}
    now.s = 100.2
    assert [c["BLOCK"] for c in beside.choose(0)] == []
    now.s = 100.3
    assert [c["BLOCK"] for c in beside.choose(1)] == [1]
    assert beside.waiting == {3: 100.3}
    assert [c["BLOCK"] for c in beside.choose(2)] == [5]
    assert beside.waiting == {3: 100.6}
    assert others.asked == [0, 1, 2, 3, 4, 1, 3, 5]
    others.told = [{"config": {"BLOCK": 3}, "status": "correct", "ratio": 0.5, "binary": "b"},
                   {"config": {"BLOCK": 0}, "status": "correct", "ratio": 1.0},
                   {"config": {"BLOCK": 77}, "status": "correct"},
                   {"config": {"BLOCK": 5}, "status": "timeout", "ratio": None},
                   {"config": {"BLOCK": 4}, "status": "runtime", "ratio": None}]  # fmt: skip
    beside.hear()
    assert (beside.waiting, beside.heard) == ({}, 2)
    values = trials.strategy.values
    assert (values[3], values[4]) == (2.0, math.inf)
    assert np.isnan(values[[0, 5]]).all()
    assert trials.of_binary == {"b": ({"BLOCK": 3}, 2.0, "correct|")}
    alone = Beside(trials_of(), None)
    assert [c["BLOCK"] for c in alone.choose(2)] == [0, 1]


# -- what is known of elsewhere ----------------------------------------------------------------------------------------


def problem_at(shape=(64, 64), device="NVIDIA H100", dtype="float32", kernel="k_f32", mode="cuda; x"):
    space = Space([Tunable("A", tuple(range(20)), 0), Tunable("B", (0, 1), 0)])
    return Problem(kernel, shape, dtype, space, ReplayMeasure({}), "s", device, mode)


def test_winners_of_elsewhere_are_tried_the_nearest_first(tmp_path):
    here = problem_at()
    with Store(tmp_path) as store:
        assert recall.first_rows(here, Table(here.space), store) == []
        places = [  # how far: powers of two, 10 for another dtype, 20 for another device, 100 for another maker's
            (problem_at((64, 128)), 1), (problem_at(), 2), (problem_at(dtype="float16", kernel="k_f16"), 3),
            (problem_at(device="NVIDIA A100"), 4), (problem_at(device="AMD MI300X"), 5), (problem_at((64, 1 << 19)), 6),
            (problem_at((64,)), 7), (problem_at(kernel="other_f32"), 8), (problem_at((32, 64)), 99),
        ]  # fmt: skip
        for problem, a in places:
            session = store.begin(problem.key, {}, "x")
            store.win(problem.key, session, {"config": {"A": a}, "ratio": 0.5, "low": 0.4, "high": 0.6})
        table = Table(here.space)
        found = [table.config(row) for row in recall.first_rows(here, table, store)]
        assert found == [{"A": a, "B": 0} for a in (2, 1, 3, 6, 4)]
        assert recall.first_rows(here, table, None) == []
        here.measure.estimate = True
        assert recall.first_rows(here, table, store) == []
        assert recall.histories(here, table, store) == []


def test_histories_are_of_the_nearest_that_have_enough(tmp_path):
    here = problem_at()
    with Store(tmp_path) as store:

        def trials(problem, count, ratio=0.5, *more):
            session = store.begin(problem.key, {}, "x")
            for a in range(count):
                store.add(problem.key, session, {"config": {"A": a}, "status": "correct", "ratio": ratio + a,
                                                 "median_ms": 9.0})  # fmt: skip
            for trial in more:
                store.add(problem.key, session, trial)

        trials(here, 9)
        trials(problem_at((64, 128)), 8, 1.0, {"config": {"A": 15}, "status": "runtime"},
               {"config": {"A": 16}, "status": "timeout"}, {"config": {"A": 77}, "status": "correct", "ratio": 1.0},
               {"config": {"A": 17}, "status": "correct", "median_ms": 3.0})  # fmt: skip
        trials(problem_at((64, 256)), 7)
        trials(problem_at((64, 512)), 9, 2.0)
        trials(problem_at((64, 1 << 12)), 9, 3.0)  # just six powers of two
        trials(problem_at((64, 1 << 13)), 9, 4.0)
        trials(problem_at(device="AMD MI300X"), 9, 5.0)
        trials(problem_at(mode="static; x"), 9, 6.0)
        trials(problem_at(mode="cuda; y"), 9, 7.0)
        table = Table(here.space)
        found = recall.histories(here, table, store)
        assert [h.values.min() for h in found] == [7.0, 1.0, 2.0]  # three at most
        assert recall.histories(here, table, None) == []
        first = dict(zip(found[1].rows.tolist(), found[1].values.tolist(), strict=True))
        row = {a: table.find({"A": a, "B": 0}) for a in range(20)}
        assert first == {row[a]: 1.0 + a for a in range(8)} | {row[15]: math.inf, row[17]: 3.0}
