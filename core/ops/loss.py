"""Losses over classes: cross entropy and the negative log likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import has_values
from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.modes import is_grad_enabled
from ..base.modes import state as mode
from ..base.source import warn
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .precision import rounded, wide
from .softmax import log_softmax
from .where import where

# -- reductions --------------------------------------------------------------------------------------------------------


def chosen_reduction(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """Return the reduction, also where it was given in the old way."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
        )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction\n  needed: 'none', 'mean' or 'sum'")
    return reduction


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Return the losses as they are, their mean or their sum."""
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def torch_size(t: Tensor) -> str:
    """Return a shape as PyTorch's messages have it, so that a search for them finds it."""
    return f"torch.Size({list(t.shape)})"


# -- the ops -----------------------------------------------------------------------------------------------------------


def _targets(xp: Any, target: Any, classes: int, ignore_index: int) -> tuple[Any, Any]:
    """Return the targets with 0 where they are ignored, and where they count; IndexError for one that is no class."""
    valid = target != ignore_index
    safe = xp.where(valid, target, 0)
    bad = (safe < 0) | (safe >= classes)
    if has_values(xp) and bad.any():
        first = int(safe[bad][0])
        raise IndexError(
            text(
                f"Target {first} is out of bounds.",
                op="cross_entropy",
                came=f"target {first} at position {int(xp.nonzero(bad)[0][0])}",
                needed=f"a class from 0 to {classes - 1}",
            )
        )
    return safe, valid


def _mass_forward(xp: Any, target: Any, classes: int, ignore_index: int, label_smoothing: float, dtype: Dtype) -> Any:
    safe, valid = _targets(xp, target, classes, ignore_index)
    mass = xp.full((len(target), classes), label_smoothing / classes, dtype.numpy)
    mass[xp.arange(len(target)), safe] += dtype.numpy.type(1 - label_smoothing)
    return mass * valid[:, None]


_mass = operation(
    "target_mass",
    _mass_forward,
    inputs="target",
    params={"classes": 1, "ignore_index": -100, "label_smoothing": 0.0, "dtype": dtypes.float32},
    samples=lambda rng: [
        ((rng.integers(0, 3, 4),), {"classes": 3, "ignore_index": 1, "label_smoothing": 0.1, "dtype": dtypes.float64})
    ],
    doc="The share of each class in each row's loss; rows that are ignored have none.",
)


def _class_weight_forward(xp: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    safe, valid = _targets(xp, target, len(weight), ignore_index)
    return xp.where(valid, weight[safe], 0).astype(weight.dtype)


def _class_weight_vjp(g: Tensor, target: Tensor, weight_shape: tuple[int, ...], ignore_index: int) -> Tensor:
    mass = _mass(target, classes=weight_shape[0], ignore_index=ignore_index, label_smoothing=0.0, dtype=g.dtype)
    return (mass * g.reshape(-1, 1)).sum(0)


_class_weight = operation("class_weight", _class_weight_forward, inputs="target weight", params={"ignore_index": -100},
                          vjp=(None, _class_weight_vjp),
                          samples=lambda rng: [((rng.integers(0, 3, 4), rng.uniform(0.5, 2, 3)), {"ignore_index": 1})],
                          doc="The weight of each row's class, 0 for ignored rows.")  # fmt: skip


_counted = operation(
    "counted_targets",
    lambda xp, target, ignore_index, dtype: (target != ignore_index).astype(dtype.numpy),
    inputs="target",
    params={"ignore_index": -100, "dtype": dtypes.float32},
    samples=lambda rng: [((rng.integers(0, 3, 6),), {"ignore_index": 1})],
    doc="1 for each target that counts, 0 for one that is ignored.",
)


def _cross_entropy_forward(xp: Any, x: Any, target: Any, weight: Any, ignore_index: int, label_smoothing: float) -> Any:
    if x.ndim == 3:  # (n, C, m): what the device cuda takes without a copy
        x = x.swapaxes(1, 2).reshape(-1, x.shape[1])
    w = wide(x)
    safe, valid = _targets(xp, target, x.shape[1], ignore_index)
    top = w.max(axis=1) if x.shape[0] else w.sum(axis=1)
    off = w - top[:, None]
    log_sum = xp.log(xp.exp(off).sum(axis=1))
    loss = log_sum - off[xp.arange(len(target)), safe]  # keeps digits that lse - x would lose
    if weight is not None:
        loss = loss * wide(weight)[safe]
    if label_smoothing:
        even = log_sum[:, None] - off
        even = even if weight is None else even * wide(weight)
        share = w.dtype.type(label_smoothing)
        loss = loss * (1 - share) + even.sum(axis=1) * (share / w.dtype.type(x.shape[1]))
    return rounded(xp.where(valid, loss, 0), x.dtype), top + log_sum


def _cross_entropy_vjp(g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, lse: Tensor, ignore_index: int,
                       label_smoothing: float, needs: tuple[bool, ...]) -> Any:  # fmt: skip
    if x.ndim == 3:
        rows = x.transpose(1, 2).reshape(-1, x._a.shape[1])  # type: ignore[attr-defined]
        gx, _, gw = _cross_entropy_vjp(g, rows, target, weight, lse, ignore_index, label_smoothing, needs)
        n, classes, m = x._a.shape
        return None if gx is None else gx.reshape(n, m, classes).transpose(1, 2), None, gw
    dtype = x.dtype
    x, g = x.to(lse.dtype), g.to(lse.dtype).reshape(-1, 1)
    share = _mass(
        target, classes=x._a.shape[1], ignore_index=ignore_index, label_smoothing=label_smoothing, dtype=x.dtype
    )
    # for second derivatives the sum must follow x
    log_p = log_softmax(x, 1) if is_grad_enabled() else x - lse.reshape(-1, 1)
    gx = gw = None
    if needs[0]:
        mass = share if weight is None else share * weight
        gx = (log_p.exp() * mass.sum(1, keepdim=True) - mass) * g
        gx = where(share.sum(1, keepdim=True) != 0, gx, 0.0).to(dtype)  # ignored rows get 0 whatever they hold
    if needs[2]:
        gw = -where(share != 0, log_p * share * g, 0.0).sum(0).to(dtype)
    return gx, None, gw


def _class_samples(rng: Any) -> list[Any]:
    x, t, w = rng.uniform(-2, 2, (4, 3)), rng.integers(0, 3, 4), rng.uniform(0.5, 2, 3)
    sets = [(None, -100), (w, -100), (w, int(t[0]))]
    return [((x, t, v), {"ignore_index": i}) for v, i in sets]


def _cross_entropy_samples(rng: Any) -> list[Any]:
    found = [(a, {**params, "label_smoothing": s}) for s in (0.0, 0.1) for a, params in _class_samples(rng)]
    x, t, w = rng.uniform(-2, 2, (2, 3, 4)), rng.integers(0, 3, 8), rng.uniform(0.5, 2, 3)
    return [*found, ((x, t, w), {"ignore_index": int(t[0]), "label_smoothing": 0.1})]


_cross_entropy = operation("cross_entropy", _cross_entropy_forward, inputs="x target weight?",
                           params={"ignore_index": -100, "label_smoothing": 0.0}, outputs="loss lse",
                           vjp=_cross_entropy_vjp,
                           samples=_cross_entropy_samples,
                           doc="The cross entropy of each row; the rows of (n, C, m) are n m.")  # fmt: skip


def _nll_forward(xp: Any, x: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    safe, valid = _targets(xp, target, x.shape[1], ignore_index)
    loss = -x[xp.arange(len(target)), safe]
    return xp.where(valid, loss if weight is None else loss * weight[safe], 0).astype(x.dtype)


def _nll_vjp(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, needs: tuple[bool, ...]
) -> Any:
    share = _mass(target, classes=x._a.shape[1], ignore_index=ignore_index, label_smoothing=0.0, dtype=g.dtype)
    share = -share * g.reshape(-1, 1)
    gw = where(share != 0, share * x, 0.0).sum(0) if needs[2] else None
    return share if weight is None else share * weight, None, gw


_nll = operation("nll_loss", _nll_forward, inputs="x target weight?", params={"ignore_index": -100}, vjp=_nll_vjp,
                 samples=_class_samples, piecewise=True,
                 doc="Minus the log likelihood of each row's class.")  # fmt: skip


# -- public ------------------------------------------------------------------------------------------------------------


def _check_classes(op: str, input: Tensor, target: Tensor, weight: Tensor | None) -> int:
    """Return the number of classes, after all that can be wrong with class indices."""
    shape, t = tuple(input._a.shape), tuple(target._a.shape)
    came = f"input {shape}, target {t}"
    if len(shape) > 1 and t and t[0] != shape[0]:
        raise ValueError(text(f"Expected input batch_size ({shape[0]}) to match target batch_size ({t[0]}).", op=op,
                              came=came))  # fmt: skip
    if target.dtype not in (dtypes.int64, dtypes.uint8):
        raise RuntimeError(
            text(
                f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_type}",
                op=op,
                came=f"(expected scalar type Long but found {target.dtype.scalar_type}) target {t}",
                remedy="target.long() for class indices; probabilities have the input's shape",
            )
        )
    if len(shape) <= 2:
        if len(t) > len(shape) - 1 and not (len(shape) == 1 and t == (1,)):
            raise RuntimeError(text("0D or 1D target tensor expected, multi-target not supported", op=op, came=came,
                                    remedy="target.squeeze(1) for a column; argmax(1) for one-hot rows"))  # fmt: skip
        if len(shape) == 2 and t != shape[:1]:
            raise ValueError(text(f"Expected input batch_size ({shape[0]}) to match target batch_size "
                                  f"({t[0] if t else 1}).", op=op, came=came))  # fmt: skip
    elif t != shape[:1] + shape[2:]:
        want = list(shape[:1] + shape[2:])
        phrase = f"Expected target size {want}, got {list(t)}"
        if len(shape) == 4 and len(t) == 3:
            phrase = f"size mismatch (got input: {list(shape)} , target: {list(t)}\n  {phrase}"
        raise RuntimeError(text(phrase, op=op, came=came, needed="classes in dimension 1 of the input"))
    classes = shape[1 if len(shape) > 1 else 0]
    if weight is not None and tuple(weight._a.shape) != (classes,):
        raise RuntimeError(
            text(
                f"weight tensor should be defined either for all {classes} classes or no classes but got "
                f"weight tensor of shape: {list(weight.shape)}",
                op=op,
            )
        )
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            text(
                f"expected scalar type {input.dtype.scalar_type} but found {weight.dtype.scalar_type}",
                op=op,
                came="the weight's dtype",
                remedy=f"weight.to({input.dtype!r})",
            )
        )
    return classes


def _as_rows(input: Tensor, target: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return (N, C, d1, ...) as (N d1 ..., C), and the target as one row of indices."""
    if input.ndim != 2:
        if input.ndim > 2:
            input = input.permute((0, *range(2, input.ndim), 1))
        input = input.reshape(-1, classes)
    return input, _as_vector(target)


def _as_vector(target: Tensor) -> Tensor:
    if target.dtype is not dtypes.int64:
        target = target.to(dtypes.int64)
    return target if target.ndim == 1 else target.reshape(-1)


def _over_classes(losses: Tensor, rows: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int,
                  reduction: str) -> Tensor:  # fmt: skip
    """Return the rows' losses reduced: the mean is over the weights of the rows that count."""
    if reduction == "none":
        return losses.reshape(tuple(target.shape))
    if reduction == "sum":
        return losses.sum()
    if weight is not None:
        return losses.sum() / _class_weight(rows, weight, ignore_index=ignore_index).sum()
    if rows.device.type == "cpu":
        ignored = np.count_nonzero(rows._a == ignore_index)
        return losses.mean() if not ignored else losses.sum() / (rows._a.size - ignored)
    exact = (
        losses if losses.dtype.itemsize > 2 else losses.to(dtypes.float32)
    )  # a half-precision type counts no further than 2048
    counted = _counted(rows, ignore_index=ignore_index, dtype=exact.dtype).sum()  # not asked for: no wait for a GPU
    return (exact.sum() / counted).to(losses.dtype)


@public(method=False, namespace="nn.functional", home="layers",
        fast=[Fast(body="class_losses(op.cross_entropy, op.mean, op.sum, input, target, ignore_index, reduction, "
                        "label_smoothing)",
                   types={"input": "real", "target": "index"})])  # fmt: skip
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:  # fmt: skip
    """Return the cross entropy between logits and class indices, or class probabilities.

    *Shapes*: input ``(C)``, ``(N, C)`` or ``(N, C, d1, ...)``; target the same without C (int64 indices), or the same
    (probabilities); weight ``(C)``. *Raises*: IndexError for an index that is no class, RuntimeError and ValueError
    for shapes and dtypes that do not fit.

    >>> import core
    >>> core.nn.functional.cross_entropy(core.tensor([[2.0, 1.0], [0.0, 3.0]]), core.tensor([0, 1]))
    tensor(0.1809)
    """
    if (
        mode.batch is not None
        and (
            found := mode.batch.each(
                cross_entropy, input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing
            )
        )
        is not NotImplemented
    ):
        return found  # type: ignore[no-any-return]
    if size_average is not None or reduce is not None or reduction not in ("mean", "sum", "none"):
        reduction = chosen_reduction(reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(
            text(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}", op="cross_entropy")
        )
    if input._kind.dtype.category < 2:
        raise NotImplementedError(
            text(
                f"\"log_softmax_lastdim_kernel_impl\" not implemented for '{input.dtype.scalar_type}'",
                op="cross_entropy",
                needed="floating-point logits",
            )
        )
    if input.ndim == 0:
        raise IndexError(
            text(
                "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
                op="cross_entropy",
                came="a 0-d input",
                needed="a dimension of classes",
            )
        )
    if target._a.shape == input._a.shape:
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    classes = _check_classes("cross_entropy", input, target, weight)
    if input.is_cuda and input.ndim > 2:  # a kernel takes the classes where they stand
        x, rows = input.flatten(2), _as_vector(target)  # type: ignore[attr-defined]
    else:
        x, rows = _as_rows(input, target, classes)
    losses = _cross_entropy(x, rows, weight, ignore_index=ignore_index, label_smoothing=float(label_smoothing))
    return _over_classes(losses, rows, target, weight, ignore_index, reduction)


def _of_probabilities(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str,
                      label_smoothing: float) -> Tensor:  # fmt: skip
    if target._kind.dtype.category < 2:
        raise RuntimeError(
            text(
                f"Expected floating point type for target with class probabilities, got {target.dtype.scalar_type}",
                op="cross_entropy",
                came=f"target {tuple(target.shape)}, the input's shape",
                remedy="target.float(), or class indices without the dimension of classes",
            )
        )
    if ignore_index >= 0:
        raise RuntimeError(text("ignore_index is not supported for floating point target", op="cross_entropy"))
    dim = 1 if input.ndim > 1 else 0
    classes = input._a.shape[dim]
    if weight is not None and tuple(weight._a.shape) != (classes,):
        raise RuntimeError(
            text(
                f"cross_entropy: weight tensor should be defined either for all {classes} classes or no "
                f"classes but got weight tensor of shape: {list(weight.shape)}",
                op="cross_entropy",
            )
        )
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = log_softmax(input, dim) * target
    if weight is not None:
        terms = terms * weight.reshape([-1 if i == dim else 1 for i in range(input.ndim)])
    if reduction == "mean":
        return -terms.sum() / (input._a.size / classes)
    return -terms.sum() if reduction == "sum" else -terms.sum(dim)


@public(method=False, namespace="nn.functional", home="layers",
        fast=[Fast(body="class_losses(op.nll_loss, op.mean, op.sum, input, target, ignore_index, reduction, NULL)",
                   types={"input": "real", "target": "index"})])  # fmt: skip
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
             ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Minus the log probability of the right class: what follows `log_softmax`.

    *Shapes*: as `cross_entropy` with class indices.

    >>> import core
    >>> core.nn.functional.nll_loss(core.tensor([[-0.5, -1.0]]), core.tensor([1]))
    tensor(1.)
    """
    if (
        mode.batch is not None
        and (found := mode.batch.each(nll_loss, input, target, weight, size_average, ignore_index, reduce, reduction))
        is not NotImplemented
    ):
        return found  # type: ignore[no-any-return]
    reduction = chosen_reduction(reduction, size_average, reduce)
    classes = _check_classes("nll_loss", input, target, weight)
    x, rows = _as_rows(input, target, classes)
    losses = _nll(x, rows, weight, ignore_index=ignore_index)
    return _over_classes(losses, rows, target, weight, ignore_index, reduction)
