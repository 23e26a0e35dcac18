"""Schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, set_value, values_of
from .plateau import ReduceLROnPlateau


class _Composed(LRScheduler):
    _schedulers: list[LRScheduler]

    def _check(self, optimizer: Any, schedulers: Sequence[Any]) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        for i, s in enumerate(schedulers):
            if not hasattr(s, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(s, ReduceLROnPlateau):
                raise ValueError(f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                                 "additional kwargs to "
                                 f"be specified when calling `step`, but got one at index {i} in the given schedulers "
                                 "sequence.")  # fmt: skip
            if s.optimizer is not optimizer:
                raise ValueError(f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                                 f"{type(s).__name__} at index {i} has {s.optimizer}, which is different from "
                                 f"{type(optimizer).__name__}.")  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, and the state of every schedule."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for s, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            s.load_state_dict(state)


class SequentialLR(_Composed):
    """One schedule after the other; the next begins at each of `milestones`.

    >>> import core
    >>> opt = core.optim.SGD([core.ones(1, requires_grad=True)], lr=1.0)
    >>> from core.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> schedule = SequentialLR(opt, [ConstantLR(opt, 0.5, 10), ExponentialLR(opt, 0.5)], milestones=[2])
    >>> for epoch in range(3):
    ...     opt.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int],
                 last_epoch: int = -1) -> None:  # fmt: skip
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than "
                             "the number of "
                             f"milestone points, but got number of schedulers {len(schedulers)} and the number "
                             "of milestones "
                             f"to be equal to {len(milestones)}")  # fmt: skip
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch, self.optimizer = last_epoch + 1, optimizer
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()  # every schedule has stepped once when it was made
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the step that schedules make when they are made."""
        among = self if sched is None else sched
        if hasattr(among, "_schedulers"):
            for s in among._schedulers:
                self.recursive_undo(s)
        elif hasattr(among, "last_epoch"):
            among.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go on to the next epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Schedules that all step together, each changing what the others left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        self._check(optimizer, schedulers)
        self._schedulers, self.optimizer = list(schedulers), optimizer
        self._last_lr = values_of(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Go on to the next epoch."""
        for s in self._schedulers:
            s.step()
        self._last_lr = values_of(self.optimizer, "lr")
