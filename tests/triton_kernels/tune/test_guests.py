"""Our strategies inside Kernel Tuner and Optuna, where these are installed (`pip install 'gradlab[compare]'`)."""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import pytest

from lab.benchmarks import replay_anchors
from tests.lab.benchmarks.test_tuning_replay import cache
from triton_kernels import tune
from triton_kernels.tune.replay import Enough, Trail, read_cache, recorded
from triton_kernels.tune.space import Constraint, Space, Tunable

BLOCKS, WARPS, MODES = (16, 32, 48, 64, 96, 128, 160, 256), (1, 2, 4, 8), tuple(range(16))
SPACE = Space([Tunable("BLOCK", BLOCKS, 64), Tunable("warps", WARPS, 4), Tunable("mode", MODES, 0)],
              [Constraint("512 threads", lambda c: c["BLOCK"] * c["warps"] <= 512)])  # fmt: skip


def cost(BLOCK, warps, mode):
    if mode == 3 and warps == 8:
        return float("nan")
    return 1.0 + abs(np.log2(BLOCK) - 6.3) + 0.2 * abs(warps - 4) + 0.01 * ((mode * 7) % 16)


def objective(trial):
    return cost(trial.suggest_categorical("BLOCK", BLOCKS), trial.suggest_categorical("warps", WARPS),
                trial.suggest_int("mode", 0, 15))  # fmt: skip


@pytest.fixture
def optuna():
    found = pytest.importorskip("optuna")
    found.logging.set_verbosity(found.logging.ERROR)
    return found


def test_optuna_with_a_space(optuna):
    study = optuna.create_study(sampler=tune.optuna_sampler(SPACE))
    study.optimize(objective, n_trials=40)
    assert study.trials[0].params == SPACE.default
    assert all(t.params["BLOCK"] * t.params["warps"] <= 512 for t in study.trials), "no constraint is violated"
    assert len({tuple(t.params.items()) for t in study.trials}) == 40, "nothing is tried twice"
    best = min(v for b in BLOCKS for w in WARPS for m in MODES if b * w <= 512 and (v := cost(b, w, m)) == v)
    assert study.best_value == pytest.approx(best)


def test_optuna_without_a_space(optuna):
    study = optuna.create_study(sampler=tune.optuna_sampler(), direction="maximize")
    study.optimize(lambda trial: -objective(trial), n_trials=60, catch=())
    assert study.best_value > -1.4


def test_optuna_ends_when_all_were_tried(optuna):
    study = optuna.create_study(sampler=tune.optuna_sampler(name="exhaustive"))
    study.optimize(lambda trial: trial.suggest_int("a", 0, 5), n_trials=50)
    assert len(study.trials) <= 8
    assert study.best_value == 0


def test_optuna_draws_what_has_no_steps(optuna):
    study = optuna.create_study(sampler=tune.optuna_sampler())
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=5)
    assert len({t.params["x"] for t in study.trials}) == 5


def test_kernel_tuner(tmp_path):
    pytest.importorskip("kernel_tuner")
    table, values = recorded(read_cache(cache(tmp_path / "a.json", "A100")))
    for seed in range(3):
        trail = Trail(table, values)
        with contextlib.suppress(Enough):
            replay_anchors.by_kernel_tuner(trail, seed, tune.kernel_tuner_strategy("portfolio", seed))
        assert trail.reached[1.01] < trail.budget / 2


@pytest.mark.parametrize(("make", "package"), [(tune.kernel_tuner_strategy, "kernel-tuner"),
                                               (tune.optuna_sampler, "optuna")])  # fmt: skip
def test_what_is_not_installed_is_said(make, package, monkeypatch):
    for name in ("optuna", "kernel_tuner.strategies.wrapper"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"{package} is not installed. Remedy: pip install {package}"):
        make()


def test_a_strategy_that_there_is_not():
    with pytest.raises(ValueError, match="no strategy is named 'bees'; there are exhaustive"):
        tune.kernel_tuner_strategy("bees")
