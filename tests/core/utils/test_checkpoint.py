"""Checkpoints: the same gradients, less memory, the same random numbers, and errors where the second run differs."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import core
from core import nn
from core.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)


def model() -> nn.Sequential:
    core.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1))


def gradients(run) -> list:
    m = model()
    x = core.arange(8.0).reshape(2, 4).requires_grad_()
    core.manual_seed(1)
    run(m, x).sum().backward()
    return [p.grad.numpy() for p in m.parameters()] + [x.grad.numpy()]


@pytest.mark.parametrize("run", [
    lambda m, x: checkpoint(m, x, use_reentrant=False),
    lambda m, x: checkpoint(m, x, early_stop=False),
    lambda m, x: checkpoint_sequential(m, 3, x),
    lambda m, x: checkpoint(lambda t: checkpoint(m[3:], checkpoint(m[:3], t)), x),
])  # fmt: skip
def test_the_same_gradients(run):
    for a, b in zip(gradients(lambda m, x: m(x)), gradients(run), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_second_run_leaves_the_generator_alone():
    m, x = model(), core.ones(2, 4)
    y = checkpoint(m, x).sum()
    state = core.get_rng_state()
    y.backward()
    assert (core.get_rng_state() == state).all()


@pytest.mark.parametrize("early", [True, False])
def test_it_runs_twice_and_stops_early(early):
    calls = []

    def f(x):
        calls.append("begin")
        y = x.exp().sin()
        calls.append("end")
        return y

    x = core.ones(2, requires_grad=True)
    with set_checkpoint_early_stop(early):
        y = checkpoint(f, x)
        assert calls == ["begin", "end"]
        y.sum().backward()
    assert calls == ["begin", "end", "begin"] + ([] if early else ["end"])


def test_a_retained_graph_and_second_order():
    x = core.tensor([0.5, 1.0], dtype=core.float64, requires_grad=True)
    y = checkpoint(lambda t: (t.exp() * t).sum(), x)
    (g,) = core.autograd.grad(y, x, create_graph=True)
    (h,) = core.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(h.numpy(), (2 + np.array([0.5, 1.0])) * np.exp([0.5, 1.0]))
    y = checkpoint(lambda t: t.exp().sum(), x)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([0.5, 1.0]))


def test_a_function_that_differs_is_an_error():
    lengths = iter([3, 2])
    x = core.ones(4, requires_grad=True)
    y = checkpoint(lambda t: t[: next(lengths)].exp().sum(), x)
    with pytest.raises(CheckpointError, match="have different metadata"):
        y.backward()
    flags = iter([True, False])
    y = checkpoint(lambda t: t.exp().sin() if next(flags) else t.exp(), x)
    with pytest.raises(CheckpointError, match="A different number of tensors was saved"):
        y.sum().backward()


def test_nested_structures_and_keywords():
    x = core.ones(2, requires_grad=True)
    out = checkpoint(lambda d, k=1: {"y": d["x"].exp() * k}, {"x": x}, k=3)
    out["y"].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp([1, 1]), rtol=1e-6)


def test_nothing_in_between_is_kept():
    def alive(run) -> int:
        arrays = []

        def chain(t):
            for _ in range(20):
                t = t.sin()
                arrays.append(weakref.ref(t._a))
            return t

        y = run(chain, core.ones(100, requires_grad=True))
        assert y.requires_grad
        return sum(a() is not None for a in arrays)

    assert alive(lambda f, x: f(x)) == 20
    assert alive(checkpoint) == 1  # the output itself


@pytest.mark.parametrize("segments", [0, 7])
def test_segments(segments):
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential(model(), segments, core.ones(2, 4))
