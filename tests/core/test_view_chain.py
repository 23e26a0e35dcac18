"""Changes in place through views: the base's history moves on, gradients are right to second order; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core.autograd import gradcheck, gradgradcheck

X = np.random.default_rng(0).normal(size=(3, 4))


def leaf(a: Any = X) -> Any:
    return core.tensor(a, requires_grad=True)


def rows_and_columns(x: Any) -> Any:
    y = x * 2
    y[0] += 1
    y[:, 1].mul_(3)
    return y


def a_view_of_a_view(x: Any) -> Any:
    y = x * 1
    w = y.t()[1:3].unsqueeze(0)[0, 1]
    w.mul_(x[:, 0])
    return y, w


def a_loop_that_fills(x: Any) -> Any:
    y = core.zeros(4, dtype=core.float64)
    for k in range(4):
        y[k] = x[0, k].clone() * x[1, k]
    return y


def through_index_tensors(x: Any) -> Any:
    y = x * 1
    y[1:][:, 2:] = y[0, :2] * 3
    y[core.tensor([2, 0])] *= x[1]
    return y


def through_a_diagonal(x: Any) -> Any:
    y = x.sin()
    y.diagonal().mul_(y[0, :3].clone())
    y.view(12)[::5] += 1
    return y


def base_and_view_by_turns(x: Any) -> Any:
    y = x * 1
    v = y[0]
    y *= 2
    v += x[1]
    y[1] = v + v
    return y, v


PROGRAMS = [
    rows_and_columns,
    a_view_of_a_view,
    a_loop_that_fills,
    through_index_tensors,
    through_a_diagonal,
    base_and_view_by_turns,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_to_second_order(program: Any) -> None:
    def squared(x: Any) -> Any:
        out = program(x)
        return tuple(t.square() for t in out) if isinstance(out, tuple) else out.square()

    assert gradcheck(squared, (leaf(),))
    assert gradgradcheck(squared, (leaf(),))


def test_a_view_follows_its_base() -> None:
    x = leaf()
    y = x * 1
    v = y[0]
    first = v.grad_fn
    y.mul_(2)
    assert v.grad_fn is not first
    (v * 1).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (np.arange(3) == 0)[:, None] * np.ones(4))


def test_constants_become_part_of_the_graph_when_written_to() -> None:
    y = core.zeros(2, 2, dtype=core.float64)
    v = y[0]
    assert not v.requires_grad
    y[0, 1] = leaf()[0, 0]
    assert y.requires_grad
    assert v.requires_grad
    assert v.grad_fn.name() == "SelectBackward0"


def test_what_was_overwritten_gets_no_gradient() -> None:
    x = leaf()
    y = x * 1
    y[1:] = 0
    y.sum().backward()
    assert x.grad.tolist() == [[1.0] * 4, [0.0] * 4, [0.0] * 4]
    x.grad = None
    (x * 1).zero_().sum().backward()
    assert x.grad.tolist() == np.zeros((3, 4)).tolist()


def test_a_leaf_and_its_views_refuse() -> None:
    x = leaf()
    for attempt in (lambda: x.__setitem__(0, 1), lambda: x.view(12).zero_(), lambda: x.t()[0].add_(1)):
        with pytest.raises(
            RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"
        ):
            attempt()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.zero_()
    with core.no_grad():
        x[0] = 5
    assert x[0].tolist() == [5.0] * 4
    assert x.is_leaf


def test_one_of_several_views_refuses() -> None:
    y = leaf() * 1
    for part in (y.split(1)[1], y.chunk(2)[0], y.unbind()[2], next(iter(y)), y.split(2)[0][0]):
        with pytest.raises(RuntimeError, match="is the output of a function that returns multiple views"):
            part.mul_(2)
    plain = core.ones(3, 4)
    plain.unbind()[0].mul_(2)
    assert plain.sum() == 16
    with pytest.raises(RuntimeError, match="multiple views"):
        plain.unbind()[1].mul_(leaf()[0].float())


def test_a_view_made_without_gradients_refuses_with_them() -> None:
    y = leaf() * 1
    with core.no_grad():
        v = y[0]
        v.add_(1)
    assert not v.requires_grad
    with pytest.raises(
        RuntimeError, match="A view was created in no_grad mode and is being modified inplace with grad mode"
    ):
        v.mul_(2)


def test_an_expanded_tensor_refuses() -> None:
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
    ):
        core.ones(3).expand(2, 3).add_(1)


def test_a_saved_value_that_is_overwritten_through_a_view_is_noticed() -> None:
    y = leaf().exp()
    z = y * y
    y[0, 0] = 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_the_same_memory_on_both_sides() -> None:
    # PyTorch refuses the first, and the second fails in its backward: here the value from before the write is kept.
    x = leaf()
    y = x * 1
    y.mul_(y[0])
    y.sum().backward()
    want = leaf()
    (want * want[0]).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), want.grad.numpy())

    def f(x: Any) -> Any:
        y = x * 1
        y[0].mul_(y[1])
        y[:, 1:] = y[:, :-1]
        return y.square()

    assert gradcheck(f, (leaf(),))


def test_another_float_type_is_cast_on_the_graph() -> None:
    x = core.tensor([1.0, 2.0], requires_grad=True)
    w = core.tensor([3.0, 4.0], dtype=core.float64, requires_grad=True)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    assert (x.grad.dtype, w.grad.dtype) == (core.float32, core.float64)
    assert (x.grad.tolist(), w.grad.tolist()) == ([3, 4], [1, 2])
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        core.tensor([1]).add_(1.5)


def test_versions_are_shared() -> None:
    x = core.zeros(3)
    v = x[1:]
    v += 1
    x[0] = 2
    assert x._version == v._version == x.detach()._version == 2
    assert v._base is x
