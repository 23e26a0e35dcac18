"""PyTorch's names for ways in which processes train together: one process has none to choose."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from ..base.absent import absent_class, absent_function, absent_names
from ..nn.modules.module import Module
from . import averagers

__all__ = ["Join", "Joinable", "JoinHook"]

_checkpoint = checkpoint_wrapper = join = ddp_comm_hooks = sys.modules[__name__]  # PyTorch's files
_WHOLE = "core.utils.checkpoint.checkpoint(function, *args)"
_ALONE = "leave it out: no gradient is sent"
CheckpointWrapper = absent_class("CheckpointWrapper", __name__, "A module that is run again in the backward pass.",
                                 _WHOLE, Module)  # fmt: skip
apply_activation_checkpointing = absent_function("apply_activation_checkpointing", __name__,
                                                 "Run modules again in the backward pass.", _WHOLE)  # fmt: skip
default_hooks = powerSGD_hook = post_localSGD_hook = absent_class("default_hooks", __name__, "How gradients are sent.",
                                                                  _ALONE)  # fmt: skip


class JoinHook:
    """What a process does once its inputs have ended: there is no other that goes on."""


class Joinable:
    """What takes part in `Join`."""


@contextlib.contextmanager
def Join(
    joinables: Any, enable: bool = True, throw_on_early_termination: bool = False, **ignored: Any
) -> Iterator[None]:
    """A block in which processes wait for those that have more inputs: there is one."""
    yield


model_averaging = averagers

__getattr__ = absent_names(__name__, _WHOLE)
