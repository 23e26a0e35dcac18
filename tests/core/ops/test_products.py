"""Products, distances and blocks that are made of other ops, against NumPy's."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck

RNG = np.random.default_rng(11)


def drawn(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape)


def close(found: core.Tensor, expected: Any) -> None:
    assert tuple(found.shape) == np.shape(expected)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("a", "b", "dims"), [
    ((2, 3, 4), (3, 4, 5), 2), ((2, 3, 4), (4, 5), 1), ((2, 3), (4, 5), 0), ((2, 3, 4), (4, 2, 5), ([0, 2], [1, 0])),
    ((2, 3, 4), (5, 3, 2), ([-2], [1])), ((3,), (3,), 1), ((2, 3, 4), (2, 3, 4), 3), ((), (2,), 0), ((2,), (), 0),
])  # fmt: skip
def test_tensordot(a: Any, b: Any, dims: Any) -> None:
    x, y = drawn(*a), drawn(*b)
    close(core.tensordot(core.tensor(x), core.tensor(y), dims=dims), np.tensordot(x, y, dims))
    out = core.empty(0, dtype=core.float64)
    close(core.tensordot(core.tensor(x), core.tensor(y), dims, out=out), np.tensordot(x, y, dims))
    close(out, np.tensordot(x, y, dims))


def test_tensordot_stretches_a_size_of_1_and_has_gradients() -> None:
    x, y = drawn(2, 1), drawn(3, 4)
    close(core.tensordot(core.tensor(x), core.tensor(y), ([1], [0])), x @ y.sum(0, keepdims=True))
    close(core.tensordot(core.tensor(y.T), core.tensor(x.T), ([1], [0])), y.T.sum(1, keepdims=True) @ x.T)
    with pytest.raises(RuntimeError, match="first has size 3 in dim 1 and second has size 4 in dim 0"):
        core.tensordot(core.ones(2, 3), core.ones(4, 5), ([1], [0]))
    given = [core.tensor(drawn(2, 3), requires_grad=True), core.tensor(drawn(3, 2), requires_grad=True)]
    assert gradcheck(lambda a, b: core.tensordot(a, b, ([0, 1], [1, 0])), given)


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, 2.0), (0, 3.0)])
def test_addr(beta: float, alpha: float) -> None:
    a, u, v = drawn(3, 4), drawn(3), drawn(4)
    close(core.addr(core.tensor(a), core.tensor(u), core.tensor(v), beta=beta, alpha=alpha),
          beta * a + alpha * np.outer(u, v))  # fmt: skip
    given = core.tensor(a)
    assert given.addr_(core.tensor(u), core.tensor(v), beta=beta, alpha=alpha) is given
    close(given, beta * a + alpha * np.outer(u, v))
    whole = core.ones(1, 1, dtype=core.int64)
    assert core.addr(whole, whole[0], whole[0], beta=2).tolist() == [[3]]
    with pytest.raises(RuntimeError, match="beta must not be a floating point number"):
        core.addr(whole, whole[0], whole[0], beta=0.5)


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, float("inf")])
def test_distances_of_all_rows(p: float) -> None:
    x, y = drawn(2, 4, 3), drawn(2, 5, 3)
    gaps = np.abs(x[:, :, None] - y[:, None])
    if p == 0:
        expected = (gaps != 0).sum(-1).astype(float)
    else:
        expected = gaps.max(-1) if p == float("inf") else (gaps**p).sum(-1) ** (1 / p)
    close(core.cdist(core.tensor(x), core.tensor(y), p), expected)
    close(core.cdist(core.tensor(x[0]), core.tensor(y), p)[0], expected[0])
    if p == 2:
        close(core.cdist(core.tensor(x), core.tensor(y)), expected)
        given = [core.tensor(v, requires_grad=True) for v in (x, y)]
        assert gradcheck(core.cdist, given)


@pytest.mark.parametrize(("rows", "mode", "product"), [
    ((25, 25), "use_mm_for_euclid_dist_if_necessary", False), ((26, 2), "use_mm_for_euclid_dist_if_necessary", True),
    ((2, 26), "use_mm_for_euclid_dist_if_necessary", True), ((2, 2), "use_mm_for_euclid_dist", True),
    ((40, 40), "donot_use_mm_for_euclid_dist", False),
])  # fmt: skip
def test_euclidean_distances_of_many_rows_come_from_a_product(rows: tuple[int, int], mode: str, product: bool) -> None:
    x, y = drawn(2, rows[0], 3), drawn(2, rows[1], 3)
    y[:, 1] = x[:, 1]  # at a distance of 0, where the gradient is 0
    gaps = x[:, :, None] - y[:, None]
    expected = np.sqrt((gaps**2).sum(-1))
    a, b = (core.tensor(v, requires_grad=True) for v in (x, y))
    found = core.cdist(a, b, compute_mode=mode)
    assert ("Where" in repr(found.grad_fn)) is product
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12, atol=1e-7)
    found.sum().backward()
    away = gaps / np.where(expected > 0, expected, 1.0)[..., None]
    np.testing.assert_allclose(a.grad.numpy(), away.sum(2), atol=1e-6)
    np.testing.assert_allclose(b.grad.numpy(), -away.sum(1), atol=1e-6)
    close(core.cdist(a, b, 1.0, mode), np.abs(gaps).sum(-1))


def test_what_distances_refuse() -> None:
    x = core.ones(2, 3)
    with pytest.raises(RuntimeError, match="at least 2D tensors, X1 got: 1D"):
        core.cdist(x[0], x)
    with pytest.raises(RuntimeError, match="at least 2D tensors, X2 got: 1D"):
        core.cdist(x, x[0])
    with pytest.raises(RuntimeError, match=r"same number of columns. X1: 3 X2: 2"):
        core.cdist(x, x[:, :2])
    with pytest.raises(RuntimeError, match="non-negative p"):
        core.cdist(x, x, -1)
    with pytest.raises(ValueError, match=r"mm is not a valid value for compute_mode\n  op: cdist; needed: use_mm_for"):
        core.cdist(x, x, compute_mode="mm")


def test_blocks_along_the_diagonal() -> None:
    a, b, c = drawn(2, 3), drawn(2), drawn(2, 1)
    expected = np.zeros((6, 7))
    expected[:2, :3], expected[2, 3:5], expected[3:5, 5:6], expected[5, 6] = a, b, c, 4.0
    given = [core.tensor(a), core.tensor(b), core.tensor(c), core.tensor(4.0, dtype=core.float64)]
    close(core.block_diag(*given), expected)
    with pytest.raises(RuntimeError, match=r"2 or fewer dimensions. Input 1 has 3 dimensions"):
        core.block_diag(given[0], core.ones(1, 1, 1))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("unitriangular", [True, False])
def test_triangular_solve(upper: bool, transpose: bool, unitriangular: bool) -> None:
    A, b = drawn(3, 3) + 3 * np.eye(3), drawn(3, 2)
    used = np.triu(A) if upper else np.tril(A)
    if unitriangular:
        np.fill_diagonal(used, 1.0)
    solution, copy = core.triangular_solve(core.tensor(b), core.tensor(A), upper, transpose, unitriangular)
    np.testing.assert_allclose(solution.numpy(), np.linalg.solve(used.T if transpose else used, b), rtol=1e-10)
    close(copy, A)
    default = core.triangular_solve(core.tensor(b), core.tensor(A)).solution
    np.testing.assert_allclose(default.numpy(), np.linalg.solve(np.triu(A), b), rtol=1e-10)


def test_broadcast_tensors() -> None:
    given = drawn(3, 1), drawn(2), drawn(1, 1, 1)
    for found in (core.broadcast_tensors(*map(core.tensor, given)), core.broadcast_tensors([*map(core.tensor, given)])):
        for mine, theirs in zip(found, np.broadcast_arrays(*given), strict=True):
            close(mine, theirs)


@pytest.mark.parametrize("given", [{"size": (5, 7)}, {"scale_factor": 2}, {"scale_factor": (1.5, 2.0)}])
def test_older_names_of_resampling(given: Any) -> None:
    x = core.tensor(drawn(1, 2, 4, 3))
    for mode, name, more in (
        ("nearest", "upsample_nearest", {}),
        ("bilinear", "upsample_bilinear", {"align_corners": True}),
    ):
        with pytest.warns(UserWarning, match=f"nn.functional.{name}. is deprecated"):
            found = getattr(F, name)(x, **given)
        assert core.equal(found, F.interpolate(x, mode=mode, **given, **more))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, math.inf])
def test_distances_of_every_order_as_numpy(p: float) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    assert core.dist(core.tensor(x), core.tensor(y), p).item() == pytest.approx(np.linalg.norm((x - y).reshape(-1), p))
    z = x + 1j * y
    got = core.dist(core.tensor(z), core.tensor(y), p)
    assert got.item() == pytest.approx(np.linalg.norm(np.abs(z - y).reshape(-1), p))
    want = [[np.linalg.norm(a - b, p) for b in y[:2]] for a in x]
    np.testing.assert_allclose(core.cdist(core.tensor(x), core.tensor(y[:2]), p).numpy(), want)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_slices_brought_down_to_a_norm(dim: int, p: float) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    x[0, 0, 0] *= 10
    parts = np.moveaxis(x, dim, 0).reshape(x.shape[dim], -1)
    size = np.array([np.linalg.norm(part, p) for part in parts])
    scale = np.where(size > 4.0, 4.0 / (size + 1e-7), 1.0)
    want = np.moveaxis(np.moveaxis(x, dim, -1) * scale, -1, dim)
    np.testing.assert_allclose(core.renorm(core.tensor(x), p, dim, 4.0).numpy(), want)
    for call, said in (
        (lambda: core.renorm(core.tensor(x), 0.0, dim, 4.0), "non-positive-norm"),
        (lambda: core.renorm(core.tensor(x), p, dim, -1.0), "maxnorm to be >= 0 but got -1"),
        (lambda: core.renorm(core.ones(3), p, 0, 1.0), "at least 2 dimensions, got 1"),
    ):
        with pytest.raises(RuntimeError, match=said):
            call()
    assert core.renorm(core.ones(2, 2), p, dim % 2, 0.0).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("correction", [0, 1, 2, 9])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_covariances_as_numpy(correction: int, whole: bool, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    x, often, share = rng.normal(size=(3, 5)), np.array([1, 2, 3, 1, 1]), rng.uniform(0.5, 1, 5)
    how = {"fweights": core.tensor(often)} if whole else {}
    how |= {"aweights": core.tensor(share)} if weighted else {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (x, x[:1], x[0]):
            want = np.cov(
                part, ddof=correction, fweights=often if whole else None, aweights=share if weighted else None
            )
            got = core.cov(core.tensor(part), correction=correction, **how)
            np.testing.assert_allclose(got.numpy(), want)
    assert core.cov(core.tensor([[1, 2], [3, 5]])).dtype is core.float32
    z = x + 1j * rng.normal(size=x.shape)
    for part in (x, z):
        np.testing.assert_allclose(core.corrcoef(core.tensor(part)).numpy(), np.corrcoef(part))
        np.testing.assert_allclose(core.cov(core.tensor(part)).numpy(), np.cov(part))
    assert core.corrcoef(core.tensor(x[0])).item() == 1.0


@pytest.mark.parametrize("weights", ["fweights", "aweights"])
def test_weights_that_are_none(weights: str) -> None:
    right = core.ones(2).long() if weights == "fweights" else core.ones(2)
    other = core.ones(2) if weights == "fweights" else core.ones(2).long()
    for given, said in ((right.reshape(1, 2), f"expected {weights} to have one or fewer dimensions"),
                        (other, f"expected {weights} to have .* dtype"), (right[:1], "1 != 2"),
                        (-right, f"{weights} cannot be negative")):  # fmt: skip
        with pytest.raises(RuntimeError, match=said):
            core.cov(core.ones(3, 2), **{weights: given})
    with pytest.raises(RuntimeError, match="two or fewer dimensions but got an input with 3"):
        core.cov(core.ones(1, 1, 1))


@pytest.mark.parametrize("n", [None, 0, 1, 2, 4])
@pytest.mark.parametrize("rising", [False, True])
def test_powers_of_vectors_as_numpy(n: int | None, rising: bool) -> None:
    x = np.array([2.0, -1.0, 0.5])
    np.testing.assert_allclose(core.vander(core.tensor(x), n, rising).numpy(), np.vander(x, n, rising))
    assert core.vander(core.tensor([2, 3], dtype=core.int32), n).dtype is core.int64
    if n is None or n > 1:
        np.testing.assert_allclose(core.linalg.vander(core.tensor(x), N=n).numpy(), np.vander(x, n, True))
    else:
        with pytest.raises(RuntimeError, match="N must be greater than 1"):
            core.linalg.vander(core.tensor(x), N=n)


@pytest.mark.parametrize("left", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("right", [(), (2,), (3, 2), (1, 3, 2)])
def test_kron_of_any_two_is_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=left), rng.normal(size=right)
    np.testing.assert_allclose(core.kron(core.tensor(a), core.tensor(b)).numpy(), np.kron(a, b))


HALF_SUMS: list[Any] = [
    (core.addmm, (5, 3), (5, 4), (4, 3)), (core.addmv, (5,), (5, 4), (4,)), (core.addr, (5, 3), (5,), (3,)),
    (core.baddbmm, (2, 5, 3), (2, 5, 4), (2, 4, 3)), (core.addbmm, (5, 3), (2, 5, 4), (2, 4, 3)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [core.bfloat16, core.float16])
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (-4.775, 2.0315), (0, 1.7)])
@pytest.mark.parametrize(("sum_with", "c", "a", "b"), HALF_SUMS)
def test_half_precision_sums_with_products_are_rounded_once(sum_with: Any, c: Any, a: Any, b: Any, beta: float,
                                                            alpha: float, dtype: Any) -> None:  # fmt: skip
    tensors = [core.tensor(drawn(*shape)).to(dtype) for shape in (c, a, b)]
    found = sum_with(*tensors, beta=beta, alpha=alpha)
    assert found.dtype is dtype
    assert found.equal(sum_with(*(t.float() for t in tensors), beta=beta, alpha=alpha).to(dtype))


@pytest.mark.parametrize("dtype", [core.bfloat16, core.float16])
def test_half_precision_sums_round_alpha_and_the_result(dtype: Any) -> None:
    a, b = (core.tensor(drawn(40)).to(dtype) for _ in range(2))
    alpha = core.tensor(1.7).to(dtype).item()
    assert core.add(a, b, alpha=1.7).equal((a.float() + alpha * b.float()).to(dtype))
    assert core.sub(a, b, alpha=1.7).equal((a.float() - alpha * b.float()).to(dtype))
    want, same = core.add(a, b, alpha=-0.3), a.clone()
    assert core.add(a, b, alpha=-0.3, out=core.empty(40, dtype=dtype)).equal(want)
    assert same.add_(b, alpha=-0.3) is same
    assert same.equal(want)
