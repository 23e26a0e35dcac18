"""The C path of the commonest ops equals the general way, declines what is not for it, and leaks nothing."""

from __future__ import annotations

import gc
import itertools
import sys

import numpy as np
import pytest

import core
from core import native
from core.declare.op import Elementwise, table
from core.dispatch.elementwise import call_map, fast_path
from core.events import observe
from core.graph.node import Node

ADD: Elementwise = table["add"]  # type: ignore[assignment]
MUL: Elementwise = table["mul"]  # type: ignore[assignment]
TANH: Elementwise = table["tanh"]  # type: ignore[assignment]


def fast(op: Elementwise):
    """The op's C path; who calls it is the user."""
    call_map(op, (core.ones(1),) * len(op.inputs))  # the kernel is looked up
    return fast_path(op)


def fields(node: Node) -> tuple[object, ...]:
    """What the engine reads of a node."""
    saved = tuple(v.tolist() if isinstance(v, np.ndarray) else v for v in node.saved or ())
    return (node.op, node.edges, node.kind, saved, [s is not None for s in node.storages], node.versions, node.nrs,
            node.in_shapes, node.params)  # fmt: skip


@pytest.mark.parametrize("grads", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("op", [ADD, MUL, table["true_divide"], table["maximum"]], ids=lambda o: o.name)
def test_its_nodes_are_those_of_the_general_way(op: Elementwise, grads: tuple[bool, bool]) -> None:
    a = core.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=grads[0])
    b = core.tensor([5.0, 6.0], requires_grad=grads[1])
    quick, full = fast(op)(a, b), call_map(op, (a, b))
    assert quick.tolist() == full.tolist()
    assert quick.requires_grad is full.requires_grad is any(grads)
    if any(grads):
        assert fields(quick.grad_fn) == fields(full.grad_fn)
        assert quick.grad_fn.code is full.grad_fn.code
        assert quick.grad_fn.number < full.grad_fn.number


def test_a_written_input_is_saved_with_its_version() -> None:
    a, b = core.ones(2), core.ones(2, requires_grad=True)
    a.add_(1)
    y = fast(MUL)(a, b)
    assert y.grad_fn.versions == call_map(MUL, (a, b)).grad_fn.versions
    a.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("op", [ADD, MUL, table["true_divide"], table["sub"]])
def test_a_number_may_stand_first(op: Elementwise) -> None:
    b = core.ones(2, 3, requires_grad=True) * 2
    quick, full = fast(op)(3.0, b), call_map(op, (3.0, b))
    assert quick.tolist() == full.tolist()
    assert fields(quick.grad_fn) == fields(full.grad_fn)
    quick.sum().backward(retain_graph=True)
    full.sum().backward()


def test_what_is_not_for_it_it_declines() -> None:
    add, tanh = fast(ADD), fast(TANH)
    x, whole = core.ones(2), core.ones(2, dtype=core.int64)
    assert add(x, x).tolist() == [2.0, 2.0]
    assert add(1.0, x).tolist() == [2.0, 2.0]
    assert tanh(x).tolist() == core.tanh(x).tolist()
    for a, b in [(x, x.double()), (whole, 1.0), (whole > 0, 1), (x, "a"), (x, None), (x, np.ones(2)), (1.0, 2.0),
                 (x, core.ones(3)), (x, core.ones(2, device="cuda"))]:  # fmt: skip
        assert add(a, b) is None
    with observe.observing(observe.Observer()):
        assert add(x, x) is None
    with core.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert tanh(core.ones(2, requires_grad=True)) is None


def test_grad_mode_and_views_are_respected() -> None:
    w = core.ones(4, requires_grad=True)
    with core.no_grad():
        assert not fast(TANH)(w).requires_grad
    y = w * 1
    view = y[:2]
    y.mul_(3)  # the view must learn of its base's new history
    fast(MUL)(view, 2.0).sum().backward()
    assert w.grad.tolist() == [6.0, 6.0, 0.0, 0.0]


def test_nothing_is_leaked() -> None:
    x, c = core.ones(8, 8, requires_grad=True), core.ones(8, 8)

    def once() -> None:
        ((x * 0.5 + c).tanh() * x).backward(c)
        x.grad = None
        with pytest.raises(RuntimeError):
            x + core.ones(3, 3)

    for _ in range(3):
        once()
    gc.collect()
    counted = [c, c._a, x, x._a, x._kind, Node, TANH, MUL]
    before, objects = [sys.getrefcount(o) for o in counted], len(gc.get_objects())
    for _ in range(50):
        once()
    gc.collect()
    assert [sys.getrefcount(o) for o in counted] == before
    assert len(gc.get_objects()) < objects + 20


def test_step_declines_what_the_engine_must_look_at() -> None:
    step = native.module.step
    x = core.ones(3, requires_grad=True)
    g = np.ones(3, np.float32)
    x.tanh().backward(core.ones(3))  # the recipe is known
    assert step(x.tanh().grad_fn, g, None)[0].shape == (3,)
    hooked = x.tanh()
    hooked.grad_fn.register_hook(lambda grads, outs: None)
    assert step(hooked.grad_fn, g, None) is None
    watched = x.tanh()
    watched.register_hook(lambda grad: None)
    assert step(watched.grad_fn, g, None) is None
    written = x.tanh()
    node = written.grad_fn
    written.add_(1)
    assert step(node, g, None) is None
    done = x.tanh()
    np.testing.assert_allclose(step(done.grad_fn, g, True)[0], 1 - np.tanh(np.ones(3)) ** 2, rtol=1e-6)
    assert done.grad_fn.freed is True
    assert step(done.grad_fn, g, True) is None
    assert step(x.sum().grad_fn, g, None) is None
