"""Adafactor: a matrix's second moments from their sums over rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.creation import zeros as new_zeros
from ..tensors.tensor import Tensor
from .optimizer import Params, check_lr, number
from .stepping import Gradual, Group, State, scalar, zeros


class Adafactor(Gradual):
    """Steps of the gradient over the root of its second moments, of which a matrix keeps the sums alone.

    The rate is ``min(lr, 1 / sqrt(step)) max(eps[1], rms(p))``, the second moments' running mean has the weight
    ``step**beta2_decay``, and a step whose root mean square exceeds `d` is made shorter. ``eps[0]`` is the least second
    moment, None for the dtype's. *Raises*: ValueError for settings out of range; RuntimeError for complex parameters.

    *Source*: arXiv 1804.04235; with `lr` and the decay of AdamW as in PyTorch.

    >>> import core
    >>> w = core.ones(4, 6, requires_grad=True)
    >>> opt = core.optim.Adafactor([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> {name: tuple(t.shape) for name, t in opt.state[w].items()}
    {'step': (), 'row_var': (4, 1), 'col_var': (1, 6)}
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 foreach: bool | None = None, maximize: bool = False) -> None:  # fmt: skip
        check_lr(lr, "Learning rate should be >= 0 but is")
        for fits, text in (
            (beta2_decay <= 0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is None or eps[0] >= 0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (eps[1] >= 0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (d >= 1, f"Clipping threshold d should be >= 1 but is: {d}"),
            (weight_decay >= 0, f"weight_decay should be >= 0 but is: {weight_decay}"),
        ):
            if not fits:
                raise ValueError(text)
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
                                  "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize})  # fmt: skip

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        state["step"] = scalar()
        if p.ndim > 1:
            shape = list(p.shape)
            state["row_var"] = new_zeros([*shape[:-1], 1], dtype=p.dtype, device=p.device)
            state["col_var"] = new_zeros([*shape[:-2], 1, shape[-1]], dtype=p.dtype, device=p.device)
        else:
            state["variance"] = zeros(p)

    def _one(self, p: Any, g: Any, state: State, step: float, group: Group) -> None:
        p, g = (a.reshape(1) if a.ndim == 0 else a for a in (p, g))  # NumPy makes numbers of what 0-d arrays give
        lr, (eps1, eps2) = number(group["lr"]), group["eps"]
        eps1 = float(np.finfo(p.dtype).eps) if eps1 is None else eps1
        if group["maximize"]:
            g = -g
        weight = step ** group["beta2_decay"]
        size = max(eps2, _norm(p) / p.size**0.5) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            p *= 1 - lr * group["weight_decay"]
        square = g * g
        if p.ndim > 1:
            rows, columns = state["row_var"]._a, state["col_var"]._a
            rows += (square.mean(axis=-1, keepdims=True) - rows) * weight
            columns += (square.mean(axis=-2, keepdims=True) - columns) * weight
            # the outer product over the mean of the rows: the divisor goes to the smaller factor
            estimate = rows * (columns / rows.mean(axis=-2, keepdims=True).clip(eps1, None))
        else:
            variance = state["variance"]._a.reshape(p.shape)  # of a 0-d parameter it has a dimension here, too
            variance += (square - variance) * weight
            estimate = variance.copy()
        change = estimate.clip(eps1 * eps1, None, out=square)
        np.sqrt(change, out=change)
        np.divide(g, change, out=change)
        change *= size / max(1.0, _norm(change) / (change.size**0.5 * group["d"]))
        p -= change


def _norm(a: Any) -> float:
    """Return the root of the sum of squares."""
    flat = a.reshape(-1)
    return float(flat @ flat) ** 0.5
