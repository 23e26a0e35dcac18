"""Special functions that NumPy lacks, for any array library: the reference's, exact and unhurried."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _erf_series(x: Any) -> Any:
    """erf near 0 (Abramowitz & Stegun 7.1.6): all terms have one sign, so nothing cancels."""
    term = x * _TWO_OVER_ROOT_PI * np.exp(-x * x)
    total = term
    for n in range(1, 64):
        term = term * (2 * x * x / (2 * n + 1))
        total = total + term
    return total


def _erfc_fraction(x: Any) -> Any:
    """erfc for x >= 2 by its continued fraction (Abramowitz & Stegun 7.1.14), from the far end."""
    f = x
    for n in range(60, 0, -1):
        f = x + (n / 2) / f
    return np.exp(-x * x) / (math.sqrt(math.pi) * f)


def erf(x: Any) -> Any:
    """Return the error function, in float64 inside."""
    wide = x.astype(np.float64)
    a = np.abs(wide)
    small = np.minimum(a, 2.0)
    large = np.maximum(a, 2.0)
    y = np.where(a < 2.0, _erf_series(small), 1.0 - _erfc_fraction(large))
    return np.where(np.isnan(wide), wide, np.copysign(y, wide)).astype(x.dtype)


def erfc(x: Any) -> Any:
    """Return the complementary error function, without cancellation where it is small."""
    wide = x.astype(np.float64)
    a = np.abs(wide)
    tail = np.where(a < 2.0, 1.0 - _erf_series(np.minimum(a, 2.0)), _erfc_fraction(np.maximum(a, 2.0)))
    y = np.where(wide >= 0, tail, 2.0 - tail)
    return np.where(np.isnan(wide), wide, y).astype(x.dtype)
