"""Kernels over an axis that is not the last, running figures, selections and places: equal to NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core
from core.nn import functional as F

RNG = np.random.default_rng(5)
SHAPES = [(3, 5, 7), (2, 70, 130), (1, 300, 2), (4, 1, 3), (9, 0, 2), (2, 3, 0)]


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def softmax(a: np.ndarray, dim: int) -> np.ndarray:
    wide = a.astype(np.float64)
    e = np.exp(wide - wide.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s])
def test_softmax_over_any_dim(shape: tuple[int, ...], dtype: Any) -> None:
    for dim in range(3):
        for a in (normal(*shape, dtype=dtype), normal(*shape[::-1], dtype=dtype).T):
            x = core.tensor(a).requires_grad_()
            g = normal(*a.shape, dtype=dtype)
            y = F.softmax(x, dim)
            y.backward(core.tensor(g))
            p = softmax(a, dim)
            np.testing.assert_allclose(y.detach().numpy(), p, rtol=2e-6, atol=1e-7)
            np.testing.assert_allclose(x.grad.numpy(), p * (g - (g * p).sum(dim, keepdims=True)), rtol=1e-4, atol=1e-6)
            x.grad = None
            y = F.log_softmax(x, dim)
            y.backward(core.tensor(g))
            np.testing.assert_allclose(y.detach().numpy(), np.log(p), rtol=2e-6, atol=2e-6)
            np.testing.assert_allclose(x.grad.numpy(), g - p * g.sum(dim, keepdims=True), rtol=1e-4, atol=2e-5)


def test_softmax_of_edges_is_the_same_along_columns_and_rows() -> None:
    a = normal(6, 9)
    a[1, 2], a[3, 4], a[:, 5], a[2, 6], a[4, 7] = np.nan, np.inf, -np.inf, -np.inf, 3e38
    for f in (F.softmax, F.log_softmax):
        along, across = f(core.tensor(a), 0).numpy(), f(core.tensor(np.ascontiguousarray(a.T)), 1).numpy().T
        np.testing.assert_allclose(along, across, rtol=1e-6)
    assert F.softmax(core.zeros(0, 3), 0).shape == (0, 3)
    assert F.softmax(core.zeros(3, 0), 0).shape == (3, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_running_figures(shape: tuple[int, ...], dtype: Any) -> None:
    a = (1 + 0.05 * normal(*shape, dtype=np.float64) if dtype != np.int64 else RNG.integers(-9, 9, shape)).astype(dtype)
    for dim in range(3):
        x = core.tensor(a)
        np.testing.assert_allclose(x.cumsum(dim).numpy(), a.cumsum(dim), rtol=1e-5)
        np.testing.assert_allclose(x.cumprod(dim).numpy(), a.cumprod(dim), rtol=1e-4)
        for name, f in (("cummax", np.maximum), ("cummin", np.minimum)):
            values, indices = getattr(core, name)(x, dim)
            np.testing.assert_array_equal(values.numpy(), f.accumulate(a, dim))
            if a.size:
                np.testing.assert_array_equal(np.take_along_axis(a, indices.numpy(), dim), values.numpy())


def test_running_extremes_take_the_last_of_equals_and_nan_beyond_all() -> None:
    a = np.float32([[1, 3, 3, 2, np.nan, 5, np.nan], [2, 1, 2, 0, -0.0, 2, 1]])
    for dim, x in ((1, a), (0, np.ascontiguousarray(a.T))):
        values, indices = core.cummax(core.tensor(x), dim)
        found = indices.numpy() if dim else indices.numpy().T
        np.testing.assert_array_equal(found, [[0, 1, 2, 2, 4, 4, 6], [0, 0, 2, 2, 2, 5, 5]])
        assert np.isnan(values.numpy() if dim else values.numpy().T)[0, 4:].all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("n", [1, 24, 64, 65, 1000, 5000])
def test_selections(n: int, dtype: Any) -> None:
    for a in (
        RNG.standard_normal((3, n)) * 1e3,
        RNG.integers(-3, 3, (3, n)),
        np.full((3, n), 2.5),
        np.sort(RNG.standard_normal((3, n))),
    ):
        a = a.astype(dtype)
        order = np.argsort(a, 1, kind="stable")
        for k in {1, 2, n // 3 + 1, n}:
            if k > n:
                continue
            for dim, x in ((1, a), (0, np.ascontiguousarray(a.T))):
                values, indices = core.kthvalue(core.tensor(x), k, dim)
                np.testing.assert_array_equal(indices.numpy(), order[:, k - 1])
                np.testing.assert_array_equal(values.numpy(), a[np.arange(3), order[:, k - 1]])
        at = order[:, (n - 1) // 2]
        np.testing.assert_array_equal(core.median(core.tensor(a), 1).indices.numpy(), at)
        assert core.median(core.tensor(a)).item() == np.sort(a.reshape(-1))[(3 * n - 1) // 2]
        k = min(5, n)
        for largest in (True, False):
            values, indices = core.topk(core.tensor(a), k, 1, largest=largest)
            right = np.sort(a, 1)[:, ::-1][:, :k] if largest else np.sort(a, 1)[:, :k]
            np.testing.assert_array_equal(values.numpy(), right)
            np.testing.assert_array_equal(np.take_along_axis(a, indices.numpy(), 1), right)


def test_selections_with_nan_and_both_zeros() -> None:
    a = RNG.standard_normal(300).astype(np.float32)
    a[[7, 200]] = np.nan
    x = core.tensor(a)
    assert core.median(x, 0).indices == 7
    assert math.isnan(core.median(x, 0).values)
    assert math.isnan(core.median(x))
    assert core.nanmedian(x).item() == np.sort(a)[297 // 2]
    assert math.isnan(core.kthvalue(x, 299).values)
    assert core.kthvalue(x, 299).indices == 7
    assert core.kthvalue(x, 298).values.item() == np.nanmax(a)
    assert core.topk(x, 3).indices.tolist()[:2] == [7, 200]
    zeros = np.where(np.arange(100) % 2, 0.0, -0.0).astype(np.float32)
    assert core.kthvalue(core.tensor(zeros), 1).indices == 0
    assert core.median(core.tensor(np.full(70, np.nan, np.float32)), 0).indices == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 31, 32, 33, 1000])
def test_places_in_an_order(n: int, dtype: Any) -> None:
    edges = np.sort(RNG.integers(-50, 50, n)).astype(dtype)
    values = RNG.integers(-60, 60, (7, 41)).astype(dtype)
    if dtype != np.int64:
        values[0, :3] = [np.nan, np.inf, -np.inf]
        edges[max(n - 2, 0) :] = np.nan
    for side in ("left", "right"):
        y = core.searchsorted(core.tensor(edges), core.tensor(values), right=side == "right")
        np.testing.assert_array_equal(y.numpy(), np.searchsorted(edges, values, side=side))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_products(dtype: Any) -> None:
    for shape, dim in (((5, 3), 1), ((3, 40), 0), ((2, 3, 17), 1), ((3,), 0), ((0, 3), 1)):
        a, b = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
        y = core.linalg.cross(core.tensor(a), core.tensor(b), dim=dim)
        right = np.cross(a.astype(np.float64), b.astype(np.float64), axis=dim)
        np.testing.assert_allclose(y.numpy(), right, rtol=1e-4, atol=1e-6)
        assert not core.linalg.cross(core.tensor(a), core.tensor(a), dim=dim).any()


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), ((1, 2, 3), (2, 1, 1), (0, 1, 1)), (3, 1, 0)]
)
def test_pools_of_volumes(kernel: Any, stride: Any, padding: Any) -> None:
    torch = pytest.importorskip("torch")
    a = normal(2, 3, 5, 6, 7)
    a[0, 0, 1, 2, 3], a[1, 1] = np.nan, -np.inf
    for name in ("max_pool3d", "avg_pool3d"):
        given = np.nan_to_num(a, neginf=-3) if name == "avg_pool3d" else a
        x, other = core.tensor(given).requires_grad_(), torch.from_numpy(given.copy()).requires_grad_()
        y = getattr(F, name)(x, kernel, stride, padding)
        right = getattr(torch.nn.functional, name)(other, kernel, stride, padding)
        np.testing.assert_allclose(y.detach().numpy(), right.detach().numpy(), rtol=1e-5, atol=1e-6)
        y.sum().backward()
        right.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy(), rtol=1e-5, atol=1e-6)
    _, places = F.max_pool3d(core.tensor(a), kernel, stride, padding, return_indices=True)
    _, others = torch.nn.functional.max_pool3d(torch.from_numpy(a), kernel, stride, padding, return_indices=True)
    np.testing.assert_array_equal(places.numpy()[0], others.numpy()[0])


def test_items_that_meet_are_reduced() -> None:
    torch = pytest.importorskip("torch")
    x, src, index = normal(6, 5), normal(4, 5), RNG.integers(0, 6, (4, 5))
    src[0, 0] = np.nan
    for how in ("amax", "amin", "prod", "sum"):
        y = core.tensor(x).scatter_reduce(0, core.tensor(index), core.tensor(src), how)
        right = torch.from_numpy(x).scatter_reduce(0, torch.from_numpy(index), torch.from_numpy(src), how)
        np.testing.assert_allclose(y.numpy(), right.numpy(), rtol=1e-6)


def test_flipped_and_turned_copies() -> None:
    for dtype in (np.float32, np.float64, np.int8, np.complex128):
        a = RNG.integers(0, 100, (3, 37, 41)).astype(dtype)
        for dims in ([2], [1], [0, 2], [0, 1, 2]):
            np.testing.assert_array_equal(core.flip(core.tensor(a), dims).numpy(), np.flip(a, dims))
        for k in range(1, 4):
            np.testing.assert_array_equal(
                core.rot90(core.tensor(a), k, (1, 2)).contiguous().numpy(), np.rot90(a, k, (1, 2))
            )


def test_gamma_functions() -> None:
    torch = pytest.importorskip("torch")
    x = np.concatenate([RNG.uniform(0, 20, 2000), RNG.uniform(-10, 0, 2000), 10 ** RNG.uniform(-30, 30, 2000),
                        [0.0, -0.0, 1, 2, np.inf, np.nan, -1.5]]).astype(np.float32)  # fmt: skip
    for name, f, other in (("lgamma", core.lgamma, torch.lgamma), ("digamma", core.digamma, torch.digamma),
                           ("trigamma", lambda t: core.polygamma(1, t), lambda t: torch.polygamma(1, t))):  # fmt: skip
        y, right = f(core.tensor(x)).numpy(), other(torch.from_numpy(x).double()).numpy()
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(y, right.astype(np.float32), rtol=3e-7, atol=1e-37, err_msg=name)
