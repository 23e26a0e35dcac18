"""Ways in which processes train together: `Join` for uneven inputs, hooks that send gradients, averages of models."""

from __future__ import annotations

import sys

from ...base.absent import absent_names
from .. import averagers
from . import checkpoint_wrapper, ddp_comm_hooks, join
from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable", "checkpoint_wrapper", "ddp_comm_hooks", "join", "model_averaging"]

_checkpoint = sys.modules[__name__]  # PyTorch's folder
model_averaging = averagers

__getattr__ = absent_names(__name__, "core.utils.checkpoint.checkpoint(function, *args)")
