"""Functions that send the gradients of `DistributedDataParallel` in another way: `DDPCommHookType` names them.

A hook is called with its state (mostly a group of processes) and a `GradBucket` whose buffer is whole, and gives a
future of the averaged buffer.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from ....base.absent import absent_names
from . import debugging_hooks, default_hooks, post_localSGD_hook, powerSGD_hook

__all__ = ["DDPCommHookType", "debugging_hooks", "default_hooks", "post_localSGD_hook", "powerSGD_hook",
           "register_ddp_comm_hook"]  # fmt: skip


class DDPCommHookType(Enum):
    """The hooks by name."""

    ALLREDUCE = "allreduce"
    FP16_COMPRESS = "fp16"
    BF16_COMPRESS = "bf16"
    POWER_SGD = "power_sgd"
    BATCHED_POWER_SGD = "batched_power_sgd"
    NOOP = "noop"


_HOOKS = {
    DDPCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
    DDPCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook,
    DDPCommHookType.BF16_COMPRESS: default_hooks.bf16_compress_hook,
    DDPCommHookType.POWER_SGD: powerSGD_hook.powerSGD_hook,
    DDPCommHookType.BATCHED_POWER_SGD: powerSGD_hook.batched_powerSGD_hook,
    DDPCommHookType.NOOP: debugging_hooks.noop_hook,
}


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Let a `DistributedDataParallel` send its gradients as the hook of that name does."""
    model.register_comm_hook(state, _HOOKS[comm_hook_type])


__getattr__ = absent_names(__name__, "default_hooks.bf16_compress_hook halves what is sent")
