"""Views: shapes, strides and shared memory as NumPy has them, errors as PyTorch words them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import core


def leaf(shape: tuple[int, ...]) -> Any:
    return core.arange(float(np.prod(shape, dtype=int)), dtype=core.float64).reshape(shape)


shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


@given(shapes, st.data())
def test_permute_transposes_the_strides_too(shape: tuple[int, ...], data: Any) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    x = leaf(shape)
    y = x.permute(*order) if order else x.permute(())
    np.testing.assert_array_equal(y.numpy(), x.numpy().transpose(order))
    assert np.shares_memory(y._a, x._a) or not x.numel()
    assert y.stride() == tuple(x.stride()[d] for d in order)
    assert y._base is x._base


@given(shapes, st.data())
def test_expand_stretches_without_a_copy(shape: tuple[int, ...], data: Any) -> None:
    ones = [data.draw(st.booleans()) for _ in shape]
    small = tuple(1 if one else n for n, one in zip(shape, ones, strict=True))
    lead = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2)))
    x = leaf(small)
    y = x.expand(*lead, *(-1 if not one and n != 0 else n for n, one in zip(shape, ones, strict=True)))
    assert tuple(y.shape) == lead + shape
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(x.numpy(), lead + shape))
    assert all(step == 0 for step, n in zip(y.stride()[: len(lead)], lead, strict=True) if n > 1)


@given(shapes, st.integers(-5, 4))
def test_unsqueeze_and_squeeze_undo_each_other(shape: tuple[int, ...], dim: int) -> None:
    x = leaf(shape)
    if not -len(shape) - 1 <= dim <= len(shape):
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.unsqueeze(dim)
        return
    y = x.unsqueeze(dim)
    np.testing.assert_array_equal(y.numpy(), np.expand_dims(x.numpy(), dim))
    assert y.squeeze(dim).shape == x.shape


@given(shapes, shapes)
def test_view_takes_just_the_shapes_that_need_no_copy(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    x = leaf(shape).permute(tuple(range(len(shape)))[::-1])
    fits = np.prod(shape, dtype=int) == np.prod(target, dtype=int)
    try:
        want = x._a.reshape(target, copy=False)
    except ValueError:
        with pytest.raises(RuntimeError, match=r"is invalid for input|view size is not compatible"):
            x.view(target)
    else:
        assert fits
        assert x.view(target).numpy().strides == want.strides
    if fits:
        np.testing.assert_array_equal(x.reshape(target).numpy(), x.numpy().reshape(target))


def test_a_layout_that_forbids_a_view_says_the_remedy() -> None:
    with pytest.raises(RuntimeError, match=r"Use \.reshape\(\.\.\.\) instead[\s\S]*remedy: x\.reshape"):
        leaf((2, 3)).t().view(6)


def test_bits_read_as_another_dtype() -> None:
    x = core.tensor([1.0, -2.0])
    assert x.view(core.int32).tolist() == x.numpy().view(np.int32).tolist()
    assert tuple(core.zeros(2, 4, dtype=core.uint8).view(core.int32).shape) == (2, 1)
    y = x.view(core.int32)
    y[0] = 0
    assert x[0] == 0
    with pytest.raises(RuntimeError, match=r"must be divisible by"):
        core.zeros(3, dtype=core.uint8).view(core.int32)
    with pytest.raises(RuntimeError, match=r"self\.dim\(\) cannot be 0"):
        core.tensor(1.0).view(core.float64)


@pytest.mark.parametrize(("call", "phrase"), [
    (lambda x: x.view(4, 4), "shape '[4, 4]' is invalid for input of size 6"),
    (lambda x: x.view(-1, -1), "only one dimension can be inferred"),
    (lambda x: x.view(-2, 3), "invalid shape dimension -2"),
    (lambda x: x[:0].view(-1, 0), "because the unspecified dimension size -1 can be any value"),
    (lambda x: x.permute(0), "number of dimensions in the tensor input does not match"),
    (lambda x: x.permute(0, 0), "duplicate dims"),
    (lambda x: x.unsqueeze(0).t(), "t() expects a tensor with <= 2 dimensions, but self is 3D"),
    (lambda x: x[0].mT, "only supported on matrices"),
    (lambda x: x.expand(6), "must be greater or equal to the number of dimensions"),
    (lambda x: x.expand(-1, 2, 3), "isn't allowed in a leading, non-existing dimension"),
    (lambda x: x.flatten(1, 0), "start_dim cannot come after end_dim"),
    (lambda x: x.unflatten(1, (2, 2)), "don't multiply up to the size of dim 1"),
    (lambda x: x.movedim((0, 1), (0, 0)), "Invalid source or destination dims"),
    (lambda x: x.sum_to_size(3, 3), "is not expandable to size"),
])  # fmt: skip
def test_errors(call: Any, phrase: str) -> None:
    with pytest.raises(RuntimeError) as e:
        call(leaf((2, 3)))
    assert phrase in str(e.value)


def test_sum_to_size_undoes_broadcasting() -> None:
    x = leaf((2, 3, 4))
    np.testing.assert_array_equal(x.sum_to_size(3, 1).numpy(), x.numpy().sum((0, 2))[:, None])
    assert x.sum_to_size(2, 3, 4) is x
