"""`LinearCrossEntropyLoss`: a classifier's last layer and its loss in one, and how to go through it in pieces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...tensors.tensor import Tensor
from .. import functional as F
from .linear import Linear
from .loss import _WeightedLoss


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` goes through the batch: the logits of one piece are in memory at a time.

    allow_retain_graph : PyTorch's; here a second backward pass is always possible.
    batch_chunk_size : the rows of a piece; None leaves it to `chunking_method`.
    chunking_method : "aspect_ratio:r", a whole r: as many pieces as there are r times the features in the classes, so
        that a piece's logits stay near the size of the input; "auto" for r = 2, None for one piece.
    acc_policy : "accurate", "balanced", "compact" or "auto": PyTorch's; gradients are added up in the weight's dtype.
    acc_dtype : the dtype in which the losses are added up.

    *Raises*: ValueError for other values.

    >>> import core
    >>> options = core.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    >>> x, w = core.ones(5, 3), core.zeros(4, 3)
    >>> core.nn.functional.linear_cross_entropy(x, w, core.tensor([0, 1, 2, 3, 0]), options=options)
    tensor(1.3863)
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        n = self.batch_chunk_size
        if n is not None and (not isinstance(n, int) or n <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {n}")
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        self._ratio()

    def _ratio(self) -> int | None:
        if self.chunking_method in (None, "auto"):
            return None if self.chunking_method is None else 2
        name, colon, ratio = str(self.chunking_method).partition(":")
        ratio = ratio if colon else "1"
        if name != "aspect_ratio" or not ratio.isdigit() or int(ratio) < 1:
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        return int(ratio)

    def rows(self, batch: int, in_features: int, classes: int) -> int:
        """Return the rows of a piece: pieces are as many as classes are times the features, divided by the ratio."""
        if self.batch_chunk_size is not None:
            return self.batch_chunk_size
        ratio = self._ratio()
        if ratio is None:
            return max(batch, 1)
        return max(math.ceil(batch / max(classes / (ratio * max(in_features, 1)), 1)), 1)


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross entropy of ``linear(input)`` and the target: a `Linear` without a place for its outputs, and its loss.

    out_features : the dimensions of each input's predictions; () for one.
    options : `LinearCrossEntropyOptions`, to go through the batch in pieces.

    *Shapes*: ``(n, in_features)`` or ``(in_features,)``; target class indices (n, *out_features) or probabilities (n,
    num_classes, *out_features). *Raises*: RuntimeError, ValueError where they do not fit.

    >>> import core
    >>> loss = core.nn.LinearCrossEntropyLoss(3, 10)
    >>> loss(core.ones(4, 3), core.tensor([1, 2, 3, 4])).shape
    core.Size([])
    """

    def __init__(self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
                 device: Any = None, dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None,
                 ignore_index: int | None = None, label_smoothing: float = 0.0,
                 options: LinearCrossEntropyOptions | None = None) -> None:  # fmt: skip
        super().__init__(weight, reduction=reduction)
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.in_features, self.num_classes, self.out_features = in_features, num_classes, tuple(out_features)
        self.bias, self.ignore_index, self.label_smoothing = bias, ignore_index, label_smoothing
        self.options = options
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        weight: Tensor = self.linear.weight
        bias: Tensor | None = self.linear.bias
        shape = (self.num_classes, *self.out_features)
        if self.out_features:
            weight = weight.reshape(*shape, self.in_features)  # type: ignore[attr-defined]
            bias = None if bias is None else bias.reshape(shape)  # type: ignore[attr-defined]
        return F.linear_cross_entropy(input, weight, target, linear_bias=bias, weight=self.weight,
                                      reduction=self.reduction, ignore_index=self.ignore_index,
                                      label_smoothing=self.label_smoothing, options=self.options)  # fmt: skip

    def extra_repr(self) -> str:
        names = ("in_features", "num_classes", "out_features", "bias", "reduction", "ignore_index", "label_smoothing",
                 "options")  # fmt: skip
        return ", ".join(f"{n}={getattr(self, n)}" for n in names)
