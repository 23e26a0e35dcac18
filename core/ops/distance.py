"""Losses between two tensors of one shape: squared and absolute errors, binary cross entropy, divergences."""

from __future__ import annotations

import math
from typing import Any

from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..base.source import warn
from ..declare.expr import s
from ..dispatch.declare import elementwise
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .formulas import signum
from .loss import chosen_reduction, reduced, torch_size
from .where import where

# -- the functions, each with its gradient as one pass --


def _smooth(a: Any, b: Any, beta: Any) -> Any:
    d = s.abs(a - b)
    return s.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


def _smooth_slope(a: Any, b: Any, beta: Any) -> Any:
    d = a - b
    return s.where(s.abs(d) < beta, d / beta, s.sign(d))


def _huber(a: Any, b: Any, delta: Any) -> Any:
    d = s.abs(a - b)
    return s.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def _huber_slope(a: Any, b: Any, delta: Any) -> Any:
    d = a - b
    return s.where(s.abs(d) <= delta, d, delta * s.sign(d))


def _softplus(x: Any) -> Any:
    return s.maximum(x, 0.0) + s.log1p(s.exp(-s.abs(x)))


def _logits(x: Any, t: Any, pos: Any = 1.0) -> Any:
    """(1 - t) softplus(x) + pos t softplus(-x), their common logarithm once: no difference of near numbers, so that a
    sure and right logit keeps its small loss."""
    tail = s.log1p(s.exp(-s.abs(x)))
    return (1.0 - t) * s.maximum(x, 0.0) + pos * t * s.maximum(-x, 0.0) + ((1.0 - t) + pos * t) * tail


def _logits_slope(x: Any, t: Any, pos: Any = 1.0) -> Any:
    return (1.0 - t) * s.sigmoid(x) - pos * t * s.sigmoid(-x)


_squared = elementwise("squared_error", lambda a, b: (a - b) * (a - b), public=False,
                       vjp=(lambda g, a, b: g * (2.0 * (a - b)), lambda g, a, b: g * (2.0 * (b - a))),
                       doc="The square of the difference.")  # fmt: skip
_absolute = elementwise("absolute_error", lambda a, b: s.abs(a - b), public=False, domain=((0.2, 3.0), (-3.0, -0.2)),
                        vjp=(lambda g, a, b: g * signum(a - b), lambda g, a, b: g * signum(b - a)),
                        piecewise=True, doc="The distance.")  # fmt: skip
_smooth_l1 = elementwise(
    "smooth_l1_error",
    lambda a, b, beta: _smooth(a, b, beta),
    params={"beta": 1.0},
    public=False,
    domain=((0.2, 0.4), (-0.4, -0.2)),
    vjp=(lambda g, a, b, beta: g * _smooth_slope(a, b, beta), lambda g, a, b, beta: g * _smooth_slope(b, a, beta)),
    doc="Half the squared distance over beta where it is below beta, else the distance less beta / 2.",
)
_huber_error = elementwise("huber_error", lambda a, b, delta: _huber(a, b, delta), params={"delta": 1.0}, public=False,
                           domain=((0.2, 0.4), (-0.4, -0.2)),
                           vjp=(lambda g, a, b, delta: g * _huber_slope(a, b, delta),
                                lambda g, a, b, delta: g * _huber_slope(b, a, delta)),
                           doc="Half the squared distance up to delta, from there on a line.")  # fmt: skip
_bce = elementwise(
    "binary_entropy",
    public=False,
    domain=((0.1, 0.9), (0.1, 0.9)),
    function=lambda x, t: -(t * s.maximum(s.log(x), -100.0) + (1.0 - t) * s.maximum(s.log1p(-x), -100.0)),
    vjp=(
        lambda g, x, t: g * ((x - t) / s.maximum(x * (1.0 - x), 1e-12)),
        lambda g, x: g * (s.maximum(s.log1p(-x), -100.0) - s.maximum(s.log(x), -100.0)),
    ),
    doc="Binary cross entropy of a probability x; the logarithms stop at -100.",
)
_bce_logits = elementwise("binary_entropy_logits", lambda x, t: _logits(x, t), public=False,
                          domain=((0.2, 3.0), (0.1, 0.9)),
                          vjp=(lambda g, x, t: g * _logits_slope(x, t), lambda g, x: -g * x),
                          doc="Binary cross entropy of a logit x.")  # fmt: skip
_bce_logits_pos = elementwise("binary_entropy_logits_pos", lambda x, t, pos: _logits(x, t, pos), public=False,
                              domain=((0.2, 3.0), (0.1, 0.9), (0.5, 2.0)),
                              vjp=(lambda g, x, t, pos: g * _logits_slope(x, t, pos),
                                   lambda g, x, pos: g * (pos * _softplus(-x) - _softplus(x)),
                                   lambda g, x, t: g * t * _softplus(-x)),
                              doc="Binary cross entropy of a logit x, the true cases weighted by pos.")  # fmt: skip
_kl = elementwise("divergence", lambda x, t: s.where(t == 0.0, 0.0, t * s.log(t)) - t * x, public=False,
                  domain=((-3.0, -0.1), (0.1, 0.9)),
                  vjp=(lambda g, t: -g * t,
                       lambda g, x, t: g * (s.log(t) + t / t - x)),  # NaN where t is 0, as PyTorch's
                  doc="t (log t - x), with t log t = 0 where t is 0.")  # fmt: skip
_kl_log = elementwise(
    "divergence_log",
    lambda x, t: s.exp(t) * (t - x),
    public=False,
    domain=((-3.0, -0.1), (-3.0, -0.1)),
    vjp=(lambda g, t: -g * s.exp(t), lambda g, x, t: g * (s.exp(t) * (t - x + 1.0))),
    doc="exp(t) (t - x).",
)


# -- public ------------------------------------------------------------------------------------------------------------


def warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    """PyTorch's warning that shapes differ: a target (N) against (N, 1) becomes (N, N), a common silent mistake."""
    if input._a.shape != target._a.shape:
        warn(
            f"Using a target size ({torch_size(target)}) that is different to the input size ({torch_size(input)}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        )
        broadcast_shapes(tuple(input.shape), tuple(target.shape), op="loss")


def _need_floating(kernel: str, input: Tensor, target: Tensor) -> None:
    if input.dtype.category < 2 and target.dtype.category < 2:
        raise NotImplementedError(text(f"\"{kernel}\" not implemented for '{input.dtype.scalar_type}'",
                                       needed="a floating-point input or target", remedy="input.float()"))  # fmt: skip


def _weighted(losses: Tensor, weight: Tensor | None) -> Tensor:
    return losses if weight is None else losses * weight


def _finished(losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Weighted and reduced; here the mean with a weight is over the sum of the weights."""
    if weight is None:
        return reduced(losses, reduction)
    losses = losses * weight
    if reduction == "mean":
        return losses.sum() / weight.expand(tuple(losses.shape)).sum()
    return reduced(losses, reduction)


@public(method=False, namespace="nn.functional")
def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the mean of the squared differences.

    >>> import core
    >>> core.nn.functional.mse_loss(core.tensor([1.0, 2.0]), core.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    warn_of_broadcast(input, target)
    _need_floating("mse_cpu", input, target)
    return _finished(_squared(input, target), weight, reduction)


@public(method=False, namespace="nn.functional")
def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the mean of the absolute differences.

    >>> import core
    >>> core.nn.functional.l1_loss(core.tensor([1.0, 2.0]), core.tensor([1.0, 4.0]))
    tensor(1.)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    warn_of_broadcast(input, target)
    return _finished(_absolute(input, target), weight, reduction)


@public(method=False, namespace="nn.functional")
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:  # fmt: skip
    """Squared below `beta`, absolute above; with beta 0 it is `l1_loss`.

    >>> import core
    >>> core.nn.functional.smooth_l1_loss(core.tensor([0.0, 0.0]), core.tensor([0.5, 2.0]), reduction="none")
    tensor([0.1250, 1.5000])
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    warn_of_broadcast(input, target)
    if beta < 0:
        raise RuntimeError(text("smooth_l1_loss does not support negative values for beta.", op="smooth_l1_loss"))
    _need_floating("smooth_l1_cpu", input, target)
    return reduced(_absolute(input, target) if beta == 0 else _smooth_l1(input, target, beta), reduction)


@public(method=False, namespace="nn.functional")
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Squared up to `delta`, from there on a line. Source: Huber 1964.

    >>> import core
    >>> core.nn.functional.huber_loss(core.tensor([0.0]), core.tensor([3.0]), delta=2.0)
    tensor(4.)
    """
    reduction = chosen_reduction(reduction, None, None)
    warn_of_broadcast(input, target)
    if delta <= 0:
        raise RuntimeError(text("huber_loss does not support non-positive values for delta.", op="huber_loss"))
    _need_floating("huber_cpu", input, target)
    return _finished(_huber_error(input, target, delta), weight, reduction)


@public(method=False, namespace="nn.functional")
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return the cross entropy of probabilities and targets between 0 and 1. From logits, take the form with logits: it
    is exact where a sigmoid would round to 0 or 1.

    >>> import core
    >>> core.nn.functional.binary_cross_entropy(core.tensor([0.5]), core.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    if input._a.shape != target._a.shape:
        raise ValueError(
            f"Using a target size ({torch_size(target)}) that is different to the input size ({torch_size(input)}) "
            "is deprecated. Please ensure they have the same size."
        )
    if target.dtype is not input.dtype:
        raise RuntimeError(text(f"Found dtype {target.dtype.scalar_type} but expected {input.dtype.scalar_type}",
                                op="binary_cross_entropy", remedy=f"target.to({input.dtype!r})"))  # fmt: skip
    a = input._a
    if a.size and not bool(((a >= 0) & (a <= 1)).all()):
        raise RuntimeError(text("all elements of input should be between 0 and 1", op="binary_cross_entropy",
                                remedy="sigmoid first, or binary_cross_entropy_with_logits"))  # fmt: skip
    t = target._a
    if t.size and not bool(((t >= 0) & (t <= 1)).all()):
        raise RuntimeError(text("all elements of target should be between 0 and 1", op="binary_cross_entropy"))
    return reduced(_weighted(_bce(input, target), weight), reduction)


@public(method=False, namespace="nn.functional")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the binary cross entropy of sigmoid(input); `pos_weight` multiplies the part of the true cases.

    >>> import core
    >>> core.nn.functional.binary_cross_entropy_with_logits(core.tensor([0.0]), core.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    if input._a.shape != target._a.shape:
        raise ValueError(f"Target size ({torch_size(target)}) must be the same as input size ({torch_size(input)})")
    if target.dtype.category < 2:
        raise RuntimeError(
            text(
                f"result type Float can't be cast to the desired output type {target.dtype.scalar_type}",
                op="binary_cross_entropy_with_logits",
                remedy="target.float()",
            )
        )
    losses = _bce_logits(input, target) if pos_weight is None else _bce_logits_pos(input, target, pos_weight)
    return reduced(_weighted(losses, weight), reduction)


@public(method=False, namespace="nn.functional")
def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
           reduction: str = "mean", log_target: bool = False) -> Tensor:  # fmt: skip
    """Return the divergence Σ t (log t - x) of a target from log probabilities x. "batchmean" divides by the batch,
    which is the definition; "mean" by all elements.

    >>> import core
    >>> x = core.tensor([[0.5, 0.5]]).log()
    >>> core.nn.functional.kl_div(x, core.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    batch = reduction == "batchmean"
    reduction = "sum" if batch else chosen_reduction(reduction, size_average, reduce)
    if reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release.",
        )
    total = reduced((_kl_log if log_target else _kl)(input, target), reduction)
    return total / input._a.shape[0] if batch and input.ndim else total


@public(method=False, namespace="nn.functional")
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return (log var + (input - target)² / var) / 2, plus log(2π) / 2 with `full`; var is kept above `eps`.

    >>> import core
    >>> core.nn.functional.gaussian_nll_loss(core.tensor([0.0]), core.tensor([2.0]), core.tensor([1.0]))
    tensor(2.)
    """
    v = var if isinstance(var, Tensor) else input.detach() * 0 + float(var)
    if tuple(v.shape) != tuple(input.shape):
        if tuple(v.shape) == tuple(input.shape)[:-1]:
            v = v.unsqueeze(-1)
        elif v.ndim != input.ndim or sum(m for n, m in zip(input.shape, v.shape, strict=True) if n != m) != 1:
            raise ValueError("var is of incorrect size")  # one dimension of size 1 broadcasts
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if bool((v._a < 0).any()):
        raise ValueError("var has negative entry/entries")
    with_floor = v + (v.detach().clamp(min=eps) - v.detach())  # the floor has no gradient of its own
    losses = 0.5 * (with_floor.log() + _squared(input, target) / with_floor)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@public(method=False, namespace="nn.functional")
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """exp(x) - t x for a logarithmic input, else x - t log(x + eps); `full` adds Stirling's term for t > 1.

    >>> import core
    >>> core.nn.functional.poisson_nll_loss(core.tensor([0.0]), core.tensor([2.0]))
    tensor(1.)
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    losses: Any = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        big = where(target > 1, target, 1.0)
        losses = losses + where(target > 1, big * big.log() - big + 0.5 * (2 * math.pi * big).log(), 0.0)
    return reduced(losses, reduction)
