"""The errors that simd_math.h states, in units of the last place, and the special values."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest

import core

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# name: (reference, low, high, bound in ulp); the bounds stand in simd_math.h's table with their measured values
FUNCTIONS = {
    "exp": (np.exp, -104, 88.7, 1.2),
    "exp2": (np.exp2, -150, 127.9, 1.2),
    "expm1": (np.expm1, -20, 88.7, 1.5),
    "log": (np.log, 0, 10, 1.0),
    "log1p": (np.log1p, -0.999, 10, 1.0),
    "log2": (np.log2, 0, 10, 2.0),
    "log10": (np.log10, 0, 10, 2.0),
    "tanh": (np.tanh, -10, 10, 2.2),
    "sigmoid": (sigmoid, -100, 20, 2.0),
    "erf": (erf, -4, 4, 1.5),
    "erfc": (erfc, -5, 10, 1.0),
    "sin": (np.sin, -100, 100, 1.0),
    "cos": (np.cos, -100, 100, 1.0),
}
WIDE = {"exp": (-745, 709), "exp2": (-1074, 1023), "expm1": (-40, 709), "sigmoid": (-700, 40)}


def points(name: str, dtype: type, rng: np.random.Generator) -> np.ndarray:
    _, low, high, _ = FUNCTIONS[name]
    if dtype is np.float64:
        low, high = WIDE.get(name, (low, high))
    n = 20000
    parts = [rng.uniform(low, high, n), rng.uniform(max(low, -2), min(high, 2), n), rng.uniform(0.7, 1.5, n)]
    small = 10 ** rng.uniform(-12, 0, n)
    if name.startswith("log") and name != "log1p":
        parts += [10 ** rng.uniform(-44, 38, n), small]
    else:
        parts += [small * rng.choice([-1, 1], n) * min(1, -low)]
    x = np.concatenate(parts).astype(dtype)
    return x[(x >= low) & (x <= high) & (x != 0 if name.startswith("log") else True)]


def ulp_error(y: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The distance in units of the last place of the exact value in y's type (of the smallest subnormal at least)."""
    info = np.finfo(y.dtype)
    _, exponent = np.frexp(exact)
    digits = info.nmant + 1
    lowest = math.frexp(float(info.smallest_subnormal))[1] - 1
    return np.abs(y.astype(exact.dtype) - exact) / np.exp2(np.maximum(exponent - digits, lowest).astype(exact.dtype))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_error(name: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    reference, _, _, bound = FUNCTIONS[name]
    x = points(name, np.float32, rng)
    with np.errstate(under="ignore", over="ignore"):
        worst = ulp_error(kernels.maps[name, "f"](x), reference(x.astype(np.float64))).max()
    assert worst <= bound, f"{name} is {worst:.2f} ulp off"


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs a floating type beyond double")
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("erf", "erfc")])
def test_float64_error(name: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    reference, _, _, bound = FUNCTIONS[name]
    x = points(name, np.float64, rng)
    with np.errstate(under="ignore", over="ignore"):
        worst = ulp_error(kernels.maps[name, "d"](x), reference(x.astype(np.longdouble))).max()
    assert worst <= bound, f"{name} is {float(worst):.2f} ulp off"


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_huge_arguments(name: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    x = (10 ** rng.uniform(0, 38.4, 50000) * rng.choice([-1, 1], 50000)).astype(np.float32)
    near = (np.arange(-60000, 60000) * (np.pi / 2)).astype(np.float32)
    for part in (x, near, np.float32([2.0**17, 2.0**17 - 0.01, 131071.99, 3.4e38, 16367173.0 * 2.0**72])):
        exact = getattr(np, name)(part.astype(np.float64))  # the C library reduces float64 arguments exactly
        assert ulp_error(kernels.maps[name, "f"](part), exact).max() <= 1


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_every_near_argument(name: str, kernels: ModuleType) -> None:
    """Every 61st float32 up to where the loop without float64 ends, of both signs, subnormals among them."""
    bits = np.arange(0, np.float32(6400).view(np.uint32), 61, np.uint32)
    bits[1::2] |= np.uint32(1 << 31)
    for part in np.array_split(bits.view(np.float32), 16):
        exact = getattr(np, name)(part.astype(np.float64))
        worst = ulp_error(kernels.maps[name, "f"](part), exact).max()
        assert worst <= 0.95, f"{name} is {worst:.2f} ulp off"


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000])
def test_far_and_near_arguments_in_one_array(name: str, count: int, kernels: ModuleType) -> None:
    """A block with one far argument, NaN or infinity, and its neighbours; into memory of its own and in place."""
    exact = getattr(np, name)
    for far in (6400.0, -6399.9995, 1e30, math.inf, math.nan):
        for place in {0, count // 2, count - 1}:
            x = np.linspace(-7, 7, count).astype("f")
            x[place] = far
            with np.errstate(invalid="ignore"):
                expected = exact(x.astype("d")).astype("f")
                slope = (np.cos(x.astype("d")) if name == "sin" else -np.sin(x.astype("d"))).astype("f")
            np.testing.assert_allclose(kernels.maps[name, "f"](x), expected, rtol=1.2e-7)
            gradient = kernels.maps[f"{name}_backward", "f"](np.ones_like(x), x)
            np.testing.assert_allclose(gradient, slope, rtol=1.2e-7)
            in_place = core.from_numpy(x.copy())
            getattr(in_place, f"{name}_")()
            np.testing.assert_allclose(in_place.numpy(), expected, rtol=1.2e-7)


def powers(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Bases and exponents: any bits, results in range, bases next to 1, whole exponents of negative bases."""
    n = 60000
    bits = rng.integers(0, 1 << 32, (2, n), np.uint32).view(np.float32)
    return [
        (bits[0], bits[1]),
        (np.abs(bits[0]), rng.uniform(-10, 10, n).astype("f")),
        (rng.uniform(0.99, 1.01, n).astype("f"), rng.uniform(-9000, 9000, n).astype("f")),
        (rng.uniform(-10, 10, n).astype("f"), rng.integers(-30, 31, n).astype("f")),
        (rng.uniform(0, 10, n).astype("f"), rng.uniform(-50, 50, n).astype("f")),
    ]


def test_powers_of_float32(kernels: ModuleType, rng: np.random.Generator) -> None:
    edges = np.float32([*EDGES, 3, -3, 0.5, -0.5, 2.5, -2.5, 2**24, 2**24 - 1, 1 - 2**24, 2**25, 8388607.5])
    grid = tuple(part.ravel() for part in np.meshgrid(edges, edges))
    for a, b in [*powers(rng), grid]:
        with np.errstate(all="ignore"):
            exact = np.power(a.astype("d"), b.astype("d"))
            rounded = exact.astype("f")
        y = kernels.maps["pow_tensor", "f"](a, b)
        special = ~np.isfinite(rounded) | (rounded == 0)
        np.testing.assert_array_equal(y[special], rounded[special])
        numbers = special & ~np.isnan(rounded)
        np.testing.assert_array_equal(np.signbit(y[numbers]), np.signbit(rounded[numbers]))
        assert ulp_error(y[~special], exact[~special]).max() <= 0.51


EDGES = [math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-45, -1e-45, 1e-40, 3e38, -3e38]


@pytest.mark.parametrize("char", ["f", "d"])
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("sigmoid", "erf", "erfc")])
def test_special_values(name: str, char: str, kernels: ModuleType) -> None:
    x = np.array(EDGES, char)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    y = kernels.maps[name, char](x)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=0)
    numbers = ~np.isnan(expected)
    assert (np.signbit(y) == np.signbit(expected))[numbers].all()


@pytest.mark.parametrize("name", ["exp", "exp2", "expm1"])
def test_overflow_and_underflow(name: str, kernels: ModuleType) -> None:
    for char, low, high in (("f", -160, 140), ("d", -1100, 1030)):
        x = np.linspace(low, high, 30001).astype(char)
        with np.errstate(over="ignore", under="ignore"):
            expected = getattr(np, name)(x)
        np.testing.assert_array_equal(np.isinf(kernels.maps[name, char](x)), np.isinf(expected))
        np.testing.assert_allclose(
            kernels.maps[name, char](x), expected, rtol=1e-6, atol=2 * np.finfo(char).smallest_subnormal
        )


@pytest.mark.parametrize("char", ["f", "d"])
def test_special_values_of_sigmoid_and_erf(char: str, kernels: ModuleType) -> None:
    x = np.array(EDGES[:7], char)
    assert kernels.maps["sigmoid", char](x).tolist()[:2] == [1, 0]
    assert kernels.maps["erf", char](x).tolist()[:2] == [1, -1]
    assert kernels.maps["erfc", char](x).tolist()[:2] == [0, 2]
    for name in ("sigmoid", "erf", "erfc"):
        assert np.isnan(kernels.maps[name, char](x)[2])
    assert math.copysign(1, kernels.maps["erf", char](np.array(-0.0, char))) == -1
    # small results keep their digits
    tail = np.array([-87.0, -95.0, -100.0], char)
    np.testing.assert_allclose(
        kernels.maps["sigmoid", char](tail), np.exp(tail.astype("d")), rtol=0.02 if char == "f" else 1e-12
    )


def test_gelu_keeps_the_digits_that_its_sum_cancels(kernels: ModuleType) -> None:
    x = np.linspace(-14, 14, 200001).astype("f")
    wide = x.astype("d")
    phi = erfc(-wide / math.sqrt(2)) / 2
    error = np.abs(kernels.maps["gelu_erf", "f"](x) - wide * phi)
    relative = error / np.abs(np.where(x == 0, 1, wide * phi))
    for low, bound in ((0, 2.5e-7), (-1, 3e-7), (-2, 8e-7), (-3, 5e-6), (-4, 6e-5)):  # 1 + erf is 4e-5 off at -3
        assert relative[(x >= low) & (x <= low + 1 if low else x > 0)].max() <= bound, low
    assert error[x < 0].max() <= 6e-8
    slope = kernels.maps["gelu_erf_backward", "f"](np.ones_like(x), x)
    expected = phi + wide * np.exp(-wide * wide / 2) / math.sqrt(2 * math.pi)
    assert np.abs(slope - expected).max() <= 1.5e-7
    tail = (x > -6) & (x < -1)
    np.testing.assert_allclose(slope[tail], expected[tail], rtol=6e-5)


def test_gelu_of_special_values(kernels: ModuleType) -> None:
    y = kernels.maps["gelu_erf", "f"](np.array([np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, -7.0, 1e-45], "f"))
    assert y[0] == np.inf
    assert np.isnan(y[1])
    assert y[4] == np.float32(1e30)
    assert (y[2:4] == 0).all()
    assert np.signbit(y[2:4]).tolist() == [False, True]
    assert (y[5:] == 0).all()
    slope = kernels.maps["gelu_erf_backward", "f"](np.ones(5, "f"), np.array([np.nan, 0, 1e30, -1e30, -14], "f"))
    assert np.isnan(slope[0])
    assert slope[1:].tolist() == [0.5, 1, 0, 0]


def test_the_exponential_of_softmax(kernels: ModuleType) -> None:
    """What lies 87.3 below the largest is 0, the smallest normal number is not, and NaN stays."""
    x = np.array([[0, -87.33, -87.4, -200, -np.inf, -3.4e38]], "f")
    y = kernels.softmax(x)[0]
    assert y[0] == 1
    assert (y[2:] == 0).all()
    assert ulp_error(y[1:2], np.exp(x[0, 1:2].astype("d")))[0] <= 1.2
    near = -np.linspace(0, 87.3, 30001).astype("f")
    rows = np.stack([np.zeros_like(near), near, np.zeros_like(near)], 1)
    exact = np.exp(near.astype("d"))
    assert ulp_error(kernels.softmax(rows)[:, 1], exact / (2 + exact)).max() <= 3
    assert np.isnan(kernels.softmax(np.array([[np.nan, 0, -100]], "f"))[0]).all()


@pytest.mark.parametrize("char", ["f", "d"])
def test_exact_functions(char: str, kernels: ModuleType) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -0.0, np.nan, np.inf, -np.inf], char)
    for name, reference in {
        "round": np.rint,
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "sign": lambda x: np.nan_to_num(np.sign(x)),  # of NaN 0, as PyTorch
    }.items():
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(kernels.maps[name, char](x), reference(x), name)
    a, b = (part.ravel() for part in np.meshgrid(x, x))
    np.testing.assert_array_equal(kernels.maps["maximum", char](a, b), np.maximum(a, b))
    np.testing.assert_array_equal(kernels.maps["minimum", char](a, b), np.minimum(a, b))
    with np.errstate(all="ignore"):
        for name in ("remainder", "floor_divide", "fmod"):
            if (name, char) in kernels.maps:
                np.testing.assert_array_equal(kernels.maps[name, char](a, b), getattr(np, name)(a, b), name)
