"""Linear algebra: factors multiply to what was factored, gradients where the samples do not reach, errors."""

from __future__ import annotations

import numpy as np
import pytest

import core

L = core.linalg
RNG = np.random.default_rng(0)


def matrix(*shape: int, grad: bool = False, imag: bool = False) -> core.Tensor:
    a = 0.4 * RNG.uniform(-1, 1, shape) + np.eye(shape[-2], shape[-1]) * np.arange(1.0, shape[-1] + 1)
    return core.tensor(a + 0.3j * RNG.uniform(-1, 1, shape) if imag else a, requires_grad=grad)


def near(a: core.Tensor, b: core.Tensor) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-10)


@pytest.mark.parametrize("imag", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 5, 3), (2, 0, 3)])
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...], imag: bool) -> None:
    A = matrix(*shape, imag=imag)
    Q, R = L.qr(A)
    near(Q @ R, A)
    U, S, Vh = L.svd(A, full_matrices=False)
    near((U * S.unsqueeze(-2)) @ Vh, A)
    P, low, up = L.lu(A)
    near(P.to(low.dtype) @ low @ up, A)
    near(A @ L.pinv(A) @ A, A)


@pytest.mark.parametrize("imag", [False, True])
def test_square_matrices(imag: bool) -> None:
    A = matrix(2, 4, 4, imag=imag)
    near(A @ L.inv(A), core.eye(4, dtype=A.dtype).expand(2, 4, 4))
    H = A @ A.mH
    C = L.cholesky(H)
    near(C @ C.mH, H)
    near(L.cholesky(H, upper=True).mH, C)
    values, vectors = L.eigh(H)
    near(vectors @ values.to(vectors.dtype).diag_embed() @ vectors.mH, H)
    values, vectors = L.eig(A)
    near(vectors @ values.diag_embed() @ L.inv(vectors), A.to(core.complex128))
    near(L.matrix_exp(A) @ L.matrix_exp(-A), core.eye(4, dtype=A.dtype).expand(2, 4, 4))
    near(L.matrix_power(A, -3) @ A @ A @ A, core.eye(4, dtype=A.dtype).expand(2, 4, 4))
    near(L.lu_solve(*L.lu_factor(A), A), core.eye(4, dtype=A.dtype).expand(2, 4, 4))


INVARIANT = [
    (L.inv, (3, 3)), (L.det, (3, 3)), (L.pinv, (3, 2)), (L.matrix_exp, (2, 2)), (L.svdvals, (3, 2)),
    (lambda a: L.qr(a).R, (3, 2)), (lambda a: L.lu(a).U, (2, 3)), (lambda a: L.slogdet(a)[1], (2, 2)),
    (lambda a: L.slogdet(a)[0], (2, 2)), (lambda a: L.eigvals(a).abs().sum(), (2, 2)),
    (lambda a: L.svd(a, full_matrices=False).U.abs(), (3, 2)),
    (lambda a: L.svd(a, full_matrices=False).Vh.abs(), (2, 3)),
    (lambda a: L.cholesky((a @ a.mH + (a @ a.mH).mH) / 2), (2, 2)), (lambda a: L.eigh(a @ a.mH)[1].abs(), (2, 2)),
    (lambda a: L.eigvalsh(a @ a.mH), (2, 2)), (lambda a: L.solve(a, a.mH), (2, 2)),
    (lambda a: L.lstsq(a, a * a)[0], (3, 2)),
    (lambda a: L.solve_triangular(a, a.mH, upper=True), (2, 2)), (lambda a: L.vector_norm(a, 3), (2, 2)),
    (lambda a: L.householder_product(a, a[0] * 0.5), (3, 2)), (lambda a: (lambda d: d.U @ d.Vh)(L.svd(a)), (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(INVARIANT)))
def test_gradients_of_complex_matrices(case: int) -> None:
    """What does not depend on the phases that a decomposition leaves open, to second order."""
    function, shape = INVARIANT[case]
    A = matrix(*shape, grad=True, imag=True)
    assert core.autograd.gradcheck(function, A)
    assert core.autograd.gradgradcheck(function, A)


def test_gradient_of_a_singular_determinant() -> None:
    A = core.tensor([[1.0, 0, 0], [0, 2, 0], [0, 0, 0]], dtype=core.float64, requires_grad=True)
    L.det(A).backward()
    near(A.grad, core.tensor([[0.0, 0, 0], [0, 0, 0], [0, 0, 2]], dtype=core.float64))
    assert core.autograd.gradgradcheck(L.det, A)


def test_only_one_triangle_is_read() -> None:
    A = core.tensor([[4.0, 99.0], [2.0, 5.0]])
    near(L.cholesky(A), core.tensor([[2.0, 0.0], [1.0, 2.0]]))
    near(L.eigvalsh(A), L.eigvalsh(core.tensor([[4.0, 2.0], [2.0, 5.0]])))
    near(L.eigvalsh(A, "U"), L.eigvalsh(core.tensor([[4.0, 99.0], [99.0, 5.0]])))


def test_least_squares_of_least_norm() -> None:
    A = core.tensor([[1.0, 1.0], [1.0, 1.0]], dtype=core.float64)
    near(L.lstsq(A, core.tensor([[2.0], [2.0]], dtype=core.float64)).solution, core.ones(2, 1, dtype=core.float64))


def test_the_matrix_that_fails_is_named() -> None:
    good, bad = core.eye(2), core.tensor([[1.0, 2.0], [2.0, 1.0]])
    phrase = "linalg.cholesky: The factorization could not be completed because the input is not positive-definite"
    with pytest.raises(L.LinAlgError, match=phrase + r" \(the leading minor of order 2 is not positive-definite\)\."):
        L.cholesky(bad)
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\)"):
        L.cholesky(core.stack([good, bad]))
    with pytest.raises(L.LinAlgError, match=r"linalg.inv: The diagonal element 2 is zero, the inversion could not"):
        L.inv(core.ones(2, 2))
    both = core.stack([good, core.ones(2, 2)])
    assert L.inv_ex(both).info.tolist() == [0, 2]
    assert L.inv_ex(both).inverse[0].tolist() == good.tolist()
    assert L.cholesky_ex(core.stack([good, bad])).info.tolist() == [0, 2]
    assert L.lu_factor_ex(both).info.tolist() == [0, 2]


def test_results_are_named_and_out_is_written() -> None:
    A = matrix(3, 3)
    assert L.qr(A)._fields == ("Q", "R")
    assert L.slogdet(A)._fields == ("sign", "logabsdet")
    out = core.empty(0, dtype=core.float64)
    assert L.inv(A, out=out) is out
    near(out, L.inv(A))


def test_methods() -> None:
    A = matrix(3, 3)
    positive = A @ A.mT + core.eye(3, dtype=A.dtype)
    for name in ("det", "logdet", "slogdet", "inverse", "pinverse", "cholesky", "qr", "svd", "trace"):
        got, want = getattr(positive, name)(), getattr(core, name)(positive)
        for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, want)], strict=True):
            near(a, b)
    near(A.det(), L.det(A))
    near(A.matrix_power(3), A @ A @ A)


def test_low_rank() -> None:
    A = matrix(6, 2) @ matrix(2, 5)
    for M in (A, A.T, A.expand(2, 6, 5)):
        U, S, V = core.svd_lowrank(M, q=2)
        near((U * S.unsqueeze(-2)) @ V.mT, M)
    U, S, V = core.pca_lowrank(A, q=2)
    near((U * S) @ V.T, A - A.mean(0))
    with pytest.raises(ValueError, match="must be non-negative integer and not greater than"):
        core.pca_lowrank(A, q=9)


@pytest.mark.parametrize("imag", [False, True])
def test_products_with_the_q_of_a_decomposition(imag: bool) -> None:
    A = matrix(4, 2, imag=imag)
    a, tau = core.geqrf(A)
    Q = core.ormqr(a, tau, core.eye(4, dtype=A.dtype))
    near(Q[:, :2] @ a.triu()[:2], A)
    near(Q[:, :2], core.orgqr(a, tau))
    near(core.ormqr(a, tau, A, transpose=True), Q.mH @ A)
    near(core.ormqr(a, tau, A.mH, left=False), A.mH @ Q)


def test_what_no_gradient_passes_through() -> None:
    A = matrix(2, 2, grad=True)
    assert L.slogdet(A).sign.requires_grad
    (L.vector_norm(A, 0) + L.slogdet(A).sign).backward()
    assert A.grad is None


@pytest.mark.parametrize("imag", [False, True])
@pytest.mark.parametrize("hermitian", [False, True])
def test_indefinite_symmetric_systems(imag: bool, hermitian: bool) -> None:
    for n in (1, 2, 5, 9):
        a = RNG.uniform(-1, 1, (3, n, n)) + (1j * RNG.uniform(-1, 1, (3, n, n)) if imag else 0)
        a = a + np.swapaxes(a.conj() if hermitian else a, -1, -2)
        a[0] -= np.diag(np.diag(a[0]))  # zeros on the diagonal need blocks of two
        A, B = core.tensor(a), core.tensor(a[:, :, :1] + 1)
        if n > 1:
            near(A @ L.ldl_solve(*L.ldl_factor(A, hermitian=hermitian), B, hermitian=hermitian), B)
    assert (L.ldl_factor(A, hermitian=hermitian).pivots < 0).any()
    B.requires_grad_()
    LD, pivots = L.ldl_factor(A, hermitian=hermitian)
    assert core.autograd.gradcheck(lambda b: L.ldl_solve(LD, pivots, b, hermitian=hermitian), B)
    assert L.ldl_factor_ex(core.zeros(2, 2)).info.item() == 1
    # unless it is said, a matrix is symmetric and not Hermitian
    assert core.equal(L.ldl_factor_ex(A).LD, L.ldl_factor(A, hermitian=False).LD)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused_before_lapack_loops_on_it(bad: float) -> None:
    A = core.eye(3)
    A[0, 0] = bad
    for function in (L.svd, L.svdvals, L.pinv, L.matrix_rank, lambda a: L.lstsq(a, a)):
        with pytest.raises(L.LinAlgError, match="because the input matrix contained non-finite values"):
            function(A)
    with pytest.raises(RuntimeError, match=r"torch\.linalg\.eig: input tensor should not contain infs or NaNs"):
        L.eig(A)


def test_matrix_rank_takes_a_tolerance_for_each_matrix_and_one_triangle_of_hermitian_ones() -> None:
    A = core.tensor(np.stack([np.diag([3.0, 2.0, 1.0])] * 2))
    assert L.matrix_rank(A, atol=core.tensor([1.5, 0.5], dtype=core.float64)).tolist() == [2, 3]
    assert L.matrix_rank(A, rtol=core.tensor([0.9, 0.0], dtype=core.float64)).tolist() == [1, 3]
    assert L.matrix_rank(core.zeros(0, 3, 3), rtol=core.zeros(0)).shape == (0,)
    B = core.tensor([[1.0, 5.0], [0.0, 0.0]])  # its lower triangle is that of diag(1, 0)
    assert (L.matrix_rank(B, hermitian=True).item(), L.matrix_rank(B).item()) == (1, 1)
    C = core.tensor([[1.0, 1.0], [0.0, 1.0]])
    assert L.matrix_rank(C - core.tensor([[0.0, 0.0], [0.0, 1.0]]), hermitian=True).item() == 1


def test_lu_exchanges_complex_rows_as_lapack_does() -> None:
    A = core.tensor([[3 + 3j, 1], [5, 2]])  # |3 + 3j| < 5, but 3 + 3 > 5
    assert L.lu_factor(A).pivots.tolist() == [1, 2]
    P, low, up = L.lu(A)
    near(P @ low @ up, A)


def test_svd_has_a_gradient_where_the_completed_basis_has_none() -> None:
    A = matrix(3, 5, grad=True)
    U, S, Vh = L.svd(A)
    (U.abs().sum() + S.sum() + Vh[:3].abs().sum()).backward()
    B = A.detach().requires_grad_()
    U, S, Vh = L.svd(B, full_matrices=False)
    (U.abs().sum() + S.sum() + Vh.abs().sum()).backward()
    near(A.grad, B.grad)
    with pytest.raises(RuntimeError, match="svd_backward"):
        L.svd(B).Vh.sum().backward()


def test_solve_ex_says_which_matrices_are_singular() -> None:
    A, B = core.tensor([[[2.0]], [[0.0]]]), core.tensor([[[4.0]], [[1.0]]])
    X, info = L.solve_ex(A, B)
    assert (X[0].item(), info.tolist()) == (2.0, [0, 1])
    assert bool(X[1].isnan().all())
    with pytest.raises(L.LinAlgError, match="singular"):
        L.solve_ex(A, B, check_errors=True)


@pytest.mark.parametrize(("weights", "phrase"), [
    ({"fweights": core.ones(3)}, "expected fweights to have integral dtype but got fweights with Float dtype"),
    ({"aweights": core.ones(3, dtype=core.int64)}, "expected aweights to have floating point dtype"),
    ({"fweights": core.ones(1, dtype=core.int64)}, "as there are observations in the input but got 1 != 3"),
    ({"aweights": core.ones(2, 2)}, "one or fewer dimensions"),
    ({"fweights": -core.ones(3, dtype=core.int64)}, "fweights cannot be negative"),
    ({"aweights": -core.ones(3)}, "aweights cannot be negative"),
])  # fmt: skip
def test_cov_refuses_what_are_no_weights(weights: dict[str, core.Tensor], phrase: str) -> None:
    with pytest.raises(RuntimeError, match=phrase):
        core.cov(core.ones(2, 3), **weights)


def test_cov_weighs_complex_observations() -> None:
    z = RNG.normal(size=(2, 4)) + 1j * RNG.normal(size=(2, 4))
    f, a = np.array([1, 2, 1, 3]), np.array([0.5, 1.0, 2.0, 0.1])
    got = core.cov(core.tensor(z), fweights=core.tensor(f), aweights=core.tensor(a))
    np.testing.assert_allclose(got.numpy(), np.cov(z, fweights=f, aweights=a))
