"""Cross-entropy against float64 NumPy: ignored rows, targets out of range, long rows."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import notes
from triton_kernels.loss import cross_entropy_backward, cross_entropy_forward
from triton_kernels.nll import nll_backward, nll_forward

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


def test_targets_out_of_range_give_nan_and_are_told(rng):
    x, target = rng.standard_normal((3, 5)).astype("f"), np.array([5, -1, 4])
    losses, lse = np.empty(3, "f"), np.empty(3, "f")
    with pytest.raises(IndexError, match="index -1 is out of range"):
        cross_entropy_forward(x, target, losses, lse)
    assert np.isnan(losses).tolist() == [True, True, False]
    slot = notes.slot("a test's", lambda i: IndexError(f"{i} is no class"))
    with pytest.raises(IndexError, match="5 is no class"):
        cross_entropy_forward(x[:1], target[:1], losses[:1], lse[:1], fault=slot)
    assert notes.slot("a test's", ValueError) == slot  # a key's slot is its own for good
    notes.check()  # told once


def exact(x, target, weight, smoothing, ignore_index, g):
    """Losses and gradient in float64, from the definition; x is (n, C)."""
    x = x.astype("d")
    n, classes = x.shape
    w = np.ones(classes) if weight is None else weight.astype("d")
    lse = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1)
    mass = np.full((n, classes), smoothing / classes)
    mass[np.arange(n), target] += 1 - smoothing
    mass *= w * (target != ignore_index)[:, None]
    losses = (mass * (lse[:, None] - x)).sum(1)
    return losses, (np.exp(x - lse[:, None]) * mass.sum(1, keepdims=True) - mass) * g.astype("d")[:, None]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("config", [None, {"BLOCK": 128, "ROWS": 4}])
@pytest.mark.parametrize(("weighted", "smoothing"), [(True, 0.0), (False, 0.1), (True, 0.3)])
def test_class_weights_and_smoothing(weighted, smoothing, config, dtype, rng):
    n, classes, tolerance = 7, 300, TOLERANCE[dtype]
    x = (rng.standard_normal((n, 2 * classes)) + 20).astype(dtype)[:, ::2]  # strided, and far from 0
    target = rng.integers(0, classes, n)
    weight = rng.uniform(0.5, 2, classes).astype(dtype) if weighted else None
    g = rng.uniform(0.5, 1.5, n).astype(dtype)
    ignored = int(target[2])
    want, gradient = exact(x, target, weight, smoothing, ignored, g)
    losses, lse, out = np.empty(n, dtype), np.empty(n, "f"), np.empty((n, classes), dtype)
    cross_entropy_forward(x, target, losses, lse, ignored, config, weight, smoothing)
    assert np.allclose(losses.astype("d"), want, rtol=2 * tolerance, atol=2 * tolerance)
    total = weight.sum(dtype="d").reshape(1).astype("f") if weighted else None
    cross_entropy_backward(g, x, lse, target, out, ignored, config, weight, smoothing, total)
    assert np.allclose(out.astype("d"), gradient, rtol=4 * tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("config", [None, {"BLOCK": 16, "ROWS": 64}])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, np.float64])
def test_classes_in_the_middle(dtype, config, rng):
    n, classes, inner, tolerance = 3, 21, 35, TOLERANCE[dtype]
    x = rng.standard_normal((n, classes, inner)).astype(dtype)
    target, weight = rng.integers(0, classes, n * inner), rng.uniform(0.5, 2, classes).astype(dtype)
    g = rng.uniform(0.5, 1.5, n * inner).astype(dtype)
    wide = np.float64 if dtype is np.float64 else np.float32
    losses, lse, out = np.empty(n * inner, dtype), np.empty(n * inner, wide), np.empty(x.shape, dtype)
    want, gradient = exact(x.swapaxes(1, 2).reshape(-1, classes), target, weight, 0.1, -100, g)
    cross_entropy_forward(x, target, losses, lse, -100, config, weight, 0.1)
    assert np.allclose(losses.astype("d"), want, rtol=2 * tolerance, atol=2 * tolerance)
    cross_entropy_backward(g, x, lse, target, out, -100, config, weight, 0.1, weight.sum(dtype=wide).reshape(1))
    gradient = gradient.reshape(n, inner, classes).swapaxes(1, 2)
    assert np.allclose(out.astype("d"), gradient, rtol=4 * tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_negative_log_likelihood(weighted, dtype, rng):
    x, target = rng.standard_normal((9, 14)).astype(dtype)[:, ::2], rng.integers(0, 7, 9)
    weight = rng.uniform(0.5, 2, 7).astype(dtype) if weighted else None
    w = weight.astype("d") if weighted else np.ones(7)
    counted = target != 3
    out, gradient = np.empty(9, dtype), np.empty((9, 7), dtype)
    nll_forward(x, target, weight, out, 3)
    picked = x.astype("d")[np.arange(9), target]
    assert np.allclose(out.astype("d"), -picked * w[target] * counted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    g = rng.standard_normal(9).astype(dtype)
    nll_backward(g, target, weight, gradient, 3)
    want = np.zeros((9, 7))
    want[np.arange(9), target] = -g.astype("d") * w[target] * counted
    assert np.allclose(gradient.astype("d"), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    if weighted:
        nll_forward(None, target, weight, out, 3)
        assert np.allclose(out.astype("d"), w[target] * counted)
    nll_forward(None, target * 1000, None, out, 3000)
    assert np.array_equal(out.astype("d"), counted)


def test_errors_say_what_came():
    x, t = np.ones((3, 5), "f"), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match=r"expected scores \(N, C\) and vectors \(N,\)"):
        cross_entropy_forward(x, t[:2], np.empty(3, "f"), np.empty(3, "f"))
    with pytest.raises(TypeError, match="target must be int64"):
        cross_entropy_forward(x, t.astype(np.int32), np.empty(3, "f"), np.empty(3, "f"))
    cross_entropy_forward(x[:0], t[:0], np.empty(0, "f"), np.empty(0, "f"))
