"""PyTorch's names for tensors that are divided among processes: there is one process, and no instance."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ..base.absent import absent_class, absent_function, absent_names
from ..tensors.tensor import Tensor
from .device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
           "distribute_tensor", "init_device_mesh"]  # fmt: skip

placement_types = experimental = parallel = api = sys.modules[__name__]  # PyTorch's files
_WHOLE = "use the tensor as it is: one process holds all of it, or run the program on PyTorch"

DTensor = absent_class("DTensor", __name__, "A tensor divided among processes.", _WHOLE, Tensor)
DTensorSpec = absent_class("DTensorSpec", __name__, "How a tensor is divided.", _WHOLE)
distribute_tensor = absent_function("distribute_tensor", __name__, "Divide a tensor.", _WHOLE)
distribute_module = absent_function("distribute_module", __name__, "Divide a module.", _WHOLE)
parallelize_module = absent_function("parallelize_module", __name__, "Divide a module.", _WHOLE)
ParallelStyle = absent_class("ParallelStyle", __name__, "How a module is divided.", _WHOLE)
ColwiseParallel = absent_class("ColwiseParallel", __name__, "A module divided by columns.", _WHOLE)
RowwiseParallel = absent_class("RowwiseParallel", __name__, "A module divided by rows.", _WHOLE)
SequenceParallel = absent_class("SequenceParallel", __name__, "A module divided by positions.", _WHOLE)
PrepareModuleInput = absent_class("PrepareModuleInput", __name__, "Inputs divided.", _WHOLE)
PrepareModuleOutput = absent_class("PrepareModuleOutput", __name__, "Outputs divided.", _WHOLE)
loss_parallel = absent_function("loss_parallel", __name__, "A loss of divided logits.", _WHOLE)


class Placement:
    """How a tensor would lie on the processes of a dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it would be divided (along `dim`)."""
        return False

    def is_replicate(self) -> bool:
        """Return whether each would hold all of it."""
        return False

    def is_partial(self) -> bool:
        """Return whether each would hold a summand."""
        return False


@dataclass(frozen=True)
class Shard(Placement):
    """Divided along a dimension."""

    dim: int = 0

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it would be divided (along `dim`)."""
        return dim in (None, self.dim)


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole on each."""

    def is_replicate(self) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class Partial(Placement):
    """A summand on each."""

    reduce_op: str = "sum"

    def is_partial(self) -> bool:
        """Return True."""
        return True


__getattr__ = absent_names(__name__, _WHOLE)
