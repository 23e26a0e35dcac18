"""Losses that compare: cosine similarity, distances between pairs, margins."""

from __future__ import annotations

from typing import Any

from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .elementwise import logsigmoid
from .loss import chosen_reduction, reduced, torch_size
from .where import where


@public(method=False)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 · x2 / (‖x1‖ ‖x2‖) along `dim`; each length is at least `eps`. The shapes broadcast.

    >>> import core
    >>> core.cosine_similarity(core.tensor([[1.0, 0.0]]), core.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    shape = broadcast_shapes(x1._a.shape, x2._a.shape, op="cosine_similarity")
    a, b = (_unit(x.expand(shape), dim, eps) for x in (x1, x2))
    return (a * b).sum(dim)


def _unit(x: Tensor, dim: int, eps: float) -> Any:
    length = x.norm(2, dim, keepdim=True)
    with_floor = length + (length.detach().clamp(min=eps) - length.detach())  # the floor has no gradient of its own
    return x / with_floor


@public(method=False, namespace="nn.functional")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """‖x1 - x2 + eps‖ over the last dimension.

    >>> import core
    >>> core.nn.functional.pairwise_distance(core.tensor([[3.0, 0.0]]), core.tensor([[0.0, 4.0]]))
    tensor([5.])
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@public(method=False, namespace="nn.functional")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - target (input1 - input2)): target 1 wants the first greater, -1 the second.

    >>> import core
    >>> core.nn.functional.margin_ranking_loss(core.tensor([1.0]), core.tensor([3.0]), core.tensor([1.0]))
    tensor(2.)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            text(
                "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
                f"{torch_size(input1)}, input2: {torch_size(input2)}, target: {torch_size(target)}",
                op="margin_ranking_loss",
            )
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


@public(method=False, namespace="nn.functional")
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """x where the target is 1, max(0, margin - x) where it is -1.

    >>> import core
    >>> core.nn.functional.hinge_embedding_loss(core.tensor([0.3, 0.2]), core.tensor([1, -1]), reduction="sum")
    tensor(1.1000)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    near = where(target != 1, (margin - input).clamp(min=0), 0.0)
    return reduced(near + where(target != -1, input, 0.0), reduction)


@public(method=False, namespace="nn.functional")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    >>> import core
    >>> x = core.tensor([[1.0, 0.0]])
    >>> core.nn.functional.cosine_embedding_loss(x, x, core.tensor([-1]))
    tensor(1.)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    similar = cosine_similarity(input1, input2, -1)
    apart = where(target == -1, (similar - margin).clamp(min=0), 0.0)
    return reduced(apart + where(target == 1, 1 - similar, 0.0), reduction)


def check_margin(margin: float, op: str) -> None:
    """ValueError for a margin that is not positive."""
    if margin <= 0:
        raise ValueError(text(f"margin must be greater than 0, got {margin}", op=op, needed="a positive margin"))


@public(method=False, namespace="nn.functional")
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
                        eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); `swap` takes the nearer distance to the negative.

    >>> import core
    >>> a = core.tensor([[0.0]])
    >>> core.nn.functional.triplet_margin_loss(a, a, a)
    tensor(1.)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    check_margin(margin, "triplet_margin_loss")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduced((near - far + margin).clamp(min=0), reduction)


@public(method=False, namespace="nn.functional")
def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """log(1 + exp(-target x)), targets 1 and -1.

    >>> import core
    >>> core.nn.functional.soft_margin_loss(core.tensor([0.0]), core.tensor([1.0]))
    tensor(0.6931)
    """
    return reduced(-logsigmoid(target.to(input.dtype) * input), chosen_reduction(reduction, size_average, reduce))
