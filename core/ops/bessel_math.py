"""Numerics of the Bessel functions of orders 0 and 1 in float64, for any array library.

Power series near 0, where nothing cancels; integrals (A&S 9.1.21, 9.1.22, 9.6.24) in the middle; Hankel's asymptotic
series far out (A&S 9.2.5, 9.2.6, 9.7.1). A&S is Abramowitz & Stegun, *Handbook of Mathematical Functions*.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from .gamma_math import EULER

FAR = 25.0  # from here on the asymptotic series reach 1e-17 before they turn


@cache
def _quadrature() -> tuple[tuple[Any, Any], ...]:
    """Nodes and weights of Gauss and Legendre on (-1, 1); NumPy's polynomials take 20 ms to import."""
    return tuple(zip(*np.polynomial.legendre.leggauss(64), strict=True))


def _series(xp: Any, order: int, z: Any, terms: int) -> Any:
    """Σ z**k / (k! (k + order)!)."""
    term = total = xp.ones_like(z) / math.factorial(order)
    for k in range(1, terms):
        term = term * (z / (k * (k + order)))
        total = total + term
    return total


def _log_series(xp: Any, order: int, z: Any, terms: int) -> Any:
    """Σ (ψ(k + 1) + ψ(k + order + 1)) z**k / (k! (k + order)!)."""
    harmonic, shifted = 0.0, sum(1 / i for i in range(1, order + 1))
    term = xp.ones_like(z) / math.factorial(order)
    total = term * (shifted - 2 * EULER)
    for k in range(1, terms):
        harmonic, shifted = harmonic + 1 / k, shifted + 1 / (k + order)
        term = term * (z / (k * (k + order)))
        total = total + term * (harmonic + shifted - 2 * EULER)
    return total


def _hankel(xp: Any, order: int, x: Any, signs: tuple[int, int]) -> tuple[Any, Any]:
    """Return the even and the odd terms of Hankel's series, each with alternating (-1) or equal (1) signs."""
    mu = 4 * order * order
    term, even, odd = xp.ones_like(x), xp.ones_like(x), xp.zeros_like(x)
    for k in range(1, 26):
        term = term * ((mu - (2 * k - 1) ** 2) / (k * 8 * x))
        if k % 2:
            odd = odd + term * signs[1] ** (k // 2)
        else:
            even = even + term * signs[0] ** (k // 2)
    return even, odd


def bessel_i_scaled(xp: Any, order: int, x: Any) -> Any:
    """exp(-|x|) I(x): the series (A&S 9.6.10), all of one sign, or the asymptotic one (9.7.1)."""
    a = xp.abs(x)
    near, far = xp.minimum(a, FAR), xp.maximum(a, FAR)
    inner = xp.exp(-near) * _series(xp, order, near * near / 4, 70) * (near / 2) ** order
    even, odd = _hankel(xp, order, far, (1, 1))
    y = xp.where(a < FAR, inner, (even - odd) / xp.sqrt(2 * math.pi * far))
    return y * xp.sign(x) if order else y


def bessel_i(xp: Any, order: int, x: Any) -> Any:
    """I(x)."""
    a = xp.abs(x)
    near = xp.minimum(a, FAR)
    y = xp.where(a < FAR, _series(xp, order, near * near / 4, 70) * (near / 2) ** order,
                 xp.exp(a / 2) * bessel_i_scaled(xp, order, a) * xp.exp(a / 2))  # fmt: skip
    return y * xp.sign(x) if order else y


def bessel_k_scaled(xp: Any, order: int, x: Any) -> Any:
    """exp(x) K(x): the series up to 2 (A&S 9.6.11), then ∫ exp(-x (cosh t - 1)) cosh(order t) dt by the trapezoid
    rule, whose error falls faster than any power."""
    near, far = xp.clip(x, 1e-300, 2.0), xp.maximum(x, 2.0)
    z = near * near / 4
    inner = (-1) ** (order + 1) * xp.log(near / 2) * _series(xp, order, z, 20) * (near / 2) ** order
    inner = inner + 0.5 * (-1) ** order * _log_series(xp, order, z, 20) * (near / 2) ** order
    inner = xp.exp(near) * (inner + (1 / near if order else 0.0))
    h = xp.arccosh(1 + 42 / far) / 28
    total = 0.5 * xp.ones_like(far)
    for k in range(1, 29):
        s = xp.sinh(0.5 * k * h)
        total = total + xp.exp(-2 * far * s * s) * (xp.cosh(k * h) if order else 1.0)
    y = xp.where(x < 2, inner, h * total)
    return xp.where(x == 0, math.inf, xp.where(x < 0, math.nan, xp.where(xp.isposinf(x), 0.0, y)))


def _far_out(xp: Any, order: int, x: Any) -> tuple[Any, Any]:
    """J and Y for x >= 25 (A&S 9.2.5, 9.2.6)."""
    even, odd = _hankel(xp, order, x, (-1, -1))
    s, c = xp.sin(x), xp.cos(x)
    # cos and sin of x - π/4 (order 0) or x - 3π/4 (order 1), without rounding the difference
    cosine, sine = ((c + s), (s - c)) if order == 0 else ((s - c), -(s + c))
    scale = 1 / xp.sqrt(math.pi * x)
    return scale * (even * cosine - odd * sine), scale * (even * sine + odd * cosine)


def bessel_j(xp: Any, order: int, x: Any) -> Any:
    """J(x)."""
    a = xp.abs(x)
    near, middle = xp.minimum(a, 4.0), xp.clip(a, 4.0, FAR)
    inner = _series(xp, order, -near * near / 4, 30) * (near / 2) ** order
    total = xp.zeros_like(a)
    for k in range(48):  # a periodic integrand: the trapezoid rule is exact but for J of order 96
        t = math.pi * (k + 0.5) / 48
        total = total + xp.cos(order * t - middle * math.sin(t))
    far, _ = _far_out(xp, order, xp.clip(a, FAR, 1e300))
    y = xp.where(a < 4, inner, xp.where(a < FAR, total / 48, xp.where(xp.isinf(a), 0.0, far)))
    return xp.where(xp.isnan(x), x, y * xp.sign(x) if order else y)


def bessel_y(xp: Any, order: int, x: Any) -> Any:
    """Y(x), for x > 0."""
    near, middle = xp.clip(x, 1e-300, 4.0), xp.clip(x, 4.0, FAR)
    z, power = -near * near / 4, (near / 2) ** order
    inner = 2 * xp.log(near / 2) * _series(xp, order, z, 30) * power - _log_series(xp, order, z, 30) * power
    inner = (inner - (2 / near if order else 0.0)) / math.pi
    total = xp.zeros_like(x)
    top = xp.arcsinh(40 / middle)
    for node, weight in _quadrature():
        t = 0.5 * math.pi * (float(node) + 1)
        total = total + 0.5 * float(weight) * xp.sin(middle * math.sin(t) - order * t)
        u = 0.5 * top * (float(node) + 1)
        growth = 2 * (xp.sinh(u) if order else 1.0)
        total = total - 0.5 * float(weight) * top / math.pi * growth * xp.exp(-middle * xp.sinh(u))
    _, far = _far_out(xp, order, xp.clip(x, FAR, 1e300))
    y = xp.where(x < 4, inner, xp.where(x < FAR, total, xp.where(xp.isposinf(x), 0.0, far)))
    return xp.where(x == 0, -math.inf, xp.where(x < 0, math.nan, y))


def spherical_j0(xp: Any, x: Any) -> Any:
    """sin(x) / x, by its series near 0 (A&S 10.1.2)."""
    small = xp.where(xp.abs(x) < 0.5, x, 0.0)
    z = -small * small
    series = 1 + z / 6 * (1 + z / 20 * (1 + z / 42 * (1 + z / 72 * (1 + z / 110 * (1 + z / 156)))))
    safe = xp.where(xp.abs(x) < 0.5, 1.0, x)
    return xp.where(xp.isinf(x), 0.0, xp.where(xp.abs(x) < 0.5, series, xp.sin(safe) / safe))


# -- Airy's function ---------------------------------------------------------------------------------------------------


@cache
def _airy_table() -> Any:
    """Ai and Ai' at -12, -11, ..., 9, from the power series about 0 with 70 digits (A&S 10.4.2)."""
    import decimal

    with decimal.localcontext(prec=70):
        first = decimal.Decimal("0.35502805388781723926006318600418317639797917419918")
        second = decimal.Decimal("-0.25881940379280679840518356018920396347909113835494")
        rows = []
        for center in range(-12, 10):
            a = [first, second, decimal.Decimal(0)]
            for n in range(1, 160):
                a.append(a[n - 1] / ((n + 2) * (n + 1)))
            value = slope = decimal.Decimal(0)
            for c in reversed(a):
                value, slope = value * center + c, slope * center + value
            rows.append((float(value), float(slope)))
    return np.array(rows)


def airy(xp: Any, x: Any) -> Any:
    """Ai(x): Taylor's series about the nearest integer, far out the asymptotic series (A&S 10.4.59, 10.4.60)."""
    near = xp.clip(xp.where(xp.isnan(x), 0.0, x), -12.4, 9.4)
    center = xp.clip(xp.rint(near), -12, 9)
    table = xp.asarray(_airy_table())
    at, t = (center + 12).astype(xp.int64), near - center
    before, here, after = xp.zeros_like(t), table[at, 0], table[at, 1]
    total, power = here + after * t, t
    for n in range(28):
        before, here, after = here, after, (center * here + before) / ((n + 2) * (n + 1))
        power = power * t
        total = total + after * power
    far = xp.clip(xp.abs(x), 9.0, 1e200)
    zeta = 2 / 3 * far * xp.sqrt(far)
    term, even, odd = xp.ones_like(far), [xp.ones_like(far)] * 2, [xp.zeros_like(far)] * 2
    for k in range(1, 22):
        term = term * ((6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)) / zeta)
        signed = term * (-1) ** (k // 2)
        even, odd = (
            ([even[0] + term, even[1] + signed], odd) if k % 2 == 0 else (even, [odd[0] + term, odd[1] + signed])
        )
    root = math.sqrt(math.pi) * xp.sqrt(xp.sqrt(far))
    falling = xp.exp(-zeta) / (2 * root) * (even[0] - odd[0])
    s, c = xp.sin(zeta), xp.cos(zeta)
    waving = (even[1] * (c + s) + odd[1] * (s - c)) / (math.sqrt(2) * root)
    y = xp.where(x > 9.4, falling, xp.where(x < -12.4, waving, total))
    return xp.where(xp.isnan(x), x, xp.where(xp.isinf(x), 0.0, y))
