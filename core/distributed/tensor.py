"""PyTorch's names for tensors that are divided among processes, for one process, which holds all of each."""

from __future__ import annotations

import sys

from ..base.absent import absent_class, absent_names
from .device_mesh import DeviceMesh, init_device_mesh
from .dtensor import (
    ColwiseParallel,
    DTensor,
    ParallelStyle,
    Partial,
    Placement,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    Replicate,
    RowwiseParallel,
    SequenceParallel,
    Shard,
    context_parallel,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    implicit_replication,
    local_map,
    loss_parallel,
    ones,
    parallelize_module,
    rand,
    randn,
    zeros,
)

__all__ = ["ColwiseParallel", "DTensor", "DeviceMesh", "ParallelStyle", "Partial", "Placement", "PrepareModuleInput",
           "PrepareModuleInputOutput", "PrepareModuleOutput", "Replicate", "RowwiseParallel", "SequenceParallel",
           "Shard", "context_parallel", "distribute_module", "distribute_tensor", "empty", "full",
           "implicit_replication", "init_device_mesh", "local_map", "loss_parallel", "ones", "parallelize_module",
           "rand", "randn", "zeros"]  # fmt: skip

placement_types = experimental = parallel = style = api = sys.modules[__name__]  # PyTorch's files
_WHOLE = "use the tensor as it is: one process holds all of it, or run the program on PyTorch"

DTensorSpec = absent_class("DTensorSpec", __name__, "How a tensor is divided.", _WHOLE)

__getattr__ = absent_names(__name__, _WHOLE)
