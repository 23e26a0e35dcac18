"""`LRScheduler`: counts the epochs and sets the learning rate of every group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...base.source import warn
from ...tensors.tensor import Tensor
from ..optimizer import Optimizer

_PAGE = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """Return a setting of every group."""
    return [g[key].clone() if isinstance(g[key], Tensor) else g[key] for g in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set a setting of one group; a tensor is filled."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


class LRScheduler:
    """Base of all schedules: a subclass writes `get_lr`, which gives the rate of every group for `last_epoch`."""

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: list[Any]
    _step_count: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= "
                    "0.\nThis typically happens when:\n1. You're trying to resume training from a checkpoint "
                    "but haven't "
                    "properly loaded the optimizer state\n2. You're using last_epoch >= 0 for a fresh training "
                    "run (not "
                    "recommended)"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer.__dict__.setdefault("_opt_called", False)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the learning rate that every group has now."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the learning rate of every group for `last_epoch`, as a rule from the one before."""
        raise NotImplementedError

    def _warn_unless_stepping(self) -> None:
        if not self._get_lr_called_within_step:
            warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            )

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, after the optimizer's step."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", True):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, "
                "you should "
                "call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                "do this will "
                f"result in PyTorch skipping the first value of the learning rate schedule. See more details at "
                f"{_PAGE}",
            )
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._stepping():
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = getattr(self, "_get_closed_form_lr", self.get_lr)()
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_value(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")

    def _scaled(self, factor: float) -> list[Any]:
        """Return the rates times `factor`."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self) -> list[Any]:
        return values_of(self.optimizer, "lr")


def warn_of_epoch() -> None:
    """The older way of stepping, by number."""
    warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
        "Please use "
        "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the "
        "closed form "
        "is used instead of the new chainable form, where available.",
    )
