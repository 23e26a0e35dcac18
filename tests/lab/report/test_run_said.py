"""What is said of a run, and what counts as a difference between two: what is noise is not said."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

import core
from lab.report import run_changes
from lab.report.run_inputs import described
from lab.report.run_said import said
from widgets.run_curves import Curve, RunCurves


def curve(values: list[float], kind: str = "loss", every: int = 1, name: str = "loss") -> Curve:
    return Curve(name, kind, at=[every * (k + 1) for k in range(len(values))], values=values, last=values[-1],
                 count=len(values))  # fmt: skip


def noisy(seed: int, end: float = 0.2, n: int = 200) -> list[float]:
    draw = random.Random(seed)
    return [end + 2 * math.exp(-k / 30) + draw.gauss(0, 0.02) for k in range(n)]


@pytest.mark.parametrize("seed", range(20))
def test_a_run_that_goes_well_is_left_alone(seed: int) -> None:
    spiked = noisy(seed)
    spiked[150] = 9.0
    checks = [0.3 + math.exp(-k) + random.Random(seed).gauss(0, 0.01) for k in range(10)]
    assert said(RunCurves(200, curves=[curve(spiked), curve(checks, "validation", 20, "val_loss")])) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_that_goes_up_and_down_does_not_diverge(seed: int) -> None:
    """Episodes of a game: each loss is a sum over as many moves as it had."""
    draw = random.Random(seed)
    losses = [draw.lognormvariate(6.5, 1.2) for _ in range(60)]
    losses[25:31] = [8000.0] * 6
    assert said(RunCurves(60, curves=[curve(losses)])) == []


def test_a_run_that_diverges_overfits_or_is_lost() -> None:
    grows = [*noisy(0)[:100], *(0.2 * 1.1**k for k in range(60))]
    assert "diverges" in said(RunCurves(160, curves=[curve(grows)]))[0]
    checks = [0.9, 0.5, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7]
    found = said(RunCurves(200, curves=[curve(noisy(1, 0.0)), curve(checks, "validation", 25, "val_loss")]))
    assert "overfits since about step 75" in found[0]
    lost = replace(curve(noisy(2)), lost=17)
    assert "not finite since step 17" in said(RunCurves(200, curves=[lost]))[0]


def of(seed: int, end: float = 0.2, seconds: float = 2.0) -> RunCurves:
    return RunCurves(200, seconds=seconds, curves=[curve(noisy(seed, end))], memory_bytes=10**8)


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_change(seed: int) -> None:
    run = of(seed + 100, seconds=2.2)
    run.before = [run_changes.past("In [1]", "x", of(seed))]
    assert run_changes.changes("x", run) == []


def test_what_is_no_noise_is_said() -> None:
    run = of(1, end=0.5, seconds=4.0)
    run.memory_bytes = 3 * 10**8
    run.before = [run_changes.past("In [1]", "x", of(0))]
    time, memory, loss = run_changes.changes("x", run)
    assert time == "A step takes 20.0 ms, before 10.0 ms."
    assert memory.startswith("Memory: at most 300 MB")
    assert loss.startswith("loss at step ")


def test_what_a_cell_reads() -> None:
    space = {"x": core.ones(3, 2), "a": np.ones(4), "config": {"lr": 0.1, "model": object()}, "n": 3, "made": 1}
    text = "made = x.sum() * a[0] * config['lr'] * n"
    before = described(text, space)
    assert sorted(before) == ["a", "config['lr']", "n", "x"]
    assert before["x"].startswith("float32 3×2 #")
    space["x"] = core.ones(3, 2)
    assert described(text, space) == before
    space["x"] = core.zeros(3, 2)
    assert described(text, space)["x"] != before["x"]
