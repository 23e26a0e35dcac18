"""Numerics of the gamma, zeta and error functions in float64, for any array library; vectorised, no tables by heart.

Sources: A&S is Abramowitz & Stegun, *Handbook of Mathematical Functions*; Winitzki, *A handy approximation for the
error function and its inverse* (2008); Press et al., *Numerical Recipes*, 3rd edition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backends import special

EULER = 0.57721566490153286060651209008240243
ROOT_2, ROOT_PI = math.sqrt(2), math.sqrt(math.pi)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _bernoulli(count: int) -> list[tuple[int, int]]:
    """The Bernoulli numbers B_2, B_4, ... as numerators and denominators: B_2k = (-1)^(k-1) 2k T_k / (4^k (4^k - 1)) of
    the tangent numbers T_k (Brent & Harvey 2011, "Fast computation of Bernoulli, tangent and secant numbers").

    >>> _bernoulli(2)  # 1/6 and -1/30
    [(2, 12), (-8, 240)]
    """
    tangent = [math.factorial(k) for k in range(count)]
    for k in range(1, count):
        for j in range(k, count):
            tangent[j] = (j - k) * tangent[j - 1] + (j - k + 2) * tangent[j]
    return [((-1) ** k * 2 * (k + 1) * t, 4 ** (k + 1) * (4 ** (k + 1) - 1)) for k, t in enumerate(tangent)]


# in whole numbers, whose quotient is rounded once; the module of fractions would be 3 ms of `import core`
_B = list(enumerate(_bernoulli(12), 1))
_STIRLING = [b / (d * 2 * k * (2 * k - 1)) for k, (b, d) in _B[:10]]  # A&S 6.1.41
_DIGAMMA = [b / (d * 2 * k) for k, (b, d) in _B[:10]]  # A&S 6.3.18
_EULER_MACLAURIN = [b / (d * math.factorial(2 * k)) for k, (b, d) in _B]  # A&S 23.1.30


def _zeta_less_one(s: int) -> float:
    """ζ(s) - 1, by its first terms and Euler-Maclaurin for the rest."""
    n = 12
    rest = n ** (1 - s) / (s - 1) + 0.5 * n**-s
    factor = s * float(n) ** (-s - 1)
    for k, b in enumerate(_EULER_MACLAURIN):
        rest += b * factor
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / n**2
    return math.fsum([float(i) ** -s for i in range(n - 1, 1, -1)] + [rest])


_AT_TWO = [(-1) ** k * _zeta_less_one(k) / k for k in range(2, 40)]  # A&S 6.1.33, |z| <= 1/2: terms fall as 4**-k


def _horner(z: Any, coefficients: list[float]) -> Any:
    total = z * 0.0
    for c in reversed(coefficients):
        total = total * z + c
    return total


def stirling_rest(x: Any) -> Any:
    """log Γ(x) less the leading terms of Stirling's formula, for x >= 10."""
    return _horner(1 / (x * x), _STIRLING) / x


def lgamma(xp: Any, x: Any) -> Any:
    """log |Γ(x)|: the series about 2 (A&S 6.1.33), Stirling from 10 on (6.1.41), reflection below 0 (6.1.17)."""
    a = xp.where(x < 0.5, 1 - x, x)  # reflected; what lies between 0 and 1/2 goes by Γ(1 + x) = x Γ(x)
    low = (x >= 0) & (x < 0.5)
    a = xp.where(low, x + 1, a)
    large = xp.maximum(a, 10.0)
    by_stirling = (large - 0.5) * xp.log(large) - large + HALF_LOG_2PI + stirling_rest(large)
    by_stirling = xp.where(xp.isinf(large), large, by_stirling)
    small = xp.clip(a, 0.5, 10.0)
    steps = xp.maximum(xp.ceil(small - 2.5), 0)
    product = xp.ones_like(small)
    for k in range(1, 9):
        product = xp.where(k <= steps, product * (small - k), product)
    near = small - steps
    below = near < 1.5
    z = near - xp.where(below, 1.0, 2.0)
    series = z * (1 - EULER) + z * z * _horner(z, _AT_TWO) - xp.where(below, xp.log1p(xp.where(below, z, 0.0)), 0.0)
    y = xp.where(a < 10, xp.log(product) + series, by_stirling)
    y = xp.where(low, y - xp.log(xp.abs(x)), y)
    turn = xp.abs(x - xp.rint(x))
    reflected = math.log(math.pi) - xp.log(xp.abs(xp.sin(math.pi * turn))) - y
    y = xp.where(x < 0, reflected, y)
    pole = (x <= 0) & (x == xp.floor(x))
    return xp.where(xp.isnan(x), x, xp.where(pole | xp.isinf(x), math.inf, y))


def digamma(xp: Any, x: Any) -> Any:
    """Γ'(x) / Γ(x): up to 10 by its recurrence, from there by the asymptotic series (A&S 6.3.5, 6.3.7, 6.3.18)."""
    a = xp.where(x < 0, 1 - x, x)
    total, up = xp.zeros_like(a), a
    for _ in range(10):
        low = up < 10
        total = xp.where(low, total - 1 / xp.where(low, up, 1.0), total)
        up = xp.where(low, up + 1, up)
    w = 1 / (up * up)
    y = total + xp.log(up) - 0.5 / up - w * _horner(w, _DIGAMMA)
    offset = x - xp.rint(x)
    tangent = xp.tan(math.pi * xp.where(offset == 0, 0.25, offset))
    y = xp.where(x < 0, y - math.pi / tangent, y)
    y = xp.where((x < 0) & (offset == 0), math.nan, y)
    y = xp.where(x == 0, xp.copysign(math.inf, -x), y)
    return xp.where(xp.isinf(x), xp.where(x > 0, math.inf, math.nan), y)


def zeta(xp: Any, s: Any, q: Any) -> Any:
    """Hurwitz's ζ(s, q) = Σ (q + k)**-s, its rest by Euler-Maclaurin (A&S 23.1.30)."""
    s, q = xp.broadcast_arrays(s, q)
    total, up = xp.zeros(s.shape), q.astype(np.float64)
    finite = up[xp.isfinite(up)]
    lowest = float(finite.min()) if finite.size else 0.0
    for _ in range(10 + min(max(0, math.ceil(-lowest)), 1000)):
        low = up < 10
        total = xp.where(low, total + xp.power(xp.where(low, up, 1.0), -s), total)
        up = xp.where(low, up + 1, up)
    y = total + xp.power(up, 1 - s) / (s - 1) + 0.5 * xp.power(up, -s)
    factor = s * xp.power(up, -s - 1)
    for k, b in enumerate(_EULER_MACLAURIN):
        y = y + b * factor
        factor = factor * ((s + 2 * k + 1) * (s + 2 * k + 2)) / (up * up)
    y = xp.where(xp.isposinf(q) | (xp.isposinf(s) & (q > 1)), 0.0, xp.where(xp.isposinf(s) & (q == 1), 1.0, y))
    y = xp.where(xp.isnan(q) | xp.isnan(s) | ((q < 0) & (s != xp.floor(s))), math.nan, y)
    y = xp.where((q <= 0) & (q == xp.floor(q)), math.inf, y)
    return xp.where(s == 1, math.inf, xp.where(s < 1, math.nan, y))


# -- error functions ---------------------------------------------------------------------------------------------------


def erfcx(xp: Any, x: Any) -> Any:
    """exp(x²) erfc(x): from 1 on as (x/π) ∫ exp(-t²) / (t² + x²) dt (A&S 7.4.11) by the trapezoid rule, whose error is
    exp(-2πx/h), that is 1e-18 and less."""
    a = xp.abs(x)
    inner, outer = xp.minimum(a, 1.0), xp.maximum(a, 1.0)
    h, square = 0.15, outer * outer
    total = 0.5 / square
    for k in range(1, 43):
        total = total + math.exp(-((k * h) ** 2)) / ((k * h) ** 2 + square)
    y = xp.where(a < 1, xp.exp(inner * inner) * special.erfc(inner), 2 * h / math.pi * outer * total)
    y = xp.where(xp.isinf(a), 0.0, y)
    return xp.where(x < 0, 2 * xp.exp(x * x) - y, y)


def erfc_inverse(xp: Any, c: Any) -> Any:
    """z with erfc(z) = c: Winitzki's start, then Newton on the logarithm in the tail and Halley in the middle."""
    tail = xp.minimum(c, 2 - c)
    inside = xp.where((tail > 0) & (tail < 1), tail, 0.5)
    log_of = xp.log(inside * (2 - inside))
    half = 2 / (math.pi * 0.147) + log_of / 2
    z = xp.sqrt(xp.sqrt(half * half - log_of / 0.147) - half)
    target = xp.log(inside)
    for _ in range(3):  # from 2e-3 by cubes
        scaled = erfcx(xp, z)
        f = xp.log(scaled) - z * z - target
        slope = -2 / ROOT_PI / scaled
        z = z - f / slope / (1 - f * (-2 * z - slope) / (2 * slope))  # Halley on log erfc
    z = xp.where(tail == 0, math.inf, xp.where(tail >= 0, z, math.nan))
    middle = xp.abs(1 - c) < 0.5
    return xp.where(middle, _erf_inverse(xp, xp.where(middle, 1 - c, 0.0)), xp.where(c > 1, -z, z))


def _erf_inverse(xp: Any, x: Any) -> Any:
    """z with erf(z) = x for |x| < 1/2, by Halley from the first terms of its series."""
    z = 0.5 * ROOT_PI * x * (1 + math.pi / 12 * x * x)
    for _ in range(3):  # from 1e-2 by cubes
        u = (special.erf(z) - x) * (0.5 * ROOT_PI * xp.exp(z * z))
        z = z - u / (1 + z * u)
    return z


def ndtri(xp: Any, p: Any) -> Any:
    """z with Φ(z) = p."""
    return -ROOT_2 * erfc_inverse(xp, 2 * p)


def log_ndtr(xp: Any, x: Any) -> Any:
    """log Φ(x), exact in both tails."""
    low = xp.minimum(x, -1.0)
    tail = xp.log(0.5 * erfcx(xp, -low / ROOT_2)) - 0.5 * low * low
    high = xp.maximum(x, -1.0)
    return xp.where(x < -1, tail, xp.log1p(-0.5 * xp.exp(-0.5 * high * high) * erfcx(xp, high / ROOT_2)))


# -- incomplete gamma --------------------------------------------------------------------------------------------------


def _density(xp: Any, a: Any, x: Any) -> Any:
    """x**a exp(-x) / Γ(a + 1), without cancellation for large a."""
    big = xp.maximum(a, 10.0)
    mu = (x - big) / big
    large = xp.exp(big * (xp.log1p(mu) - mu) - stirling_rest(big)) / xp.sqrt(2 * math.pi * big)
    little = xp.minimum(a, 10.0)
    return xp.where(a >= 10, large, xp.exp(little * xp.log(x) - x - lgamma(xp, little + 1)))


def gamma_pair(xp: Any, a: Any, x: Any) -> tuple[Any, Any]:
    """P(a, x) and Q(a, x): the series below a + 1, Lentz's continued fraction above (Numerical Recipes 6.2)."""
    a, x = (t.astype(np.float64) for t in xp.broadcast_arrays(a, x))
    inside = (a > 0) & (x > 0) & xp.isfinite(a) & xp.isfinite(x)
    a_, x_ = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    front = _density(xp, a_, x_)
    series = x_ < a_ + 1
    xs, xf = xp.where(series, x_, 0.5 * a_), xp.where(series, a_ + 2, x_)
    term, total, n = xp.ones_like(a_), xp.ones_like(a_), a_
    for _ in range(20000):
        n = n + 1
        term = term * xs / n
        total = total + term
        if not bool((term > total * 1e-17).any()):
            break
    p = front * total
    b = xf + 1 - a_
    c, d = xp.full_like(b, 1e300), 1 / b
    h = d
    for i in range(1, 20000):
        an = -i * (i - a_)
        b = b + 2
        d = an * d + b
        d = 1 / xp.where(d == 0, 1e-300, d)
        c = b + an / c
        c = xp.where(c == 0, 1e-300, c)
        h = h * d * c
        if not bool((xp.abs(d * c - 1) > 1e-16 * 3).any()):
            break
    q = front * a_ * h
    p, q = xp.where(series, p, 1 - q), xp.where(series, 1 - p, q)
    return _edges(xp, a, x, inside, p), _edges(xp, a, x, inside, q, upper=True)


def _edges(xp: Any, a: Any, x: Any, inside: Any, y: Any, upper: bool = False) -> Any:
    """Return the values on the border: of P; those of Q are their complements."""
    edge = xp.where(x == 0, xp.where(a == 0, math.nan, 0.0), xp.where(a == 0, 1.0, xp.where(
        xp.isinf(a), xp.where(xp.isinf(x), math.nan, 0.0), 1.0)))  # fmt: skip
    edge = xp.where((a < 0) | (x < 0) | (xp.isnan(a) & (x != 0)) | xp.isnan(x), math.nan, edge)
    return xp.where(inside, y, 1 - edge if upper else edge)
