"""Gamma numbers, and how each moves with its shape while its rank stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..ops.queries import finfo
from ..random import normal, rand
from ..tensors.tensor import Tensor, from_array

_LARGE = 300.0  # from here on the cube root of a gamma number is normal to 1e-4


def _drawn(a: Any) -> Any:
    """Gamma numbers of the shapes in `a`, all at least 1. Source: Marsaglia and Tsang, ACM TOMS 26 (2000)."""
    d = a - 1 / 3
    c = 1 / np.sqrt(9 * d)
    out = np.zeros_like(a)
    left = np.arange(a.size)
    while left.size:
        z = normal(0.0, 1.0, (left.size,), dtype=dtypes.float64)._a
        u = 1 - rand(left.size, dtype=dtypes.float64)._a
        v = (1 + c[left] * z) ** 3
        safe = np.where(v > 0, v, 1.0)
        taken = (v > 0) & (np.log(u) < 0.5 * z * z + d[left] * (1 - v + np.log(safe)))
        out[left[taken]] = (d[left] * v)[taken]
        left = left[~taken]
    return out


def _digamma(x: Any) -> Any:
    """Return the derivative of lgamma for x above 0: recurrence up to 10, then the asymptotic series."""
    total = np.zeros_like(x)
    for _ in range(10):
        low = x < 10
        total -= np.where(low, 1 / x, 0.0)
        x = np.where(low, x + 1, x)
    y = 1 / (x * x)
    return total + np.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))


def _slope(a: Any, x: Any) -> Any:
    """How a gamma number moves with its shape a while its rank stays: -(∂P/∂a) / p, for P(a, x) and its density p.

    P = x^a e^-x / Γ(a + 1) Σ_k x^k / ((a + 1) ... (a + k)), and the factor before the sum is x p / a. Source: Figurnov,
    Mohamed and Mnih, arXiv 1805.08498.
    """
    term, total, turned, drift = np.ones_like(x), np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    for k in range(1, 4000):
        term = term * x / (a + k)
        drift = drift + 1 / (a + k)
        total += term
        turned += term * drift
        if (term * drift < 1e-17 * total).all():
            break
    return -(x / a) * ((np.log(x) - _digamma(a + 1)) * total - turned)


def _slope_large(a: Any, x: Any) -> Any:
    """Return the same where a is large: there x = a (1 - 1 / 9a + z / 3√a)³ with z normal. Wilson and Hilferty,
    1931."""
    root = (x / a) ** (1 / 3)
    z = (root - 1 + 1 / (9 * a)) * 3 * np.sqrt(a)
    return root**3 + 3 * a * root**2 * (1 / (9 * a * a) - z / (6 * a * np.sqrt(a)))


def standard_gamma(concentration: Tensor) -> Tensor:
    """Gamma numbers of rate 1, whose gradient is how each moves with its concentration while its rank stays."""
    a = concentration.detach().cpu()._a.astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        low = a < 1
        x = _drawn(np.where(low, a + 1, a))
        if low.any():
            u = 1 - rand(a.size, dtype=dtypes.float64)._a
            x = np.where(low, x * u ** (1 / a), x)
        tiny = finfo(concentration.dtype).tiny
        x = np.maximum(x, tiny)
        slope = np.zeros_like(x)
        if concentration.requires_grad:
            many = a > _LARGE
            slope[many] = _slope_large(a[many], x[many])
            slope[~many] = _slope(a[~many], x[~many])
    shape, dtype = tuple(concentration.shape), concentration.dtype
    value = from_array(x.reshape(shape)).to(concentration.device, dtype)
    if not concentration.requires_grad:
        return value
    moves = from_array(slope.reshape(shape)).to(concentration.device, dtype)
    return value + moves * (concentration - concentration.detach())
