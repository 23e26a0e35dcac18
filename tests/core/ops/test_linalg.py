from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck


def r(*shape: int) -> Any:
    return core.tensor(np.random.default_rng(sum(shape)).uniform(-1, 1, shape), requires_grad=True)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 1, 2, 3), (4, 3, 2)),
        ((3,), (2, 3, 4)),
        ((2, 2, 3), (3,)),
    ],
)
def test_matmul_as_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = r(*a), r(*b)
    np.testing.assert_allclose((x @ y).detach().numpy(), x.detach().numpy() @ y.detach().numpy())
    gradcheck(core.matmul, (x, y))
    gradgradcheck(core.matmul, (x, y))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (core.mm, ((2, 3), (3, 4))),
        (core.bmm, ((2, 2, 3), (2, 3, 2))),
        (core.mv, ((2, 3), (3,))),
        (core.dot, ((3,), (3,))),
        (core.outer, ((2,), (3,))),
        (lambda *a: core.addmm(*a, beta=0.5, alpha=2), ((4,), (2, 3), (3, 4))),
        (core.baddbmm, ((2, 1, 2), (2, 3, 2), (2, 2, 2))),
        (F.linear, ((2, 3), (4, 3), (4,))),
        (F.linear, ((2, 2, 3), (4, 3))),
        (F.linear, ((3,), (4, 3), (4,))),
        (F.linear, ((2, 3), (3,))),
    ],
)
def test_gradients_to_second_order(function: Any, shapes: Any) -> None:
    args = tuple(r(*s) for s in shapes)
    gradcheck(function, args)
    gradgradcheck(function, args)


def test_linear_is_one_node() -> None:
    y = F.linear(r(2, 3), r(4, 3), r(4))
    assert y.grad_fn.name() == "LinearBackward0"
    assert len(y.grad_fn.next_functions) == 3


def test_half_types_accumulate_in_float32() -> None:
    x = core.full((1, 4096), 1.0, dtype=core.float16)
    assert (x @ x.mT).item() == 4096
    assert F.linear(x, x).item() == 4096


def test_beta_zero_hides_a_nan() -> None:
    assert core.addmm(core.tensor([float("nan")]), core.ones(1, 2), core.ones(2, 1), beta=0).item() == 2


m, n, v = core.ones(2, 3), core.ones(3, 4), core.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: m @ m, RuntimeError, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"),
        (lambda: m @ n.double(), RuntimeError, "expected m1 and m2 to have the same dtype, but got: float != double"),
        (
            lambda: m @ core.tensor(1.0),
            RuntimeError,
            "both arguments to matmul need to be at least 1D, but they are 2D and 0D",
        ),
        (lambda: core.matmul(m, 3), TypeError, "argument 'other' .* must be Tensor, not int"),
        (lambda: m.bool() @ n.bool(), NotImplementedError, "not implemented for 'Bool'"),
        (lambda: core.mm(m, v), RuntimeError, "mat2 must be a matrix"),
        (lambda: core.bmm(m, n), RuntimeError, "batch1 must be a 3D tensor"),
        (
            lambda: core.bmm(core.ones(2, 2, 3), core.ones(2, 2, 3)),
            RuntimeError,
            "Expected size for first two dimensions of batch2",
        ),
        (lambda: core.mv(m, core.ones(2)), RuntimeError, r"size mismatch, got input \(2\), mat \(2x3\), vec \(2\)"),
        (lambda: core.dot(v, core.ones(2)), RuntimeError, "inconsistent tensor size"),
        (lambda: core.dot(m, m), RuntimeError, "1D tensors expected, but got 2D and 2D"),
        (lambda: core.outer(m, v), RuntimeError, "outer: Expected 1-D argument self, but got 2-D"),
        (lambda: core.addmm(v, m, n), RuntimeError, "must match"),
        (
            lambda: F.linear(m, core.ones(5, 4)),
            RuntimeError,
            r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)",
        ),
        (lambda: F.linear(m, core.ones(5, 3), core.ones(2)), RuntimeError, r"The expanded size of the tensor \(5\)"),
        (
            lambda: F.linear(m, core.ones(5, 3), core.ones(5).double()),
            RuntimeError,
            "self and mat2 must have the same dtype",
        ),
    ],
)
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call()


def test_pinv_of_a_hermitian_matrix_reads_the_lower_triangle() -> None:
    A = core.tensor([[2.0, 99.0], [1.0, -3.0]], dtype=core.float64)
    whole = core.tensor([[2.0, 1.0], [1.0, -3.0]], dtype=core.float64)
    np.testing.assert_allclose(core.linalg.pinv(A, hermitian=True).numpy(), np.linalg.inv(whole.numpy()), rtol=1e-12)
    singular = core.tensor([[4.0, 0.0], [0.0, 0.0]])
    assert core.linalg.pinv(singular, hermitian=True).tolist() == [[0.25, 0], [0, 0]]
    small = core.tensor([[-4.0, 0.0], [0.0, 1e-9]], dtype=core.float64)
    assert core.linalg.pinv(small, atol=1e-6, hermitian=True).tolist() == [[-0.25, 0], [0, 0]]


def test_linalg_vander_has_two_columns_or_more() -> None:
    for n in (0, 1):
        with pytest.raises(RuntimeError, match="N must be greater than 1"):
            core.linalg.vander(core.tensor([1.0, 2.0]), N=n)
    with pytest.raises(RuntimeError, match="N must be greater than 1"):
        core.linalg.vander(core.tensor([2.0]))
    assert core.linalg.vander(core.tensor([2.0, 3.0]), N=3).tolist() == [[1, 2, 4], [1, 3, 9]]


@pytest.mark.parametrize("x", [[[1.0, 2.0, 4.0]], [1.0, 2.0, 4.0]])
def test_one_variable_has_a_variance_that_is_a_number(x: Any) -> None:
    assert core.cov(core.tensor(x)).item() == pytest.approx(7 / 3)
    assert core.cov(core.tensor(x)).shape == ()
    assert core.corrcoef(core.tensor(x)).shape == ()
    assert core.corrcoef(core.tensor(x)).item() == 1


@pytest.mark.parametrize("upper", [False, True])
def test_the_gradient_of_cholesky_solve_for_the_factor(upper: bool) -> None:
    L = core.tensor([[2.0, 0.0], [1.0, 1.0]], dtype=core.float64)
    factor = (L.T if upper else L).clone().requires_grad_()
    B = core.tensor([[4.0], [3.0]], dtype=core.float64, requires_grad=True)
    core.cholesky_solve(B, factor, upper=upper).sum().backward()
    X, back = np.array([[0.5], [1.0]]), np.array([[0.0], [0.5]])  # A = [[4, 2], [2, 2]], solved for B and for ones
    whole = -(back @ X.T + X @ back.T) @ L.numpy()
    np.testing.assert_allclose(factor.grad.numpy(), whole.T if upper else whole, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(B.grad.numpy(), back, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("p", ["fro", "nuc", 1, -1, np.inf, -np.inf, 2, -2, None])
def test_condition_numbers(p: Any) -> None:
    a = np.random.default_rng(3).standard_normal((4, 4))
    np.testing.assert_allclose(core.linalg.cond(core.tensor(a), p).item(), np.linalg.cond(a, p), rtol=1e-9)


@pytest.mark.parametrize("p", ["fro", 1, np.inf])
def test_a_singular_matrix_has_an_infinite_condition_number(p: Any) -> None:
    found = core.linalg.cond(core.tensor([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 2.0]]]), p)
    assert found[0].item() == np.inf
    assert found[1].item() == pytest.approx(np.linalg.cond(2 * np.eye(2), p))


def test_the_nuclear_condition_number_of_a_singular_matrix_is_no_error() -> None:
    assert core.linalg.cond(core.tensor([[1.0, 2.0], [2.0, 4.0]]), "nuc").item() > 1e6
