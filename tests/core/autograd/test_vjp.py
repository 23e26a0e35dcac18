"""One step back: the fused kernel and the ops of the same text agree, for arrays, numbers, broadcasts and pieces."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.autograd import grad
from core.autograd.vjp import sum_to
from core.declare.op import Elementwise, table
from core.events import observe

MAPS = [op for op in table.values() if isinstance(op, Elementwise) and op.differentiable]


@pytest.mark.parametrize("op", MAPS, ids=lambda op: op.name)
def test_the_fused_gradient_is_that_of_the_ops(op, rng):
    arrays = [
        rng.random(5) > 0.5 if n in op.bools else rng.uniform(*d, 5) for n, d in zip(op.inputs, op.domain, strict=True)
    ]
    xs = [core.tensor(a, requires_grad=a.dtype == float) for a in arrays]
    wanted = [x for x, v in zip(xs, op.vjps, strict=True) if v is not None and x.requires_grad]
    y = core.declare.op.functions[op.name](*xs)
    g = core.tensor(rng.normal(size=5))
    fused = grad(y, wanted, g, retain_graph=True)
    in_ops = grad(y, wanted, g, create_graph=True)
    for a, b in zip(fused, in_ops, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-14)


class Kernels(observe.Observer):
    def __init__(self) -> None:
        self.ran: list[str] = []

    def backward(self, event):
        self.ran.append(event.kernel)


@pytest.mark.parametrize(
    ("dtype", "device", "suffix"),
    [(core.float32, "cpu", "_f32"), (core.float64, "cpu", "_f64"), (core.float16, "cpu", "_f16"),
     (core.float32, "cuda", "_kernel"), (core.bfloat16, "cuda", "_kernel")],
)  # fmt: skip
def test_which_kernel_runs(dtype, device, suffix):
    x = core.ones(3, dtype=dtype, device=device, requires_grad=True)
    y = x.tanh()
    z = y + x
    watch = Kernels()
    with observe.observing(watch):
        z.backward(core.ones_like(z))
    assert watch.ran == ["passes", "tanh_backward" + suffix]


def test_numbers_are_saved_as_they_are():
    x = core.tensor([2.0], requires_grad=True)
    y = x * 3
    assert y.grad_fn.saved == (3, None)
    (g,) = grad(y, x, create_graph=True)
    assert g.item() == 3
    y = 6 / x
    (g,) = grad(y, x, create_graph=True)
    (h,) = grad(g, x)
    assert (g.item(), h.item()) == (-1.5, 1.5)


def test_no_kernel_runs_for_inputs_without_gradient():
    x, w = core.ones(3, requires_grad=True), core.ones(3)
    watch = Kernels()
    with observe.observing(watch):
        (w / x).sum().backward()
        (x / w).sum().backward()
    assert [k for k in watch.ran if "divide" in k] == ["true_divide_backward_b_f32", "true_divide_backward_a_f32"]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("shape", "full"), [((3, 1), (3, 4)), ((), (2, 3)), ((1, 1), (5,)), ((4,), (2, 0, 4)), ((1,), (0,))]
)
def test_broadcasts_are_summed_back(shape, full, create_graph, rng):
    x = core.tensor(rng.normal(size=shape), requires_grad=True)
    y = core.tensor(rng.normal(size=full))
    out = x * y
    g = core.ones_like(out)
    (got,) = grad(out, x, g, create_graph=create_graph)
    assert got.shape == shape
    wide = np.broadcast_to(y.numpy(), out.shape)
    lead = out.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1)
    np.testing.assert_allclose(got.detach().numpy(), wide.sum(axes).reshape(shape), atol=1e-12)


def test_sum_to(rng):
    a = rng.normal(size=(2, 3, 4))
    kind = core.tensor(a)._kind
    for shape in [(3, 4), (1, 4), (3, 1), (2, 1, 4), (1, 1, 1), (), (1,), (2, 3, 4)]:
        lead = 3 - len(shape)
        axes = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1)
        np.testing.assert_allclose(sum_to(a, shape, kind), a.sum(axes).reshape(shape), rtol=1e-12)


def test_second_order_through_saved_outputs_of_several():
    x = core.tensor([1.0, 2.0, 3.0], dtype=core.float64, requires_grad=True)
    a, b = (x**3)[:2].unbind()
    (g,) = grad(a * b, x, create_graph=True)
    (h,) = grad(g.sum(), x)
    # f = x0³ x1³: the sum of the rows of its Hessian
    assert h.tolist() == [6 * 8 + 9 * 4, 9 * 4 + 6 * 2, 0]


def test_missing_gradients_of_outputs_are_zeros():
    x = core.tensor([1.0, 5.0, 3.0], requires_grad=True)
    pieces = (x * 2).unbind()
    pieces[1].backward()
    assert x.grad.tolist() == [0, 2, 0]
    values, _ = (x * 1).max(0)
    values.backward()
    assert x.grad.tolist() == [0, 3, 0]


def test_the_gradients_of_two_inputs_are_one_launch_on_cuda():
    watch = Kernels()
    x = np.arange(1.0, 7).reshape(2, 3).astype(np.float32)
    grads = []
    for where in ("cpu", "cuda"):
        a, b = (core.tensor(v).to(where).requires_grad_() for v in (x, x[0]))
        with observe.observing(watch):
            core.atan2(a * b, a / b).backward(core.tensor(x).to(where))
        (c,) = core.autograd.grad((a * 2.0).sum() + (a * b.detach()).sum(), a)  # one input: its own kernel
        grads.append([t.cpu().numpy() for t in (a.grad, b.grad, c)])
    assert watch.ran[-3:] == ["atan2_backward_kernel", "true_divide_backward_kernel", "mul_backward_kernel"]
    for on_cpu, on_cuda in zip(*grads, strict=True):
        np.testing.assert_allclose(on_cuda, on_cpu, rtol=1e-5)
