"""`Function`: contexts, styles, orders of derivative, outputs of every sort."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.autograd import Function, grad, gradcheck, gradgradcheck, once_differentiable

from .common import leaf64 as leaf


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
