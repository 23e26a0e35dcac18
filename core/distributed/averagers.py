"""PyTorch's averagers of parameters over processes, under ``distributed.algorithms.model_averaging``: over one, they
count steps, and leave the parameters as they are."""

from __future__ import annotations

import sys
from typing import Any

from .groups import member

__all__ = ["ModelAverager", "PeriodicModelAverager"]

averagers = sys.modules[__name__]  # PyTorch's file


class ModelAverager:
    """What averages parameters over processes."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = member(process_group)
        self.step = 0

    def average_parameters(self, params: Any) -> None:
        """Average the parameters. *Raises*: NotImplementedError: a subclass says when."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """What averages parameters every `period` steps, from step `warmup_steps` on: over one process it counts."""

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period <= 0:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Any) -> None:
        """Count a step: the mean over one process is what it has."""
        self.step += 1
