"""What processes do together with gradients, for one: `all_reduce` is the identity, `all_gather` a tuple of one."""

from __future__ import annotations

import sys
from typing import Any

from ..tensors.tensor import Tensor
from .groups import member
from .reduce_ops import ReduceOp

__all__ = ["all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]

functional = sys.modules[__name__]  # PyTorch's file, whose names stand here


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return a tensor as a new one: the sum over one process. Gradients go through.

    >>> import core
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> core.distributed.nn.all_reduce(core.ones(2))
    tensor([1., 1.])
    >>> core.distributed.destroy_process_group()
    """
    member(group)
    return tensor.clone()  # type: ignore[attr-defined, no-any-return]


def broadcast(tensor: Tensor, src: int = 0, group: Any = None) -> Tensor:
    """Return a tensor as a new one."""
    return all_reduce(tensor, group=group)


def reduce(tensor: Tensor, dst: int = 0, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return a tensor as a new one."""
    return all_reduce(tensor, group=group)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all processes: this one's. Gradients go through."""
    return (all_reduce(tensor, group=group),)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all processes: this one's."""
    return all_gather(tensor, group)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Tensor:
    """Return the only one of the tensors as a new one."""
    return all_reduce(tensors[0], group=group)


def reduce_scatter(output: Tensor, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the only one of the tensors as a new one."""
    return scatter(input_list, group=group)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> tuple[Tensor, ...]:
    """Return the only one of the tensors as a new one."""
    return (scatter(input_tensor_list, group=group),)
