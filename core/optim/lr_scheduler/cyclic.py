"""`CyclicLR`: up and down between two rates, the momentum the other way round."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, set_value
from .one_cycle import for_groups, set_momentum


class CyclicLR(LRScheduler):
    """From `base_lr` to `max_lr` in `step_size_up` steps and back in `step_size_down`, over and over.

    `mode` scales the height: "triangular" leaves it, "triangular2" halves it every cycle, "exp_range" multiplies it by
    ``gamma**step``; or `scale_fn` gives the factor, of the number of the cycle or of the step (`scale_mode`). With
    `cycle_momentum` the momentum (or beta1) runs from `max_momentum` to `base_momentum` meanwhile. It steps after every
    batch. *Raises*: ValueError for lists that do not match the groups. *Source*: arXiv 1506.01186.

    >>> import core
    >>> opt = core.optim.SGD([core.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = core.optim.lr_scheduler.CyclicLR(opt, base_lr=0.5, max_lr=1.0, step_size_up=2)
    >>> rates = schedule.get_last_lr()
    >>> for step in range(4):
    ...     opt.step(); schedule.step(); rates += schedule.get_last_lr()
    >>> rates
    [0.5, 0.75, 1.0, 0.75, 0.5]
    """

    def __init__(self, optimizer: Optimizer, base_lr: float | list[float], max_lr: float | list[float],
                 step_size_up: int = 2000, step_size_down: int | None = None, mode: str = "triangular",
                 gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
                 cycle_momentum: bool = True, base_momentum: float | list[float] = 0.8,
                 max_momentum: float | list[float] = 0.9, last_epoch: int = -1) -> None:  # fmt: skip
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        base_lrs = for_groups("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = for_groups("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = float(step_size_down) if step_size_down is not None else up
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = for_groups("base_momentum", optimizer, base_momentum)
            self.max_momentums = for_groups("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for group, high, low in zip(optimizer.param_groups, self.max_momentums, self.base_momentums,
                                            strict=True):  # fmt: skip
                    set_momentum(group, high, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the factor of the height in cycle (or at step) x."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return 1.0 if self.mode == "triangular" else 0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        factor = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [low + (high - low) * share * factor for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums,
                                        strict=True):  # fmt: skip
                set_momentum(group, high - (high - low) * share * factor, self.use_beta1)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a function of one's own; of a callable object, its attributes."""
        state = {k: v for k, v in super().state_dict().items() if k != "_scale_fn_custom"}
        own = self._scale_fn_custom
        attributes = None if own is None or isinstance(own, types.FunctionType) else dict(own.__dict__)
        return state | {"_scale_fn_custom": attributes}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom", None)
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)
        super().load_state_dict(state)
