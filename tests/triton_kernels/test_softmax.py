"""Softmax and log-softmax, forward and backward: short and long rows, dtypes, infinities."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import softmax as sm

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 2e-3, BF16: 2e-2, np.float32: 1e-5, np.float64: 1e-13}
LONG = {"BLOCK": 128, "ROWS": 4}


def softmax(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("config", [None, LONG])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(7, 1), (5, 300), (2, 3, 129), (11,)])
def test_forward_and_backward(shape, dtype, config, rng):
    x, g = (5 * rng.standard_normal(shape)).astype(dtype), rng.standard_normal(shape).astype(dtype)
    y, out, tolerance = np.empty(shape, dtype), np.empty(shape, dtype), TOLERANCE[dtype]
    exact, g64 = softmax(x.astype("d")), g.astype("d")
    sm.softmax_forward(x, y, config)
    assert np.allclose(y.astype("d"), exact, rtol=tolerance, atol=tolerance * 1e-2)
    sm.softmax_backward(g, exact.astype(dtype), out, config)
    expected = exact * (g64 - (g64 * exact).sum(-1, keepdims=True))
    assert np.allclose(out.astype("d"), expected, rtol=tolerance, atol=4 * tolerance)
    sm.log_softmax_forward(x, y, config)
    assert np.allclose(y.astype("d"), np.log(exact), rtol=tolerance, atol=tolerance)
    sm.log_softmax_backward(g, np.log(exact).astype(dtype), out, config)
    expected = g64 - exact * g64.sum(-1, keepdims=True)
    assert np.allclose(out.astype("d"), expected, rtol=8 * tolerance, atol=8 * tolerance)


@pytest.mark.parametrize("config", [None, LONG])
def test_infinities_and_nan(config, rng):
    x = rng.standard_normal((6, 500)).astype("f")
    x[0], x[1, 3], x[2, 5], x[3, :450], x[4] = -np.inf, np.inf, np.nan, -np.inf, np.nan
    y = np.empty_like(x)
    sm.softmax_forward(x, y, config)
    assert np.allclose(y, softmax(x.astype("d")), rtol=1e-5, atol=1e-9, equal_nan=True)


def test_row_strides_and_empty_arrays(rng):
    wide = rng.standard_normal((4, 20)).astype("f")
    x, y = wide[::2, :15], np.empty((2, 15), "f")
    sm.softmax_forward(x, y)
    assert np.allclose(y, softmax(x), rtol=1e-5)
    sm.softmax_forward(np.empty((0, 5), "f"), np.empty((0, 5), "f"))
    with pytest.raises(ValueError, match="the last axis must be dense"):
        sm.softmax_forward(wide.T, np.empty((20, 4), "f"))
    with pytest.raises(ValueError, match="must have one shape"):
        sm.softmax_forward(wide, np.empty((4, 19), "f"))
    with pytest.raises(TypeError, match="floating-point arrays of at least one dimension"):
        sm.softmax_forward(np.ones(()), np.ones(()))


def test_space():
    assert sm.SPACE.default in list(sm.SPACE.configs())
    for columns in (1, 100, 300, 3000, 100_000):
        sm.INTERPRET, before = False, sm.INTERPRET
        try:
            assert sm.settings_for(columns, 64, None) in list(sm.SPACE.configs())  # the compile check has seen it
        finally:
            sm.INTERPRET = before
