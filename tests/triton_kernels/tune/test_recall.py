"""What is known of elsewhere: a search begins where another device's ended, and wins by what it measures itself."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from triton_kernels.tune import recall
from triton_kernels.tune import strategy as strategies
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.replay import ReplayMeasure
from triton_kernels.tune.session import Session
from triton_kernels.tune.space import Space, Tunable
from triton_kernels.tune.store import Store
from triton_kernels.tune.strategy import History
from triton_kernels.tune.table import Table

SPACE = Space([Tunable("A", tuple(range(1, 21)), 1), Tunable("B", tuple(range(1, 21)), 1)])


def problem(device, at=(13, 7), slope=1.0, shape=(512, 512), kernel="k_f32"):
    """A valley whose lowest point is at a place of this device's."""
    times = {
        (a, b): 1.0 + slope * ((a - at[0]) ** 2 + (b - at[1]) ** 2) / 50.0 + 0.3 * ((a * 7 + b * 3) % 5 == 0)
        for a, b in itertools.product(range(1, 21), repeat=2)
    }
    times[20, 20] = "runtime"
    return Problem(kernel, shape, "float32", SPACE, ReplayMeasure(times, device), "", device, "replay")


def tuned(store, problem, evaluations, **options):
    session = Session(problem, store=store, evaluations=evaluations, budget=None, **options)
    return list(session), session.result


def test_a_search_begins_where_that_on_another_device_ended(tmp_path):
    with Store(tmp_path) as store:
        tuned(store, problem("NVIDIA RTX A4000"), 60)
        tuned(store, problem("NVIDIA RTX A6000", at=(13, 8)), 60)
        here = problem("NVIDIA A100", at=(14, 7), slope=1.3)
        best = min(v for v in here.measure.times.values() if not isinstance(v, str))
        _, warm = tuned(store, here, 8)
        assert here.measure.times[tuple(warm.best.config.values())] == best


def test_only_trials_that_mean_something_here_are_recalled(tmp_path):
    here, table = problem("NVIDIA A100"), Table(SPACE)
    others = [
        problem("NVIDIA RTX A4000"), problem("AMD Instinct MI250X"), problem("NVIDIA RTX 3090", shape=(8, 8, 8)),
        problem("NVIDIA RTX 3090", shape=(65536, 65536)), problem("NVIDIA RTX 3090", kernel="other_f32"),
    ]  # fmt: skip
    with Store(tmp_path) as store:
        for other in others:
            tuned(store, other, 12)
        tuned(store, problem("NVIDIA RTX 2080", at=(3, 3)), 4)  # too few
        found = recall.histories(here, table, store)
        assert len(found) == 1
        assert np.isfinite(found[0].values).sum() >= 11
        near = recall.histories(replace(here, shape=(16384, 65536)), table, store)
        assert len(near) == 1
        first = recall.first_rows(here, table, store)
        winner = store.problems()[0]["winner"]["config"]
        assert winner in [table.config(row) for row in first[:2]]  # before those of another vendor
        assert len(first) <= recall.FIRST
        assert recall.histories(replace(here, measure=replace(here.measure, estimate=True)), table, store) == []
    assert recall.histories(here, table, None) == []


@pytest.mark.parametrize("name", strategies.names())
def test_every_strategy_may_recall(name):
    table, rng = Table(SPACE), np.random.default_rng(0)
    chosen = strategies.make(name, table, 0)
    rows = rng.permutation(len(table))[:50]
    failed = History(rows, np.full(50, np.inf))
    chosen.recall([failed, History(rows, np.where(rows % 7, 2.0 + rows / 100, np.inf)), History(rows[:1], np.ones(1))])
    asked = [chosen.ask() for _ in range(3)]  # several before the first is told
    best = next(int(row) for row in np.sort(rows) if row % 7)
    if name not in ("gaussian", "portfolio"):
        assert best in asked
    for row in asked:
        chosen.tell(row, None)
    for _ in range(30):
        row = chosen.ask()
        assert row not in asked
        asked.append(row)
        chosen.tell(row, 1.0 + abs(row - 100) / 100)
    assert len(set(asked)) == 33


@pytest.mark.parametrize(
    ("device", "maker"),
    [("AMD EPYC 9354", "AMD"), ("Intel(R) Xeon(R)", "Intel"), ("NVIDIA H200", "NVIDIA"), ("sm_90", "NVIDIA"),
     ("gfx942", "AMD"), ("abacus", "abacus")],
)  # fmt: skip
def test_vendors(device, maker):
    assert recall.vendor(device) == maker
