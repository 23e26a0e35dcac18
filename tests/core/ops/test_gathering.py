"""Look-ups and their reverse along one dimension, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import core
from core.autograd import gradcheck, gradgradcheck

X = np.random.default_rng(0).normal(size=(3, 4, 5))


@given(st.integers(0, 2), st.integers(1, 6), st.integers(0, 99))
def test_gather_scatter_and_scatter_add(dim: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(n if d == dim else int(rng.integers(1, m + 1)) for d, m in enumerate(X.shape))
    i, src = rng.integers(0, X.shape[dim], shape), rng.normal(size=shape)
    x, index = core.from_numpy(X), core.from_numpy(i)
    part = X[tuple(slice(None) if d == dim else slice(m) for d, m in enumerate(shape))]
    np.testing.assert_array_equal(x.gather(dim, index).numpy(), np.take_along_axis(part, i, dim))
    added = X.copy()
    key = list(np.indices(shape))
    key[dim] = i
    np.add.at(added, tuple(key), src)
    np.testing.assert_allclose(x.scatter_add(dim, index, core.from_numpy(src)).numpy(), added)
    put = X.copy()
    for at in np.ndindex(shape):
        to = list(at)
        to[dim] = i[at]
        put[tuple(to)] = src[at]
    np.testing.assert_array_equal(x.scatter(dim, index, core.from_numpy(src)).numpy(), put)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_whole_slices(dim: int) -> None:
    i = np.array([2, 0, 2, 1])
    x, index = core.from_numpy(X), core.from_numpy(i)
    np.testing.assert_array_equal(x.index_select(dim, index).numpy(), X.take(i, dim))
    source = np.random.default_rng(1).normal(size=X.take(i, dim).shape)
    want = np.moveaxis(X.copy(), dim, 0)
    np.add.at(want, i, 3 * np.moveaxis(source, dim, 0))
    np.testing.assert_allclose(
        x.index_add(dim, index, core.from_numpy(source), alpha=3).numpy(), np.moveaxis(want, 0, dim)
    )
    want = np.moveaxis(X.copy(), dim, 0)
    want[i] = 7
    np.testing.assert_array_equal(x.index_fill(dim, index, 7).numpy(), np.moveaxis(want, 0, dim))
    want = np.moveaxis(X.copy(), dim, 0)
    want[i[:2]] = np.moveaxis(source, dim, 0)[:2]
    got = x.index_copy(dim, index[:2], core.from_numpy(source).narrow(dim, 0, 2))
    np.testing.assert_array_equal(got.numpy(), np.moveaxis(want, 0, dim))


PLACES = core.tensor([[0, 2, 1], [1, 1, 0]])
J = core.tensor([2, 0])


@pytest.mark.parametrize("function", [
    lambda x, s: x.gather(1, PLACES).sin(),
    lambda x, s: x.scatter(1, core.tensor([[0, 2, 1], [1, 3, 0]]), s * 2).square(),
    lambda x, s: x.scatter_add(1, PLACES, s).square(), lambda x, s: x.index_select(1, J).square(),
    lambda x, s: x.index_add(1, core.tensor([0, 0, 1]), s).square(),
    lambda x, s: x.index_copy(1, core.tensor([0, 2, 1]), s).square(),
    lambda x, s: x.index_fill(1, J, 2.0).square(), lambda x, s: x.take_along_dim(J.reshape(1, 2), 1).square(),
    lambda x, s: x.masked_select(x.detach() > 0).square(),
    lambda x, s: x.masked_scatter(x.detach() > 0, s.repeat(1, 2)).square(),
    lambda x, s: x.masked_fill(x.detach() > 0, 2.0).square(),
    lambda x, s: x.index_put((J % 2, J), s[0, 0], accumulate=True).square(),
    lambda x, s: core.where(x.detach() > 0, x, s[0, 0]).square(), lambda x, s: x.take(PLACES).square(),
])  # fmt: skip
def test_gradients_to_second_order(function: Any) -> None:
    rng = np.random.default_rng(2)
    inputs = (
        core.tensor(rng.normal(size=(2, 4)), requires_grad=True),
        core.tensor(rng.normal(size=(2, 3)), requires_grad=True),
    )
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3), (2, 0)])
def test_nonzero(shape: tuple[int, ...]) -> None:
    a = np.asarray(np.random.default_rng(0).random(shape) > 0.4)
    x = core.from_numpy(a)
    np.testing.assert_array_equal(x.nonzero().numpy(), np.argwhere(a))
    np.testing.assert_array_equal(core.argwhere(x).numpy(), np.argwhere(a))
    for got, want in zip(x.nonzero(as_tuple=True), a.reshape(a.shape or (1,)).nonzero(), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    assert [t.tolist() for t in core.where(x)] == [t.tolist() for t in x.nonzero(as_tuple=True)]


def test_scalars() -> None:
    x, i = core.tensor(2.0, requires_grad=True), core.tensor(0)
    assert x.gather(0, i).item() == 2
    assert x.scatter(0, i, 5.0).item() == 5
    assert x.scatter_add(0, i, core.tensor(3.0)).item() == 5
    assert x.index_select(0, core.tensor([0])).item() == 2
    x.gather(0, i).backward()
    assert x.grad.item() == 1


@pytest.mark.parametrize(("call", "error", "phrase"), [
    (lambda x: x.gather(0, [0]), TypeError, "argument 'index' must be Tensor, not list"),
    (lambda x: x.gather(0, J), RuntimeError, "Index tensor must have the same number of dimensions as input tensor"),
    (lambda x: x.gather(0, J[:, None, None] + 1), RuntimeError, "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda x: x.gather(0, J[:, None, None] - 1), RuntimeError, "index -1 is out of bounds for dimension 0 with"),
    (lambda x: x.gather(0, core.zeros(1, 9, 1, dtype=core.int64)), RuntimeError, "Size does not match at dimension 1"),
    (lambda x: x.gather(0, core.ones(1, 1, 1)), RuntimeError, "Expected dtype int32/int64 for index"),
    (lambda x: x.scatter(0, J[:, None, None], core.ones(1, 1, 1)), RuntimeError, "self.dtype to be equal to src.dtype"),
    (lambda x: x.scatter(0, J[:, None, None], x[:1]), RuntimeError, "to be no larger size than src"),
    (lambda x: x.scatter(0, J[:, None, None], x, reduce="max"), RuntimeError, "reduce argument must be"),
    (lambda x: x.index_select(0, J + 1), IndexError, "index out of range in self"),
    (lambda x: x.index_select(0, J[None]), IndexError, "Index is supposed to be a vector"),
    (lambda x: x.index_add(0, J, x), RuntimeError, "the source must match the input but along dim 0"),
    (lambda x: x.index_add(0, J, x[:2].float()), RuntimeError, "expected to have the same dtype"),
    (lambda x: x.masked_select(J), RuntimeError, "expected BoolTensor for mask"),
    (lambda x: x.masked_scatter(x > -99, x[0]), RuntimeError, "Number of elements of source < number of ones in mask"),
    (lambda x: x.take_along_dim(J, 0), RuntimeError, "should have the same number of dimensions"),
    (lambda x: x.index_put((None,), x), TypeError, "expected Tensor as element 0"),
])  # fmt: skip
def test_errors(call: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error) as e:
        call(core.from_numpy(X))
    assert phrase in str(e.value)


def test_gather_of_no_index_asks_neither_its_dtype_nor_its_dimensions() -> None:
    x = core.ones(5, requires_grad=True)
    assert x.gather(0, core.zeros(2, 0, dtype=core.uint8)).shape == (2, 0)
    assert x.gather(0, core.zeros(0)).shape == (0,)


# -- what PyTorch refuses ----------------------------------------------------------------------------------------------


def test_masked_scatter_takes_a_boolean_mask_and_a_source_of_its_dtype() -> None:
    x = core.tensor([1.0, 2.0])
    for mask, name in ((core.tensor([1.0, 0.0]), "Float"), (core.tensor([1, 0]), "Long")):
        with pytest.raises(RuntimeError, match=f"only supports boolean masks, but got mask with dtype {name}"):
            x.masked_scatter(mask, core.ones(2))
    with pytest.raises(RuntimeError, match="expected self and source to have same dtypes"):
        x.masked_scatter(core.tensor([True, False]), core.tensor([5, 6]))


@pytest.mark.parametrize(("places", "dim", "expected"), [([1, 1, 1], 0, 2.0), ([0, 2], 0, 4.0), ([1, 1, -1], 1, 3.0),
                                                         ([], 0, 0.0)])  # fmt: skip
def test_the_gradient_of_index_fill_counts_a_place_once(places: list[int], dim: int, expected: float) -> None:
    x, value = core.zeros(3, 2, requires_grad=True), core.tensor(5.0, requires_grad=True)
    y = x.index_fill(dim, core.tensor(places, dtype=core.int64), value)
    y.sum().backward()
    assert value.grad.item() == expected
    assert x.grad.sum().item() == 6 - expected
    assert y.sum().item() == 5 * expected


def test_index_fill_with_a_nan_that_has_a_gradient() -> None:
    value = core.tensor(float("nan"), requires_grad=True)
    assert core.zeros(2).index_fill(0, core.tensor([1]), value).isnan().tolist() == [False, True]


@pytest.mark.parametrize(("kind", "value", "taken"), [
    ("int8", core.tensor(127), True), ("int8", core.tensor(128), False), ("int8", core.tensor(-128), True),
    ("int8", core.tensor(-129), False), ("int8", core.tensor(1e3), False), ("float32", core.tensor(1 << 40), True),
    ("float32", core.tensor(1e300, dtype=core.float64), False), ("float64", core.tensor(1e30), True),
    ("bool", core.tensor(5), True), ("int64", core.tensor(True), True),
])  # fmt: skip
def test_index_fill_takes_what_the_dtype_holds(kind: str, value: Any, taken: bool) -> None:
    x = core.zeros(3, dtype=getattr(core, kind))
    if not taken:
        with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow"):
            core.index_fill(x, 0, core.tensor([1]), value)
        return
    y = core.index_fill(x, 0, core.tensor([1]), value)
    assert y.dtype is x.dtype
    assert y.tolist() == [0, np.asarray(value.item()).astype(kind), 0]
