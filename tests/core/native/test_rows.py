"""Softmax, layer norm, cross entropy and embedding against their formulas in float64 NumPy."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

Array = np.ndarray
SHAPES = [(1, 1), (1, 5), (7, 10), (3, 4, 33), (300, 257), (5, 3000), (9000, 65)]
TOLERANCE = {"f": {"rtol": 2e-6, "atol": 2e-6}, "d": {"rtol": 1e-12, "atol": 1e-13}}


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, ...], dtype: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    x, g = (3 * rng.standard_normal((2, *shape))).astype(dtype)
    y = softmax(x.astype("d"))
    np.testing.assert_allclose(kernels.softmax(x), y, **TOLERANCE[dtype])
    np.testing.assert_allclose(kernels.log_softmax(x), np.log(y), **TOLERANCE[dtype])
    gx = y * (g - (g * y).sum(-1, keepdims=True))
    np.testing.assert_allclose(kernels.softmax_backward(g, y.astype(dtype)), gx, **TOLERANCE[dtype])
    gx = g - y * g.astype("d").sum(-1, keepdims=True)
    np.testing.assert_allclose(
        kernels.log_softmax_backward(g, np.log(y).astype(dtype)), gx, rtol=1e-5, atol=1e-4 if dtype == "f" else 1e-10
    )
    flipped = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    np.testing.assert_array_equal(kernels.softmax(flipped), kernels.softmax(x))


def test_softmax_of_extremes(kernels: ModuleType) -> None:
    x = np.array([[1e30, 0, -1e30], [-np.inf, 0, 0], [88, 89, 90]], "f")
    np.testing.assert_allclose(kernels.softmax(x), softmax(x.astype("d")), rtol=1e-6)
    for row in ([np.nan, 0, 1], [-np.inf, -np.inf, -np.inf], [np.inf, 0, 1]):
        assert np.isnan(kernels.softmax(np.array(row, "f"))).any()
    assert kernels.softmax(np.empty((0, 3), "f")).shape == (0, 3)
    assert kernels.softmax(np.empty((3, 0), "f")).shape == (3, 0)
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.softmax(np.array(1, "f"))
    with pytest.raises(ValueError, match=r"the y has shape \(3, 3\), needed is \(2, 3\)"):
        kernels.softmax_backward(x[:2], x)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("affine", ["both", "weight", "bias", "none"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((4, 9), 1), ((3, 5, 8), 2), ((2, 3, 4), 3), ((9000, 65), 1), ((6, 3000), 1)]
)
def test_layer_norm(
    shape: tuple[int, ...], axes: int, affine: str, dtype: str, kernels: ModuleType, rng: np.random.Generator
) -> None:
    x, g = (2 + rng.standard_normal((2, *shape))).astype(dtype)
    w, b = rng.standard_normal((2, *shape[-axes:])).astype(dtype)
    w, b = w if affine in ("both", "weight") else None, b if affine in ("both", "bias") else None
    last = tuple(range(-axes, 0))
    wide = x.astype("d")
    mean, rstd = wide.mean(last), 1 / np.sqrt(wide.var(last) + 1e-5)
    expand = (..., *(None,) * axes)
    xhat = (wide - mean[expand]) * rstd[expand]
    y, mean_c, rstd_c = kernels.layer_norm(x, w, b, 1e-5, axes)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == "f" else {"rtol": 1e-11, "atol": 1e-11}
    np.testing.assert_allclose(y, xhat * (1 if w is None else w) + (0 if b is None else b), **tolerance)
    np.testing.assert_allclose(mean_c, mean, **tolerance)
    np.testing.assert_allclose(rstd_c, rstd, **tolerance)
    h = g * (1 if w is None else w.astype("d"))
    gx = rstd[expand] * (h - h.mean(last, keepdims=True) - xhat * (h * xhat).mean(last, keepdims=True))
    first = tuple(range(x.ndim - axes))
    gx_c, gw_c, gb_c = kernels.layer_norm_backward(g, x, mean_c, rstd_c, w)
    np.testing.assert_allclose(gx_c, gx, **tolerance)
    sums = {"rtol": 1e-4, "atol": 1e-3} if dtype == "f" else {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(gw_c, (g * xhat).sum(first), **sums)
    np.testing.assert_allclose(gb_c, g.astype("d").sum(first), **sums)
    kernels.set_num_threads(3)
    for one, three in zip((gx_c, gw_c, gb_c), kernels.layer_norm_backward(g, x, mean_c, rstd_c, w), strict=True):
        assert one.tobytes() == three.tobytes()


def test_layer_norm_refusals(kernels: ModuleType) -> None:
    x = np.ones((2, 3), "f")
    with pytest.raises(ValueError, match=r"the weight has shape \(2,\), needed is \(3,\)"):
        kernels.layer_norm(x, np.ones(2, "f"), None, 1e-5)
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.layer_norm(x, None, None, 1e-5, 3)
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.layer_norm(x, np.ones(3), None, 1e-5)
    y, mean, rstd = kernels.layer_norm(np.ones((0, 3), "f"), None, None, 1e-5)
    assert (y.shape, mean.shape) == ((0, 3), (0,))
    assert [a.shape for a in kernels.layer_norm_backward(y, y, mean, rstd, None)] == [(0, 3), (3,), (3,)]


def cross_entropy(x: Array, target: Array, weight: Array | None, ignore: int, smoothing: float) -> Array:
    rows = -np.log(softmax(x))
    classes = x.shape[-1]
    w = np.ones(classes) if weight is None else weight.astype("d")
    safe = np.where(target == ignore, 0, target)
    picked = np.take_along_axis(rows, safe[..., None], -1)[..., 0] * w[safe]
    return np.where(target == ignore, 0, (1 - smoothing) * picked + smoothing / classes * (rows * w).sum(-1))


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(1, 2), (64, 10), (5, 3, 7), (300, 1000), (4,)])
def test_cross_entropy(
    shape: tuple[int, ...], weighted: bool, smoothing: float, dtype: str, kernels: ModuleType, rng: np.random.Generator
) -> None:
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    classes = shape[-1]
    target = np.asarray(rng.integers(0, classes, shape[:-1]))
    if target.size > 3:
        target.flat[::4] = -100
    weight = rng.uniform(0.5, 2, classes).astype(dtype) if weighted else None
    wide = x.astype("d")
    loss, lse = kernels.cross_entropy(x, target, weight, -100, smoothing)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == "f" else {"rtol": 1e-11, "atol": 1e-11}
    np.testing.assert_allclose(loss, cross_entropy(wide, target, weight, -100, smoothing), **tolerance)
    np.testing.assert_allclose(lse, np.log(np.exp(wide).sum(-1)), **tolerance)
    g = np.asarray(rng.standard_normal(target.shape)).astype(dtype)
    gx = kernels.cross_entropy_backward(g, x, lse, target, weight, -100, smoothing)
    h = 1e-5
    for _ in range(20):
        at = tuple(int(rng.integers(0, n)) for n in shape)
        up, down = wide.copy(), wide.copy()
        up[at] += h
        down[at] -= h
        difference = (
            cross_entropy(up, target, weight, -100, smoothing) - cross_entropy(down, target, weight, -100, smoothing)
        ) * g
        np.testing.assert_allclose(gx[at], difference.sum() / (2 * h), rtol=1e-3, atol=1e-5)


def test_cross_entropy_refusals(kernels: ModuleType) -> None:
    x = np.zeros((3, 5), "f")
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        kernels.cross_entropy(x, np.array([0, 7, 1]))
    with pytest.raises(IndexError, match="Target -1 is out of bounds"):
        kernels.cross_entropy_backward(x[:, 0], x, x[:, 0], np.array([0, 4, -1]))
    with pytest.raises(ValueError, match=r"the target has shape \(2,\), needed is \(3,\)"):
        kernels.cross_entropy(x, np.array([0, 1]))
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.cross_entropy(x, np.zeros(3))
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.cross_entropy(x, np.zeros(3, np.int64), None, -100, 1.5)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (0,), (70, 50), (3000,)])
def test_embedding(shape: tuple[int, ...], dtype: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    table = rng.standard_normal((11, 130)).astype(dtype)
    index = np.asarray(rng.integers(0, 11, shape))
    np.testing.assert_array_equal(kernels.embedding(table, index), table[index])
    g = rng.standard_normal((*shape, 130)).astype(dtype)
    for padding in (None, 3):
        expected = np.zeros(table.shape)
        np.add.at(expected, index, g)
        if padding is not None:
            expected[padding] = 0
        seen = set()
        for threads in (1, 3):
            kernels.set_num_threads(threads)
            result = kernels.embedding_backward(g, index, 11, padding)
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
            seen.add(result.tobytes())
        assert len(seen) == 1
    with pytest.raises(IndexError, match="index out of range in self"):
        kernels.embedding(table, np.array([0, 11]))
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.embedding(table[0], index)
