"""The engine: gradients, whose memory they are, what runs and what is freed, and what the errors say."""

from __future__ import annotations

import contextlib
import gc
import inspect
import sys
import weakref

import numpy as np
import pytest

import core
from core.autograd import backward, grad

FILE = "test_engine.py"


def leaf(*values: float, dtype: core.dtype = core.float32) -> core.Tensor:
    return core.tensor(values if len(values) != 1 else values[0], dtype=dtype, requires_grad=True)


def line(mark: str) -> int:
    """The line of the running test that ends in ``# <- mark``."""
    code = sys._getframe(1).f_code
    lines = inspect.getsource(code).splitlines()
    return code.co_firstlineno + next(i for i, text in enumerate(lines) if text.endswith(f"# <- {mark}"))


# -- textbook gradients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (lambda x: x**3 + 3 * x**2 + 5, 2.0, 24.0),
        (lambda x: (x * x).exp(), 0.5, np.exp(0.25)),
        (lambda x: 1 / x, 4.0, -1 / 16),
        (lambda x: x / 2 - 2 / x, 2.0, 1.0),
        (lambda x: (1 + (-x).exp()) ** -1, 0.0, 0.25),
        (lambda x: x.sin() * x.cos(), 0.3, np.cos(0.6)),
        (lambda x: (x * 1.0 + x) * x, 3.0, 12.0),
        (lambda x: 2**x, 3.0, 8 * np.log(2)),
        (lambda x: x**x, 2.0, 4 * (np.log(2) + 1)),
        (lambda x: abs(-x), 3.0, 1.0),
    ],
)
def test_textbook(function, at, expected):
    x = leaf(at, dtype=core.float64)
    function(x).backward()
    assert x.grad.item() == pytest.approx(expected, rel=1e-12)


def test_a_linear_layer_by_hand(rng):
    x, w, b, t = rng.normal(size=(5, 3)), rng.normal(size=(3, 2)), rng.normal(size=2), rng.normal(size=(5, 2))
    W, B = (core.tensor(a, requires_grad=True) for a in (w, b))
    loss = ((core.tensor(x) @ W + B - core.tensor(t)) ** 2).mean()
    loss.backward()
    residual = 2 * (x @ w + b - t) / t.size
    np.testing.assert_allclose(W.grad.numpy(), x.T @ residual, rtol=1e-12)
    np.testing.assert_allclose(B.grad.numpy(), residual.sum(0), rtol=1e-12)


@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((3, 1), (1, 4)), ((1,), (2, 3, 4)), ((), (3,)), ((1, 1), ()), ((2, 1, 4), (3, 1))]
)
def test_broadcasting_sums_back(shapes, rng):
    a, b = (core.tensor(rng.normal(size=s), requires_grad=True) for s in shapes)
    (a * b).sum().backward()
    full = np.broadcast_shapes(*shapes)
    for t, other in ((a, b), (b, a)):
        expected = np.broadcast_to(other.detach().numpy(), full)
        lead = len(full) - t.ndim
        axes = (*range(lead), *(lead + i for i, n in enumerate(t.shape) if n == 1))
        np.testing.assert_allclose(t.grad.numpy(), expected.sum(axes).reshape(t.shape), rtol=1e-12)
        assert t.grad.shape == t.shape


def test_a_diamond_sums_both_ways():
    x = leaf(1.5, dtype=core.float64)
    y = x * 2
    (y * y + y.exp() * y).backward()
    assert x.grad.item() == pytest.approx(2 * (2 * 3 + np.exp(3) * 4))


def test_zero_size_and_zero_dim():
    x = core.ones(0, 3, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.shape == (0, 3)
    y = leaf(2.0)
    (y * core.ones(0)).sum().backward()
    assert y.grad.item() == 0


# -- accumulation and memory -------------------------------------------------------------------------------------------


def test_gradients_accumulate_until_cleared():
    x = leaf(1.0, 2.0)
    for k in (1, 2, 3):
        (x * 3).sum().backward()
        assert x.grad.tolist() == [3.0 * k] * 2
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 2


def test_accumulation_keeps_the_same_grad_tensor():
    x = leaf(1.0, 2.0)
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    assert x.grad is first
    assert first.tolist() == [2.0, 2.0]


def shares(*tensors: core.Tensor) -> bool:
    return any(np.shares_memory(a._a, b._a) for i, a in enumerate(tensors) for b in tensors[:i])


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: (x + y).sum(),
        lambda x, y: (x - y + x).sum(),
        lambda x, y: (x.reshape(2, 2) + y.reshape(2, 2)).sum(),
        lambda x, y: (x.expand(3, 4) + y).sum(),
        lambda x, y: core.cat([x, y]).sum(),
        lambda x, y: core.stack([x, y]).unbind()[0].sum() + y.sum(),
        lambda x, y: (x.clone() + y.contiguous() + y).sum(),
        lambda x, y: (x[1:] + y[:-1]).sum(),
        lambda x, y: x.sum() + y.sum(),
        lambda x, y: core.where(core.tensor([True, False, True, False]), x, y).sum(),
    ],
)
def test_grads_are_nobody_elses_memory(loss):
    x, y = core.ones(4, requires_grad=True), core.ones(4, requires_grad=True)
    out = loss(x, y)
    out.backward(retain_graph=True)
    assert not shares(x, y, x.grad, y.grad, out)
    before = y.grad.tolist()
    x.grad.fill_(100)
    assert y.grad.tolist() == before
    first = x.grad
    x.grad = y.grad = None
    out.backward()
    assert not shares(first, x.grad, y.grad)
    assert y.grad.tolist() == before


def test_the_gradient_given_is_not_taken():
    x, seed = core.ones(3, requires_grad=True), core.ones(3)
    (x + 0).backward(seed)
    x.backward(seed)
    assert not shares(x.grad, seed)
    assert seed.tolist() == [1, 1, 1]
    assert x.grad.tolist() == [2, 2, 2]


def test_what_a_hook_keeps_is_not_written_later():
    x, kept = core.ones(3, requires_grad=True), []
    x.register_hook(kept.append)
    for _ in range(2):
        (x * 2).sum().backward()
    assert [k.tolist() for k in kept] == [[2, 2, 2], [2, 2, 2]]
    assert not shares(x.grad, *kept)


def test_what_a_hook_returns_is_not_taken():
    x, mine = core.ones(3, requires_grad=True), core.full((3,), 5.0)
    x.register_hook(lambda g: mine)
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert mine.tolist() == [5, 5, 5]
    assert x.grad.tolist() == [10, 10, 10]


def test_answers_of_grad_are_separate_memory():
    x, y, seed = core.ones(3, requires_grad=True), core.ones(3, requires_grad=True), core.ones(3)
    gx, gy = grad(x + y, [x, y], seed)
    assert not shares(gx, gy, seed)


def test_create_graph_grads_are_separate_too():
    x, y = core.ones(3, requires_grad=True), core.ones(3, requires_grad=True)
    (x + y).sum().backward(create_graph=True)
    assert x.grad is not y.grad
    assert not shares(x.grad, y.grad)


def test_grad_of_leaf_keeps_its_dtype_and_device():
    x = core.ones(3, dtype=core.float64, requires_grad=True)
    (x * core.ones(3, dtype=core.float32)).sum().backward()
    assert x.grad.dtype is core.float64
    h = core.ones(3, dtype=core.float32, requires_grad=True)
    (h * core.ones(3, dtype=core.float64)).sum().backward()
    assert h.grad.dtype is core.float32
    c = core.ones(3, device="cuda", requires_grad=True)
    (c * c).sum().backward()
    assert c.grad.device.type == "cuda"


# -- freeing, retaining, going twice -----------------------------------------------------------------------------------


def test_a_second_backward_raises_and_names_both_lines():
    x = leaf(1.0, 2.0)
    y = x.exp()  # <- made
    y.sum().backward()  # <- first
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time") as caught:
        y.sum().backward()
    assert f"exp of {FILE} line {line('made')} (x.exp())" in str(caught.value)
    assert f"{FILE} line {line('first')} (y.sum().backward())" in str(caught.value)
    assert "retain_graph=True" in str(caught.value)


def test_a_failed_second_backward_leaves_grad_as_it_was():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.sum().backward()
    before = x.grad.tolist()
    with pytest.raises(RuntimeError, match="second time"):
        (y * 2 + x).sum().backward()
    assert x.grad.tolist() == before


def test_retain_graph_lets_it_run_again():
    x = leaf(1.0, 2.0)
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * once)


def test_what_saves_nothing_may_run_twice():
    x = leaf(1.0)
    y = x + 1
    y.backward()
    y.backward()
    assert x.grad.item() == 2


def test_saved_arrays_go_as_soon_as_their_node_has_run():
    x = core.ones(4, requires_grad=True)
    y = x.exp()
    saved = weakref.ref(y.grad_fn.saved[0])
    node, y = y.grad_fn, y.sum()
    gc.disable()
    try:
        assert saved() is not None
        y.backward()
        assert saved() is None
        assert node.saved is None
    finally:
        gc.enable()


def test_a_long_chain_neither_recurses_nor_leaks():
    x = core.ones(2, requires_grad=True)

    def chain(n: int, then_backward: bool) -> None:
        y = x
        for _ in range(n):
            y = (y * 1.0).tanh()
        if then_backward:
            y.sum().backward()
            assert x.grad.shape == (2,)
            x.grad = None

    gc.collect()
    gc.disable()
    try:
        for then_backward in (True, False):
            chain(2_000, then_backward)  # fills the interpreter's own free lists
            base = sys.getallocatedblocks()
            chain(100_000 if then_backward else 50_000, then_backward)
            assert sys.getallocatedblocks() - base < 500
    finally:
        gc.enable()


def _cube():
    class Cube(core.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x**3
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, _ = ctx.saved_tensors
            return 3 * x * x * g

    return Cube


def _with_hook(x):
    y = x.tanh()
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_hook(lambda a, b: None)
    y.grad_fn.register_prehook(lambda b: None)
    return y * y


def _with_retained_grad(x):
    y = x.exp()
    y.retain_grad()
    return y * 2


def _with_view_written(x):
    y = x * 2
    y[0] = x[0] * 5
    v = y[:2]
    v.mul_(3)
    return y.exp_()


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x.tanh() * x,
        lambda x: x.sigmoid().sum() * x,
        lambda x: x.softmax(0),
        lambda x: x.max(0)[0] * x,
        lambda x: core.stack(x.unbind()) * x.split(2)[0].sum(),
        _with_hook,
        _with_retained_grad,
        _with_view_written,
        lambda x: _cube().apply(x),
    ],
)
@pytest.mark.parametrize("how", ["drop", "backward", "twice", "second order", "raise"])
def test_no_reference_cycles(build, how):
    """With the collector off, memory comes back by counting alone."""
    x = core.ones(4, dtype=core.float64, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        y = build(x)
        refs = [weakref.ref(y), weakref.ref(y.grad_fn)]
        if y.grad_fn.next_functions and hasattr(y.grad_fn.next_functions[0][0], "number"):
            refs.append(weakref.ref(y.grad_fn.next_functions[0][0]))
        loss = y.sum()
        if how == "backward":
            loss.backward()
        elif how == "twice":
            loss.backward(retain_graph=True)
            loss.backward()
        elif how == "second order":
            (g,) = grad(loss, x, create_graph=True)
            refs.append(weakref.ref(g))
            if g.requires_grad:
                refs.append(weakref.ref(g.grad_fn))
                (h,) = grad(g.sum(), x, create_graph=True, allow_unused=True)
                del h
            del g
        elif how == "raise":
            loss.backward()
            with contextlib.suppress(RuntimeError):
                (y * core.ones(3)).sum()
            with contextlib.suppress(RuntimeError):
                y.backward()
        del y, loss
        assert [r() for r in refs] == [None] * len(refs)
    finally:
        gc.enable()


# -- create_graph ------------------------------------------------------------------------------------------------------


def test_three_orders():
    x = leaf(2.0, dtype=core.float64)
    (first,) = grad(x**5, x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x)
    assert (first.item(), second.item(), third.item()) == (80.0, 160.0, 240.0)


def test_orders_of_tanh_mix_with_saved_outputs():
    x = leaf(0.7, dtype=core.float64)
    t = np.tanh(0.7)
    (first,) = grad(x.tanh(), x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x)
    assert first.item() == pytest.approx(1 - t * t)
    assert second.item() == pytest.approx(-2 * t * (1 - t * t))
    assert third.item() == pytest.approx((1 - t * t) * (6 * t * t - 2))


def test_backward_through_a_gradient():
    x, y = leaf(2.0), leaf(3.0)
    (g,) = grad(x * x * y, x, create_graph=True)
    (g * g).backward()  # g = 2xy
    assert (x.grad.item(), y.grad.item()) == (2 * 12 * 6, 2 * 12 * 4)


def test_create_graph_accumulates_on_the_graph():
    x = leaf(2.0)
    (x**3).backward(create_graph=True)
    (x**3).backward(create_graph=True)
    assert x.grad.requires_grad
    assert x.grad.item() == 24
    (second,) = grad(x.grad, x)
    assert second.item() == 24


def test_plain_backward_after_create_graph():
    x = leaf(2.0)
    (x**2).backward(create_graph=True)
    (x**2).backward()
    assert x.grad.item() == 8


def test_gradient_with_respect_to_grad_outputs():
    x, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (g,) = grad(x**2, x, v, create_graph=True)
    (gv,) = grad(g.sum(), v)
    assert gv.tolist() == [2.0, 4.0]


def test_constant_gradients_have_no_graph():
    x = leaf(1.0)
    (g,) = grad(x * 3, x, create_graph=True)
    assert not g.requires_grad


# -- autograd.grad -----------------------------------------------------------------------------------------------------


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


# -- errors ------------------------------------------------------------------------------------------------------------


def test_a_non_scalar_wants_a_gradient():
    x = core.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs") as caught:
        (x * 2).backward()
    assert "(2, 3)" in str(caught.value)
    assert "loss.mean().backward()" in str(caught.value)
    assert f"{FILE} line" in str(caught.value)
    (x.sum().reshape(1, 1) * 2).backward()  # one element in any shape will do


def test_a_gradient_of_another_shape_or_type():
    x = core.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output"):
        (x * 2).backward(core.ones(2))
    with pytest.raises(TypeError, match="gradients can be either Tensors or None"):
        (x * 2).backward(1.0)


def test_nothing_requires_a_gradient():
    with pytest.raises(
        RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"
    ) as caught:
        core.ones(3).sum().backward()
    assert "requires_grad=True" in str(caught.value)
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        backward([leaf(1.0) * 2, core.ones(())])


@pytest.mark.parametrize("dtype", [core.int64, core.bool, core.uint8])
def test_dtypes_without_gradient(dtype):
    with pytest.raises(
        RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"
    ) as caught:
        core.ones(2, dtype=dtype).requires_grad_()
    assert str(dtype) in str(caught.value)
    with pytest.raises(RuntimeError, match="can require gradients"):
        core.tensor([1], dtype=dtype, requires_grad=True)


def test_integers_end_the_graph():
    x = leaf(1.5)
    assert not (x > 1).requires_grad
    assert not x.long().requires_grad


def test_an_op_without_gradient_says_so():
    x = leaf(7.0)
    y = x // 2
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="derivative for floor_divide is not implemented") as caught:
        y.backward()
    assert f"{FILE} line" in str(caught.value)


def test_saved_input_changed_in_place_names_both_lines():
    x = core.ones(2, 2, requires_grad=True)
    y = x * 2
    z = y.sin()  # <- saved
    y += 1  # <- changed
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        z.sum().backward()
    message = str(caught.value)
    assert f"{FILE} line {line('saved')} (y.sin())" in message
    assert f"{FILE} line {line('changed')} (y += 1)" in message
    assert "add_" in message
    assert "is at version 1; expected version 0" in message


def test_saved_output_changed_through_a_view():
    x = core.ones(3, 4, requires_grad=True)
    y = x.exp()  # <- saved
    y[0] += 1  # <- changed
    with pytest.raises(RuntimeError, match="its output") as caught:
        y.sum().backward()
    assert f"exp saved its output (3, 4) at {FILE} line {line('saved')} (x.exp())" in str(caught.value)
    assert f"{FILE} line {line('changed')}" in str(caught.value)


def test_a_change_after_the_value_is_of_no_more_use_is_fine():
    x = core.ones(2, requires_grad=True)
    y = x + 1
    z = y + 1
    y.mul_(5)
    z.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_an_error_restores_the_modes():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert core.is_grad_enabled()
    assert core.observe.phase == "forward"


def test_backward_inside_backward():
    outer = leaf(3.0)

    class Nested(core.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            with core.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                (x * x).backward()
            return g * x.grad

    (Nested.apply(outer * 2) * 1).backward()
    assert outer.grad.item() == 24


def test_in_a_thread():
    import threading

    x = core.ones(3, requires_grad=True)
    y = (x * 2).sum()
    t = threading.Thread(target=y.backward)
    t.start()
    t.join()
    assert x.grad.tolist() == [2, 2, 2]
