"""What the functions of matrices refuse, each in its own name, and least squares with every driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core

L = core.linalg
VECTOR, WIDE, WHOLE, HALF = core.ones(3), core.ones(2, 3), core.ones(2, 2).long(), core.ones(2, 2).half()
SQUARE: dict[str, Callable[[Any], Any]] = {
    "linalg.cholesky": L.cholesky,
    "linalg.cholesky_ex": L.cholesky_ex,
    "linalg.cholesky_inverse": core.cholesky_inverse,
    "linalg.cholesky_solve": lambda x: core.cholesky_solve(core.ones(2, 1), x),
    "linalg.det": L.det,
    "linalg.slogdet": L.slogdet,
    "logdet": core.logdet,
    "linalg.ldl_factor_ex": L.ldl_factor_ex,
    "linalg.lu_solve": lambda x: L.lu_solve(x, core.ones(2).int(), core.ones(2, 1)),
    "linalg.matrix_exp": L.matrix_exp,
    "linalg.solve": lambda x: L.solve(x, core.ones(2, 1)),
    "linalg.solve_triangular": lambda x: L.solve_triangular(x, core.ones(2, 1), upper=True),
    "linalg.inv": L.inv,
    "linalg.inv_ex": L.inv_ex,
    "linalg.eigh": L.eigh,
    "linalg.eig": L.eig,
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "linalg.qr": L.qr,
    "linalg.geqrf": core.geqrf,
    "linalg.lu_factor_ex": L.lu_factor_ex,
    "linalg.householder_product": lambda x: L.householder_product(x, core.ones(1)),
    "linalg.cond": L.cond,
    "linalg.svd": L.svd,
    "linalg.svdvals": L.svdvals,
    "linalg.pinv": L.pinv,
    "linalg.matrix_rank": L.matrix_rank,
    "linalg.lstsq": lambda x: L.lstsq(x, core.ones(2, 1)),
}


@pytest.mark.parametrize("name", [*SQUARE, *OTHERS])
def test_what_is_no_matrix_of_floating_numbers(name: str) -> None:
    function = (SQUARE | OTHERS)[name]
    for given, said in ((VECTOR, "at least 2 dimensions"), (WHOLE, "Expected a floating point or complex"),
                        (HALF, "Low precision dtypes not supported. Got Half")):  # fmt: skip
        if name == "linalg.matrix_exp" and given is HALF:
            continue  # as PyTorch
        with pytest.raises(RuntimeError, match=f"^{name}: .*{said}"):
            function(given)
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        function("a matrix")


@pytest.mark.parametrize("name", SQUARE)
def test_what_is_not_square(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{name}: .* must be batches of square matrices, but they are 2 by 3"):
        SQUARE[name](WIDE)


SQUARE_WHERE = [
    lambda: L.cond(WIDE, "fro"),
    lambda: L.cond(WIDE, 1),
    lambda: L.pinv(WIDE, hermitian=True),
    lambda: L.matrix_rank(WIDE, hermitian=True),
    lambda: L.matrix_power(WIDE, 2),
    lambda: L.matrix_power(WIDE, -1),
]


@pytest.mark.parametrize("number", range(len(SQUARE_WHERE)))
def test_what_need_not_always_be_square(number: int) -> None:
    with pytest.raises(RuntimeError, match="must be batches of square matrices"):
        SQUARE_WHERE[number]()


TRUTHS = [
    ("qr", "some", 2, lambda v: core.qr(core.eye(2), v)),
    ("svd", "some", 2, lambda v: core.svd(core.eye(2), v)),
    ("svd", "compute_uv", 3, lambda v: core.svd(core.eye(2), True, v)),
    ("lu", "pivot", 2, lambda v: core.lu(core.eye(2), v)),
    ("unique", "sorted", 2, lambda v: core.unique(core.ones(2), v)),
]


@pytest.mark.parametrize(("op", "name", "place", "call"), TRUTHS, ids=[f"{row[0]} {row[1]}" for row in TRUTHS])
def test_truths_that_are_none(op: str, name: str, place: int, call: Any) -> None:
    with pytest.raises(TypeError, match=rf"{op}\(\): argument '{name}' \(position {place}\) must be bool, not str"):
        call("no")


TWO_DTYPES = [
    lambda x, y: L.solve(x, y),
    lambda x, y: L.solve_triangular(x, y, upper=True),
    lambda x, y: L.lstsq(x, y),
    lambda x, y: core.matmul(x, y),
    lambda x, y: core.mm(x, y),
    lambda x, y: core.nn.functional.linear(x, y),
]


@pytest.mark.parametrize("number", range(len(TWO_DTYPES)))
def test_two_dtypes(number: int) -> None:
    with pytest.raises(RuntimeError, match=r"(?i)same dtype|expected m1 and m2|both|Double.*Float|Float.*Double"):
        TWO_DTYPES[number](core.eye(2), core.eye(2).double())


PRODUCTS = ["mm", "bmm", "mv", "dot", "outer", "matmul"]


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_what_is_no_tensor(name: str) -> None:
    x = {"bmm": core.ones(1, 2, 2), "mv": core.eye(2), "mm": core.eye(2), "matmul": core.eye(2)}.get(name, core.ones(2))
    for given in ((x, 3.0), (3.0, x)):
        with pytest.raises(TypeError, match=rf"{name}\(\): argument .* must be Tensor, not float"):
            getattr(core, name)(*given)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3), (2, 4, 3)])
@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
def test_least_squares_with_every_driver(shape: tuple[int, ...], driver: str | None) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=shape), rng.normal(size=(*shape[:-1], 2))
    got = L.lstsq(core.tensor(a), core.tensor(b), driver=driver)
    solution = np.linalg.pinv(a) @ b
    np.testing.assert_allclose(got.solution.numpy(), solution, atol=1e-12)
    m, n = shape[-2:]
    rank = np.full(shape[:-2], min(m, n))
    np.testing.assert_array_equal(got.rank.numpy(), np.zeros(0) if driver == "gels" else rank)
    tells = m > n and driver in ("gels", "gelsd", "gelss")
    off = ((a @ solution - b) ** 2).sum(-2) if tells else np.zeros(0)
    np.testing.assert_allclose(got.residuals.numpy(), off, atol=1e-12)
    values = np.linalg.svd(a, compute_uv=False) if driver in ("gelsd", "gelss") else np.zeros(0)
    np.testing.assert_allclose(got.singular_values.numpy(), values, atol=1e-12)


def test_least_squares_of_less_than_full_rank_has_no_residuals() -> None:
    a = core.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    got = L.lstsq(a, core.tensor([[1.0], [2.0], [3.0]]), driver="gelsd")
    np.testing.assert_allclose(got.solution.numpy(), [[1.0], [1.0]], rtol=1e-6)
    assert (got.rank.item(), got.residuals.numel()) == (1, 0)


def test_least_squares_of_vectors_and_what_does_not_fit() -> None:
    a, b = core.tensor([[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]]), core.tensor([2.0, 8.0, 1.0])
    got = L.lstsq(a, b, driver="gelsd")
    np.testing.assert_allclose(got.solution.numpy(), [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(got.residuals.numpy(), [1.0], rtol=1e-6)
    for wrong in (core.ones(2), core.ones(2, 1), core.ones(4, 1)):
        with pytest.raises(RuntimeError, match=r"input.size\(-2\) should match other.size\(-2\)"):
            L.lstsq(a, wrong)
    with pytest.raises(RuntimeError, match="parameter `driver` should be one of"):
        L.lstsq(a, b, driver="qr")


@pytest.mark.parametrize(("a_shape", "b_shape"), [((4, 2), (4, 3)), ((2, 4), (2, 1)), ((2, 3, 2), (3, 1))])
def test_the_gradients_of_least_squares_against_differences(a_shape: Any, b_shape: Any) -> None:
    rng = np.random.default_rng(1)
    given = [rng.normal(size=s) for s in (a_shape, b_shape)]
    weight = core.tensor(rng.normal(size=(np.linalg.pinv(given[0]) @ given[1]).shape))

    def loss(a: Any, b: Any) -> Any:
        return (L.lstsq(core.tensor(a), core.tensor(b)).solution * weight).sum().item()

    for which in ((True, True), (True, False), (False, True)):
        tensors = [core.tensor(x, requires_grad=w) for x, w in zip(given, which, strict=True)]
        (L.lstsq(*tensors).solution * weight).sum().backward()
        for k, t in enumerate(tensors):
            if not which[k]:
                assert t.grad is None
                continue
            want = np.zeros_like(given[k])
            for at in np.ndindex(*want.shape):
                step = [np.zeros_like(x) for x in given]
                step[k][at] = 1e-6
                ends = [loss(given[0] + s * step[0], given[1] + s * step[1]) for s in (1, -1)]
                want[at] = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(t.grad.numpy(), want, rtol=1e-5, atol=1e-7)
