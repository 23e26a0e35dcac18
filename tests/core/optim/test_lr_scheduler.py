"""Schedules: their curves by formula, their state, their warnings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import core
from core import nn, optim
from core.optim import lr_scheduler as s


def optimizer(lr: float = 1.0) -> optim.Optimizer:
    return optim.SGD([nn.Parameter(core.ones(1))], lr=lr, momentum=0.9)


def curve(make: Callable[[Any], Any], steps: int) -> list[float]:
    opt = optimizer()
    schedule = make(opt)
    rates = schedule.get_last_lr()
    for _ in range(steps):
        opt.step()
        schedule.step()
        rates += schedule.get_last_lr()
        assert opt.param_groups[0]["lr"] == rates[-1]
    return rates


FORMULAS: dict[str, tuple[Callable[[Any], Any], Callable[[int], float]]] = {
    "step": (lambda o: s.StepLR(o, 3, 0.5), lambda e: 0.5 ** (e // 3)),
    "multistep": (lambda o: s.MultiStepLR(o, [2, 7], 0.1), lambda e: 0.1 ** ((e >= 2) + (e >= 7))),
    "exponential": (lambda o: s.ExponentialLR(o, 0.9), lambda e: 0.9**e),
    "cosine": (lambda o: s.CosineAnnealingLR(o, 5, 0.1), lambda e: 0.1 + 0.45 * (1 + math.cos(math.pi * e / 5))),
    "restarts": (lambda o: s.CosineAnnealingWarmRestarts(o, 4), lambda e: 0.5 * (1 + math.cos(math.pi * (e % 4) / 4))),
    "linear": (lambda o: s.LinearLR(o, 0.5, 1.0, 4), lambda e: min(1.0, 0.5 + e / 8)),
    "constant": (lambda o: s.ConstantLR(o, 0.25, 3), lambda e: 0.25 if e < 3 else 1.0),
    "polynomial": (lambda o: s.PolynomialLR(o, 10, 2.0), lambda e: (1 - e / 10) ** 2),
    "lambda": (lambda o: s.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: 1 / (1 + e)),
    "multiplicative": (lambda o: s.MultiplicativeLR(o, lambda e: 0.5), lambda e: 0.5**e),
    "chained": (lambda o: s.ChainedScheduler([s.ExponentialLR(o, 0.5), s.ExponentialLR(o, 0.5)]), lambda e: 0.25**e),
    "sequential": (lambda o: s.SequentialLR(o, [s.ConstantLR(o, 0.5, 99), s.ExponentialLR(o, 0.5)], [3]),
                   lambda e: 0.5 if e < 3 else 0.5 ** (e - 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_a_curve_follows_its_formula(name: str) -> None:
    make, formula = FORMULAS[name]
    assert curve(make, 9) == pytest.approx([formula(e) for e in range(10)])


def test_one_cycle_rises_falls_and_turns_the_momentum_round() -> None:
    opt = optimizer()
    schedule = s.OneCycleLR(opt, max_lr=1.0, total_steps=10, pct_start=0.3)
    rates, momenta = [], []
    for _ in range(10):
        rates.append(opt.param_groups[0]["lr"])
        momenta.append(opt.param_groups[0]["momentum"])
        opt.step()
        if len(rates) < 10:
            schedule.step()
    assert rates[0] == pytest.approx(0.04)
    assert max(rates) == rates[2] == pytest.approx(1.0)
    assert rates[-1] == pytest.approx(0.04 / 1e4)
    assert momenta[2] == min(momenta) == pytest.approx(0.85)
    schedule.step()
    with pytest.raises(ValueError, match=r"Tried to step 11 times\. The specified number of total steps is 10"):
        schedule.step()


def test_a_plateau_lowers_the_rate_after_patience() -> None:
    opt = optimizer()
    schedule = s.ReduceLROnPlateau(opt, factor=0.1, patience=2, min_lr=0.05)
    rates = []
    for metric in (3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0):
        schedule.step(core.tensor(metric))
        rates += schedule.get_last_lr()
    assert rates == [1.0] * 4 + [0.1] * 4 + [0.05]


@pytest.mark.parametrize("name", [n for n in FORMULAS if n not in ("lambda", "multiplicative")])
def test_a_saved_schedule_goes_on(name: str) -> None:
    make, formula = FORMULAS[name]
    opt = optimizer()
    schedule = make(opt)
    for _ in range(4):
        opt.step()
        schedule.step()
    again = optimizer()
    resumed = make(again)
    resumed.load_state_dict(schedule.state_dict())
    again.load_state_dict(opt.state_dict())
    again.step()
    resumed.step()
    assert resumed.get_last_lr() == pytest.approx([formula(5)])


def test_a_callable_object_keeps_its_attributes() -> None:
    class Factor:
        def __init__(self, base: float) -> None:
            self.base = base

        def __call__(self, epoch: int) -> float:
            return self.base**epoch

    schedule = s.LambdaLR(optimizer(), Factor(0.5))
    other = s.LambdaLR(optimizer(), Factor(0.9))
    other.load_state_dict(schedule.state_dict())
    assert other.lr_lambdas[0].base == 0.5


def test_stepping_out_of_order_warns() -> None:
    schedule = s.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(5)
    assert schedule.get_last_lr() == pytest.approx([1e-5])
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()


def test_stepping_in_order_does_not_warn() -> None:
    opt = optimizer()
    schedule = s.StepLR(opt, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            opt.step()
            schedule.step()


def test_schedules_of_another_optimizer_are_refused() -> None:
    opt = optimizer()
    with pytest.raises(ValueError, match="to belong to the same optimizer"):
        s.SequentialLR(opt, [s.StepLR(optimizer(), 1)], [])
    with pytest.raises(ValueError, match="expects number of schedulers provided to be one more"):
        s.SequentialLR(opt, [s.StepLR(opt, 1)], [3])
    with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau`"):
        s.ChainedScheduler([s.ReduceLROnPlateau(opt)])
