"""The errors in ulp of what simd_math.h takes from the C library, float64's erf among it; our own: `test_simd_math`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from .test_simd_math import EDGES, ulp_error

WIDE = np.finfo(np.longdouble).nmant >= 60
needs_wide = pytest.mark.skipif(not WIDE, reason="needs a floating type beyond double")
ONE = {  # name: (low, high, bound)
    "tan": (-100, 100, 1.5), "asin": (-1, 1, 1.5), "acos": (-1, 1, 1.5), "atan": (-50, 50, 1.5),
    "sinh": (-80, 80, 2.5), "cosh": (-80, 80, 2.5), "asinh": (-1e4, 1e4, 2.5), "acosh": (1, 1e4, 2.5),
    "atanh": (-0.9999, 0.9999, 2.5), "sqrt": (0, 1e6, 0.5), "rsqrt": (1e-6, 1e6, 1.5),
    "sin": (-100, 100, 1.5), "cos": (-100, 100, 1.5), "log10": (1e-30, 1e30, 2.5),
}  # fmt: skip
TWO = {"pow_tensor": (0.05, 20, 1.5), "atan2": (-50, 50, 1.5), "hypot": (-1e5, 1e5, 1.5), "fmod": (-50, 50, 0.5)}
CALLED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
          "atanh": "arctanh", "pow_tensor": "power", "atan2": "arctan2"}  # fmt: skip
NUMPY: dict[str, Any] = {n: getattr(np, CALLED.get(n, n), None) for n in (*ONE, *TWO)}
NUMPY["rsqrt"] = lambda x: 1 / np.sqrt(x)


@pytest.mark.parametrize("char", ["f", pytest.param("d", marks=needs_wide)])
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_errors_of_the_c_library(name: str, char: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    low, high, bound = {**ONE, **TWO}[name]
    n = 20000
    sides = [np.concatenate([rng.uniform(low, high, n), rng.uniform(max(low, -1), min(high, 2), n)]) for _ in range(2)]
    given = [s.astype(char) for s in sides[: 1 + (name in TWO)]]
    exact = NUMPY[name](*(a.astype(np.longdouble if char == "d" else np.float64) for a in given))
    worst = ulp_error(kernels.maps[name, char](*given), exact).max()
    assert worst <= bound, f"{name} is {float(worst):.2f} ulp off"


@pytest.mark.parametrize("char", ["f", "d"])
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_special_values_of_the_c_library(name: str, char: str, kernels: ModuleType) -> None:
    x = np.array(EDGES, char)
    given = [part.ravel() for part in np.meshgrid(x, x)] if name in TWO else [x]
    with np.errstate(all="ignore"):
        expected = NUMPY[name](*given)
    y = kernels.maps[name, char](*given)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=0)
    numbers = ~np.isnan(expected)
    assert (np.signbit(y) == np.signbit(expected))[numbers].all()


def exact_erf(x: Any) -> Any:
    """2/sqrt(pi) e^(-x^2) sum of 2^n x^(2n+1) / (2n+1)!!, whose terms have one sign."""
    term, total = x.copy(), x.copy()
    for n in range(1, 200):
        term = term * 2 * x * x / (2 * n + 1)
        total += term
    return total * np.exp(-x * x) * 2 / np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))


def exact_erfc(x: Any) -> Any:
    """For x >= 2 by the continued fraction of e^(x^2) erfc(x), from its end."""
    tail = np.zeros_like(x)
    for k in range(300, 0, -1):
        tail = (k / np.longdouble(2)) / (x + tail)
    return np.exp(-x * x) / ((x + tail) * np.sqrt(np.longdouble("3.14159265358979323846264338327950288")))


@needs_wide
def test_erf_of_float64(kernels: ModuleType, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.uniform(-5, 5, 4000), rng.choice([-1, 1], 4000) * 10 ** rng.uniform(-12, 0, 4000)])
    assert ulp_error(kernels.maps["erf", "d"](x), exact_erf(x.astype(np.longdouble))).max() <= 1.5
    near = x[x < 0.5]
    assert ulp_error(kernels.maps["erfc", "d"](near), 1 - exact_erf(near.astype(np.longdouble))).max() <= 4
    # beyond 26.5 it is subnormal
    far = rng.uniform(2, 26, 4000)
    assert ulp_error(kernels.maps["erfc", "d"](far), exact_erfc(far.astype(np.longdouble))).max() <= 6
