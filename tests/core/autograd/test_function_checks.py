"""`Function`: tensors changed in place, and what is checked of a forward and of a backward."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.autograd import Function

from .common import leaf64 as leaf
from .common import line
from .test_function import Cube, Exp

# -- in place ----------------------------------------------------------------------------------------------------------


class Double_(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_mark_dirty():
    x = leaf(1.0, 2.0)
    y = x * 1
    before = y._version
    z = Double_.apply(y)
    assert z is y
    assert y._version > before
    assert y.grad_fn.name() == "Double_Backward"
    (y * 5).sum().backward()
    assert x.grad.tolist() == [10, 10]


def test_mark_dirty_on_a_view_reaches_the_base():
    x = leaf(1.0, 2.0)
    y = x * 1
    v = y[:1]
    assert Double_.apply(v) is v
    (y * core.tensor([3.0, 5.0], dtype=core.float64)).sum().backward()
    assert y.tolist() == [2, 2]
    assert x.grad.tolist() == [6, 5]


def test_mark_dirty_on_a_leaf():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Double_.apply(leaf(1.0))


def test_mark_dirty_and_saved():
    class Exp_(Function):
        @staticmethod
        def forward(ctx, x):
            x.exp_()
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(0.5)
    y = x * 1
    Exp_.apply(y).backward()
    assert x.grad.item() == pytest.approx(np.exp(0.5))


@pytest.mark.parametrize("function", [Cube, Exp])
def test_what_was_saved_may_not_change(function):
    x = leaf(1.0, 2.0)
    y = x * 1
    z = function.apply(y)  # <- saved
    (y if function is Cube else z).add_(1)  # <- changed
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        (z * 1).sum().backward()
    assert f"test_function_checks.py line {line('saved')} (function.apply(y))" in str(caught.value)
    assert f"test_function_checks.py line {line('changed')}" in str(caught.value)


def test_saved_tensors_are_freed():
    x = leaf(1.0)
    y = Cube.apply(x)
    node = y.grad_fn
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they"):
        _ = node.saved_tensors


# -- what is checked ---------------------------------------------------------------------------------------------------


def returning(*result):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, w):
            return x * w

        @staticmethod
        def backward(ctx, g):
            return result if len(result) != 1 else result[0]

    return Wrong.apply(leaf(1.0, 2.0), leaf(3.0, 4.0)).sum()


def test_the_number_of_gradients():
    with pytest.raises(RuntimeError, match=r"returned an incorrect number of gradients \(expected 2, got 1\)"):
        returning(core.ones(2)).backward()
    returning(core.ones(2), None, None).backward()  # further Nones are let pass, as in PyTorch


def test_the_shape_of_a_gradient():
    with pytest.raises(
        RuntimeError, match=r"invalid gradient at index 1 - got \[3\] but expected shape compatible with \[2\]"
    ):
        returning(None, core.ones(3)).backward()
    with pytest.raises(TypeError, match="must return tensors or None, got float at index 0"):
        returning(1.0, None).backward()


def test_a_gradient_is_brought_to_its_inputs_shape_and_dtype():
    class Wide(Function):
        @staticmethod
        def forward(ctx, x, b):
            return x + b

        @staticmethod
        def backward(ctx, g):
            return g.float(), g  # b was broadcast; its gradient is summed

    x, b = core.ones(3, 2, dtype=core.float64, requires_grad=True), leaf(1.0, 1.0)
    Wide.apply(x, b).sum().backward()
    assert x.grad.dtype is core.float64
    assert b.grad.tolist() == [3, 3]


def test_a_gradient_that_the_function_keeps_is_not_written_later():
    constant = core.ones(2, dtype=core.float64)

    class Constant(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return constant

    x = leaf(1.0, 2.0)
    Constant.apply(x).sum().backward()
    Constant.apply(x).sum().backward()
    assert constant.tolist() == [1, 1]
    assert x.grad.tolist() == [2, 2]


def test_gradients_handed_through_to_two_leaves_are_separate():
    class Sum(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b, a - b

        @staticmethod
        def backward(ctx, g, h):
            return g, g

    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    Sum.apply(a, b)[0].sum().backward()
    assert not np.shares_memory(a.grad.numpy(), b.grad.numpy())


def test_nothing_written_says_so():
    class Empty(Function):
        pass

    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        Empty.apply(leaf(1.0))

    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        Half.apply(leaf(1.0)).backward()


def test_vjp_is_another_name_for_backward():
    class Named(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    x = leaf(1.0)
    Named.apply(x).backward()
    assert x.grad.item() == 2


def test_an_error_in_forward_restores_everything():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Broken.apply(leaf(1.0))
    assert core.is_grad_enabled()
