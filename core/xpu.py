"""Intel's GPU, as programs ask for it: there is no such device here, and what needs one says so.

>>> import core
>>> core.xpu.is_available(), core.xpu.device_count()
(False, 0)
"""

from __future__ import annotations

import sys

from .base.no_device import (
    answers,
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    manual_seed_all,
    synchronize,
)

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize"]

__getattr__ = answers("xpu", sys.modules[__name__])

default_generators: tuple[object, ...] = ()  # one for each device
