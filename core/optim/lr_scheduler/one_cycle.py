"""`OneCycleLR`: up to a highest rate and far down again, the momentum the other way round."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler


def for_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value a group: the list that was given, or the value for all."""
    n = len(optimizer.param_groups)
    many = list(value) if isinstance(value, list | tuple) else [value] * n
    if len(many) != n:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(many)} values, "
                         f"param_groups has {n}.")  # fmt: skip
    return many


def set_momentum(group: dict[str, Any], value: float, use_beta1: bool) -> None:
    """Set a group's momentum, or Adam's beta1."""
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _phase(end: float, lr: str, momentum: str) -> dict[str, Any]:
    (start_lr, end_lr), (start_momentum, end_momentum) = lr.split(), momentum.split()
    return {"end_step": end, "start_lr": start_lr, "end_lr": end_lr, "start_momentum": start_momentum,
            "end_momentum": end_momentum}  # fmt: skip


class OneCycleLR(LRScheduler):
    """From ``max_lr / div_factor`` up to `max_lr` in the share `pct_start` of the steps, then down to the first rate
    divided by `final_div_factor`. It steps after every batch. Source: arXiv 1708.07120.

    >>> import core
    >>> opt = core.optim.SGD([core.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = core.optim.lr_scheduler.OneCycleLR(opt, max_lr=1.0, total_steps=10)
    >>> round(schedule.get_last_lr()[0], 6)
    0.04
    """

    def __init__(self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
                 epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
                 anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: float | list[float] = 0.85,
                 max_momentum: float | list[float] = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
                 three_phase: bool = False, last_epoch: int = -1) -> None:  # fmt: skip
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            for what, n in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if not isinstance(n, int) or n <= 0:
                    raise ValueError(f"Expected positive integer {what}, but got {n}")
            total_steps = epochs * steps_per_epoch
        elif not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        self.total_steps = total_steps
        up, down = "max_momentum base_momentum", "base_momentum max_momentum"
        rise = _phase(float(pct_start * total_steps) - 1, "initial_lr max_lr", up)
        if three_phase:
            self._schedule_phases = [
                rise,
                _phase(float(2 * pct_start * total_steps) - 2, "max_lr initial_lr", down),
                _phase(total_steps - 1, "initial_lr min_lr", "max_momentum max_momentum"),
            ]
        else:
            self._schedule_phases = [rise, _phase(total_steps - 1, "max_lr min_lr", down)]
        if not isinstance(pct_start, float) or pct_start < 0 or pct_start > 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        max_lrs = for_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"], group["max_lr"] = high / div_factor, high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _prepare_momentum(self, base: Any, high: Any, last_epoch: int) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        highs = for_groups("max_momentum", self.optimizer, high)
        bases = for_groups("base_momentum", self.optimizer, base)
        if last_epoch == -1:
            for group, m, b in zip(self.optimizer.param_groups, highs, bases, strict=True):
                set_momentum(group, m, self.use_beta1)
                group["max_momentum"], group["base_momentum"] = m, b

    def _anneal(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                set_momentum(group, momentum, self.use_beta1)
        return rates
