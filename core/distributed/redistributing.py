"""From one placement to another, with gradients: what each process holds of a tensor becomes what it shall hold.

The gradient of a tensor that is whole on each process is the same on each; that of a divided one is divided alike.
"""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..ops.creation import empty
from ..ops.joining import cat
from .collectives import all_gather, all_reduce, reduce_scatter
from .groups import get_rank, get_world_size
from .placements import Partial, Placement, Replicate, Shard, part_of
from .reduce_ops import ReduceOp

__all__ = ["gathered", "moved", "own_part", "spread"]

_OPS = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "max": ReduceOp.MAX, "min": ReduceOp.MIN,
        "product": ReduceOp.PRODUCT}  # fmt: skip


def own_part(x: Any, dim: int, group: Any) -> Any:
    """Return this process's part of a tensor along a dimension."""
    begin, size = part_of(x.shape[dim], get_world_size(group), get_rank(group))
    return x.narrow(dim, begin, size)


def gathered(x: Any, dim: int, size: int, group: Any) -> Any:
    """Return a tensor of `size` along a dimension from the parts of all processes."""
    many = get_world_size(group)
    parts = [empty([*x.shape[:dim], part_of(size, many, k)[1], *x.shape[dim + 1 :]], dtype=x.dtype, device=x.device)
             for k in range(many)]  # fmt: skip
    all_gather(parts, x.contiguous(), group)
    return cat(parts, dim)


def _summed(x: Any, group: Any, op: str = "sum") -> Any:
    total = x.clone()
    all_reduce(total, _OPS[op], group)
    return total


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, dim: int, size: int, group: Any) -> Any:
        ctx.dim, ctx.group = dim, group
        return gathered(x, dim, size, group)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return own_part(g, ctx.dim, ctx.group).contiguous(), None, None, None


class _Divide(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, dim: int, group: Any) -> Any:
        ctx.dim, ctx.size, ctx.group = dim, x.shape[dim], group
        return own_part(x, dim, group).contiguous()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return gathered(g, ctx.dim, ctx.size, ctx.group), None, None


class _Sum(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, op: str, group: Any) -> Any:
        return _summed(x, group, op)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, None, None


class _SumPart(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, dim: int, op: str, group: Any) -> Any:
        ctx.dim, ctx.size, ctx.group = dim, x.shape[dim], group
        many = get_world_size(group)
        parts = [x.narrow(dim, *part_of(ctx.size, many, k)).contiguous() for k in range(many)]
        out = empty(parts[get_rank(group)].shape, dtype=x.dtype, device=x.device)
        reduce_scatter(out, parts, _OPS[op], group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return gathered(g, ctx.dim, ctx.size, ctx.group), None, None, None


class _Spread(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: Any) -> Any:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return _summed(g, ctx.group), None


def spread(x: Any, group: Any) -> Any:
    """Return a tensor that is whole on each process for ops that differ among them: their gradients are summed up."""
    return _Spread.apply(x, group)


def _one(x: Any, now: Placement, then: Placement, size: Any, group: Any) -> Any:
    """Change the placement in one dimension of a mesh; `size` is that of the divided dimension."""
    if now == then:
        return x
    if isinstance(now, Shard):
        whole = _Gather.apply(x, now.dim, size(now.dim), group)
        return _one(whole, Replicate(), then, size, group)
    if isinstance(now, Partial):
        if isinstance(then, Shard):
            return _SumPart.apply(x, then.dim, now.reduce_op, group)
        return _one(_Sum.apply(x, now.reduce_op, group), Replicate(), then, size, group)
    if isinstance(then, Shard):
        return _Divide.apply(x, then.dim, group)
    return x / get_world_size(group) if isinstance(then, Partial) else x


def moved(x: Any, mesh: Any, now: tuple[Placement, ...], then: tuple[Placement, ...], whole: tuple[int, ...]) -> Any:
    """Return this process's part by placements `then` of a tensor of shape `whole`, given that by placements `now`.

    A dimension of the tensor that several dimensions of the mesh divide is divided by the first of them first.
    """
    now_, groups = list(now), mesh.get_all_groups()
    kept = next((k for k, (a, b) in enumerate(zip(now, then, strict=True)) if a != b), len(now))
    at = mesh.get_coordinate()

    def size_before(k: int) -> Any:
        """How long dimensions are where the first `k` dimensions of the mesh have divided them."""

        def size(dim: int) -> int:
            found = whole[dim]
            for j in range(k):
                if now_[j] == Shard(dim):
                    found = part_of(found, mesh.size(j), at[j])[1]
            return found

        return size

    for k in range(len(now) - 1, kept - 1, -1):  # the last to divide is the first to be gathered
        if isinstance(now[k], Shard):
            x, now_[k] = _one(x, now[k], Replicate(), size_before(k), groups[k]), Replicate()
    for k in range(kept, len(now)):
        x, now_[k] = _one(x, now_[k], then[k], size_before(k), groups[k]), then[k]
    return x
