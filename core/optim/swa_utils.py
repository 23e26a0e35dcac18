"""Averages of a model's weights over training: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from ..base.dtypes import int64
from ..base.modes import no_grad
from ..nn.modules.batchnorm import _BatchNorm
from ..nn.modules.module import Module
from ..ops.creation import tensor
from ..tensors.tensor import Tensor
from . import kernels, updates
from .lr_scheduler.base import LRScheduler
from .lr_scheduler.one_cycle import for_groups
from .optimizer import Optimizer

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
           "update_bn"]  # fmt: skip

PARAM_LIST = tuple[Tensor, ...] | list[Tensor]


def _approach(averages: Sequence[Tensor], current: Sequence[Tensor], weight: float) -> None:
    """``average += weight (current - average)`` for all tensors of a kind in one kernel."""
    buckets: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
    for a, p in zip(averages, current, strict=True):
        if a.is_floating_point() or a.is_complex():
            bucket = buckets.setdefault((a._kind, p._kind), ([], []))
            bucket[0].append(a)
            bucket[1].append(p if p._kind is a._kind else p.detach().to(a))  # type: ignore[attr-defined]
        else:
            with no_grad():
                a.copy_((a + (p.detach() - a) * weight).to(a.dtype))  # type: ignore[attr-defined, operator]
    for mine, theirs in buckets.values():
        lists = [[a._a for a in mine], [p._a for p in theirs]]
        kernels.step("average_step", updates.average, frozenset(), mine, lists, {"weight": weight})


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[PARAM_LIST, PARAM_LIST, Any], None]:
    """Return the exponential moving average of all parameters at once: ``average = decay average + (1 - decay)
    current``.

    >>> import core
    >>> average, model = [core.zeros(2)], [core.ones(2)]
    >>> core.optim.swa_utils.get_ema_multi_avg_fn(0.9)(average, model, 1)
    >>> average[0]
    tensor([0.1000, 0.1000])
    """
    _check_decay(decay)

    def ema_update(ema_param_list: PARAM_LIST, current_param_list: PARAM_LIST, _: Any) -> None:
        _approach(ema_param_list, current_param_list, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[PARAM_LIST, PARAM_LIST, Any], None]:
    """Return the mean of all models so far, of all parameters at once.

    >>> import core
    >>> average, model = [core.zeros(2)], [core.ones(2)]
    >>> core.optim.swa_utils.get_swa_multi_avg_fn()(average, model, core.tensor(1))
    >>> average[0]
    tensor([0.5000, 0.5000])
    """

    def swa_update(averaged_param_list: PARAM_LIST, current_param_list: PARAM_LIST, num_averaged: Any) -> None:
        _approach(averaged_param_list, current_param_list, 1 / (int(num_averaged) + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return the exponential moving average of one parameter.

    >>> import core
    >>> core.optim.swa_utils.get_ema_avg_fn(0.9)(core.zeros(2), core.ones(2), 1)
    tensor([0.1000, 0.1000])
    """
    _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param  # type: ignore[operator, no-any-return]

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return the mean of all models so far, of one parameter.

    >>> import core
    >>> core.optim.swa_utils.get_swa_avg_fn()(core.zeros(2), core.ones(2), 3)
    tensor([0.2500, 0.2500])
    """

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)  # type: ignore[operator, no-any-return]

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are an average over those that `update_parameters` has seen.

    model : the model; it is copied.
    device : where the copy lies; None for where the model is.
    avg_fn, multi_avg_fn : how to average, one parameter or all at once, given the average, the current ones and how
        many there were; at most one of them. Neither takes the plain mean.
    use_buffers : whether buffers are averaged too; else they are those of the last model.

    *Source*: arXiv 1803.05407.

    >>> import core
    >>> model = core.nn.Linear(2, 1)
    >>> average = core.optim.swa_utils.AveragedModel(model)
    >>> average.update_parameters(model)
    >>> int(average.n_averaged), list(average.state_dict())
    (1, ['n_averaged', 'module.weight', 'module.bias'])
    """

    n_averaged: Tensor
    module: Module

    def __init__(self, model: Module, device: Any = None,
                 avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
                 multi_avg_fn: Callable[[PARAM_LIST, PARAM_LIST, Any], None] | None = None,
                 use_buffers: bool = False) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the averaged model gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the average; the first time they are the average."""
        mine, theirs = self._averaged(self.module), self._averaged(model)
        with no_grad():
            if int(self.n_averaged) == 0:
                for a, p in zip(mine, theirs, strict=True):
                    a.detach().copy_(p.detach())  # type: ignore[attr-defined]
            elif self.avg_fn is not None:
                for a, p in zip(mine, theirs, strict=True):
                    new = self.avg_fn(a.detach(), p.detach().to(a.device), self.n_averaged.to(a.device))  # type: ignore[attr-defined]
                    a.detach().copy_(new)  # type: ignore[attr-defined]
            else:
                average = self.multi_avg_fn or get_swa_multi_avg_fn()
                average([a.detach() for a in mine], [p.detach() for p in theirs], self.n_averaged)
            if not self.use_buffers:
                for a, b in zip(self.module.buffers(), model.buffers(), strict=True):
                    a.detach().copy_(b.detach())  # type: ignore[attr-defined]
            self.n_averaged.add_(1)  # type: ignore[attr-defined]

    def _averaged(self, model: Module) -> list[Tensor]:
        return list(itertools.chain(model.parameters(), model.buffers() if self.use_buffers else ()))


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Set the running statistics of a model's batch norms anew, by one pass over the data.

    loader : gives inputs, or lists and tuples whose first is the input.

    >>> import core
    >>> model = core.nn.Sequential(core.nn.BatchNorm1d(1))
    >>> core.optim.swa_utils.update_bn([core.tensor([[1.0], [3.0]]), core.tensor([[3.0], [5.0]])], model)
    >>> model[0].running_mean
    tensor([3.])
    """
    momenta: dict[Any, float | None] = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for m in momenta:
        m.reset_running_stats()
        m.momentum = None  # the mean over all batches
    with no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            model(x if device is None else x.to(device))
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Every group's rate goes to `swa_lr` within `anneal_epochs`, as a cosine or a line, and stays there.

    *Raises*: ValueError for another `anneal_strategy`, and epochs that are no number of them.

    >>> import core
    >>> opt = core.optim.SGD([core.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = core.optim.swa_utils.SWALR(opt, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for epoch in range(2):
    ...     opt.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, swa_lr: float, anneal_epochs: int = 10, anneal_strategy: str = "cos",
                 last_epoch: int = -1) -> None:  # fmt: skip
        for group, rate in zip(optimizer.param_groups, for_groups("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How far the rate has gone after so many steps, 0 to 1."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
