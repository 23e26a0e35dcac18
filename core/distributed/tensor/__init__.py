"""Tensors and modules that are divided among processes: `DTensor`, `parallelize_module` and their kin."""

from __future__ import annotations

import sys

from ...base.absent import absent_class, absent_names
from ..device_mesh import DeviceMesh, init_device_mesh
from ..dtensor import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from ..placements import Partial, Placement, Replicate, Shard
from . import parallel
from .parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    context_parallel,
    implicit_replication,
    local_map,
    loss_parallel,
    parallelize_module,
)

__all__ = ["ColwiseParallel", "DTensor", "DeviceMesh", "ParallelStyle", "Partial", "Placement", "PrepareModuleInput",
           "PrepareModuleInputOutput", "PrepareModuleOutput", "Replicate", "RowwiseParallel", "SequenceParallel",
           "Shard", "context_parallel", "distribute_module", "distribute_tensor", "empty", "full",
           "implicit_replication", "init_device_mesh", "local_map", "loss_parallel", "ones", "parallel",
           "parallelize_module", "rand", "randn", "zeros"]  # fmt: skip

placement_types = experimental = style = api = sys.modules[__name__]  # PyTorch's files
_WHOLE = "x.full_tensor() is all of a divided tensor"

DTensorSpec = absent_class("DTensorSpec", __name__, "How a tensor is divided.", _WHOLE)

__getattr__ = absent_names(__name__, _WHOLE)
