"""PyTorch's averagers of parameters over processes, under ``distributed.algorithms.model_averaging``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ..base.modes import no_grad
from ..tensors.tensor import Tensor
from .collectives import all_reduce
from .flat import CHUNK_BYTES, divided, flat_buffer
from .groups import get_world_size, member

__all__ = ["ModelAverager", "PeriodicModelAverager", "average_parameters"]

averagers = utils = sys.modules[__name__]  # PyTorch's files


def average_parameters(params: Iterable[Tensor], process_group: Any) -> None:
    """Give parameters their mean over the processes of a group."""
    size, many = get_world_size(process_group), list(params)
    for numbers in divided(many, CHUNK_BYTES, CHUNK_BYTES) if size > 1 else ():
        chunk: list[Any] = [many[k] for k in numbers]
        whole, parts = flat_buffer(chunk, copied=True)
        with no_grad():
            whole.div_(size)  # type: ignore[attr-defined]
            all_reduce(whole, group=process_group)
            for p, part in zip(chunk, parts, strict=True):
                p.copy_(part)


class ModelAverager:
    """What averages parameters over processes."""

    def __init__(self, process_group: Any = None) -> None:
        member(process_group)
        self.process_group, self.step = process_group, 0

    def average_parameters(self, params: Any) -> None:
        """Average the parameters. *Raises*: NotImplementedError: a subclass says when."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """What averages parameters every `period` steps, from step `warmup_steps` on.

    *Raises*: ValueError for a period that is not positive, or a negative number of steps.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period <= 0:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Any) -> None:
        """Count a step; average parameters, or those of an optimizer's groups, where it is time.

        Parameters without a gradient are left as they are.
        """
        if self.step >= self.warmup_steps and not (self.step - self.warmup_steps) % self.period:
            many = [p for x in params for p in (x["params"] if isinstance(x, dict) else [x])]
            average_parameters([p for p in many if p.grad is not None], self.process_group)
        self.step += 1
