"""Reductions over any axes of any layout, against float64 NumPy."""

from __future__ import annotations

import itertools
from time import perf_counter_ns
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import core

LAYOUTS = {
    "contiguous": lambda r, s: r(s),
    "transposed": lambda r, s: r(s[::-1]).T,
    "sliced": lambda r, s: r(tuple(2 * n for n in s))[(..., *(slice(None, None, 2) for _ in s))],
    "reversed": lambda r, s: r(s)[(..., *(slice(None, None, -1) for _ in s))],
    "broadcast": lambda r, s: np.broadcast_to(r(s[-1:]), s),
    "rolled": lambda r, s: np.moveaxis(r(s[1:] + s[:1]), -1, 0) if s else r(s),
}
SHAPES = [(), (1,), (9000,), (5, 7), (300, 3), (3, 700), (2, 3, 4), (4, 1, 300, 2), (2, 600, 40)]


def axes_of(ndim: int) -> list[tuple[int, ...]]:
    return [c for k in range(ndim + 1) for c in itertools.combinations(range(ndim), k)]


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_axes_and_layouts(
    shape: tuple[int, ...], layout: str, dtype: str, kernels: ModuleType, rng: np.random.Generator
) -> None:
    x = LAYOUTS[layout](lambda s: rng.standard_normal(s).astype(dtype), shape)
    wide = x.astype(np.float64)
    rtol, atol = (1e-5, 1e-4) if dtype == "f" else (1e-12, 1e-11)
    for axes, keepdims in itertools.product([None, *axes_of(x.ndim)], [False, True]):
        for name in ("sum", "mean"):
            y = getattr(kernels, name)(x, axes, keepdims)
            expected = getattr(np, name)(wide, axis=axes, keepdims=keepdims)
            assert y.dtype == dtype
            assert y.shape == np.shape(expected)
            np.testing.assert_allclose(y, expected, rtol=rtol, atol=atol)
        for name in ("max", "min"):
            np.testing.assert_array_equal(
                getattr(kernels, name)(x, axes, keepdims), getattr(np, name)(x, axis=axes, keepdims=keepdims)
            )
    for axis, keepdims in itertools.product([None, *range(-x.ndim, x.ndim)], [False, True]):
        for name in ("argmax", "argmin"):
            y = getattr(kernels, name)(x, axis, keepdims)
            assert y.dtype == np.int64
            np.testing.assert_array_equal(y, getattr(np, name)(x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("shape", [(1_000_000,), (3, 200_000), (100_000, 3), (2000, 700), (50, 300, 60)])
def test_the_error_stays_small_and_threads_do_not_change_a_bit(
    shape: tuple[int, ...], kernels: ModuleType, rng: np.random.Generator
) -> None:
    x = rng.uniform(0, 1, shape).astype("f")
    for axis in (None, *range(x.ndim)):
        kernels.set_num_threads(1)
        one = kernels.sum(x, axis)
        exact = x.astype("d").sum(axis)
        assert np.abs(one / exact - 1).max() < 1e-6
        for threads in (2, 5):
            kernels.set_num_threads(threads)
            assert kernels.sum(x, axis).tobytes() == one.tobytes()
        np.testing.assert_array_equal(kernels.max(x, axis), x.max(axis))


def test_nothing_to_reduce(kernels: ModuleType) -> None:
    x = np.empty((0, 3), "f")
    np.testing.assert_array_equal(kernels.sum(x, 0), [0, 0, 0])
    np.testing.assert_array_equal(kernels.mean(x, 0), [np.nan] * 3)
    assert kernels.sum(x, 1).shape == (0,)
    with pytest.raises(TypeError, match="leaves this call"):  # the reference gives what has no items
        kernels.max(x, 1)
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.argmax(x, 1)
    assert core.from_numpy(x).amax(1).shape == core.from_numpy(x).argmax(1).shape == (0,)
    assert np.isnan(kernels.mean(x))
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.max(x, 0)
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.argmin(x, 0)


def test_refusals(kernels: ModuleType) -> None:
    x = np.ones((2, 3), "f")
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.sum(x, (0, 2))
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.mean(np.ones(3, np.int64))
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.entry("mean", [1.0], (0,), False)
    with pytest.raises(TypeError, match="leaves this call"):
        kernels.argmax(x, (0, 1))


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(50,), (5000,), (600, 5), (5, 600)])
def test_nan_wins(shape: tuple[int, ...], dtype: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(dtype)
    x.flat[rng.integers(0, x.size, 3)] = np.nan
    x.flat[rng.integers(0, x.size, 3)] = np.inf
    for axis in (None, *range(x.ndim)):
        for name in ("max", "min", "argmax", "argmin"):
            np.testing.assert_array_equal(
                getattr(kernels, name)(x, axis), getattr(np, name)(x, axis=axis), f"{name} {axis}"
            )
    ties = np.round(rng.standard_normal((40, 30))).astype(dtype)
    for axis in (None, 0, 1):
        np.testing.assert_array_equal(kernels.argmax(ties, axis), np.argmax(ties, axis))
    infinite = np.full((3, 20), -np.inf, dtype)
    assert kernels.max(infinite) == -np.inf
    assert kernels.argmax(infinite) == 0


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("size", [1, 7, 4096, 100_001])
def test_stats(size: int, dtype: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    x = (1000 + rng.standard_normal(size) * 10 ** rng.uniform(-3, 1, size)).astype(dtype)
    x[::5] = rng.standard_normal(len(x[::5])) * 1e-9
    if size > 5:
        x[1], x[2:4], x[4:6] = np.nan, 0, [np.inf, -np.inf]
    finite = x[np.isfinite(x)].astype("d")
    results = []
    for threads in (1, 2):
        kernels.set_num_threads(threads)
        results.append(kernels.stats(x))
    assert results[0] == results[1]
    low, high, mean, std, zeros, nonfinite, nan, histogram = results[0]
    assert (low, high) == (finite.min(), finite.max())
    assert (zeros, nonfinite, nan) == ((finite == 0).sum(), size - finite.size, np.isnan(x).sum())
    np.testing.assert_allclose([mean, std], [finite.mean(), finite.std()], rtol=1e-10, atol=1e-12)
    bins = np.clip(np.frexp(finite[finite != 0])[1] - 1 + 40, 0, 63)
    exact = np.bincount(bins, minlength=64)
    if size <= 16384:
        assert histogram == exact.tolist()
    else:  # of evenly spaced items
        np.testing.assert_allclose(histogram, exact, atol=0.02 * size)
        assert sum(histogram) == pytest.approx(exact.sum(), abs=32)


def test_stats_of_nothing_and_of_extremes(kernels: ModuleType) -> None:
    for x in (np.empty(0, "f"), np.array([np.nan, np.inf], "f")):
        low, high, mean, std, zeros, nonfinite, nan, histogram = kernels.stats(x)
        assert np.isnan([low, high, mean, std]).all()
        assert (zeros, nonfinite, nan, sum(histogram)) == (0, x.size, x.size // 2, 0)
    histogram = kernels.stats(np.array([1e-45, 1e-30, 3e38, -1.0, 0.0, -0.0], "f"))[-1]
    assert (histogram[0], histogram[40], histogram[63], sum(histogram)) == (2, 1, 1, 4)
    constant = np.full(100_000, 1e6, "f")
    assert kernels.stats(constant)[3] == 0


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_all_finite(dtype: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    x = rng.standard_normal((700, 600)).astype(dtype)
    assert kernels.all_finite(x) is True
    assert kernels.all_finite(x[:0]) is True
    for at, value in ((0, np.nan), (x.size - 1, np.inf), (12345, -np.inf)):
        bad = x.copy()
        bad.flat[at] = value
        assert kernels.all_finite(bad) is False
        assert kernels.all_finite(bad.T) is False


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 100, 8192, 8193, 100_003])
def test_glance(dtype: str, n: int, kernels: ModuleType, rng: np.random.Generator) -> None:
    x = (rng.standard_normal(n) + 1e4).astype(dtype)
    x[::7] = 0
    low, high, mean, std, zeros = kernels.glance(x)
    assert (low, high) == (x.min(), x.max())
    exact = n <= 8192  # above it the rest is of evenly spaced lines
    assert mean == pytest.approx(x.mean(dtype=np.float64), rel=1e-9 if exact else 0.02)
    assert std == pytest.approx(x.std(dtype=np.float64), rel=1e-6 if exact else 0.05, abs=1e-9)
    assert zeros == pytest.approx((x == 0).mean(), rel=1e-9 if exact else 0.05)
    for bad in (np.nan, np.inf, -np.inf):
        broken = x.copy()
        broken[-1] = bad
        assert kernels.glance(broken) is None
    assert kernels.glance(x[:0]) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_change(dtype: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    before, after = (rng.standard_normal((40, 37)).astype(dtype) for _ in range(2))
    for a, b in ((after, before), (after[::2, :16], before[::2, :16].copy())):
        moved, size = kernels.change(a, b)
        assert moved == pytest.approx(np.linalg.norm((a - b).astype("d")), rel=1e-5)
        assert size == pytest.approx(np.linalg.norm(b.astype("d")), rel=1e-6)
    with pytest.raises(ValueError, match="number of items"):
        kernels.change(after, before[1:])


def test_followed_arrays(kernels: ModuleType) -> None:
    blocks: list[object] = []
    owner = SimpleNamespace(own_ns=0)
    follower = kernels.Follower(blocks, owner, 3)
    a, b = np.ones(4), np.ones(4)
    follower.made("a", a, 1, False)
    follower.made("a again", a, 2, False)
    follower.made("its view", a[1:], 3, False)
    follower.made("nothing", np.empty(0), 4, False)
    follower.made("b", b, 5, True)
    assert [(x.row, x.size, x.born_ns, x.died_ns, x.backward) for x in blocks] == [
        ("a", 32, 1, 0, False), ("b", 32, 5, 0, True)
    ]  # fmt: skip
    assert not follower.was_finite(a)
    follower.found_finite(a)
    assert follower.was_finite(a)
    assert not follower.was_finite(b)
    before = perf_counter_ns()
    del a
    assert before <= blocks[0].died_ns <= perf_counter_ns()
    assert blocks[1].died_ns == 0
    follower.close()
    del b
    assert blocks[1].died_ns == 0
    kept = [np.ones(1) for _ in range(3)]
    for k, array in enumerate(kept):
        follower.made(k, array, 6, False)
    assert len(blocks) == 3


def test_followed_arrays_of_another_library(kernels: ModuleType) -> None:
    class Array:
        """As an array on a GPU is: no array of NumPy's, with `nbytes` and what it views as `base`."""

        def __init__(self, base: object = None) -> None:
            self.nbytes, self.base = 8, base

    blocks: list[object] = []
    follower = kernels.Follower(blocks, SimpleNamespace(own_ns=0), 9)
    whole = Array()
    view = Array(whole)
    for row, array in (("whole", whole), ("its view", view), ("the view's view", Array(view))):
        follower.made(row, array, 1, False)
    assert [block.row for block in blocks] == ["whole"]
    of_one_unknown = Array(np.ones(1))
    follower.made("a view of what is not followed", of_one_unknown, 2, False)
    assert len(blocks) == 2
    follower.close()
