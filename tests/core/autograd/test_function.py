"""`Function`: contexts, styles, outputs of every sort, and what is checked of a backward."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

import core
from core.autograd import Function, grad, gradcheck, gradgradcheck, once_differentiable


def leaf(*values: float, dtype: core.dtype = core.float64) -> core.Tensor:
    return core.tensor(values if len(values) != 1 else values[0], dtype=dtype, requires_grad=True)


def line(mark: str) -> int:
    """The line of the running test that ends in ``# <- mark``."""
    code = sys._getframe(1).f_code
    lines = inspect.getsource(code).splitlines()
    return code.co_firstlineno + next(i for i, text in enumerate(lines) if text.endswith(f"# <- {mark}"))


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Scale(Function):
    """The later style, with arguments that are no tensors."""

    @staticmethod
    def forward(x, factor, label=None):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.factor, ctx.label = inputs

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None, None


def test_first_to_third_order():
    x = leaf(2.0)
    (a,) = grad(Cube.apply(x), x, create_graph=True)
    (b,) = grad(a, x, create_graph=True)
    (c,) = grad(b, x)
    assert (a.item(), b.item(), c.item()) == (12, 12, 6)


def test_saved_outputs_have_their_history():
    x = leaf(0.5)
    y = Exp.apply(x)
    (a,) = grad(y, x, create_graph=True)
    (b,) = grad(a, x, create_graph=True)
    (c,) = grad(b, x)
    assert [t.item() for t in (y, a, b, c)] == pytest.approx([np.exp(0.5)] * 4)


@pytest.mark.parametrize("function", [Cube.apply, Exp.apply, lambda x: Scale.apply(x, 2.5, "twice")])
def test_gradchecks(function):
    x = leaf(0.3, -0.7, 1.1)
    assert gradcheck(function, x)
    assert gradgradcheck(function, x)


def test_the_node():
    x = leaf(1.0)
    y = Cube.apply(x)
    assert y.grad_fn.name() == "CubeBackward"
    assert y.grad_fn.next_functions[0][0].variable is x
    assert "Cube.apply(x)" in repr(y.grad_fn)
    assert not y.is_leaf
    assert y.requires_grad


def test_without_anything_to_record():
    assert Cube.apply(core.tensor(2.0)).grad_fn is None
    with core.no_grad():
        assert not Cube.apply(leaf(2.0)).requires_grad
    assert Scale.apply(core.ones(2), 3).tolist() == [3, 3]


def test_forward_runs_outside_the_graph():
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(core.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(core.is_grad_enabled())
            return g * 2

    x = leaf(1.0)
    y = Look.apply(x)
    grad(y, x, retain_graph=True)
    grad(y, x, create_graph=True)
    assert seen == [False, False, True]


def test_needs_input_grad():
    seen = []

    class Three(Function):
        @staticmethod
        def forward(ctx, a, n, b):
            seen.append(ctx.needs_input_grad)
            return a * n + b

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g, None, g

    Three.apply(leaf(1.0), 2, core.tensor(3.0, dtype=core.float64)).backward()
    assert seen == [(True, False, False)] * 2


def test_a_number_may_be_saved_on_the_context_and_none_with_the_tensors():
    class Keep(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.n = 7
            ctx.save_for_backward(x, None, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, nothing, w = ctx.saved_tensors
            assert nothing is None
            assert ctx.n == 7
            return g * w, g * x

    x, w = leaf(2.0), leaf(3.0)
    Keep.apply(x, w).backward()
    assert (x.grad.item(), w.grad.item()) == (3, 2)


# -- outputs -----------------------------------------------------------------------------------------------------------


class Parts(Function):
    """Two outputs, and between them a value that is no tensor."""

    seen: list

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(Parts.materialize)
        return x * 2, "label", x * 3

    @staticmethod
    def backward(ctx, a, label, b):
        Parts.seen.append(tuple(None if g is None else g.tolist() for g in (a, label, b)))
        return (0 if a is None else a * 2) + (0 if b is None else b * 3)


@pytest.mark.parametrize("materialize", [True, False])
def test_several_outputs(materialize):
    Parts.seen, Parts.materialize = [], materialize
    x = leaf(1.0, 2.0)
    a, label, b = Parts.apply(x)
    assert label == "label"
    b.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [3, 3]
    (a.sum() + b.sum()).backward()
    missing = [0, 0] if materialize else None
    assert Parts.seen == [(missing, None, [1, 1]), ([1, 1], None, [1, 1])]
    assert x.grad.tolist() == [8, 8]


def test_a_tuple_of_one_stays_a_tuple():
    class One(Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2,)

        @staticmethod
        def backward(ctx, g):
            return (g * 2,)

    x = leaf(1.0)
    (y,) = One.apply(x)
    y.backward()
    assert x.grad.item() == 2


def test_mark_non_differentiable():
    class Sort(Function):
        @staticmethod
        def forward(ctx, x):
            order = core.tensor(np.argsort(x.numpy()))
            weight = x * 0 + 1
            ctx.mark_non_differentiable(order, weight)
            return x * 2, order, weight

        @staticmethod
        def backward(ctx, g, order, weight):
            assert order.tolist() == [0, 0]
            return g * 2

    x = leaf(3.0, 1.0)
    with core.no_grad():
        Sort.apply(x)
    y, order, weight = Sort.apply(x)
    assert (y.requires_grad, order.requires_grad, weight.requires_grad) == (True, False, False)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_returning_an_input_as_it_is():
    class Through(Function):
        @staticmethod
        def forward(ctx, x, w):
            return x, w * 2

        @staticmethod
        def backward(ctx, g, h):
            return g * 10, h * 2

    x, w = leaf(1.0), leaf(1.0)
    y, z = Through.apply(x, w)
    assert y is not x
    assert x.grad_fn is None
    (y + z).backward()
    assert (x.grad.item(), w.grad.item()) == (10, 2)
    assert y.data_ptr() == x.data_ptr()


def test_returning_a_view_of_an_input():
    class Tail(Function):
        @staticmethod
        def forward(ctx, x):
            return x[1:]

        @staticmethod
        def backward(ctx, g):
            return core.cat([core.zeros(1, dtype=g.dtype), g * 7])

    x = leaf(1.0, 2.0, 3.0)
    y = Tail.apply(x * 1)
    y.sum().backward()
    assert x.grad.tolist() == [0, 7, 7]


def test_forward_may_give_back_what_requires_no_grad():
    class Index(Function):
        @staticmethod
        def forward(ctx, x):
            return x.argmax()

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("an integer has no gradient")

    assert not Index.apply(leaf(1.0, 3.0)).requires_grad


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
    assert f"test_function.py line {line('saved')} (function.apply(y))" in str(caught.value)
    assert f"test_function.py line {line('changed')}" in str(caught.value)


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


# -- once_differentiable -----------------------------------------------------------------------------------------------


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        assert not core.is_grad_enabled()
        return 2 * g * ctx.saved_tensors[0]


def test_once_differentiable():
    x = leaf(3.0)
    (g,) = grad(Once.apply(x), x)
    assert g.item() == 6
    (g,) = grad(Once.apply(x), x, create_graph=True)  # no error before somebody goes through it
    assert g.item() == 6
    with pytest.raises(
        RuntimeError, match="trying to differentiate twice a function that was marked with @once_differentiable"
    ):
        grad(g, x)


def test_gradgradcheck_finds_once_differentiable():
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradgradcheck(Once.apply, leaf(3.0))
