"""Sets and counts against NumPy, and their errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core
from core.base.errors import OpNotDifferentiable
from core.ops import counting

I = np.random.default_rng(0).integers(0, 5, (4, 6))  # noqa: E741
X = np.random.default_rng(1).uniform(-2, 2, (4, 6))


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_unique_is_numpys(dim: int | None) -> None:
    a = I[:, [0, 1, 1, 3]]
    got = core.unique(core.tensor(a), return_inverse=True, return_counts=True, dim=dim)
    want = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.numpy(), w.reshape(tuple(g.shape)))


def test_unique_keeps_every_nan() -> None:
    assert core.unique(core.tensor([float("nan"), 1.0, float("nan")])).numel() == 3


def test_unique_consecutive() -> None:
    x = core.tensor([1, 1, 2, 2, 2, 1])
    values, inverse, counts = core.unique_consecutive(x, return_inverse=True, return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 2, 1], [2, 3, 1])
    assert values[inverse].tolist() == x.tolist()


def test_searchsorted_and_bucketize() -> None:
    edges = np.sort(X[0])
    for right in (False, True):
        want = np.searchsorted(edges, X, side="right" if right else "left")
        assert core.searchsorted(core.tensor(edges), core.tensor(X), right=right).tolist() == want.tolist()
        assert core.bucketize(core.tensor(X), core.tensor(edges), right=right).tolist() == want.tolist()
    rows = np.sort(X)
    got = core.searchsorted(core.tensor(rows), core.tensor(X), out_int32=True)
    assert got.dtype is core.int32
    assert got.tolist() == [np.searchsorted(r, x).tolist() for r, x in zip(rows, X, strict=True)]
    order = np.argsort(X[0])
    assert core.searchsorted(core.tensor(X[0]), 0.0, sorter=core.tensor(order)).item() == (X[0] < 0).sum()


def test_counts() -> None:
    flat = core.tensor(I.reshape(-1))
    assert core.bincount(flat, minlength=9).tolist() == np.bincount(I.reshape(-1), minlength=9).tolist()
    weighted = core.bincount(flat, core.tensor(X.reshape(-1)))
    np.testing.assert_allclose(weighted.numpy(), np.bincount(I.reshape(-1), X.reshape(-1)))
    np.testing.assert_array_equal(core.histc(core.tensor(X), 7, -1, 1).numpy(), np.histogram(X, 7, (-1, 1))[0])
    hist, edges = core.histogram(core.tensor(X), 5, density=True)
    want, want_edges = np.histogram(X, 5, density=True)
    np.testing.assert_allclose(hist.numpy(), want)
    np.testing.assert_allclose(edges.numpy(), want_edges)
    assert core.isin(core.tensor(I), core.tensor([1, 3]), invert=True).tolist() == (~np.isin(I, [1, 3])).tolist()


def test_histograms_of_points() -> None:
    points = X.reshape(-1, 3)
    got = core.histogramdd(core.tensor(points), [2, 3, 2], range=[-2.0, 2.0] * 3)
    want, edges = np.histogramdd(points, [2, 3, 2], range=[(-2, 2)] * 3)
    np.testing.assert_array_equal(got.hist.numpy(), want)
    assert [e.tolist() for e in got.bin_edges] == [e.tolist() for e in edges]
    with pytest.raises(RuntimeError, match="expected 3 sequences of bin edges"):
        core.histogramdd(core.tensor(points), [2, 2])


def test_no_gradient_goes_through_a_count_in_silence() -> None:
    x = core.rand(5, requires_grad=True)
    with pytest.raises(OpNotDifferentiable, match="derivative for histc is not implemented"):
        core.histc(x, 3).sum().backward()


def test_errors_say_what_was_needed() -> None:
    with pytest.raises(RuntimeError, match="1-d non-negative integral"):
        core.bincount(core.tensor([-1]))
    with pytest.raises(NotImplementedError, match="bincount_cpu"):
        core.bincount(core.tensor([1.0]))
    with pytest.raises(RuntimeError, match="same length as input"):
        core.bincount(core.tensor([1, 2]), core.tensor([1.0]))
    with pytest.raises(RuntimeError, match="boundaries tensor must be 1 dimension"):
        core.bucketize(core.zeros(2), core.zeros(2, 2))
    with pytest.raises(RuntimeError, match="can only be 'left' or 'right'"):
        core.searchsorted(core.zeros(2), 1.0, side="middle")
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        core.histc(core.zeros(2), 0)


def test_of_nothing() -> None:
    for shape in ((0, 0), (2, 0), (0, 3)):
        assert core.searchsorted(core.zeros(shape), core.zeros(shape)).shape == shape
    for dim, n in ((0, 1), (1, 0), (2, 1)):
        assert core.unique_consecutive(core.zeros(5, 0, 5), dim=dim).shape[dim] == n
    assert core.histogram(core.zeros(5, 0), 2).bin_edges.tolist() == [0.0, 0.5, 1.0]
    assert core.histogramdd(core.ones(3, 1), [2]).bin_edges[0].tolist() == [0.5, 1.0, 1.5]  # all are the same
    assert [e.tolist() for e in core.histogramdd(core.zeros(0, 2), [1, 2]).bin_edges] == [[0.0, 1.0], [0.0, 0.5, 1.0]]


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_histogramdd_is_numpys(density: bool, weighted: bool) -> None:
    points = np.random.default_rng(2).uniform(-1, 1, (50, 3))
    weights = np.random.default_rng(3).uniform(0, 1, 50) if weighted else None
    edges = [np.array([-1.0, 0.0, 0.5]), np.linspace(-0.5, 1, 4), np.array([-1.0, 1.0])]
    got = core.histogramdd(core.tensor(points), [core.tensor(e) for e in edges], density=density,
                           weight=None if weights is None else core.tensor(weights))  # fmt: skip
    np.testing.assert_allclose(got.hist.numpy(), np.histogramdd(points, edges, weights=weights, density=density)[0])


def test_the_last_bin_of_a_histogram_holds_the_greatest() -> None:
    """By the reference, which other devices run."""
    x = np.array([0.0, 0.4, 0.6, 1.0])
    np.testing.assert_array_equal(counting._histc_forward(np, x, 2, 0.0, 1.0), [2, 2])


@pytest.mark.parametrize("ends", [(0.0, 0.0), (-1.0, 1.0), (-3.0, 0.5)])
@pytest.mark.parametrize("bins", [1, 3, 7])
def test_histc_is_numpys(ends: tuple[float, float], bins: int) -> None:
    """Edges belong to the part that they begin, the last one to the last."""
    x = np.concatenate([X.reshape(-1), [-3.0, -1.0, 1.0, 0.5, 0.0, -2 / 3 + 1, 5.0]])
    given = (x.min(), x.max()) if ends == (0.0, 0.0) else ends
    want = np.histogram(x, bins, given)[0]
    np.testing.assert_array_equal(core.histc(core.tensor(x), bins, *ends).numpy(), want)
    np.testing.assert_array_equal(counting._histc_forward(np, x, bins, *ends), want)
    weights = np.random.default_rng(0).uniform(0, 1, x.size)
    for weight in (None, weights):
        for density in (False, True):
            told = None if weight is None else core.tensor(weight)
            got = core.histogram(core.tensor(x), bins, range=given, weight=told, density=density)
            want = np.histogram(x, bins, given, weights=weight, density=density)[0]
            np.testing.assert_allclose(got.hist.numpy(), want)
            edges = core.tensor(np.linspace(*given, bins + 1))
            np.testing.assert_allclose(core.histogram(core.tensor(x), edges, weight=told, density=density)[0], want)


def test_histc_of_one_value_and_of_what_has_no_range() -> None:
    assert core.histc(core.tensor([2.0, 2.0]), 4).tolist() == [0, 0, 2, 0]
    for low, high in ((0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(RuntimeError):
            core.histc(core.ones(2), 4, low, high)
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        core.histc(core.ones(2), 4, 1, 0)


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("argument", ["return_inverse", "return_counts"])
def test_truths_that_are_none(name: str, argument: str) -> None:
    with pytest.raises(TypeError, match=f"argument '{argument}' .* must be bool, not int"):
        getattr(core, name)(core.ones(2), **{argument: 1})


@pytest.mark.parametrize("dim", [None, 0, 1, -1, 2])
def test_runs_are_those_of_a_walk(dim: int | None) -> None:
    x = np.random.default_rng(4).integers(0, 2, (5, 2, 3))
    x[1] = x[0]
    rows = x.reshape(-1, 1) if dim is None else np.moveaxis(x, dim, 0).reshape(x.shape[dim], -1)
    firsts = [k for k in range(len(rows)) if k == 0 or (rows[k] != rows[k - 1]).any()]
    values, inverse, counts = core.unique_consecutive(core.tensor(x), True, True, dim)
    want = x.reshape(-1)[firsts] if dim is None else np.take(x, firsts, dim)
    np.testing.assert_array_equal(values.numpy(), want)
    places = np.searchsorted(firsts, np.arange(len(rows)), side="right") - 1
    np.testing.assert_array_equal(inverse.numpy().reshape(-1), places)
    np.testing.assert_array_equal(counts.numpy(), np.diff([*firsts, len(rows)]))
    single = core.unique_consecutive(core.tensor(x), dim=dim)
    np.testing.assert_array_equal(single.numpy(), want)
