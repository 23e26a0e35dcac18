"""Box and Muller in the very arithmetic of PyTorch's AVX2 code, so that its normal numbers come out bit for bit.

The logarithm, sine and cosine are the Cephes polynomials in float32 with fused multiply-adds, as compilers contract
them. A fused multiply-add is computed here in float64, where the product is exact, and rounded to float32.
Source: Moshier, Cephes `logf.c` and `sincosf.c`; ATen/native/cpu/avx_mathfun.h for the order of the operations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_f = np.float32
_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # -pi/4 in three parts


def _fused(a: Any, b: Any, c: Any) -> Any:
    return (a.astype(np.float64) * np.asarray(b, np.float64) + np.asarray(c, np.float64)).astype(np.float32)


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    y = np.full_like(x, _f(coefficients[0]))
    for c in coefficients[1:]:
        y = _fused(y, x, _f(c))
    return y


def _log(x: Any) -> Any:
    """log of positive normal float32: the exponent, and a polynomial in the mantissa from sqrt(1/2) to sqrt(2)."""
    bits = x.view(np.int32)
    e = ((bits >> 23) - 126).astype(np.float32)
    x = ((bits & 0x007FFFFF) | 0x3F000000).view(np.float32)
    low = x < _f(0.707106781186547524)
    e = e - low.astype(np.float32)
    x = np.where(low, (x - _f(1)) + x, x - _f(1))
    z = x * x
    y = _fused(_polynomial(x, _LOG) * x, z, e * _f(-2.12194440e-4))
    y = _fused(z, _f(-0.5), y)
    return _fused(e, _f(0.693359375), x + y)


def _sin_cos(x: Any) -> tuple[Any, Any]:
    """sin and cos of float32 from 0 to 2 pi: reduced to an eighth of the circle, whose number `j` picks and signs."""
    j = ((x * _f(1.27323954473516)).astype(np.int32) + 1) & ~1
    turns = j.astype(np.float32)
    for part in _QUARTER:
        x = _fused(turns, _f(part), x)
    z = x * x
    c = _fused(_polynomial(z, _COS) * z, z, -(z * _f(0.5))) + _f(1)
    s = _fused(_polynomial(z, _SIN) * z, x, x)
    same = (j & 2) == 0
    sin, cos = np.where(same, s, c), np.where(same, c, s)
    return np.where(j & 4, -sin, sin), np.where(~(j - 2) & 4, -cos, cos)


def sixteens(u: Any) -> Any:
    """Uniform numbers to normal ones in groups of 16: the first 8 give the radii, the last 8 the angles."""
    pairs = u.reshape(-1, 2, 8)
    one = pairs.dtype.type(1) - pairs[:, 0]
    angle = pairs.dtype.type(2 * math.pi) * pairs[:, 1]
    if u.dtype == np.float32:
        radius = np.sqrt(_f(-2) * _log(one))
        sin, cos = _sin_cos(angle)
    else:
        radius = np.sqrt(-2.0 * np.log(one))
        sin, cos = np.sin(angle), np.cos(angle)
    return np.stack([radius * cos, radius * sin], axis=1).reshape(-1)
