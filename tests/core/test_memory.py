"""Memory with the garbage collector off: after a training step it is what it was before."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

import core
from core import nn
from core.nn import functional as F


def mlp():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    x, y = core.randn(5, 8), core.tensor([0, 1, 2, 1, 0])
    return list(model.parameters()), lambda: F.cross_entropy(model(x), y)


def rnn():
    w = core.randn(6, 6).mul_(0.1).requires_grad_()
    u = core.randn(6, 4).mul_(0.1).requires_grad_()
    xs = core.randn(12, 6)

    def loss():
        h = core.zeros(4)
        state = core.zeros(6)
        for x in xs:
            state = (x + state @ w).tanh()
            h = h + state @ u
        return (h**2).sum()

    return [w, u], loss


def penalised():
    w = core.randn(4, 4).requires_grad_()

    def loss():
        y = (w @ w).tanh().sum()
        (g,) = core.autograd.grad(y, w, create_graph=True)
        return y + (g**2).sum()

    return [w], loss


@pytest.mark.parametrize("make", [mlp, rnn, penalised])
def test_a_step_leaves_nothing_behind(make):
    core.manual_seed(0)
    params, loss = make()
    optimizer = core.optim.SGD(params, lr=0.01)

    def step():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()

    for _ in range(100):  # small arrays are kept for the next op, up to 32 of a shape: that store is full by then
        step()
    gc.collect()  # it empties the interpreter's free lists too, here and below
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        for _ in range(400):
            step()
        assert gc.collect() == 0  # nothing waited for the collector
        left = sys.getallocatedblocks() - before
    finally:
        gc.enable()
    assert left < 100  # in 400 steps, of which each makes hundreds


def test_a_chain_of_100_000_ops_gives_its_memory_back():
    x = core.ones(1, requires_grad=True)
    y, nodes = x, []
    for i in range(100_000):
        y = y * 1.0000001
        if i % 20_000 == 0:
            nodes.append(weakref.ref(y._a))
    y.sum().backward()
    assert abs(x.grad.item() - y.item()) < 1e-5
    gc.disable()
    try:
        del y
        assert all(n() is None for n in nodes)
    finally:
        gc.enable()
