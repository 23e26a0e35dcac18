"""The cross entropy of a linear map's outputs, whole or a piece of the batch at a time."""

from __future__ import annotations

from typing import Any

from ..base.errors import text
from ..base.modes import state as mode
from ..base.source import warn
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .joining import cat
from .linalg import linear
from .loss import cross_entropy


def _checked(input: Tensor, linear_weight: Tensor, target: Tensor, label_smoothing: float, ignore_index: Any) -> None:
    op = "linear_cross_entropy"
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(text(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}", op=op))
    if input.ndim not in (1, 2):
        raise RuntimeError(text(f"expected input with dimensionality 1 or 2, got {input.ndim}", op=op,
                                came=f"shape {tuple(input.shape)}"))  # fmt: skip
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(text("expected equal input and linear_weight last dimensions (in_features), got "
                                f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively", op=op))  # fmt: skip
    if input.ndim == 1 and linear_weight.ndim > 2:
        raise RuntimeError(text(f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
                                f"requires batched input, (N, {input.shape[-1]}), got unbatched input with shape "
                                f"{tuple(input.shape)}", op=op, remedy="input.unsqueeze(0)"))  # fmt: skip
    inner = tuple(linear_weight.shape[1:-1])
    if tuple(target.shape) == (*input.shape[:-1], linear_weight.shape[0], *inner) and target.dtype.category < 2:
        raise RuntimeError(text("Expected floating point type for target with class probabilities, got "
                                f"{target.dtype.scalar_type}", op=op, remedy="target.float()"))  # fmt: skip
    if ignore_index is not None and target.dtype.category == 2:
        raise RuntimeError(text("ignore_index cannot be specified when target contains probabilities", op=op))


def _pieces(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None, target: Tensor, weight: Tensor | None,
            reduction: str, ignore: int, options: Any) -> Tensor:  # fmt: skip
    """Piece by piece: the logits of one piece are there at a time, and are made again for the gradient."""
    from ..utils.checkpoint import checkpoint

    rows = options.rows(input.shape[0], linear_weight.shape[-1], linear_weight.shape[0])

    def piece(x: Tensor, t: Tensor) -> Tensor:
        return cross_entropy(linear(x, linear_weight, linear_bias), t, weight, ignore_index=ignore, reduction="none")

    losses = []
    for x, t in zip(input.split(rows), target.split(rows), strict=True):  # type: ignore[attr-defined]
        kept = mode.enabled and any(p is not None and p.requires_grad for p in (x, linear_weight, linear_bias))
        losses.append(checkpoint(piece, x, t, use_reentrant=False, preserve_rng_state=False) if kept else piece(x, t))
    loss = cat(losses)
    if reduction == "none":
        return loss
    total = (loss if options.acc_dtype is None else loss.to(options.acc_dtype)).sum()
    if reduction == "mean":
        counted = target != ignore
        total = total / (counted.sum() if weight is None else (weight[target.where(counted, 0)] * counted).sum())  # type: ignore[attr-defined]
    return total.to(loss.dtype)  # type: ignore[no-any-return]


@public(method=False, namespace="nn.functional")
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
                         weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0, options: Any = None) -> Tensor:  # fmt: skip
    """Return the cross entropy of ``linear(input, linear_weight, linear_bias)`` and the target.

    `linear_weight` of more than two dimensions, (classes, d1, ..., features), gives each input d1 × ... predictions.

    options : `nn.LinearCrossEntropyOptions`; the batch is then gone through in pieces, so that a vocabulary's logits
        are never in memory all at once. For class indices without smoothing; other calls say so in a warning.

    *Shapes*: ``(n, features)`` or ``(features,)``; the target as in `cross_entropy`, (n, d1, ...) or (n, classes,
    d1, ...). *Raises*: RuntimeError, ValueError where shapes do not fit.

    >>> import core
    >>> core.nn.functional.linear_cross_entropy(core.ones(1, 2), core.zeros(4, 2), core.tensor([0]))
    tensor(1.3863)
    """
    _checked(input, linear_weight, target, label_smoothing, ignore_index)
    ignore = -100 if ignore_index is None else ignore_index
    inner = tuple(linear_weight.shape[1:-1])
    if options is not None:
        plain = target.dtype.category == 1 and not label_smoothing and not inner and input.ndim == 2
        if plain and reduction in ("mean", "sum", "none"):
            if target.shape[:1] != input.shape[:1]:
                raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
                                 f"({target.shape[0] if target.ndim else 1}).")  # fmt: skip
            return _pieces(input, linear_weight, linear_bias, target, weight, reduction, ignore, options)
        warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {'mean','sum',"
            "'none'}, label_smoothing == 0, target.dtype == int64, out_features == (). Got "
            f"reduction={reduction!r}, label_smoothing={label_smoothing}, target.dtype={target.dtype}, "
            f"out_features={inner}."
        )
    if inner:
        linear_weight = linear_weight.reshape(-1, linear_weight.shape[-1])  # type: ignore[attr-defined]
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)  # type: ignore[attr-defined]
    logits = linear(input, linear_weight, linear_bias)
    if inner:
        logits = logits.unflatten(-1, (-1, *inner))  # type: ignore[attr-defined]
    return cross_entropy(logits, target, weight, ignore_index=ignore, reduction=reduction,
                         label_smoothing=label_smoothing)  # fmt: skip
