"""Norms, conditions, powers and exponentials of matrices against NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core

L = core.linalg
INF = math.inf
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4, 3))
Z = X + 1j * RNG.normal(size=X.shape)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [(-2, -1), (0, 2), (2, 0), (3, 1), (1, -1)])
@pytest.mark.parametrize("ord", ["fro", "nuc", 2, -2, 1, -1, INF, -INF])
@pytest.mark.parametrize("x", [X, Z], ids=["real", "complex"])
def test_norms_of_matrices(x: Any, ord: Any, dim: Any, keepdim: bool) -> None:
    want = np.linalg.norm(x, ord, dim, keepdim)
    for norm in (L.matrix_norm, L.norm):
        got = norm(core.tensor(x), ord, dim, keepdim)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, 0, -1, (1, 3), (0, 1, 2)])
@pytest.mark.parametrize("ord", [2, 0, 1, 3.5, -1, -2, INF, -INF])
@pytest.mark.parametrize("x", [X, Z], ids=["real", "complex"])
def test_norms_of_vectors(x: Any, ord: Any, dim: Any, keepdim: bool) -> None:
    axes = tuple(range(4)) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    size = np.abs(x)
    if ord == 0:
        want = (size != 0).sum(axes, keepdims=keepdim)
    elif abs(ord) == INF:
        want = (size.max if ord > 0 else size.min)(axes, keepdims=keepdim)
    else:
        want = (size**ord).sum(axes, keepdims=keepdim) ** (1 / ord)
    got = L.vector_norm(core.tensor(x), ord, dim, keepdim)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    assert not got.is_complex()
    if isinstance(dim, int):
        np.testing.assert_allclose(L.norm(core.tensor(x), ord, dim, keepdim).numpy(), want, rtol=1e-12)


def test_the_norm_of_everything() -> None:
    for x in (X, X[0, 0], X[0, 0, 0]):
        assert L.norm(core.tensor(x)).item() == pytest.approx(np.sqrt((x**2).sum()))
    for x, ord in ((X[0, 0], 1), (X[0, 0], "nuc"), (X[0, 0, 0], 1)):
        assert L.norm(core.tensor(x), ord).item() == pytest.approx(np.linalg.norm(x, ord))
    assert L.norm(core.ones(2), dtype=core.float64).dtype is core.float64
    assert L.matrix_norm(core.ones(2, 2), dtype=core.float64).dtype is core.float64


WRONG = [
    (lambda: L.norm(core.ones(2, 2, 2), 2), "If dim is not specified but ord is"),
    (lambda: L.norm(core.ones(2), "fro"), "If ord is a str"),
    (lambda: L.norm(core.ones(2).long()), "Expected a floating point or complex"),
    (lambda: L.vector_norm(core.ones(0), -1), "cannot compute the -1 norm on an empty"),
    (lambda: L.vector_norm(core.ones(2, 0), -INF, 1), "cannot compute the -inf norm on an empty"),
    (lambda: L.matrix_norm(core.ones(2)), "at least 2 dimensions"),
    (lambda: L.matrix_norm(core.ones(2, 2), dim=(0,)), "must be a 2-tuple"),
    (lambda: L.matrix_norm(core.ones(2, 2), dim=(1, -1)), r"must be different. Got \(1, 1\)"),
    (lambda: L.matrix_norm(core.ones(2, 2), 3), "Order 3 not supported"),
    (lambda: L.matrix_norm(core.ones(2, 2), "max"), "Order max not supported"),
    (lambda: L.cond(core.eye(2), 3), "invalid norm type: 3"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_is_no_norm(call: Any, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        call()


@pytest.mark.parametrize("p", [None, 2, -2, "fro", "nuc", 1, -1, INF, -INF])
def test_conditions(p: Any) -> None:
    a = RNG.normal(size=(2, 3, 3)) + 2 * np.eye(3)
    np.testing.assert_allclose(L.cond(core.tensor(a), p).numpy(), np.linalg.cond(a, p), rtol=1e-12)
    both = core.tensor([[[1.0, 1.0], [1.0, 1.0]], [[4.0, 0.0], [0.0, 2.0]]], dtype=core.float64)
    got = L.cond(both, p)  # of a singular matrix, beside another
    assert got[1].item() == pytest.approx(np.linalg.cond(both[1].numpy(), p))
    assert got[0].item() < 1e-12 if p == -2 else got[0].item() > 1e12
    if p not in (None, 2, -2, "nuc"):
        assert got[0].item() == INF


def test_conditions_of_what_is_not_square() -> None:
    for p in (None, 2, -2):
        assert L.cond(core.tensor(X[0, 0]), p).item() == pytest.approx(np.linalg.cond(X[0, 0], p))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 6, -1, -3])
def test_powers(n: int) -> None:
    a = RNG.normal(size=(2, 3, 3)) + 2 * np.eye(3)
    t = core.tensor(a)
    got = L.matrix_power(t, n)
    np.testing.assert_allclose(got.numpy(), np.linalg.matrix_power(a, n), atol=1e-9)
    got.fill_(0.0)
    np.testing.assert_array_equal(t.numpy(), a)  # never the matrix itself


@pytest.mark.parametrize("size", [1e-3, 1.0, 5.3, 5.5, 40.0])
def test_the_exponential_of_every_size(size: float) -> None:
    """By the eigenvalues of a symmetric matrix, whose sums of columns are of this size."""
    a = np.array([[0.5, 0.2, -0.1], [0.2, -0.3, 0.4], [-0.1, 0.4, 0.25]])
    a *= size / np.abs(a).sum(0).max()
    values, vectors = np.linalg.eigh(a)
    want = vectors * np.exp(values) @ vectors.T
    got = L.matrix_exp(core.tensor(np.stack([a, 0 * a])))
    np.testing.assert_allclose(got[0].numpy(), want, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(got[1].numpy(), np.eye(3), atol=1e-14)


def test_the_exponential_of_nothing_and_of_no_number() -> None:
    assert L.matrix_exp(core.zeros(2, 0, 0)).shape == (2, 0, 0)
    assert L.matrix_exp(core.tensor([[INF, 0.0], [0.0, 1.0]])).isnan().all()
    assert L.matrix_exp(core.zeros(2, 2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
