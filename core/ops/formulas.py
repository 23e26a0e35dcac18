"""Formulas that elementwise ops share: of expressions, and of tensors."""

from __future__ import annotations

import math
from typing import Any

from ..declare.expr import s

ROOT_PI = math.sqrt(math.pi)
TWO_OVER_ROOT_PI = 2 / ROOT_PI


def no_slope(g: Any) -> Any:
    """Return the gradient of a step: 0 whatever comes in, a NaN or an infinity too."""
    return 0.0 * s.where(s.isfinite(g), g, 0.0)


def signum(x: Any) -> Any:
    """-1, 0 or 1; of NaN 0, as PyTorch has it in gradients (NumPy's sign keeps NaN)."""
    return s.where(x > 0.0, 1.0, s.where(x < 0.0, -1.0, 0.0))


def inverse_erf(x: Any) -> Any:
    """z with erf(z) = x, by Halley's method: near 0 from the first terms of the series, further out on the logarithm of
    erfc(z) = 1 - |x|, which is exact there, from Winitzki's approximation (2008)."""
    a = s.abs(x)
    near, inside = a < 0.5, (a >= 0.5) & (a < 1.0)
    middle, rest = s.where(near, a, 0.0), s.where(inside, 1.0 - a, 0.5)
    z = 0.5 * ROOT_PI * middle * (1.0 + math.pi / 12 * middle * middle)
    for _ in range(3):  # from 1e-2 by cubes
        u = (s.erf(z) - middle) * (0.5 * ROOT_PI * s.exp(z * z))
        z = z - u / (1.0 + z * u)
    log_of = s.log(rest * (2.0 - rest))
    half = 2 / (math.pi * 0.147) + 0.5 * log_of
    far = s.sqrt(s.sqrt(half * half - log_of * (1 / 0.147)) - half)
    for _ in range(2):  # from 2e-3
        left = s.erfc(far)
        slope = TWO_OVER_ROOT_PI * s.exp(-(far * far)) / left
        f = s.log(left / rest)
        far = far + f / slope / (1.0 + f * (slope - 2.0 * far) / (2.0 * slope))
    z = s.where(near, z, s.where(inside, far, s.where(a == 1.0, math.inf, math.nan)))
    return s.where(a == 0.0, x, s.copysign(z, x))
