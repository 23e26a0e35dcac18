"""What the engine frees and when: saved arrays, retained graphs, long chains, no reference cycles."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref

import numpy as np
import pytest

import core
from core.autograd import grad

from .common import leaf, line

FILE = "test_freeing.py"


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
