"""What processes do together with tensors that need gradients.

The results are new tensors, and gradients go back to the processes that the values came from: all processes run the
backward pass, as they ran the forward pass.
"""

from __future__ import annotations

import sys
from typing import Any

from ..autograd.function import Function
from ..ops.creation import empty, empty_like, zeros_like
from ..ops.joining import cat
from ..ops.pieces import split
from ..tensors.tensor import Tensor
from . import collectives
from .collectives import rank_in
from .groups import ProcessGroup, mine
from .reduce_ops import ReduceOp

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
           "reduce_scatter", "scatter"]  # fmt: skip

functional = sys.modules[__name__]  # PyTorch's file, whose names stand here


def _group(group: Any, op: str) -> ProcessGroup:
    found = mine(group, f"nn.{op}")
    if found is None:
        raise ValueError(f"distributed.nn.{op} is called by the processes of the group alone")
    return found


def _whole(t: Tensor) -> Tensor:
    return t.detach().clone().contiguous()  # type: ignore[attr-defined, no-any-return]


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, op: Any, t: Tensor) -> Tensor:
        ctx.group, ctx.how, y = group, op, _whole(t)
        collectives.all_reduce(y, op, group)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.group, ctx.how, g)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, src: int, t: Tensor) -> Tensor:
        ctx.group, ctx.src, y = group, src, _whole(t)
        collectives.broadcast(y, group=group, group_src=src)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        summed = _Reduce.apply(ctx.group, ctx.src, ReduceOp.SUM, g)
        return None, None, summed if ctx.group.rank() == ctx.src else zeros_like(summed)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, dst: int, op: Any, t: Tensor) -> Tensor:
        ctx.group, ctx.dst, y = group, dst, _whole(t)
        collectives.reduce(y, op=op, group=group, group_dst=dst)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return None, None, None, _Broadcast.apply(ctx.group, ctx.dst, g)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, dst: int, t: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.dst = group, dst
        many = [empty_like(t) for _ in range(group.size())]
        collectives.gather(_whole(t), many if group.rank() == dst else None, group=group, group_dst=dst)
        return tuple(many if group.rank() == dst else (zeros_like(x) for x in many))

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.group, ctx.dst, *gs)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, src: int, *many: Tensor) -> Tensor:
        ctx.group, ctx.src = group, src
        y = empty_like(many[0])
        given = [_whole(t) for t in many] if group.rank() == src else None
        collectives.scatter(y, given, group=group, group_src=src)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.group, ctx.src, g)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, t: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        many = [empty_like(t) for _ in range(group.size())]
        collectives.all_gather(many, _whole(t), group)
        return tuple(many)

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> Any:
        return None, _ReduceScatter.apply(ctx.group, ReduceOp.SUM, *gs)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, op: Any, *many: Tensor) -> Tensor:
        ctx.group, y = group, empty_like(many[group.rank()])
        collectives.reduce_scatter(y, [_whole(t) for t in many], op, group)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return None, None, *_AllGather.apply(ctx.group, g)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, shapes: list[Any], *many: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [t.shape for t in many]
        out = [empty(shape, dtype=many[0].dtype, device=many[0].device) for shape in shapes]
        collectives.all_to_all(out, [_whole(t) for t in many], group)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *gs)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the sum over all processes; the gradient is the sum of theirs.

    >>> import core
    >>> core.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> core.distributed.nn.all_reduce(core.ones(2))
    tensor([1., 1.])
    >>> core.distributed.destroy_process_group()
    """
    return _AllReduce.apply(_group(group, "all_reduce"), op, tensor)  # type: ignore[no-any-return]


def broadcast(tensor: Tensor, src: int = 0, group: Any = None) -> Tensor:
    """Return the tensor of rank `src`, where the gradients are summed; those of the others are 0."""
    g = _group(group, "broadcast")
    return _Broadcast.apply(g, rank_in(g, src, None, "broadcast"), tensor)  # type: ignore[no-any-return]


def reduce(tensor: Tensor, dst: int = 0, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the sum over all processes on rank `dst`, whose gradient all get."""
    g = _group(group, "reduce")
    return _Reduce.apply(g, rank_in(g, dst, None, "reduce"), op, tensor)  # type: ignore[no-any-return]


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all processes; the gradient of each is the sum of all for it."""
    return tuple(_AllGather.apply(_group(group, "all_gather"), tensor))


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all processes on rank `dst`, zeros on the others."""
    g = _group(group, "gather")
    return tuple(_Gather.apply(g, rank_in(g, dst, None, "gather"), tensor))


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Tensor:
    """Return this process's entry of the tensors of rank `src`; the others give tensors of its shape."""
    g = _group(group, "scatter")
    return _Scatter.apply(g, rank_in(g, src, None, "scatter"), *tensors)  # type: ignore[no-any-return]


def reduce_scatter(output: Tensor, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the sum over all processes of this one's entry."""
    return _ReduceScatter.apply(_group(group, "reduce_scatter"), op, *input_list)  # type: ignore[no-any-return]


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> tuple[Tensor, ...]:
    """Return what each process sends this one; `output_tensor_list` has the shapes."""
    shapes = [t.shape for t in output_tensor_list]
    return tuple(_AllToAll.apply(_group(group, "all_to_all"), shapes, *input_tensor_list))


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
                      group: Any = None) -> Tensor:  # fmt: skip
    """Return the rows that the processes send this one, one after the other."""
    g = _group(group, "all_to_all_single")
    into = output_split_sizes or [output.shape[0] // g.size()] * g.size()
    of = input_split_sizes or [input.shape[0] // g.size()] * g.size()
    shapes = [(n, *output.shape[1:]) for n in into]
    return cat(list(_AllToAll.apply(g, shapes, *split(input, list(of)))))  # type: ignore[no-any-return]
