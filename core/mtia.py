"""Meta's accelerator, as programs ask for it: there is no such device here, and what needs one says so.

>>> import core
>>> core.mtia.is_available(), core.mtia.device_count()
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

__getattr__ = answers("mtia", sys.modules[__name__])
