"""Connectionist temporal classification: the loss of a sequence whose alignment with its labels is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd import gradients
from ..base.errors import text
from ..base.modes import enable_grad
from ..base.modes import state as mode
from ..declare.kernel import kernel
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..events import observe
from ..tensors.tensor import Tensor
from .creation import arange, full, tensor, zeros
from .joining import cat, stack
from .loss import chosen_reduction
from .precision import rounded, wide
from .reduce import logsumexp
from .where import where

NEVER = -1e30  # the logarithm of no chance; finite, so that gradients stay so


def _table(targets: Tensor, lengths: Tensor, n: int) -> Tensor:
    """Return the labels, a row for each sequence."""
    if targets.ndim == 2:
        return targets
    most = int(lengths.max()) if n else 0  # type: ignore[attr-defined]
    starts = lengths.cumsum(0) - lengths  # type: ignore[attr-defined]
    at = (starts.unsqueeze(1) + arange(most)).clamp(max=max(targets.numel() - 1, 0))
    return targets[at] if targets.numel() else zeros(n, most, dtype=targets.dtype)


def _shifted(alpha: Tensor, by: int) -> Tensor:
    head = full((alpha.shape[0], min(by, alpha.shape[1])), NEVER, dtype=alpha.dtype, device=alpha.device)
    return cat((head, alpha[:, : max(alpha.shape[1] - by, 0)]), 1)


def _composed(x: Tensor, labels: Tensor, steps: Tensor, lengths: Tensor, blank: int, zero_infinity: bool,
              average: bool) -> Tensor:  # fmt: skip
    """Return each sequence's loss, of ops."""
    times, n, _ = x.shape
    on: dict[str, Any] = {"device": x.device}
    labels, steps, lengths = (t.to(x.device) for t in (labels, steps, lengths))
    size = 2 * labels.shape[1] + 1
    between = full((n, labels.shape[1]), blank, dtype=labels.dtype, **on)
    path = cat((stack((between, labels), 2).reshape(n, size - 1), full((n, 1), blank, dtype=labels.dtype, **on)), 1)
    skips = cat((zeros(n, min(2, size), dtype=labels.dtype, **on), (path[:, 2:] != path[:, :-2]).long()), 1)
    skips = (skips > 0) & (path != blank)
    alpha = where(arange(size, **on).unsqueeze(0) < 2, x[0].gather(1, path), NEVER)
    for t in range(1, times):
        ways = stack((alpha, _shifted(alpha, 1), where(skips, _shifted(alpha, 2), NEVER)), 0)
        alpha = where((steps > t).unsqueeze(1), logsumexp(ways, 0) + x[t].gather(1, path), alpha)
    last = (2 * lengths).unsqueeze(1)
    label = where(lengths.unsqueeze(1) > 0, alpha.gather(1, (last - 1).clamp(min=0)), NEVER)
    losses = -logsumexp(cat((alpha.gather(1, last), label), 1), 1)
    chances = where(arange(times, **on).unsqueeze(1) < steps, x.exp().sum(2), 0.0).sum(0)
    losses = losses + (chances - chances.detach())  # the gradient through the normalisation, as PyTorch has it
    impossible = losses.detach() > -NEVER / 2
    losses = where(impossible, 0.0 if zero_infinity else float("inf"), losses)
    return losses / lengths.clamp(min=1) if average else losses  # type: ignore[no-any-return, attr-defined]


# -- as one op ---------------------------------------------------------------------------------------------------------


def _forward(xp: Any, x: Any, labels: Any, steps: Any, lengths: Any, blank: int, zero_infinity: bool,
             average: bool) -> Any:  # fmt: skip
    """Return what `_composed` gives, from arrays."""
    y, (times, n, classes), size = wide(x), x.shape, 2 * labels.shape[1] + 1
    used = xp.arange(labels.shape[1]) < lengths[:, None]
    if (bad := labels[used & ((labels < 0) | (labels >= classes))]).size:
        raise RuntimeError(text(f"index {int(bad[0])} is out of bounds for dimension 2 with size {classes}",
                                op="ctc_loss", needed=f"labels from 0 to {classes - 1}"))  # fmt: skip
    path = xp.full((n, size), blank, labels.dtype)
    path[:, 1::2] = labels.clip(0, classes - 1)
    skips = xp.zeros((n, size), bool)
    skips[:, 2:] = (path[:, 2:] != path[:, :-2]) & (path[:, 2:] != blank)
    rows, never = xp.arange(n)[:, None], y.dtype.type(NEVER)

    def shifted(alpha: Any, by: int) -> Any:
        return xp.concatenate((xp.full((n, by), never), alpha), 1)[:, :size]

    alpha = xp.where(xp.arange(size) < 2, y[0][rows, path], never)
    for t in range(1, times):
        ways = xp.logaddexp(xp.logaddexp(alpha, shifted(alpha, 1)), xp.where(skips, shifted(alpha, 2), never))
        alpha = xp.where((steps > t)[:, None], ways + y[t][rows, path], alpha)
    last = 2 * lengths[:, None]
    label = xp.where(lengths > 0, xp.take_along_axis(alpha, (last - 1).clip(0), 1)[:, 0], never)
    losses = -xp.logaddexp(xp.take_along_axis(alpha, last, 1)[:, 0], label)
    losses = xp.where(losses > -NEVER / 2, y.dtype.type(0 if zero_infinity else np.inf), losses)
    return rounded((losses / lengths.clip(1)).astype(y.dtype) if average else losses, x.dtype)


def _vjp(g: Tensor, x: Tensor, labels: Tensor, steps: Tensor, lengths: Tensor, blank: int, zero_infinity: bool,
         average: bool) -> Tensor:  # fmt: skip
    """Go through the steps again, under a name of x's own; with `create_graph` its history is behind it."""
    again = mode.enabled
    with enable_grad():
        own: Any = x.view(x.shape) if again and x.requires_grad else x.detach().requires_grad_()
        losses = _composed(own, labels, steps, lengths, blank, zero_infinity, average)
        return gradients.grad([losses], [own], [g], create_graph=again)[0]  # type: ignore[no-any-return]


def _samples(rng: Any) -> list[Any]:
    x = rng.uniform(-1, 1, (5, 3, 4))
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    labels, steps, lengths = np.array([[1, 2], [3, 3], [2, 0]]), np.array([5, 4, 2]), np.array([2, 2, 0])
    return [((x, labels, steps, lengths), {"average": a}) for a in (False, True)]


_ctc: Any = operation(
    "ctc", _forward, inputs="x labels steps lengths", vjp=(_vjp, None, None, None), samples=_samples,
    params={"blank": 0, "zero_infinity": False, "average": False}, label="ctc_loss",
    doc="The negative logarithm of the chance of all alignments that read as the labels.",
)  # fmt: skip
_ctc.op.straight_through = True  # the gradient goes through a normalisation that the loss takes for granted
_SHAPE = "struct('ctc_shape', t, n, c, most, labels, steps, lengths, blank, zero_infinity, average)"
_LABELS = "labels: int64[n, most], steps: int64[n], lengths: int64[n]"
_SETTINGS = "blank: int, zero_infinity: flag, average: flag"
kernel(
    "ctc",
    f"x: real[t, n, c], {_LABELS}, {_SETTINGS}",
    gives="losses: real[n]",
    call=f"ctc.T({_SHAPE}, x, losses)",
    misfit=True,
    fails="declines",
)
kernel(
    "ctc.backward",
    f"g: real[n], x: real[t, n, c], {_LABELS}, {_SETTINGS}, needs: needs",
    gives="gx: real[t, n, c], None, None, None",
    call=f"ctc_back.T({_SHAPE}, g, x, gx)",
    misfit=True,
    fails="declines",
)


# -- the function ------------------------------------------------------------------------------------------------------


def _integers(values: Any) -> Tensor:
    return values.long() if isinstance(values, Tensor) else tensor([int(v) for v in values])  # type: ignore[attr-defined]


_PLAIN = [Fast(body="aligned_losses(op.ctc, op.mean, log_probs, targets, input_lengths, target_lengths, blank, "
                    "reduction, zero_infinity)", types={"log_probs": "real", "targets": "index"},
               raw=("input_lengths", "target_lengths", "reduction"))]  # fmt: skip


@public(method=False, home="layers", fast=_PLAIN)
@public(method=False, namespace="nn.functional", home="layers", fast=_PLAIN)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the negative logarithm of the chance of all alignments that read as the targets.

    `log_probs` must come from log_softmax: the gradient is that of PyTorch, which takes this for granted.
    Source: Graves et al., ICML 2006.

    *Shapes*: ``(t, n, c)`` or ``(t, c)``; targets ``(n, s)`` or all behind one another.
    *Raises*: RuntimeError for lengths that the sequences do not have.

    >>> import core
    >>> log_probs = core.full((2, 1, 2), 0.5).log()
    >>> core.nn.functional.ctc_loss(log_probs, core.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """
    reduction = chosen_reduction(reduction, None, None)
    single = log_probs.ndim == 2
    x = log_probs.unsqueeze(1) if single else log_probs  # type: ignore[attr-defined]
    times, n, _ = x.shape
    steps, lengths = _integers(input_lengths).reshape(-1), _integers(target_lengths).reshape(-1)
    if len(steps) != n or len(lengths) != n:
        raise RuntimeError(text("input_lengths must be of size batch_size", op="ctc_loss", needed=f"{n} lengths"))
    for name, given in (("input_lengths", steps), ("target_lengths", lengths)):
        if n and int(given.min()) < 0:
            raise RuntimeError(text(f"Expected {name} to have value at least 0, but got value {int(given.min())} "
                                    "(while checking arguments for ctc_loss)", op="ctc_loss"))  # fmt: skip
    if n and int(steps.max()) > times:
        raise RuntimeError(text(f"Expected input_lengths to have value at most {times}, but got value "
                                f"{int(steps.max())}", op="ctc_loss"))  # fmt: skip
    rows = targets.unsqueeze(0) if single and targets.ndim == 1 else targets  # type: ignore[attr-defined]
    labels: Any = _table(rows, lengths, n).long()  # type: ignore[attr-defined]
    average = reduction == "mean"
    plain = x.device.type == "cpu" and mode.batch is None and not observe.wanted("as ops")
    plain = plain and 0 <= blank < x._a.shape[2]
    if plain and n and int(steps.min()) > 0 and labels.shape[0] == n:  # type: ignore[attr-defined]
        losses = _ctc(x, labels, steps, lengths, blank=blank, zero_infinity=bool(zero_infinity), average=average)
    else:
        losses = _composed(x, labels, steps, lengths, blank, zero_infinity, average)
    return losses.mean() if average else losses.sum() if reduction == "sum" else losses[0] if single else losses
