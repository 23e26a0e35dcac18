"""LU factors of every shape: what they multiply to, what they solve, their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

L = core.linalg
SHAPES = [(3, 3), (4, 2), (5, 3), (2, 4), (2, 3, 3), (2, 4, 3), (1, 1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_factors(shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).normal(size=shape)
    t = core.tensor(a, requires_grad=True)
    for parts in (L.lu(t), core.lu_unpack(*L.lu_factor(t)), core.lu_unpack(*core.lu(t)),
                  core.lu_unpack(*core.lu(t, get_infos=True)[:2])):  # fmt: skip
        p, low, up = (x.detach().numpy() for x in parts)
        np.testing.assert_allclose(p @ low @ up, a, atol=1e-12)
        np.testing.assert_array_equal(low, np.tril(low))
        np.testing.assert_array_equal(np.diagonal(low, axis1=-2, axis2=-1), 1.0)
        np.testing.assert_array_equal(up, np.triu(up))
        assert (np.abs(low) <= 1).all()
    weight = [core.tensor(np.random.default_rng(k).normal(size=x.shape)) for k, x in enumerate(L.lu(t))]
    core.autograd.gradcheck(lambda x: sum((w * y).sum() for w, y in zip(weight[1:], L.lu(x)[1:], strict=True)), t)
    bare = core.lu_unpack(*L.lu_factor(t), unpack_data=False)
    assert (bare.L.numel(), bare.U.numel(), bare.P.shape) == (0, 0, (*shape[:-1], shape[-2]))
    assert core.lu_unpack(*L.lu_factor(t), unpack_pivots=False).P.numel() == 0


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("complex_", [True, False])
def test_solutions(left: bool, adjoint: bool, complex_: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 2) if left else (2, 2, 3))
    if complex_:
        a, b = a + 1j * rng.normal(size=a.shape), b + 1j * rng.normal(size=b.shape)
    of = np.conj(a.swapaxes(-1, -2)) if adjoint else a
    want = np.linalg.solve(of, b) if left else b @ np.linalg.inv(of)
    got = L.lu_solve(*L.lu_factor(core.tensor(a)), core.tensor(b), left=left, adjoint=adjoint)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    if left and not adjoint:
        np.testing.assert_allclose(
            core.lu_solve(core.tensor(b), *L.lu_factor(core.tensor(a))).numpy(), want, atol=1e-12
        )


def test_what_has_no_factors() -> None:
    singular = core.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert L.lu_factor_ex(singular).info.item() == 2
    assert core.lu(singular, get_infos=True)[2].item() == 2
    with pytest.raises(L.LinAlgError if hasattr(L, "LinAlgError") else RuntimeError, match=r"U\[2,2\] is zero"):
        L.lu_factor_ex(singular, check_errors=True)
    with pytest.raises(RuntimeError, match="LU without pivoting is not implemented"):
        L.lu_factor(singular, pivot=False)
    assert L.lu_factor_ex(core.eye(2), check_errors=True).info.item() == 0


@pytest.mark.parametrize(("m", "n", "k"), [(4, 3, 3), (4, 3, 2), (3, 3, 3), (4, 2, 1)])
def test_products_of_reflections(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, tau = rng.normal(size=(2, m, n)), rng.normal(size=(2, k))
    want = np.zeros((2, m, n))
    for batch in range(2):
        q = np.eye(m)
        for i in range(k):
            v = np.r_[np.zeros(i), 1.0, a[batch, i + 1 :, i]]
            q = q @ (np.eye(m) - tau[batch, i] * np.outer(v, v))
        want[batch] = q[:, :n]
    np.testing.assert_allclose(L.householder_product(core.tensor(a), core.tensor(tau)).numpy(), want, atol=1e-12)


@pytest.mark.parametrize(("shape", "k"), [((2, 3), 2), ((3, 2), 3)])
def test_reflections_that_do_not_fit(shape: Any, k: int) -> None:
    with pytest.raises(RuntimeError, match="must be greater than or equal"):
        L.householder_product(core.ones(shape), core.ones(k))
