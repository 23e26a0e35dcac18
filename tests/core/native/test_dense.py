"""Decompositions of small matrices in C beside NumPy's: sizes up to where LAPACK takes over, and what is left to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import native

pytestmark = pytest.mark.skipif(native.module is None, reason="the kernels are in the extension")
SIZES = (1, 2, 5, 16, 33, 64, 70)
CLOSE = {"float32": 3e-4, "float64": 1e-10}


def square(n: int, dtype: str) -> Any:
    a = np.random.default_rng(n).standard_normal((2, n, n)) / n**0.5 + 2 * np.eye(n)
    return a.astype(dtype)


def definite(n: int, dtype: str) -> Any:
    a = square(n, "float64")
    return (a @ a.swapaxes(-1, -2) / 4 + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("n", SIZES)
def test_factors_give_the_matrix(n: int, dtype: str) -> None:
    a, p = square(n, dtype), definite(n, dtype)
    wide = np.concatenate([a, a], -1)[..., : n + 3]
    near = {"rtol": CLOSE[dtype], "atol": CLOSE[dtype]}
    low = core.linalg.cholesky(core.from_numpy(p)).numpy()
    np.testing.assert_allclose(low @ low.swapaxes(-1, -2), p, **near)
    q, r = (t.numpy() for t in core.linalg.qr(core.from_numpy(a)))
    np.testing.assert_allclose(q @ r, a, **near)
    np.testing.assert_allclose(r, np.linalg.qr(a)[1], **near)  # the signs are LAPACK's
    values, vectors = (t.numpy() for t in core.linalg.eigh(core.from_numpy(p)))
    np.testing.assert_allclose((vectors * values[:, None]) @ vectors.swapaxes(-1, -2), p, **near)
    assert (np.diff(values) >= -CLOSE[dtype]).all()
    for x in (a, wide, wide.swapaxes(-1, -2)):
        u, s, vh = (t.numpy() for t in core.linalg.svd(core.from_numpy(x.copy()), full_matrices=False))
        np.testing.assert_allclose((u * s[:, None]) @ vh, x, **near)
        np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), **near)
        np.testing.assert_allclose(core.linalg.pinv(core.from_numpy(x.copy())).numpy(), np.linalg.pinv(x), **near)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_triangles_are_solved(n: int, upper: bool) -> None:
    a, b = definite(n, "float64"), np.random.default_rng(0).standard_normal((2, n, 3))
    x = core.linalg.solve_triangular(core.from_numpy(a), core.from_numpy(b), upper=upper).numpy()
    np.testing.assert_allclose((np.triu(a) if upper else np.tril(a)) @ x, b, atol=1e-9)


def test_a_rank_that_is_not_full_is_seen() -> None:
    a = np.outer(np.arange(1.0, 5), np.arange(1.0, 4))
    u, s, vh = (t.numpy() for t in core.linalg.svd(core.from_numpy(a), full_matrices=False))
    np.testing.assert_allclose((u * s) @ vh, a, atol=1e-12)
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-12)  # LAPACK completes the vectors
    np.testing.assert_allclose(core.linalg.pinv(core.from_numpy(a)).numpy(), np.linalg.pinv(a), atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    a = definite(4, "float64")
    a[0, 1, 1] = bad
    with pytest.raises(core.linalg.LinAlgError, match="not positive-definite"):
        core.linalg.cholesky(-core.from_numpy(definite(4, "float64")))
    with pytest.raises(core.linalg.LinAlgError, match="non-finite"):
        core.linalg.svd(core.from_numpy(a))


def test_huge_and_tiny_numbers_keep_their_digits() -> None:
    for scale in (1e-150, 1e150):
        p = definite(6, "float64") * scale
        np.testing.assert_allclose(core.linalg.eigvalsh(core.from_numpy(p)).numpy(), np.linalg.eigvalsh(p), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-80, 1e80, 1e160, 1e300])
@pytest.mark.parametrize("n", [1, 3, 16])
def test_squares_of_what_is_huge_or_tiny(scale: float, n: int) -> None:
    a = square(n, "float64")[0]
    x, same = core.from_numpy(a * scale), np.eye(n)
    q, r = (t.numpy() for t in core.linalg.qr(x))
    np.testing.assert_allclose(q @ (r / scale), a, atol=1e-10)
    np.testing.assert_allclose(q.T @ q, same, atol=1e-10)
    u, s, vh = (t.numpy() for t in core.linalg.svd(x))
    np.testing.assert_allclose((u * (s / scale)) @ vh, a, atol=1e-10)
    np.testing.assert_allclose(vh @ vh.T, same, atol=1e-10)
    np.testing.assert_allclose(core.linalg.pinv(x).numpy() * scale, np.linalg.pinv(a), rtol=1e-8, atol=1e-10)


def test_a_tiny_part_of_an_ordinary_matrix_is_orthogonal_too() -> None:
    a = np.diag([1.0, 0.0, 0.0])
    a[1:, 1:] = 1e-158 * square(2, "float64")[0]
    q, r = (t.numpy() for t in core.linalg.qr(core.from_numpy(a)))
    np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-12)
    np.testing.assert_allclose((q @ r)[1:, 1:] * 1e158, a[1:, 1:] * 1e158, atol=1e-12)
