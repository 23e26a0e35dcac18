"""`autograd.grad` and ``backward(inputs=)``: which inputs, which roots, and that only what is asked for runs."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.autograd import backward, grad

from .common import leaf, shares


def test_grad_touches_no_grad():
    x, w = leaf(2.0), leaf(3.0)
    (g,) = grad(x * w, x)
    assert g.item() == 3
    assert x.grad is None
    assert w.grad is None


def test_unused_inputs():
    x, w = leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph") as caught:
        grad(x * 2, [x, w])
    assert "input 1" in str(caught.value)
    assert grad(x * 2, [x, w], allow_unused=True)[1] is None
    assert grad(x * 2, [x, w], materialize_grads=True)[1].item() == 0
    nan = leaf(float("nan"))
    assert grad(x * 2, [nan], materialize_grads=True)[0].item() == 0
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        grad(x * 2, [w], allow_unused=False, materialize_grads=True)


def test_an_input_without_requires_grad():
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        grad(leaf(1.0) * 2, core.ones(()))
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        (leaf(1.0) * 2).backward(inputs=[core.ones(())])


def test_non_leaf_inputs_and_their_own_inputs():
    x = leaf(2.0)
    y = x * 3
    z = y * y
    gy, gx, gz = grad(z, [y, x, z])
    assert (gy.item(), gx.item(), gz.item()) == (12, 36, 1)


def test_the_same_input_twice():
    x = leaf(2.0)
    y = x * 3
    a, b, c, d = grad(y * y, [x, x, y, y])
    assert (a.item(), b.item(), c.item(), d.item()) == (36, 36, 12, 12)
    assert not shares(a, b)


def test_a_leaf_as_root_and_input():
    x = leaf(2.0, 3.0)
    (g,) = grad(x, x, core.tensor([5.0, 6.0]))
    assert g.tolist() == [5, 6]
    x.backward(core.ones(2))
    assert x.grad.tolist() == [1, 1]


def test_several_roots():
    x = leaf(2.0)
    a, b = x * 2, x * x
    (g,) = grad([a, b, a], x, [core.tensor(1.0), core.tensor(10.0), core.tensor(100.0)])
    assert g.item() == 2 + 40 + 200
    backward([x * 2, x * x])
    assert x.grad.item() == 6
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        backward([a, b], [core.tensor(1.0)])


def test_outputs_of_one_op_are_told_apart():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    a, b = (x * x).split(2)
    ga, gb = grad((a * 10).sum() + b.sum(), [a, b])
    assert (ga.tolist(), gb.tolist()) == ([10, 10], [1, 1])
    _, b, _, d = (x * x).unbind()
    (g,) = grad(b * d, x)
    assert g.tolist() == [0, 4 * 16, 0, 8 * 4]


def test_a_split_into_one_piece():
    x = leaf(1.0, 2.0)
    (only,) = (x * 2).split(5)
    only.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_only_what_is_asked_for_runs():
    ran = []

    class Tell(core.autograd.Function):
        @staticmethod
        def forward(ctx, x, name):
            ctx.named = name
            return x * 1

        @staticmethod
        def backward(ctx, g):
            ran.append(ctx.named)
            return g, None

    x, w = leaf(2.0), leaf(3.0)
    y = Tell.apply(x, "x") * Tell.apply(w, "w")
    grad(y, x, retain_graph=True)
    assert ran == ["x"]
    ran.clear()
    y.backward(inputs=[w], retain_graph=True)
    assert ran == ["w"]
    assert x.grad is None
    assert w.grad.item() == 2
    ran.clear()
    y.backward()
    assert sorted(ran) == ["w", "x"]


def test_pruning_asks_no_gradient_of_other_inputs():
    seen = []

    class Product(core.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            return g * b if ctx.needs_input_grad[0] else None, g * a if ctx.needs_input_grad[1] else None

    a, b = leaf(2.0), leaf(3.0)
    y = Product.apply(a, b)
    assert grad(y, b, retain_graph=True)[0].item() == 2
    assert grad(y, [a, b])[0].item() == 3
    assert seen == [(False, True), (True, True)]


def test_grad_frees_only_what_it_ran():
    x, w = leaf(2.0), leaf(3.0)
    y = x.exp() * w.exp()
    grad(y, x, retain_graph=True)
    (g,) = grad(y, x)
    y2 = w.exp()
    (y2 + y2).backward()
    assert g.item() == pytest.approx(np.exp(5), rel=1e-6)


def test_hooks_run_for_grad_too():
    x = leaf(2.0)
    y = x * 3
    x.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    gx, gy = grad(y * 2, [x, y])
    assert (gx.item(), gy.item()) == (90, 3)
    x.register_post_accumulate_grad_hook(lambda t: pytest.fail("nothing is accumulated"))
    grad(x * 2, x)


def test_backward_inputs_takes_non_leaves():
    x = leaf(2.0)
    y = x * 3
    (y * y).backward(inputs=[y, y])
    assert y.grad.item() == 12
    assert x.grad is None


def test_backward_inputs_may_not_be_empty():
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (leaf(1.0) * 2).backward(inputs=[])
