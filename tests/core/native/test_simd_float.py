"""float32 functions by double arithmetic: half a unit of the last place, edges as the C library has them, and blocks
with an item that is far."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest

from .test_simd_math import EDGES, ulp_error

UNARY = ("log2", "log10", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "tan")
WIDE = ("sinh", "cosh", "atan", "asinh", "tan")
IN_NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
            "atanh": "arctanh"}  # fmt: skip


def exact(name: str, *x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return getattr(np, IN_NUMPY.get(name, name))(*[a.astype(np.float64) for a in x])


def points(name: str, rng: np.random.Generator) -> np.ndarray:
    low = 10 ** rng.uniform(-40, 0, 20000)
    x = np.concatenate(
        [low, -low, rng.uniform(-1, 1, 20000), rng.uniform(0.4, 0.6, 5000), 1 + 10 ** rng.uniform(-7, 1, 5000)]
    )
    if name in WIDE:
        x = np.concatenate([x, rng.uniform(-88, 88, 20000), 10 ** rng.uniform(0, 5 if name == "tan" else 38, 5000)])
    return x.astype(np.float32)


@pytest.mark.parametrize("name", UNARY)
def test_half_a_unit_of_the_last_place(name: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    x = points(name, rng)
    with np.errstate(all="ignore"):
        y, right = kernels.maps[name, "f"](x), exact(name, x)
        told = np.isfinite(right) & (np.abs(right) < 3.4e38)
        worst = ulp_error(y[told], right[told]).max()
    assert worst <= 0.51, f"{name} is {worst:.3f} ulp off"
    np.testing.assert_array_equal(np.isnan(y), np.isnan(right))


@pytest.mark.parametrize("name", UNARY)
def test_edges(name: str, kernels: ModuleType) -> None:
    x = np.array([*EDGES, 0.5, -0.5], np.float32)
    with np.errstate(all="ignore"):
        y, right = kernels.maps[name, "f"](x), exact(name, x).astype(np.float32)
    np.testing.assert_allclose(y, right, rtol=1e-6, atol=0)
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(y)[numbers], np.signbit(right)[numbers])


@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_two_operands(name: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    edges = np.array(EDGES, np.float32)
    function = {"atan2": np.arctan2}.get(name, np.hypot)
    a = np.concatenate([np.repeat(edges, len(edges)), rng.standard_normal(20000).astype(np.float32)])
    b = np.concatenate([np.tile(edges, len(edges)), rng.standard_normal(20000).astype(np.float32)])
    with np.errstate(all="ignore"):
        y, right = kernels.maps[name, "f"](a, b), function(a.astype(np.float64), b.astype(np.float64))
        expected = right.astype(np.float32)
    np.testing.assert_allclose(y, expected, rtol=1.2e-7, atol=1e-45)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(y)[numbers], np.signbit(expected)[numbers])


def test_inverse_of_erf(kernels: ModuleType, rng: np.random.Generator) -> None:
    z = np.concatenate([10 ** rng.uniform(-8, 0, 20000), rng.uniform(0, 3.7, 20000)])
    x = np.vectorize(math.erf)(z * rng.choice([-1, 1], z.size)).astype(np.float32)
    y = kernels.maps["erfinv", "f"](x).astype(np.float64)
    back = np.vectorize(math.erf)(y)
    slope = 2 / math.sqrt(math.pi) * np.exp(-y * y)
    told = np.abs(x) < 1
    assert (np.abs(back - x)[told] <= 1e-7 * (np.abs(y) * slope)[told] + 2e-16).all()
    edges = kernels.maps["erfinv", "f"](np.float32([1, -1, 0, -0.0, 1.5, np.nan, -np.inf]))
    np.testing.assert_array_equal(edges, [np.inf, -np.inf, 0, -0.0, np.nan, np.nan, np.nan])
    assert np.signbit(edges[3])


def divided(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    parts = [
        (rng.standard_normal(5000), rng.uniform(0.5, 1.5, 5000)),
        (rng.integers(-1000, 1000, 5000), rng.integers(1, 20, 5000) * rng.choice([-1, 1], 5000)),
        (rng.integers(-1000, 1000, 5000) / 10, rng.integers(1, 20, 5000) / 10),
        (10 ** rng.uniform(-10, 6, 5000) * rng.choice([-1, 1], 5000), 10 ** rng.uniform(-8, 3, 5000)),
        (10 ** rng.uniform(-38, -30, 5000), 10 ** rng.uniform(-44, -38, 5000)),
    ]
    return tuple(np.concatenate(side).astype(np.float32) for side in zip(*parts, strict=True))  # type: ignore[return-value]


def same_bits(y: np.ndarray, right: np.ndarray) -> None:
    np.testing.assert_array_equal(np.isnan(y), np.isnan(right))
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(y[numbers].view(np.int32), right[numbers].view(np.int32))


def test_remainders_are_those_of_the_c_library(kernels: ModuleType, rng: np.random.Generator) -> None:
    x, y = divided(rng)
    same_bits(kernels.maps["fmod", "f"](x, y), np.fmod(x, y))
    with np.errstate(all="ignore"):
        same_bits(kernels.maps["remainder", "f"](x, y), np.remainder(x, y))
        same_bits(kernels.maps["floor_divide", "f"](x, y), np.floor_divide(x, y))


@pytest.mark.parametrize("at", [0, 255, 256, 511, 700])
@pytest.mark.parametrize("far", [(3e38, 1e-20), (1.0, 0.0), (np.inf, 1.0), (1.0, np.inf), (np.nan, 1.0), (1.0, np.nan)])
def test_a_far_item_changes_no_other(at: int, far: tuple[float, float], kernels: ModuleType, rng: np.random.Generator):
    x, y = rng.standard_normal(701).astype(np.float32), rng.uniform(0.5, 1.5, 701).astype(np.float32)
    x[at], y[at] = far
    with np.errstate(all="ignore"):
        same_bits(kernels.maps["fmod", "f"](x, y), np.fmod(x, y))
        own = x.copy()
        kernels.maps["fmod", "f"].into(own, own, y)  # over its own input
        same_bits(own, np.fmod(x, y))
        z = x * 100
        z[at] = far[0]
        right = exact("tan", z)
        np.testing.assert_allclose(kernels.maps["tan", "f"](z), right.astype(np.float32), rtol=1e-6)
