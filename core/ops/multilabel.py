"""Losses with a margin between classes, and of several labels at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import text
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .creation import zeros
from .elementwise import logsigmoid
from .loss import chosen_reduction, reduced, torch_size
from .margin import check_margin, pairwise_distance
from .where import where


@public(method=False, namespace="nn.functional")
def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
                      size_average: bool | None = None, reduce: bool | None = None,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Σ over the wrong classes j of max(0, margin - x[y] + x[j])^p, divided by the number of classes.

    *Shapes*: ``(n, c)`` and ``(n,)``, or ``(c,)`` and ``()``. *Raises*: ValueError for a `p` other than 1 or 2.

    >>> import core
    >>> core.nn.functional.multi_margin_loss(core.tensor([[0.1, 0.2, 0.4, 0.8]]), core.tensor([3]))
    tensor(0.3250)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"only p == 1 and p == 2 supported\n  op: multi_margin_loss; came: p={p}")
    rows, labels = (input.reshape(1, -1), target.reshape(1)) if input.ndim < 2 else (input, target)  # type: ignore[attr-defined]
    if labels.shape[0] != rows.shape[0]:
        raise RuntimeError(text(f"inconsistent target size, expected {list(rows.shape[:1])} but got "
                                f"{list(labels.shape)}", op="multi_margin_loss"))  # fmt: skip
    at = labels.unsqueeze(1)
    losses = (margin - rows.gather(1, at) + rows).clamp(min=0)
    losses = losses * losses if p == 2 else losses
    if weight is not None:
        losses = losses * weight[labels].unsqueeze(1)
    losses = losses.scatter(1, at, 0.0).sum(1) / rows.shape[1]
    return reduced(losses[0] if input.ndim < 2 else losses, reduction)


@public(method=False, namespace="nn.functional")
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Tensor:  # fmt: skip
    """Σ of max(0, 1 - x[label] + x[i]) over the labels of a row and the classes i that are none of them, per class.

    A row's labels end at the first -1.

    >>> import core
    >>> x, labels = core.tensor([[0.1, 0.2, 0.4, 0.8]]), core.tensor([[3, 0, -1, 1]])
    >>> core.nn.functional.multilabel_margin_loss(x, labels)
    tensor(0.8500)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise RuntimeError(text(f"inconsistent target size: {list(target.shape)} for input of size: "
                                f"{list(input.shape)}", op="multilabel_margin_loss"))  # fmt: skip
    classes = input._a.shape[-1] if input.ndim else 1
    if target._a.size and not (int(target._a.min()) >= -1 and int(target._a.max()) < classes):
        raise RuntimeError(text("argument #2 'target' is out of range", op="multilabel_margin_loss",
                                came=f"{int(target._a.min())} to {int(target._a.max())}",
                                needed=f"classes from 0 to {classes - 1}, and -1 behind the last one"))  # fmt: skip
    rows, labels = (input.reshape(1, -1), target.reshape(1, -1)) if input.ndim < 2 else (input, target)  # type: ignore[attr-defined]
    counts = (labels >= 0).long().cumprod(1)
    at = labels.clamp(min=0)
    chosen = zeros(tuple(rows.shape), dtype=rows.dtype, device=rows.device).scatter_add(1, at, counts.to(rows.dtype))
    gaps = (1 - rows.gather(1, at).unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    used = (counts.unsqueeze(2) > 0) & (chosen == 0).unsqueeze(1)
    losses = where(used, gaps, 0.0).sum((1, 2)) / rows.shape[1]
    return reduced(losses[0] if input.ndim < 2 else losses, reduction)


@public(method=False, namespace="nn.functional")
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                size_average: bool | None = None, reduce: bool | None = None,
                                reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return the binary cross entropy of each class with its label (0 or 1), averaged over the classes.

    >>> import core
    >>> core.nn.functional.multilabel_soft_margin_loss(core.tensor([[0.0, 0.0]]), core.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduced(losses.mean(-1), reduction)


@public(method=False, namespace="nn.functional")
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for any distance; without one the Euclidean.

    >>> import core
    >>> a = core.tensor([[0.0]])
    >>> core.nn.functional.triplet_margin_with_distance_loss(a, a, a, margin=0.5)
    tensor(0.5000)
    """
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            text(
                "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but "
                f"got: anchor {torch_size(anchor)}, positive {torch_size(positive)}, negative {torch_size(negative)}",
                op="triplet_margin_with_distance_loss",
            )
        )
    check_margin(margin, "triplet_margin_with_distance_loss")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), chosen_reduction(reduction, None, None))
