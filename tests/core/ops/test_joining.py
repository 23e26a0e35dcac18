"""Joins and copies in another order against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import core
from core.autograd import gradcheck, gradgradcheck

A = np.arange(6.0).reshape(2, 3)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(-2, 1))
def test_cat_then_split_gives_the_parts_back(sizes: list[int], dim: int) -> None:
    parts = [core.rand(*((n, 2) if dim % 2 == 0 else (2, n))) for n in sizes]
    whole = core.cat(parts, dim)
    assert [p.tolist() for p in whole.split(sizes, dim)] == [p.tolist() for p in parts]


def test_cat_promotes_as_arithmetic_does() -> None:
    ints, floats = core.tensor([1, 2]), core.tensor([0.5])
    assert core.cat([ints, floats]).dtype is core.float32
    assert core.cat([ints, core.tensor([True])]).dtype is core.int64
    assert core.cat([floats, core.zeros(0, dtype=core.float64)]).dtype is core.float64
    assert core.stack([ints, ints.to(core.int8)]).dtype is core.int64


def test_an_empty_vector_may_stand_among_other_shapes() -> None:
    x = core.from_numpy(A)
    assert core.cat([core.zeros(0, dtype=core.float64), x, x]).tolist() == np.concatenate([A, A]).tolist()


def test_gradients_reach_the_parts_that_want_them() -> None:
    a, b = core.tensor(A, requires_grad=True), core.tensor(A + 1)
    core.cat([b, a, a], 1)[:, 3:].square().sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 4 * A)
    assert b.grad is None


@pytest.mark.parametrize("function", [
    lambda a, b: core.cat([a, b * a], 1), lambda a, b: core.stack([a * b, b], 1),
    lambda a, b: core.hstack([a, b]).sin(),
    lambda a, b: (a * b).flip(0, 1).square(), lambda a, b: (a * b).roll((1, -1), (0, 1)),
    lambda a, b: (a * b).repeat(2, 1, 2).sin(),
    lambda a, b: (a * b).repeat_interleave(2, 1).sin(), lambda a, b: (a * b).tril() + a.triu(1).square(),
    lambda a, b: core.rot90(a * b).sin(), lambda a, b: core.meshgrid(a[0], b[1], indexing="xy")[1] * a[0],
    lambda a, b: (a * b).repeat_interleave(core.tensor([2, 1, 3]), 1),
])  # fmt: skip
def test_gradients_to_second_order(function: Any) -> None:
    inputs = core.tensor(A, requires_grad=True), core.tensor(np.cos(A), requires_grad=True)
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@given(st.integers(-4, 4), st.integers(-2, 1))
def test_roll_goes_round(shift: int, dim: int) -> None:
    x = core.from_numpy(A)
    np.testing.assert_array_equal(x.roll(shift, dim).numpy(), np.roll(A, shift, dim))
    assert x.roll(shift, dim).roll(-shift, dim).tolist() == x.tolist()


@pytest.mark.parametrize("k", range(-3, 5))
def test_triangles_and_turns(k: int) -> None:
    x = core.from_numpy(A)
    np.testing.assert_array_equal(x.tril(k).numpy(), np.tril(A, k))
    np.testing.assert_array_equal(x.triu(k).numpy(), np.triu(A, k))
    np.testing.assert_array_equal(core.rot90(x, k).numpy(), np.rot90(A, k))


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_stacks_as_numpy(name: str, shape: tuple[int, ...]) -> None:
    a = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    got = getattr(core, name)([core.from_numpy(a), core.from_numpy(np.asarray(a + 1))])
    np.testing.assert_array_equal(got.numpy(), getattr(np, name)([a, a + 1]))


def test_out() -> None:
    x, out = core.from_numpy(A), core.empty(4, 3, dtype=core.float64)
    assert core.cat([x, x], out=out) is out
    assert out.tolist() == np.concatenate([A, A]).tolist()


@pytest.mark.parametrize(("call", "error", "phrase"), [
    (lambda x: core.cat(x), TypeError, "must be tuple of Tensors, not Tensor"),
    (lambda x: core.cat([x, 1]), TypeError, "expected Tensor as element 1 in argument 0, but got int"),
    (lambda x: core.cat([]), ValueError, "expected a non-empty list of Tensors"),
    (lambda x: core.cat([x.sum(), x.sum()]), RuntimeError, "zero-dimensional tensor (at position 0) cannot be"),
    (lambda x: core.cat([x, x[0]]), RuntimeError, "Tensors must have same number of dimensions: got 2 and 1"),
    (lambda x: core.cat([x, x[:, :2]]), RuntimeError, "Sizes of tensors must match except in dimension 0"),
    (lambda x: core.stack([x, x.t()]), RuntimeError, "stack expects each tensor to be equal size"),
    (lambda x: x.flip(0, 0), RuntimeError, "appears multiple times"),
    (lambda x: x.roll((1, 2), 0), RuntimeError, "shifts and dimensions must align"),
    (lambda x: x.repeat(2), RuntimeError, "can not be smaller than number of dimensions of tensor"),
    (lambda x: x.repeat_interleave(core.tensor([1, 2]), 1), RuntimeError, "repeats must have the same size"),
    (lambda x: core.meshgrid(x[0], indexing="ab"), RuntimeError, "indexing must be one of"),
    (lambda x: x[0].tril(), RuntimeError, "must have at least 2 dimensions"),
])  # fmt: skip
def test_errors(call: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error) as e:
        call(core.from_numpy(A))
    assert phrase in str(e.value)


def test_cat_gives_an_empty_vector_among_matrices_an_empty_gradient() -> None:
    nothing, x = core.zeros(0, requires_grad=True), core.ones(2, 3, requires_grad=True)
    y = core.cat([nothing, x, nothing], dim=1)
    y.sum().backward()
    assert (y.shape, nothing.grad.shape, x.grad.tolist()) == ((2, 3), (0,), [[1.0] * 3] * 2)


@pytest.mark.parametrize(("x", "dims", "phrase"), [
    (core.ones(2, 2), (0,), "expected total rotation dims == 2, but got dims = 1"),
    (core.ones(2), (0, 1), "expected total dims >= 2, but got total dims = 1"),
    (core.ones(2, 2), (1, -1), "expected rotation dims to be different, but got dim0 = 1 and dim1 = -1"),
])  # fmt: skip
def test_rot90_errors(x: Any, dims: Any, phrase: str) -> None:
    with pytest.raises(RuntimeError, match=phrase):
        core.rot90(x, 1, dims)


@pytest.mark.parametrize("name", ["stack", "hstack", "vstack", "dstack", "column_stack"])
def test_nothing_to_stack(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"{name} expects a non-empty TensorList"):
        getattr(core, name)([])


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("sizes", [(3,), (2, 3), (2, 3, 4), (1, 2, 1, 3)])
def test_grids_as_numpy(indexing: str, sizes: tuple[int, ...]) -> None:
    lines = [np.arange(float(n)) + 10 * k for k, n in enumerate(sizes)]
    want = np.meshgrid(*lines, indexing=indexing)
    for many in ([core.from_numpy(x) for x in lines], [[core.from_numpy(x) for x in lines]]):
        for g, w in zip(core.meshgrid(*many, indexing=indexing), want, strict=True):
            np.testing.assert_array_equal(g.numpy(), w)
    rows = core.cartesian_prod(*map(core.from_numpy, lines))
    want_rows = np.stack([g.reshape(-1) for g in np.meshgrid(*lines, indexing="ij")], 1)
    np.testing.assert_array_equal(rows.numpy().reshape(want_rows.shape), want_rows)


@pytest.mark.parametrize(("dim", "repeats"), [
    (None, [1, 0, 2, 3, 1, 0]), (0, [2, 0]), (1, [0, 3, 1]), (-1, [1, 2, 1]), (0, [3]), (1, 2), (None, 2), (0, 0),
])  # fmt: skip
def test_each_element_several_times_as_numpy(dim: Any, repeats: Any) -> None:
    many = core.tensor(repeats) if isinstance(repeats, list) else repeats
    np.testing.assert_array_equal(core.repeat_interleave(core.from_numpy(A), many, dim).numpy(),
                                  np.repeat(A, repeats, dim))  # fmt: skip


def test_other_ways_to_repeat() -> None:
    x = core.from_numpy(A)
    assert core.repeat_interleave(core.tensor([0, 2, 1])).tolist() == [1, 1, 2]
    for times in ((2,), (2, 1), (3, 2, 1)):
        np.testing.assert_array_equal(x.tile(times).numpy(), np.tile(A, times))
        np.testing.assert_array_equal(x.tile(dims=times).numpy(), np.tile(A, times))
    np.testing.assert_array_equal(x.repeat(repeats=(2, 3)).numpy(), np.tile(A, (2, 3)))
    np.testing.assert_array_equal(x.fliplr().numpy(), np.fliplr(A))
    np.testing.assert_array_equal(x.flipud().numpy(), np.flipud(A))
    np.testing.assert_array_equal(x.roll(4).numpy(), np.roll(A, 4))
    assert core.flip(core.tensor(2.0), ()).item() == 2.0
    for call, phrase in (
        (lambda: x[0].fliplr(), "Input must be >= 2-d"), (lambda: x.sum().flipud(), "Input must be >= 1-d"),
        (lambda: x.repeat_interleave(-1), "repeats has to be non-negative"),
        (lambda: x.roll((1, 2)), "shifts: 2, dims:0"), (lambda: x.roll(1, (0, 1)), "shifts: 1, dims:2"),
        (lambda: core.meshgrid(x), "Expected 0D or 1D tensor .* got: 2D"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=phrase):
            call()
    assert x[0].flipud().tolist() == [2.0, 1.0, 0.0]


def test_zero_dimensional_tensors_and_dtypes_in_stacks() -> None:
    whole, small, real = core.tensor(1), core.tensor(2, dtype=core.int8), core.tensor(0.5, dtype=core.float64)
    assert core.stack([whole, small]).dtype is core.int64
    assert core.stack([small, real]).dtype is core.float64
    assert core.stack([core.ones(2, dtype=core.int8), core.ones(2, dtype=core.uint8)]).dtype is core.int16
    assert core.hstack([whole, core.tensor([2, 3])]).tolist() == [1, 2, 3]
    assert core.column_stack([core.tensor([1, 2]), core.ones(2, 2).long()]).tolist() == [[1, 1, 1], [2, 1, 1]]
