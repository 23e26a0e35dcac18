"""Muon: the momentum of a matrix, made orthogonal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tensors.tensor import Tensor
from .optimizer import Params, check_lr, number
from .stepping import Gradual, Group, State, zeros


class Muon(Gradual):
    """Steps along the momentum of a matrix's gradient, its singular values all brought near 1.

    That is done by `ns_steps` Newton-Schulz iterations with the polynomial of `ns_coefficients`, in bfloat16.
    `adjust_lr_fn` fits the rate to the shape: "original" (or None) multiplies it by ``sqrt(max(1, rows / columns))``,
    "match_rms_adamw" by ``0.2 sqrt(max(rows, columns))``. Biases, embeddings and the like want another optimizer.
    *Raises*: ValueError for parameters that are no matrices, and settings out of range.

    *Source*: Jordan et al., Muon: an optimizer for hidden layers (2024); arXiv 2502.16982.

    >>> import core
    >>> w = core.ones(4, 6, requires_grad=True)
    >>> opt = core.optim.Muon([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> list(opt.state[w])
    ['momentum_buffer']
    """

    def __init__(self, params: Params, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None) -> None:  # fmt: skip
        check_lr(lr, "Learning rate should be >= 0 but is")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
                                  "adjust_lr_fn": adjust_lr_fn})  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _begin(self, state: State, p: Tensor, group: Group) -> None:
        state["momentum_buffer"] = zeros(p)

    def _one(self, p: Any, g: Any, state: State, step: float, group: Group) -> None:
        lr, momentum = number(group["lr"]), group["momentum"]
        buffer = state["momentum_buffer"]._a
        buffer += (g - buffer) * (1 - momentum)
        change = g + (buffer - g) * momentum if group["nesterov"] else buffer
        change = orthogonal(change, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            rate = lr * 0.2 * math.sqrt(max(rows, columns))
        else:
            rate = lr * math.sqrt(max(1, rows / columns))
        p *= 1 - lr * group["weight_decay"]
        p -= rate * change.astype(p.dtype)


def orthogonal(g: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """Nearly the orthogonal matrix closest to `g`: its singular values end between 0.7 and 1.2. In float32 whose every
    result is rounded to bfloat16, which is what PyTorch computes and a CPU's matrix product is quick at."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = _rounded(g)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    flat = x.reshape(-1)
    x = _rounded(x / max(float(_rounded(np.sqrt(flat @ flat))), eps))
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        change = _rounded(b * gram + c * (gram @ gram))
        x = _rounded(a * x + change @ x)
    return x.T if tall else x


def _rounded(x: Any) -> Any:
    """bfloat16's values, as float32."""
    bits = x.astype(np.float32).view(np.uint32)  # a copy
    bits += 0x7FFF + ((bits >> 16) & 1)  # to nearest, ties to even
    bits &= 0xFFFF0000
    return bits.view(np.float32)
