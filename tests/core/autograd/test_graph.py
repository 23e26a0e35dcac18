"""Hooks on what is saved, on several gradients; edges; anomaly mode; batches of gradients."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import core
from core.autograd import graph


def leaf(*values: float) -> core.Tensor:
    return core.tensor(values, dtype=core.float64, requires_grad=True)


def programs():
    def in_place(x):
        y = x * 2
        y.mul_(x)
        y.exp_()
        return y.sum()

    class Cube(core.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x**3
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * 3 * x * x + 0 * y

    return {
        "map": lambda x: (x * x.exp()).tanh().sum(),
        "matmul": lambda x: (x.outer(x) @ x).sum() if hasattr(x, "outer") else (x[:, None] * x @ x).sum(),
        "cat": lambda x: core.cat([x, x * 2]).prod(),
        "softmax": lambda x: (x.softmax(0) * x).sum(),
        "in place": in_place,
        "function": lambda x: Cube.apply(x).sum(),
        "split": lambda x: sum(p.exp().sum() for p in x.split(1)),
    }


@pytest.mark.parametrize("name", list(programs()))
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_through_hooks_are_the_same(name, create_graph):
    function = programs()[name]
    plain, hooked = leaf(0.5, -1.0, 2.0), leaf(0.5, -1.0, 2.0)
    packed = []

    def pack(t):
        packed.append(t)
        return t.detach().numpy().copy()

    with graph.saved_tensors_hooks(pack, core.from_numpy):
        y = function(hooked)
    z = function(plain)
    assert packed
    (g,) = core.autograd.grad(z, plain, create_graph=create_graph)
    (h,) = core.autograd.grad(y, hooked, create_graph=create_graph)
    np.testing.assert_array_equal(g.detach().numpy(), h.detach().numpy())
    if create_graph:
        (g,), (h,) = core.autograd.grad(g.sum(), plain), core.autograd.grad(h.sum(), hooked)
        np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-14)


def test_the_newest_hooks_pack_and_leaves_arrive_as_themselves():
    x, outer, inner = leaf(1.0), [], []
    with (
        graph.saved_tensors_hooks(lambda t: outer.append(t) or t, lambda t: t),
        graph.saved_tensors_hooks(lambda t: inner.append(t) or t, lambda t: t),
    ):
        y = x.sin()
    assert outer == []
    assert inner[0] is x
    y.backward()
    assert x.grad.item() == pytest.approx(np.cos(1.0))


def test_what_a_hook_changes_counts():
    x = leaf(3.0)
    with graph.saved_tensors_hooks(lambda t: t * 10, lambda t: t):
        y = x * x
    y.backward()
    assert x.grad.item() == 60.0


def test_an_unpack_hook_must_give_a_tensor():
    x = leaf(3.0)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 1.0):
        y = x * x
    with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Tensor"):
        y.backward()


def test_hooks_belong_to_their_thread():
    seen = []
    with graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        worker = threading.Thread(target=lambda: leaf(1.0).exp())
        worker.start()
        worker.join()
    assert seen == []


def test_freed_after_backward_with_hooks():
    x = leaf(1.0)
    with graph.save_on_cpu():
        y = x.exp()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hooks(mode):
    a, b, c, heard = leaf(1.0), leaf(2.0), leaf(3.0), []
    handle = graph.register_multi_grad_hook((a, b, c), heard.append, mode=mode)
    (a * b).backward()
    (b * 5).backward()
    handle.remove()
    (a * b).backward()
    assert len(heard) == 2
    if mode == "all":
        assert [None if g is None else g.item() for g in heard[0]] == [2.0, 1.0, None]
        assert [None if g is None else g.item() for g in heard[1]] == [None, 5.0, None]


def test_multi_grad_hook_of_computed_tensors():
    x, heard = leaf(1.0), []
    y, z = x * 2, x * 3
    graph.register_multi_grad_hook((y, z), heard.append)
    core.autograd.grad((y * z).sum(), x)
    assert [g.item() for g in heard[0]] == [3.0, 2.0]


def test_anomaly_names_the_op_and_its_line():
    x = leaf(-1.0, 1.0)
    y = x.sqrt().sum()
    with pytest.raises(RuntimeError, match=r"Function 'SqrtBackward0' returned nan values in its 0th output\.") as e:  # noqa: SIM117
        with core.autograd.detect_anomaly():
            y.backward()
    assert "x.sqrt()" in str(e.value)
    assert "it began here" in str(e.value)
    assert x.grad is None
    assert not core.autograd.anomaly.is_anomaly_enabled()
    with core.autograd.detect_anomaly(check_nan=False):
        leaf(-1.0).sqrt().sum().backward()


def test_anomaly_of_log_times_zero():
    x = leaf(0.0)
    with core.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match="Function 'LogBackward0' returned"):
        (x.log() * 0).sum().backward()


def test_batches_of_gradients():
    x = leaf(1.0, 2.0)
    y = x**2
    (g,) = core.autograd.grad(y, x, core.eye(2, dtype=core.float64), is_grads_batched=True)
    np.testing.assert_array_equal(g.numpy(), [[2, 0], [0, 4]])
    with pytest.raises(RuntimeError, match="is_grads_batched=True"):
        core.autograd.grad(x**2, x, core.ones(2, dtype=core.float64), is_grads_batched=True)


def test_threads_lose_no_update():
    w = core.zeros(20_000, requires_grad=True)
    x = core.ones(20_000)

    def work():
        for _ in range(50):
            (w * x).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (w.grad == 200).all()
    assert core.events.observe.phase == "forward"


def test_an_interrupt_leaves_the_graph_to_be_run_again():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = (y * y).sum()

    def interrupt(g):
        raise KeyboardInterrupt

    handle = y.register_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        z.backward(retain_graph=True)
    assert x.grad is None
    assert core.is_grad_enabled()
    assert core.events.observe.phase == "forward"
    handle.remove()
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2.0, 4.0]))


def test_backward_inside_a_hook_and_inside_a_function():
    inner = leaf(1.0, 1.0)
    x = leaf(2.0, 3.0)
    y = x * x

    def hook(g):
        with core.enable_grad():
            (inner * g.detach()).sum().backward()
        return g * 2

    y.register_hook(hook)

    class Nested(core.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t**2

        @staticmethod
        def backward(ctx, g):
            (t,) = ctx.saved_tensors
            with core.enable_grad():
                again = t.detach().requires_grad_()
                (again**2).sum().backward()
            return g * again.grad

    Nested.apply(y).sum().backward()
    np.testing.assert_allclose(inner.grad.numpy(), [8.0, 18.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * 4 * np.array([2.0, 3.0]) ** 3)
