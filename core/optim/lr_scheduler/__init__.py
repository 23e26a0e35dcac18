"""Learning-rate schedules with PyTorch's names, values and state."""

from __future__ import annotations

from .base import LRScheduler
from .composed import ChainedScheduler, SequentialLR
from .curves import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,  # fmt: skip
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from .cyclic import CyclicLR
from .one_cycle import OneCycleLR
from .plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # its name in PyTorch before 2.0, which programs still derive from

__all__ = ["ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
           "ExponentialLR",
           "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
           "ReduceLROnPlateau", "SequentialLR", "StepLR"]  # fmt: skip
