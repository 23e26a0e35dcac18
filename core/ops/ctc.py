"""Connectionist temporal classification: the loss of a sequence whose alignment with its labels is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import text
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .creation import arange, full, tensor, zeros
from .joining import cat, stack
from .loss import chosen_reduction
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


def _integers(values: Any) -> Tensor:
    return values.long() if isinstance(values, Tensor) else tensor([int(v) for v in values])  # type: ignore[attr-defined]


@public(method=False)
@public(method=False, namespace="nn.functional")
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
    labels = _table(targets.unsqueeze(0) if single and targets.ndim == 1 else targets, lengths, n).long()  # type: ignore[attr-defined]
    size = 2 * labels.shape[1] + 1
    between = full((n, labels.shape[1]), blank, dtype=labels.dtype)
    path = cat((stack((between, labels), 2).reshape(n, size - 1), full((n, 1), blank, dtype=labels.dtype)), 1)
    skips = cat((zeros(n, min(2, size), dtype=labels.dtype), (path[:, 2:] != path[:, :-2]).long()), 1)
    skips = (skips > 0) & (path != blank)
    alpha = where(arange(size).unsqueeze(0) < 2, x[0].gather(1, path), NEVER)
    for t in range(1, times):
        ways = stack((alpha, _shifted(alpha, 1), where(skips, _shifted(alpha, 2), NEVER)), 0)
        alpha = where((steps > t).unsqueeze(1), logsumexp(ways, 0) + x[t].gather(1, path), alpha)
    last = (2 * lengths).unsqueeze(1)
    label = where(lengths.unsqueeze(1) > 0, alpha.gather(1, (last - 1).clamp(min=0)), NEVER)
    losses = -logsumexp(cat((alpha.gather(1, last), label), 1), 1)
    chances = where(arange(times).unsqueeze(1) < steps, x.exp().sum(2), 0.0).sum(0)
    losses = losses + (chances - chances.detach())  # the gradient through the normalisation, as PyTorch has it
    impossible = losses.detach() > -NEVER / 2
    losses = where(impossible, 0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        return (losses / lengths.clamp(min=1)).mean()
    return losses.sum() if reduction == "sum" else losses[0] if single else losses
