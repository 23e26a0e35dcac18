"""Losses as modules. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from typing import Any

from ...base.source import warn
from ...tensors.tensor import Tensor
from .. import functional as F
from .module import Module


class _Loss(Module):
    """A loss; `size_average` and `reduce` are the older spelling of `reduction`."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
            warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight for each class or element."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_WeightedLoss):
    """The negative log-likelihood of the target under softmax(input).

    *Shapes*: input ``(N, C, ...)`` or ``(C)``; target class indices ``(N, ...)``, or probabilities shaped like input.

    >>> import core
    >>> core.nn.CrossEntropyLoss()(core.zeros(1, 4), core.tensor([2]))
    tensor(1.3863)
    """

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean",
                 label_smoothing: float = 0.0) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, weight=self.weight, ignore_index=self.ignore_index,
                               reduction=self.reduction, label_smoothing=self.label_smoothing)  # fmt: skip


class NLLLoss(_WeightedLoss):
    """The negative log-likelihood of the target, from log-probabilities.

    >>> import core
    >>> core.nn.NLLLoss()(core.tensor([[-1.0, -2.0]]), core.tensor([1]))
    tensor(2.)
    """

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared difference.

    >>> import core
    >>> core.nn.MSELoss()(core.tensor([1.0, 2.0]), core.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The absolute difference.

    >>> import core
    >>> core.nn.L1Loss()(core.tensor([1.0, 2.0]), core.tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared / (2 `beta`) for differences below `beta`, else the difference less `beta` / 2.

    >>> import core
    >>> core.nn.SmoothL1Loss()(core.tensor([0.0]), core.tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 beta: float = 1.0) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared / 2 for differences below `delta`, else `delta` (difference - `delta` / 2).

    >>> import core
    >>> core.nn.HuberLoss(delta=2.0)(core.tensor([0.0]), core.tensor([3.0]))
    tensor(4.)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, float | int):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class BCELoss(_WeightedLoss):
    """The binary cross-entropy of probabilities.

    >>> import core
    >>> core.nn.BCELoss()(core.tensor([0.5]), core.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The binary cross-entropy of sigmoid(input), without its overflow.

    >>> import core
    >>> core.nn.BCEWithLogitsLoss()(core.tensor([0.0]), core.tensor([1.0]))
    tensor(0.6931)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean", pos_weight: Tensor | None = None) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, weight=self.weight, pos_weight=self.pos_weight,
                                                  reduction=self.reduction)  # fmt: skip


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of the target from input, which holds log-probabilities.

    >>> import core
    >>> core.nn.KLDivLoss(reduction="sum")(core.tensor([-1.0]), core.tensor([1.0]))
    tensor(1.)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 log_target: bool = False) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Any:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
