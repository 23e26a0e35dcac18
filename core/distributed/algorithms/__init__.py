"""Ways in which processes train together: `Join` for uneven inputs, hooks that send gradients, averages of models."""

from __future__ import annotations

import sys

from ...base.absent import absent_class, absent_function, absent_names
from ...nn.modules.module import Module
from .. import averagers
from . import ddp_comm_hooks, join
from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable", "ddp_comm_hooks", "join", "model_averaging"]

_checkpoint = checkpoint_wrapper = sys.modules[__name__]  # PyTorch's files
_WHOLE = "core.utils.checkpoint.checkpoint(function, *args)"
CheckpointWrapper = absent_class("CheckpointWrapper", __name__, "A module that is run again in the backward pass.",
                                 _WHOLE, Module)  # fmt: skip
apply_activation_checkpointing = absent_function("apply_activation_checkpointing", __name__,
                                                 "Run modules again in the backward pass.", _WHOLE)  # fmt: skip
model_averaging = averagers

__getattr__ = absent_names(__name__, _WHOLE)
