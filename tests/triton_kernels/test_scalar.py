"""Every primitive against extended precision: its error in units in the last place, and its special values."""

import math

import numpy as np
import pytest

from triton_kernels import elementwise
from triton_kernels.primitives import PRIMITIVES

L = np.longdouble
INF, NAN = math.inf, math.nan
CONDITIONS = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"}
LOGICAL = {"and", "or", "xor", "not"}


def run(name, *arrays, out=None):
    names = ["x", "y", "z"][: len(arrays)]
    bools = [n for n, a in zip(names, arrays, strict=True) if a.dtype == bool]
    kind = "bool" if name in CONDITIONS | LOGICAL else "same"
    kernel = elementwise.build(name, names, [], ["t0 = " + PRIMITIVES[name].format(*names)], "t0", kind, bools)
    out = np.empty(arrays[-1].shape, bool if kind == "bool" else arrays[-1].dtype)
    kernel(arrays, (), out)
    return out


def vectorized(function):
    return lambda *a: np.vectorize(function, otypes=[L])(*(np.asarray(x, np.float64) for x in a))


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def line(low, high):
    return lambda rng, n: rng.uniform(low, high, n)


def decades(low, high):  # both signs, evenly in the logarithm
    return lambda rng, n: rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(low, high, n)


def positive(low, high):
    return lambda rng, n: 10.0 ** rng.uniform(low, high, n)


# name: (reference, domains, error in float32, error in float64); None: judged by another test
UNARY = {
    "neg": (np.negative, [decades(-30, 30)], 0, 0),
    "abs": (np.abs, [decades(-30, 30)], 0, 0),
    "exp": (np.exp, [line(-87, 88), decades(-8, 1)], 3, 1),
    "exp2": (np.exp2, [line(-126, 127), decades(-8, 1)], 3, 1),
    "expm1": (np.expm1, [line(-20, 88), decades(-30, 0)], 3, 3),
    "log": (np.log, [positive(-37, 37), line(0.5, 2)], 4, 1),
    "log2": (np.log2, [positive(-37, 37), line(0.5, 2)], 2, 1),
    "log10": (np.log10, [positive(-37, 37), line(0.5, 2)], 5, 4),
    "log1p": (np.log1p, [line(-0.999, 10), decades(-30, -0.1), positive(0, 30)], 3, 3),
    "sqrt": (np.sqrt, [positive(-37, 37)], 0.5, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), [positive(-37, 37)], 1.5, 1.5),
    "sin": (np.sin, [line(-100, 100), decades(-20, 0)], 2, 1),
    "cos": (np.cos, [line(-100, 100), decades(-20, 0)], 2, 1),
    "tan": (np.tan, [line(-100, 100), decades(-20, 0)], 4, 4),
    "asin": (np.arcsin, [line(-1, 1), decades(-20, 0)], 4, 4),
    "acos": (np.arccos, [line(-1, 1), decades(-20, 0)], 4, 4),
    "atan": (np.arctan, [line(-5, 5), decades(-20, 20)], 4, 4),
    "sinh": (np.sinh, [line(-88, 88), decades(-30, 1)], 5, 5),
    "cosh": (np.cosh, [line(-88, 88), decades(-30, 1)], 5, 5),
    "tanh": (np.tanh, [line(-10, 10), decades(-30, 2)], 4, 4),
    "asinh": (np.arcsinh, [line(-10, 10), decades(-30, 30)], 5, 5),
    "acosh": (np.arccosh, [line(1, 10), positive(0, 30)], 5, 5),
    "atanh": (np.arctanh, [line(-1, 1), decades(-30, -0.01)], 5, 5),
    "erf": (vectorized(math.erf), [line(-4, 4), decades(-20, 1)], 1, 1),
    "erfc": (vectorized(math.erfc), [line(-4, 9), decades(-20, 0.9)], 8, 8),
    "sigmoid": (sigmoid, [line(-87, 40), decades(-20, 1)], 4, 4),
    "floor": (np.floor, [line(-1000, 1000)], 0, 0),
    "ceil": (np.ceil, [line(-1000, 1000)], 0, 0),
    "trunc": (np.trunc, [line(-1000, 1000)], 0, 0),
    "round": (np.rint, [line(-1000, 1000), decades(0, 18)], 0, 0),
    "sign": (np.sign, [line(-1, 1)], 0, 0),
}
BINARY = {
    "add": (np.add, [(decades(-3, 3), decades(-3, 3))], 0.5, 0.5),
    "sub": (np.subtract, [(decades(-3, 3), decades(-3, 3))], 0.5, 0.5),
    "mul": (np.multiply, [(decades(-3, 3), decades(-3, 3))], 0.5, 0.5),
    "div": (np.true_divide, [(decades(-15, 15), decades(-15, 15))], 0.5, 0.5),
    "atan2": (np.arctan2, [(line(-1, 1), line(-1, 1)), (decades(-10, 10), decades(-10, 10))], 4, 4),
    "fmod": (np.fmod, [(decades(-3, 3), decades(-1, 3))], 0, 0),
    "remainder": (np.remainder, [(decades(-3, 3), decades(-1, 3))], 1, 1),
    "floor_divide": (np.floor_divide, [(decades(-3, 3), decades(-1, 3))], 0, 0),
    "maximum": (np.maximum, [(line(-1, 1), line(-1, 1))], 0, 0),
    "minimum": (np.minimum, [(line(-1, 1), line(-1, 1))], 0, 0),
    "hypot": (np.hypot, [(decades(-18, 18), decades(-18, 18)), (line(-1, 1), line(-1, 1))], 1, 2),
    "copysign": (np.copysign, [(decades(-3, 3), line(-1, 1))], 0, 0),
}
SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e30, -1e30]


def ulps(got, exact):
    """The largest distance in units in the last place of the exact value, and where it is."""
    unit = np.spacing(np.abs(exact).astype(got.dtype)).astype(L)
    error = np.abs(got.astype(L) - exact.astype(L)) / unit
    return float(error.max()), int(error.argmax())


def test_every_primitive_is_judged_here():
    judged = UNARY.keys() | BINARY.keys() | CONDITIONS | LOGICAL | {"where", "pow"}
    assert judged == PRIMITIVES.keys()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_error(name, dtype, rng):
    reference, domains, *allowed = (UNARY | BINARY)[name]
    for domain in domains:
        draws = domain if isinstance(domain, tuple) else (domain,)
        arrays = [draw(rng, 4000).astype(dtype) for draw in draws]
        got = run(name, *arrays)
        with np.errstate(all="ignore"):
            exact = reference(*(a.astype(L) for a in arrays))
        keep = np.isfinite(exact) & ((np.abs(exact) > np.finfo(dtype).tiny) | (exact == 0))
        worst, where = ulps(got[keep], exact[keep])
        assert worst <= allowed[dtype is np.float64] + 0.001, (name, worst, [a[keep][where] for a in arrays])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*UNARY, "isnan", "isinf", "isfinite"])
def test_special_values(name, dtype):
    x = np.array(SPECIAL, dtype)
    with np.errstate(all="ignore"):
        exact = UNARY[name][0](x.astype(L)) if name in UNARY else getattr(np, name)(x)
        if exact.dtype != bool:
            exact = exact.astype(dtype)
    got = run(name, x)
    if name in ("sin", "cos", "tan"):  # 1e30 is beyond what a float32 kernel is asked to reduce
        x, got, exact = x[:-2], got[:-2], exact[:-2]
    agree = np.isclose(got, exact, rtol=1e-6 if dtype is np.float32 else 1e-13, atol=0, equal_nan=True) | (got == exact)
    assert agree.all(), list(zip(x[~agree], got[~agree], exact[~agree], strict=True))
    if exact.dtype != bool:
        zero = exact == 0
        assert (np.signbit(got[zero]) == np.signbit(exact[zero])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [n for n in BINARY if n not in ("hypot",)] + ["hypot", "pow"])
def test_special_pairs(name, dtype):
    x, y = (a.ravel().copy() for a in np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype)))
    with np.errstate(all="ignore"):
        exact = (np.power if name == "pow" else BINARY[name][0])(x, y)
    got = run(name, x, y)
    if name in ("fmod", "remainder", "floor_divide"):  # quotients past 2**28 are not promised
        near = ~(np.isfinite(x) & (np.abs(x) > 1e20) & (np.abs(y) < 1e20) & (y != 0))
        x, y, got, exact = x[near], y[near], got[near], exact[near]
    agree = np.isclose(got, exact, rtol=1e-6 if dtype is np.float32 else 1e-12, atol=0, equal_nan=True) | (got == exact)
    assert agree.all(), list(zip(x[~agree], y[~agree], got[~agree], exact[~agree], strict=True))[:10]
    zero = (exact == 0) & ~((name in ("maximum", "minimum")) & (x == y))  # which of two zeros is larger is left open
    assert (np.signbit(got[zero]) == np.signbit(exact[zero])).all(), name


def test_pow(rng):
    for dtype, base in ((np.float32, 1.0), (np.float64, 3.0)):
        x, y = positive(-3, 3)(rng, 4000).astype(dtype), line(-10, 10)(rng, 4000).astype(dtype)
        exact = np.power(x.astype(L), y.astype(L))
        error = np.abs(run("pow", x, y) - exact) / np.spacing(exact.astype(dtype))
        slack = 0 if dtype is np.float32 else 2 * np.abs(y * np.log(x))
        assert (error <= base + slack).all(), float((error - slack).max())
        whole = rng.integers(-5, 6, 500).astype(dtype)
        negative = -x[:500]
        assert np.allclose(run("pow", negative, whole), np.power(negative, whole), rtol=1e-6)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name):
    x, y = (a.ravel().copy() for a in np.meshgrid(np.array(SPECIAL, "f"), np.array(SPECIAL, "f")))
    numpy_name = {
        "eq": "equal",
        "ne": "not_equal",
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
    }
    assert (run(name, x, y) == getattr(np, numpy_name[name])(x, y)).all()


@pytest.mark.parametrize("name", ["and", "or", "xor", "not"])
def test_logic(name):
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    arrays = (x,) if name == "not" else (x, y)
    assert (run(name, *arrays) == getattr(np, "logical_" + name)(*arrays)).all()


def test_where_keeps_the_digits_of_float64():
    x = np.array([1.0, -1.0])
    kernel = elementwise.build("where_literals", ["x"], [], ["c = (x > 0)", "t0 = tl.where(c, 0.1, 0.2)"], "t0")
    out = np.empty(2)
    kernel((x,), (), out)
    assert out.tolist() == [0.1, 0.2]
    c = np.array([True, False])
    assert run("where", c, x, -x * 3).tolist() == [1.0, 3.0]
