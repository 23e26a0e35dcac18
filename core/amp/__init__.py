"""Automatic mixed precision: `autocast` picks the type each op runs in, `GradScaler` keeps float16 gradients in range.

>>> import core
>>> layer = core.nn.Linear(3, 2)
>>> with core.amp.autocast("cpu", dtype=core.bfloat16):
...     y = layer(core.ones(5, 3))
>>> y.dtype, layer.weight.dtype
(core.bfloat16, core.float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy_import import lazy_attributes
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available

if TYPE_CHECKING:
    from .grad_scaler import GradScaler

__getattr__, __dir__ = lazy_attributes(__name__, {"GradScaler": "grad_scaler"})

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
