# ruff: noqa: E501 - the cases are read better in long rows
"""Linear algebra beside PyTorch: values, dtypes, gradients, errors. Every case is one expression, evaluated with each library.

Factors that are unique only up to a sign or a phase are compared through products in which it cancels.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import core

from .test_complex import same

torch = pytest.importorskip("torch")

N = np.random.default_rng(0)


def _matrix(*shape: int) -> Any:
    return 0.5 * N.uniform(-1, 1, shape) + np.eye(shape[-2], shape[-1]) * np.arange(1.0, shape[-1] + 1)


def _positive(*shape: int, imag: bool = False) -> Any:
    a = N.uniform(-1, 1, shape) + (1j * N.uniform(-1, 1, shape) if imag else 0)
    return a @ np.conj(np.swapaxes(a, -1, -2)) + np.diag(np.arange(1.0, shape[-1] + 1))


ARRAYS: dict[str, Any] = {
    "A": _matrix(3, 3), "B": _matrix(2, 3, 3), "C": _matrix(2, 1, 3, 3), "T": _matrix(4, 2), "W": _matrix(2, 4), "TT": _matrix(2, 4, 2),
    "P": _positive(3, 3), "Q": _positive(2, 3, 3), "H": _positive(3, 3, imag=True),
    "Z": _matrix(3, 3) + 1j * N.uniform(-0.5, 0.5, (3, 3)), "ZT": _matrix(4, 2) + 1j * N.uniform(-0.5, 0.5, (4, 2)),
    "b": N.uniform(-1, 1, (3, 2)), "v": N.uniform(-1, 1, 3), "u": N.uniform(-1, 1, 3), "w": N.uniform(-1, 1, 4), "b2": N.uniform(-1, 1, (2, 3, 2)), "b4": N.uniform(-1, 1, (4, 3)),
    "zb": N.uniform(-1, 1, (3, 2)) + 1j * N.uniform(-1, 1, (3, 2)), "zv": N.uniform(-1, 1, 3) + 1j,
    "x": N.uniform(-1, 1, (2, 3, 4)), "y": N.uniform(-1, 1, (4, 3, 2)), "p": N.uniform(-1, 1, (5, 3)), "q": N.uniform(-1, 1, (4, 3)), "tau": N.uniform(0, 1, 2),
    "tens": _matrix(6, 6).reshape(2, 3, 6), "k": N.uniform(0.5, 1.5, (2, 2)), "singular": np.ones((3, 3)), "rank2": np.diag([1.0, 2.0, 0.0]) + np.tri(3) * 0.0,
}  # fmt: skip

CASES = """
L.inv(A) | L.inv(B) | L.inv(Z) | torch.inverse(A) | A.inverse() | L.inv_ex(A)[0] | L.inv_ex(A)[1] | L.pinv(A) | L.pinv(T) | L.pinv(W) | L.pinv(TT) | L.pinv(ZT) | torch.pinverse(T) | L.pinv(T, rtol=0.5) | L.pinv(P, hermitian=True)
L.solve(A, b) | L.solve(A, v) | L.solve(B, b) | L.solve(B, b2) | L.solve(C, b2) | L.solve(A, b.mT, left=False) | L.solve(Z, zb) | L.solve(B, B[..., 0])
L.solve_triangular(A, b, upper=True) | L.solve_triangular(A, b, upper=False) | L.solve_triangular(B, b, upper=True, unitriangular=True) | L.solve_triangular(A, b.mT, upper=False, left=False) | L.solve_triangular(Z, zb, upper=True) | torch.triangular_solve(b, A)[0] | torch.triangular_solve(b, A, transpose=True)[0]
L.cholesky(P) | L.cholesky(Q) | L.cholesky(P, upper=True) | L.cholesky((H + H.mH) / 2) | L.cholesky_ex(P)[0] | L.cholesky_ex(P)[1] | torch.cholesky_solve(b, L.cholesky(P)) | torch.cholesky_inverse(L.cholesky(P)) | P.cholesky() | torch.cholesky(P, upper=True) | torch.cholesky_solve(b, L.cholesky(P, upper=True), upper=True)
L.qr(A)[0] | L.qr(A)[1] | L.qr(T)[0] | L.qr(T)[1] | L.qr(W)[0] | L.qr(W)[1] | L.qr(TT)[1] | L.qr(T, "r")[1].detach() | L.qr(T, "complete")[0].detach().abs() | L.qr(Z)[0] | L.qr(Z)[1] | L.qr(ZT)[1] | torch.qr(A)[0] | A.qr()[1] | L.qr(W, "complete")[1]
L.svd(A).S | L.svd(T).S | L.svdvals(T) | L.svdvals(TT) | L.svdvals(ZT) | L.svd(T, full_matrices=False).U.abs() | L.svd(T, full_matrices=False).Vh.abs() | L.svd(W, full_matrices=False).Vh.abs() | L.svd(A).U[:, 0] @ L.svd(A).Vh[0] | torch.svd(T).S | T.svd().V.abs() | L.svd(TT, full_matrices=False)[0].abs() | L.svd(ZT, False).U.abs() | L.svd(ZT, False).Vh.abs() | (lambda d: d.U @ d.Vh)(L.svd(Z))
L.eigh(P)[0] | L.eigh(P)[1].abs() | L.eigh(Q)[1].abs() | L.eigvalsh(P) | L.eigvalsh(A, UPLO="U") | L.eigvalsh(A) | L.eigh(H)[0] | L.eigh(H)[1].abs() | L.eigvalsh(H) | L.eigh(P).eigenvectors.abs()
L.eigvals(P).real.sort()[0] | L.eigvals(A).abs().sum() | L.eig(A)[1].abs().sum() | (L.eig(A)[1] @ L.eig(A)[0].diag_embed() @ L.inv(L.eig(A)[1])).real | L.eigvals(Z).abs().sum() | L.eig(Z)[1].abs().sum()
L.det(A) | L.det(B) | torch.det(A) | A.det() | L.det(Z) | L.det(singular) | L.det(rank2).detach() | L.slogdet(A)[1] | L.slogdet(-A)[0] | A.slogdet()[1] | L.slogdet(Z)[1] | L.slogdet(Z)[0] | torch.logdet(P) | Q.logdet() | torch.logdet(-A).detach() | torch.slogdet(B)[1]
L.lstsq(T, b4)[0] | L.lstsq(T, b4)[1].detach() | L.lstsq(T, b4)[2] | L.lstsq(T, b4)[3] | L.lstsq(A, b)[0] | L.lstsq(W, T[:2])[0] | L.lstsq(TT, b4)[0] if False else L.lstsq(TT, TT)[0] | L.lstsq(T, b4, driver="gelsd")[3].detach() | L.lstsq(ZT, ZT)[0]
L.matrix_rank(A) | L.matrix_rank(singular) | L.matrix_rank(B) | L.matrix_rank(T, tol=1.5) | L.matrix_rank(T, atol=1.5) | L.matrix_rank(P, hermitian=True) | L.cond(A) | L.cond(A, 1).detach() | L.cond(A, "fro").detach() | L.cond(T) | L.cond(A, -2) | L.cond(B, math.inf).detach() | L.cond(A, "nuc")
L.matrix_power(A, 3) | L.matrix_power(A, 0) | L.matrix_power(A, -2) | L.matrix_power(B, 5) | A.matrix_power(1) | torch.matrix_power(A, 4) | L.matrix_exp(A) | L.matrix_exp(B) | L.matrix_exp(A * 10).log() if False else L.matrix_exp(A * 2) | torch.matrix_exp(A) | A.matrix_exp() | L.matrix_exp(Z)
L.norm(A) | L.norm(v) | L.norm(A, "fro") | L.norm(A, "nuc") | L.norm(A, 2) | L.norm(A, -2) | L.norm(A, 1) | L.norm(A, -1) | L.norm(A, math.inf) | L.norm(A, -math.inf) | L.norm(x, dim=(0, 2)) | L.norm(x, 3, dim=1) | L.norm(v, 0) | L.norm(x, "fro", dim=(1, 2), keepdim=True) | L.norm(v, -2) | L.norm(Z) | L.norm(Z, 1) | L.norm(zv, 3)
L.vector_norm(x) | L.vector_norm(x, 3) | L.vector_norm(x, 1, dim=1) | L.vector_norm(x, math.inf, dim=(0, 1), keepdim=True) | L.vector_norm(zv) | L.vector_norm(x, 0.5) | L.matrix_norm(x) | L.matrix_norm(x, 2) | L.matrix_norm(x, 1, dim=(0, 1)) | L.matrix_norm(x, "nuc", dim=(2, 0), keepdim=True) | L.vector_norm(x.float(), dtype=torch.float64) | L.matrix_norm(x, math.inf, dim=(1, 0), keepdim=True)
L.multi_dot([A, b, b.mT]) | L.multi_dot([v, A, b]) | L.multi_dot([b.mT, A, v]) | L.multi_dot([v, u]) | torch.chain_matmul(A, b, b.mT) | L.vecdot(v, u) | L.vecdot(zv, v + 0j) | L.vecdot(x, x, dim=1) | L.cross(v, u) | L.cross(p, q[:1]) | torch.cross(p, p * p) | torch.cross(p, p + 1, dim=1) | v.cross(u, dim=0) | L.cross(zv, zv * 1j) | L.diagonal(x) | L.diagonal(x, offset=1)
L.lu(A)[0] | L.lu(A)[1] | L.lu(A)[2] | L.lu(T)[1] | L.lu(T)[2] | L.lu(W)[1] | L.lu(W)[2] | L.lu(B)[1] | L.lu_factor(A)[0] | L.lu_factor(B)[1] | L.lu_factor(TT)[0] | L.lu(Z)[1] | L.lu_factor_ex(A)[2] | L.lu_solve(*L.lu_factor(A), b) | L.lu_solve(*L.lu_factor(A), b.mT, left=False) | L.lu_solve(*L.lu_factor(Z), zb, adjoint=True) | torch.lu_solve(b, *L.lu_factor(A)) | torch.lu_unpack(*L.lu_factor(A))[1]
L.householder_product(T, tau) | torch.orgqr(T, tau) | L.tensorinv(tens) | L.tensorsolve(tens, tens[..., 0]) | L.vander(v) | L.vander(v, N=2) | torch.vander(v).detach() | torch.vander(v, 4, increasing=True).detach()
torch.tensordot(x, y, 1) | torch.tensordot(x, y, ([0, 1], [2, 1])) | torch.tensordot(x, y, ([2], [0])) | torch.tensordot(v, u, 1) | torch.tensordot(v, u, 0) | torch.inner(v, u) | torch.inner(x, w) | torch.inner(p, q) | v.inner(u) | torch.kron(k, A) | torch.kron(v, k) | A.kron(v) | torch.trace(A) | T.trace() | torch.vdot(zv, zv * 2j) | torch.vdot(v, u)
torch.cdist(p, q) | torch.cdist(p, q, p=1) | torch.cdist(p, q, p=3) | torch.cdist(p, q, math.inf) | torch.cdist(x, x[:, :2] + 1) | torch.dist(v, u) | torch.dist(v, u, 1) | v.dist(u, 3) | torch.renorm(p, 2, 0, 0.8) | p.renorm(1, 1, 0.8) | torch.cdist(p, q, p=0)
torch.addmv(v, A, u) | torch.addmv(v, A, u, beta=2, alpha=0.5) | torch.addr(A, v, u) | torch.addr(A, v, u, beta=0.5, alpha=2) | torch.addbmm(b, B, b2) | A.addr(v, u) | v.addmv(A, u) | torch.block_diag(A, v, b) | torch.cov(p) | torch.cov(v) | torch.cov(p, correction=0) | torch.cov(p, aweights=torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)) | torch.cov(p, fweights=torch.tensor([1, 2, 3])) | torch.corrcoef(p) | p.corrcoef() | torch.cov(Z) | torch.corrcoef(v)
"""
ROWS = [c.strip() for line in CASES.strip().splitlines() for c in line.split(" | ")]


def _evaluate(module: Any, case: str) -> tuple[Any, dict[str, Any]]:
    given = {k: module.tensor(a).requires_grad_() for k, a in ARRAYS.items()}
    y = eval(case, {"torch": module, "L": module.linalg, "math": math, **given})
    if not y.requires_grad:
        return y, {}
    w = np.random.default_rng(1).uniform(0.5, 1.5, (2, *y.shape))
    y.backward(module.tensor(w[0] + 1j * w[1] if y.is_complex() else w[0]).to(y.dtype))
    return y, {k: t.grad.detach().resolve_conj().numpy() for k, t in given.items() if t.grad is not None}


@pytest.mark.parametrize("case", ROWS)
def test_value_and_gradient(case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want, want_grads = _evaluate(torch, case)
    got, grads = _evaluate(core, case)
    same(got, want, case)
    assert set(grads) == set(want_grads)
    for k, g in want_grads.items():
        assert grads[k].dtype == g.dtype
        np.testing.assert_allclose(grads[k], g, rtol=1e-6, atol=1e-7, err_msg=f"{case}: gradient of {k}")


ERRORS = """
L.inv(singular) | L.inv(singular.expand(2, 3, 3)) | L.inv(T) | L.inv(v) | L.inv(A.long()) | L.inv(A.half()) | L.solve(singular, b) | L.solve(A, b4) | L.solve(A, b.float())
L.cholesky(-P) | L.cholesky(torch.stack([P, -P])) | L.cholesky(T) | L.qr(A, "x") | L.qr(v) | L.svd(v) | L.eigh(T) | L.eigh(A, "X") | L.det(T) | torch.logdet(T) | L.matrix_norm(A, 3) | L.matrix_norm(v)
L.multi_dot([A]) | torch.tensordot(x, y, ([0], [0])) | torch.trace(v) | torch.inner(v, w) | L.cross(v, w) | torch.cdist(p, T) | torch.cdist(v, p) | L.lstsq(A, b4) | L.matrix_power(T, 2) | L.tensorinv(tens, ind=0) | L.solve_triangular(A, b4, upper=True) | torch.renorm(p, 2, 0, -1.0) | torch.cov(x) | torch.block_diag(x) | L.cond(A, 5) | L.matrix_exp(T) | L.vector_norm(A.long())
L.qr(T, "complete")[0].sum().backward() | L.qr(T, "r")[1].sum().backward()
"""


@pytest.mark.parametrize("case", [c.strip() for line in ERRORS.strip().splitlines() for c in line.split(" | ")])
def test_errors(case: str) -> None:
    found = []
    for module in (torch, core):
        given = {k: module.tensor(a).requires_grad_() for k, a in ARRAYS.items()}
        with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)) as e:
            eval(case, {"torch": module, "L": module.linalg, **given})
        found.append(e.value)
    assert type(found[1]).__name__.lstrip("_") == type(found[0]).__name__.lstrip("_")
    assert str(found[1]).splitlines()[0][:45] == str(found[0]).splitlines()[0][:45]


@pytest.mark.parametrize("case", ["L.inv(A)", "L.solve(A, b)", "L.cholesky(P)", "L.det(A)", "L.svdvals(T)", "L.eigvalsh(P)", "L.qr(A)[1]", "L.pinv(T)", "L.matrix_exp(A)",
                                  "L.slogdet(A)[1]", "L.eigh(P)[1].abs()", "L.lu(A)[2]", "L.lstsq(T, b4)[0]", "L.svd(A).U.abs()", "L.det(Z)", "L.eigvals(Z)"])  # fmt: skip
def test_second_order(case: str) -> None:
    found = []
    for module in (torch, core):
        given = {k: module.tensor(a).requires_grad_() for k, a in ARRAYS.items()}
        y = eval(case, {"L": module.linalg, **given})
        used = next(k for k in ARRAYS if f"({k}" in case)
        loss = (y.abs() ** 3).sum()
        (g,) = module.autograd.grad(loss, given[used], create_graph=True)
        (g.abs() ** 2).sum().backward()
        found.append(given[used].grad.resolve_conj().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-7 * np.abs(found[0]).max())


@pytest.mark.parametrize("case", ["L.inv(m)", "L.det(m)", "L.svdvals(m)", "L.qr(m).R", "L.eigvalsh(m)", "L.norm(m)", "L.solve(m, m)", "L.cholesky(m)", "L.pinv(m)", "L.matrix_exp(m)"])  # fmt: skip
@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_empty(case: str, shape: tuple[int, ...]) -> None:
    want, got = (eval(case, {"L": module.linalg, "m": module.zeros(*shape)}) for module in (torch, core))
    assert tuple(got.shape) == tuple(want.shape)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("case", ["torch.geqrf(T)[0]", "torch.linalg.ldl_factor(B + B.mT)[0]", "torch.linalg.ldl_factor(B - 2)[1]", "torch.linalg.ldl_factor(B + B.mT - 3)[0]", "torch.linalg.ldl_factor(Z + Z.mT - 2)[0]",
                                  "torch.linalg.ldl_factor(Z + Z.mH - 2, hermitian=True)[0]", "torch.linalg.ldl_factor_ex(tens.reshape(6, 6) - 1)[1]", "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(A + A.mT), b)", "torch.geqrf(T)[1]", "torch.geqrf(TT)[0]", "torch.ormqr(*torch.geqrf(T), b4)", "torch.ormqr(*torch.geqrf(T), b4, True, True)",
                                  "torch.ormqr(*torch.geqrf(T), b4.mT, left=False)", "torch.svd_lowrank(T, 2)[1]", "torch.pca_lowrank(p, 3)[1]", "torch.ormqr(*torch.geqrf(ZT), ZT, transpose=True)"])  # fmt: skip
def test_without_gradients(case: str) -> None:
    want, got = (eval(case, {"torch": m, **{k: m.tensor(a) for k, a in ARRAYS.items()}}) for m in (torch, core))
    same(got, want, case)
