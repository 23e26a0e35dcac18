"""The C rows of pooling against the reference: ties, NaN, -inf, padding, short rows and long ones; and the way back."""

from __future__ import annotations

import numpy as np
import pytest

from core import backends, native
from core.declare.op import table

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 3, 9, 11), (1, 2, 5, 300), (3, 5, 14, 28), (1, 1, 3, 5), (2, 2, 7, 33)])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [((2, 2), (2, 2), (0, 0), (1, 1)), ((3, 3), (2, 2), (1, 1), (1, 1)), ((3, 3), (1, 3), (1, 0), (1, 2)),
     ((1, 4), (1, 2), (0, 2), (1, 1)), ((2, 2), (1, 1), (1, 1), (3, 2))],
)  # fmt: skip
def test_the_greatest_and_its_place(dtype, shape, kernel, stride, padding, dilation):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, shape).astype(dtype)
    x[rng.random(shape) < 0.05] = np.nan
    x[rng.random(shape) < 0.4] = -np.inf
    out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1
                for n, k, s, p, d in zip(shape[2:], kernel, stride, padding, dilation, strict=True))  # fmt: skip
    params = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "out": out}
    mine, right = (k.run(x, **params) for k in _both("max_pool", (x,), params))
    np.testing.assert_array_equal(mine[0], right[0])
    np.testing.assert_array_equal(mine[1], right[1])
    g = rng.standard_normal(right[0].shape).astype(dtype)
    back = {"sizes": shape[2:], "add": True}
    mine, right = (k.run(g, right[1], **back) for k in _both("pool_scatter", (g, right[1]), back))
    np.testing.assert_allclose(mine, right, rtol=1e-6, atol=1e-6)


def _both(name, arrays, params):
    row = backends.pick(name, "cpu", arrays, params)
    assert row.name == f"{name}_forward"
    return row, backends.reference_kernel(table[name], "cpu")


def test_a_place_outside_is_an_error():
    with pytest.raises(IndexError, match="was given 4, and the table has 4 rows"):
        native.module.kernels["scatter_planes"](np.ones((1, 1)), np.array([[4]]), 4)
    windows = (0, 1), (1, 1), (0, 0), (1, 1), (1, 1)
    assert native.module.entries["max_pool"](np.ones((1, 2, 2)), *windows) is NotImplemented
