"""squeeze_ and its kin: the tensor itself takes another shape, its history and its views follow."""

from __future__ import annotations

import numpy as np
import pytest

import core


def test_shapes_change_in_place():
    x = core.zeros(2, 1, 3)
    assert x.squeeze_(1) is x
    assert x.t_().shape == (3, 2)
    assert x.unsqueeze_(0).shape == (1, 3, 2)
    assert x.transpose_(0, 2).shape == (2, 3, 1)
    assert x._version == 4


def test_gradients_flow_through():
    x = core.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 2
    y.t_()
    (y * core.arange(6.0).reshape(3, 2)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * np.arange(6.0).reshape(3, 2).T)


def test_views_made_before_and_after_follow_writes():
    x = core.ones(2, 3, requires_grad=True)
    y = x * 1
    before = y[0]
    y.unsqueeze_(0)
    y.t_() if y.ndim == 2 else y.transpose_(1, 2)
    after = y[0, :, 1]
    before.mul_(5)
    after.mul_(7)
    np.testing.assert_array_equal(y.detach().numpy(), [[[5, 7], [5, 7], [5, 7]]])
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[5, 5, 5], [7, 7, 7]])
    np.testing.assert_array_equal(before.detach().numpy(), [5, 5, 5])


def test_a_leaf_refuses():
    x = core.ones(2, 1, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.squeeze_()
    with core.no_grad():
        assert x.squeeze_().shape == (2,)
