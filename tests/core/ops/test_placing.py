"""Views by strides, parts replaced, scatter with a reduction."""

from __future__ import annotations

import numpy as np
import pytest

import core

X = np.arange(12.0).reshape(3, 4)


def test_as_strided_shares_memory_and_counts_from_its_beginning() -> None:
    x = core.tensor(X)
    y = core.as_strided(x[1:], (2, 2), (4, 1))
    assert y.tolist() == [[4.0, 5.0], [8.0, 9.0]]
    y[0, 0] = -1
    assert x[1, 0].item() == -1
    assert x.t().as_strided((3,), (5,), 0).tolist() == [0.0, 5.0, 10.0]
    assert x[1:, 2:].storage_offset() == 6


def test_as_strided_has_gradients_where_places_overlap() -> None:
    x = core.tensor(X, requires_grad=True)
    assert core.autograd.gradcheck(lambda t: core.as_strided(t * t, (5, 3), (2, 1)), (x,))
    assert core.autograd.gradgradcheck(lambda t: core.as_strided(t * t, (5, 3), (2, 1)), (x,))
    core.as_strided(x, (5, 3), (2, 1)).sum().backward()
    assert x.grad.reshape(-1).tolist() == [1, 1, 2, 1, 2, 1, 2, 1, 2, 1, 1, 0]


def test_as_strided_stays_in_the_memory() -> None:
    x = core.tensor(X)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 96"):
        core.as_strided(x, (3, 4), (4, 2))
    with pytest.raises(RuntimeError, match="Negative strides"):
        core.as_strided(x, (2,), (-1,))
    with pytest.raises(RuntimeError, match="mismatch in length"):
        core.as_strided(x, (2, 2), (1,))


def test_parts_replaced() -> None:
    x = core.zeros(3, 4, requires_grad=True)
    src = core.ones(4, requires_grad=True)
    y = core.select_scatter(x, src, 0, 1)
    assert y.sum().item() == 4
    (y * core.arange(12.0).reshape(3, 4)).sum().backward()
    assert src.grad.tolist() == [4.0, 5.0, 6.0, 7.0]
    assert x.grad[1].tolist() == [0.0] * 4
    assert x.grad[2].tolist() == [8.0, 9.0, 10.0, 11.0]
    assert core.slice_scatter(core.zeros(5), core.ones(2), 0, 1, 5, 2).tolist() == [0, 1, 0, 1, 0]
    assert core.diagonal_scatter(core.zeros(2, 3), core.ones(2), 1).tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(RuntimeError, match="expected src to have a size equal to the slice of self"):
        core.select_scatter(x, core.ones(3), 0, 1)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    x, src = np.array([5.0, -1.0, 2.0]), np.array([3.0, 4.0, -7.0, 0.5])
    at = np.array([0, 0, 2, 0])
    plain = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    want = [plain(np.r_[x[[i]] if include_self or i not in at else [], src[at == i]]) for i in range(3)]
    got = core.scatter_reduce(core.tensor(x), 0, core.tensor(at), core.tensor(src), reduce, include_self=include_self)
    np.testing.assert_allclose(got.numpy(), want)


def test_scatter_reduce_prod_has_gradients_at_zeros() -> None:
    x = core.tensor([2.0, 0.0, 3.0], dtype=core.float64, requires_grad=True)
    src = core.tensor([0.0, 4.0, 5.0], dtype=core.float64, requires_grad=True)
    core.scatter_reduce(x, 0, core.tensor([0, 0, 1]), src, "prod").sum().backward()
    assert x.grad.tolist() == [0.0, 5.0, 1.0]
    assert src.grad.tolist() == [8.0, 0.0, 0.0]


def test_scatter_multiplies() -> None:
    x = core.tensor([2.0, 3.0]).scatter_(0, core.tensor([0, 0]), core.tensor([5.0, 7.0]), reduce="multiply")
    assert x.tolist() == [70.0, 3.0]
    assert core.scatter(x, 0, core.tensor([1]), 10, reduce="multiply").tolist() == [70.0, 30.0]


def test_scatter_reduce_of_integers() -> None:
    x, at = core.tensor([1, 2]), core.tensor([0, 0, 0])
    assert core.scatter_reduce(x, 0, at, core.tensor([5, 9, -3]), "amax", include_self=False).tolist() == [9, 2]
    assert core.scatter_reduce(x, 0, at, core.tensor([5, 9, -3]), "mean").tolist() == [3, 2]
    with pytest.raises(RuntimeError, match="either sum, prod, mean, amax or amin"):
        core.scatter_reduce(x, 0, at, at, "median")


def test_put_and_splits() -> None:
    x = core.zeros(2, 3)
    assert x.t().put_(core.tensor([1, 2]), core.tensor([7.0, 8.0])).t().tolist() == [[0, 8, 0], [7, 0, 0]]
    assert [p.shape[1] for p in core.hsplit(core.ones(2, 6), [1, 4])] == [1, 3, 2]
    assert len(core.vsplit(core.ones(4, 2), 2)) == len(core.dsplit(core.ones(2, 2, 2), 2)) == 2
    with pytest.raises(RuntimeError, match="not divisible by the split_size 4"):
        core.hsplit(core.ones(2, 6), 4)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        core.vsplit(core.ones(4), 2)


def test_a_view_by_strides_of_a_view_by_strides_counts_from_the_same_beginning() -> None:
    x = core.arange(20.0)
    y = core.as_strided(x, (4,), (2,), 5)
    assert y.storage_offset() == 5
    assert core.as_strided(y, (2, 2), (1, 2), 0).tolist() == [[0.0, 2.0], [1.0, 3.0]]
    assert y.as_strided((3,), (1,)).tolist() == [5.0, 6.0, 7.0]


def test_as_strided_has_the_whole_gradient_of_complex_numbers() -> None:
    z = core.tensor([1 + 1j, 2 - 1j, 3j], requires_grad=True)
    core.as_strided(z, (2, 2), (1, 1)).backward(core.tensor([[1j, 2], [1 + 1j, 3]]))
    assert z.grad.tolist() == [1j, 3 + 1j, 3]


@pytest.mark.parametrize(("reduce", "value"), [("prod", 6.0), ("mean", 2.5), ("amax", 3.0), ("amin", 2.0)])
def test_index_reduce_of_a_number(reduce: str, value: float) -> None:
    got = core.index_reduce(core.tensor(2.0), 0, core.tensor([0]), core.tensor(3.0), reduce)
    assert (got.shape, got.item()) == ((), value)


def test_as_strided_scatter_writes_into_the_memory_of_a_view() -> None:
    src = core.arange(4.0).reshape(2, 2)
    turned = core.as_strided_scatter(core.zeros(3, 3).t(), src, (2, 2), (1, 2), 1)
    assert turned.tolist() == [[0, 1, 0], [0, 3, 0], [2, 0, 0]]
    corner = core.as_strided_scatter(core.zeros(4, 4)[1:, 1:], src, (2, 2), (1, 2))
    assert corner.tolist() == [[0, 2, 1], [0, 0, 0], [0, 0, 0]]
    assert not core.as_strided_scatter(core.zeros(4, 4)[1:, 1:], src, (2, 2), (1, 2), 1).any()


def test_the_gradients_of_as_strided_scatter() -> None:
    x, src = core.zeros(3, 3, requires_grad=True), core.ones(2, 2, requires_grad=True)
    (core.as_strided_scatter(x, src, (2, 2), (1, 2), 1) * core.arange(9.0).reshape(3, 3)).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [0, 0, 5], [6, 7, 8]]
    assert src.grad.tolist() == [[1, 3], [2, 4]]
