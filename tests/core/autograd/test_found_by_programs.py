"""What the generated programs of the parity tests found."""

from __future__ import annotations

import numpy as np
import pytest

import core


def test_a_leaf_detached_later_gets_no_gradient():
    x, y = core.ones(2, requires_grad=True), core.ones(2, requires_grad=True)
    z = (x * y).sum()
    x.detach_()
    z.backward()
    assert x.grad is None
    assert y.grad.tolist() == [1.0, 1.0]


def test_what_saves_only_shapes_runs_twice():
    x = core.ones(2, 1, requires_grad=True)
    y = x.squeeze().sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [[2.0], [2.0]]
    z = (x * 2).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        z.backward()


def test_one_of_several_views_may_not_be_used_after_its_base_was_written():
    y = core.ones(4, requires_grad=True) * 1
    part = y.split(2)[0]
    y.mul_(2)
    with pytest.raises(RuntimeError, match="Output 0 of SplitBackward0 is a view and its base or another view"):
        part.sum()


def test_steps_have_no_slope_even_for_nan():
    x = core.tensor([0.5, 1.5], requires_grad=True)
    (x.floor() * core.tensor([float("nan"), float("inf")])).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_atan2_at_the_origin():
    x = core.zeros(1, requires_grad=True)
    core.atan2(x, x).backward()
    assert x.grad.tolist() == [0.0]


def test_the_product_of_vectors_is_no_view():
    y = core.ones(3) @ core.ones(3)
    assert not y._is_view()
    y.detach_()


def test_cat_is_in_row_major_order():
    assert core.cat([core.ones(3, 2).t(), core.ones(3, 2).t()]).is_contiguous()


def test_argmax_of_zero_dimensions():
    assert core.tensor(3.0).argmax(0).item() == 0
    assert core.tensor(3.0).argmin(-1).item() == 0


def test_an_expanded_tensor_may_be_filled():
    x = core.zeros(3)
    x.expand(2, 3).fill_(2)
    np.testing.assert_array_equal(x.numpy(), [2, 2, 2])


def test_a_mask_writes_to_what_numpy_calls_read_only():
    x = core.tensor(1)
    y = x.expand(())
    y[y > 0] = 2
    assert x.item() == 2


def test_one_over_x_does_not_need_x_again():
    x = core.tensor([2.0, 4.0], requires_grad=True)
    y = x * 1
    z = 1 / y
    y.zero_()
    z.sum().backward()
    assert x.grad.tolist() == [-0.25, -0.0625]


def test_a_write_to_an_operand_of_another_type_is_noticed():
    """What is saved of it is a converted copy, but PyTorch saves the operand itself."""
    y = core.ones(2)
    w = core.ones(2, dtype=core.float64, requires_grad=True)
    loss = (w * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_number_over_a_tensor_saves_neither():
    x = core.ones(2, requires_grad=True)
    y = x * 2
    z = 3 / y
    y.add_(1)
    z.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [-1.5, -1.5]
