"""The engine: gradients of every order, and whose memory they are."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import native
from core.autograd import engine, grad

from .common import leaf, shares

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


@pytest.mark.skipif(native.module is None, reason="the memory is the extension's")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_a_watched_pass_take_memory_that_was_used_before(dtype: str) -> None:
    a = np.arange(1 << 18, dtype=dtype)
    total = engine._plus(a, a)
    assert type(total.base).__name__ == "Block"
    assert np.array_equal(total, a + a)
