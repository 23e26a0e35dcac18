"""Cross-entropy against float64 NumPy: ignored rows, targets out of range, long rows."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels.loss import cross_entropy_backward, cross_entropy_forward

TOLERANCE = {np.float16: 4e-3, ml_dtypes.bfloat16: 3e-2, np.float32: 2e-6, np.float64: 1e-13}


@pytest.mark.parametrize("config", [None, {"BLOCK": 128, "ROWS": 4}])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("classes", [1, 10, 300])
def test_forward_and_backward(classes, dtype, config, rng):
    n, tolerance = 9, TOLERANCE[dtype]
    x = rng.standard_normal((n, classes)).astype(dtype)
    target = rng.integers(0, classes, n)
    target[4] = -100
    losses, lse = np.empty(n, dtype), np.empty(n, np.float64 if dtype is np.float64 else np.float32)
    cross_entropy_forward(x, target, losses, lse, config=config)
    x64 = x.astype("d")
    exact = np.log(np.exp(x64).sum(1))
    assert np.allclose(lse, exact, rtol=1e-6)
    expected = exact - x64[np.arange(n), target.clip(0)]
    expected[4] = 0
    assert np.allclose(losses.astype("d"), expected, rtol=tolerance, atol=tolerance)
    g = rng.standard_normal(n).astype(dtype)
    out = np.empty((n, classes), dtype)
    cross_entropy_backward(g, x, lse, target, out, config=config)
    gradient = np.exp(x64 - exact[:, None])
    gradient[np.arange(n), target.clip(0)] -= 1
    gradient *= g.astype("d")[:, None]
    gradient[4] = 0
    assert np.allclose(out.astype("d"), gradient, rtol=tolerance, atol=tolerance)


def test_a_broadcast_gradient_and_another_ignored_class(rng):
    x, target = rng.standard_normal((4, 5)).astype("f"), np.array([0, 1, 2, 2])
    losses, lse, out = np.empty(4, "f"), np.empty(4, "f"), np.empty((4, 5), "f")
    cross_entropy_forward(x, target, losses, lse, ignore_index=2)
    assert losses[2] == losses[3] == 0
    cross_entropy_backward(np.broadcast_to(np.float32(0.5), 4), x, lse, target, out, ignore_index=2)
    assert (out[2:] == 0).all()
    assert np.allclose(out[:2].sum(1), 0, atol=1e-6)


def test_targets_out_of_range_give_nan(rng):
    x, target = rng.standard_normal((3, 5)).astype("f"), np.array([5, -1, 4])
    losses, lse = np.empty(3, "f"), np.empty(3, "f")
    cross_entropy_forward(x, target, losses, lse)
    assert np.isnan(losses).tolist() == [True, True, False]


def test_errors_say_what_came():
    x, t = np.ones((3, 5), "f"), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match=r"expected scores \(N, C\) and vectors \(N,\)"):
        cross_entropy_forward(x, t[:2], np.empty(3, "f"), np.empty(3, "f"))
    with pytest.raises(TypeError, match="target must be int64"):
        cross_entropy_forward(x, t.astype(np.int32), np.empty(3, "f"), np.empty(3, "f"))
    cross_entropy_forward(x[:0], t[:0], np.empty(0, "f"), np.empty(0, "f"))
