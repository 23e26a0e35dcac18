"""Recorded results in place of a device: what is given back, trails and their budgets, benches in figures."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from triton_kernels.tune import replay
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.replay import Enough, ReplayMeasure, Trail, recorded, replayed
from triton_kernels.tune.strategy import make

# -- recorded results --------------------------------------------------------------------------------------------------


def test_what_was_recorded_is_given_back():
    measure = ReplayMeasure({(1,): 4.0, (2,): "compile", (3,): "runtime"})
    one, two, three = ({"BLOCK": k} for k in (1, 2, 3))
    assert measure.open() == {"device": "recorded"}
    assert (measure.build(one).binary, measure.build(three).compile_ms, measure.check(one)) == ("", 0.0, 0.0)
    assert measure.pairs(one, None, 2) == ([4.0, 4.0], [])
    assert measure.pairs(one, one, 2) == ([4.0, 4.0], [4.0, 4.0])
    assert measure.rounds([one, one], 3, 0) == [[4.0] * 3] * 2
    for ask, status in [
        (lambda: measure.build(two), "compile"),
        (lambda: measure.check(three), "runtime"),
        (lambda: measure.pairs(three, None, 1), "runtime"),
        (lambda: measure.check(two), "compile"),
    ]:
        with pytest.raises(Failed, match="was recorded as failing") as info:
            ask()
        assert info.value.status == status


def trail(values):
    return Trail(values, np.array(values, float))  # of a table it asks for the length alone


@pytest.mark.parametrize(
    ("size", "budget"), [(10, 10), (200, 200), (3999, 200), (4000, 200), (8000, 400), (20_000, 600)]
)
def test_the_budget_of_a_trail(size, budget):
    assert trail(np.ones(size)).budget == budget


def test_a_trail_counts_until_it_is_near_the_best():
    found = trail([2.0, 1.0, 1.05, 1.01, math.inf, 1.06])
    assert (found(0), found(4), found(5)) == (2.0, None, 1.06)
    assert found.reached == {1.05: math.inf, 1.01: math.inf}
    assert found(2) == 1.05
    assert found.reached == {1.05: 4, 1.01: math.inf}
    with pytest.raises(Enough):
        found(3)
    assert found.reached == {1.05: 4, 1.01: 5}
    found = trail([2.0, 1.0, 3.0])
    found.budget = 2
    assert (found(0), found(2)) == (2.0, 3.0)
    with pytest.raises(Enough):
        found(0)
    assert found.count == 2


def test_a_bench_in_figures(monkeypatch):
    problem = replayed({k: float(v) for k, v in enumerate([9, 8, 7, 1.04, 1.0, 5])} | {9: "runtime"})
    table, values = recorded(problem)
    assert values.tolist() == [9, 8, 7, 1.04, 1.0, 5, math.inf]
    times = iter([0.0, 0.5, 10.0, 10.5])
    monkeypatch.setattr(replay, "time", SimpleNamespace(process_time=lambda: next(times)))
    found = replay.bench(problem, "exhaustive", seeds=2)
    counts = pytest.approx(4.0), pytest.approx(5.0)
    assert found == replay.Found("recorded, recorded", 7, 7, "exhaustive", *counts, 1.0, 1.0, 100.0)
    times = iter([0.0, 1.0])

    def search(trail, seed):
        trail(3)

    found = replay.bench(problem, "mine", seeds=1, search=search, name="n", space=(table, values))
    assert found == replay.Found("n", 7, 7, "mine", 1.0, pytest.approx(14.0), 1.0, 0.0, 1000.0)


def test_a_search_recalls_what_is_known_and_its_time_is_left_out(monkeypatch):
    table, values = recorded(replayed({k: float(v) for k, v in enumerate([9, 8, 7, 5, 1.0])}))
    times = iter([1.0, 3.5])
    monkeypatch.setattr(replay, "time", SimpleNamespace(process_time=lambda: next(times)))
    history = replay.History(np.array([4, 3]), np.array([1.0, 2.0]))
    way = Trail(table, values)
    with pytest.raises(Enough):
        replay.asking("exhaustive", lambda seed: [history] if seed == 5 else [])(way, 5)
    assert (way.count, way.apart_s) == (1, 2.5)
    values[:] = [9, 8, 7, 5, math.inf]
    way = Trail(table, values)
    way._best = 0.0
    replay.asking("exhaustive")(way, 0)
    assert way.count == 5
    assert make("exhaustive", table).ask() == 0
