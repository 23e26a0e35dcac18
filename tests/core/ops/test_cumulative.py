"""Running products, extremes and log-sums, differences and integrals against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.ops.ordering import running

X = np.random.default_rng(0).uniform(-2, 2, (3, 5))


def test_cumprod_with_zeros_has_the_gradient_of_the_formula() -> None:
    x = core.tensor([2.0, 0.0, 3.0], requires_grad=True)
    core.cumprod(x, 0).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0 + 6.0, 0.0]


def test_cummax_takes_the_last_of_equals_and_keeps_nan() -> None:
    values, indices = core.cummax(core.tensor([1.0, 3.0, 3.0, 2.0]), 0)
    assert (values.tolist(), indices.tolist()) == ([1, 3, 3, 3], [0, 1, 2, 2])
    values, indices = core.cummin(core.tensor([1.0, float("nan"), 0.0]), 0)
    assert np.isnan(values.numpy()).tolist() == [False, True, True]
    assert indices.tolist() == [0, 1, 1]


def test_logcumsumexp_does_not_overflow() -> None:
    x = core.tensor([1000.0, 1000.0, -1000.0], dtype=core.float64, requires_grad=True)
    y = core.logcumsumexp(x, 0)
    np.testing.assert_allclose(y.detach().numpy(), [1000, 1000 + np.log(2), 1000 + np.log(2)], rtol=1e-6)
    y[-1].backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.5, 0.5, 0.0], rtol=1e-12)


@pytest.mark.parametrize("name", ["maximum", "minimum", "logaddexp"])
def test_running_by_doubling_is_accumulate(name: str) -> None:
    class Other:
        """A library without `ufunc.accumulate`."""

        def __getattr__(self, n: str) -> object:
            return getattr(np, n)

    got = running(Other(), name, X, 1)
    np.testing.assert_allclose(got, getattr(np, name).accumulate(X, axis=1), rtol=1e-13)


def test_diff_is_numpys() -> None:
    np.testing.assert_array_equal(core.diff(core.tensor(X), 2, 0).numpy(), np.diff(X, 2, 0))
    got = core.diff(core.tensor(X), prepend=core.zeros(3, 1, dtype=core.float64))
    np.testing.assert_array_equal(got.numpy(), np.diff(X, prepend=np.zeros((3, 1))))
    assert core.diff(core.tensor([True, False, False])).tolist() == [True, False]
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        core.diff(core.tensor(1.0))


def test_trapezoids_are_numpys() -> None:
    at = np.sort(np.random.default_rng(1).uniform(0, 3, 5))
    np.testing.assert_allclose(core.trapezoid(core.tensor(X), core.tensor(at)).numpy(), np.trapezoid(X, at))
    got = core.cumulative_trapezoid(core.tensor(X), dx=0.5, dim=0).numpy()
    np.testing.assert_allclose(got[-1], np.trapezoid(X, dx=0.5, axis=0))


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_is_numpys(edge_order: int) -> None:
    at = np.array([0.0, 0.5, 2.0, 3.0, 3.5])
    got = core.gradient(core.tensor(X), spacing=(core.tensor(at),), dim=1, edge_order=edge_order)
    np.testing.assert_allclose(got[0].numpy(), np.gradient(X, at, axis=1, edge_order=edge_order), rtol=1e-12)
    for g, w in zip(core.gradient(core.tensor(X), spacing=0.3), np.gradient(X, 0.3), strict=True):
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-12)


def test_diff_of_order_0_is_the_input_alone() -> None:
    x = core.tensor(X)
    assert core.diff(x, 0, 0, core.zeros(1, 5, dtype=core.float64)).tolist() == X.tolist()


def test_gradient_takes_no_spacing_complex_numbers_and_no_dimension_twice() -> None:
    np.testing.assert_allclose(core.gradient(core.tensor(X), spacing=None)[1].numpy(), np.gradient(X, axis=1))
    z = X + 1j * X[::-1]
    np.testing.assert_allclose(core.gradient(core.tensor(z), dim=1)[0].numpy(), np.gradient(z, axis=1))
    with pytest.raises(RuntimeError, match="dim 1 appears multiple times"):
        core.gradient(core.tensor(X), dim=(1, -1))
