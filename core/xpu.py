"""Intel's GPU, as programs ask for it: there is no such device here, and what needs one says so.

>>> import core
>>> core.xpu.is_available(), core.xpu.device_count()
(False, 0)
"""

from __future__ import annotations

import sys
from typing import Any

from .base.no_device import answers

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize"]


def is_available() -> bool:
    """Return whether tensors can live on `xpu`: never."""
    return False


def device_count() -> int:
    """Return how many such devices there are: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Begin the random numbers of the device anew: there is none, and nothing happens, as in PyTorch."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Give memory back that the device keeps: there is none."""


def synchronize(device: Any = None) -> None:
    """Wait for the device: there is none."""


__getattr__ = answers("xpu", sys.modules[__name__])
