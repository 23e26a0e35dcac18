"""Ops that are linear in pieces: their gradient has a gradient, of zeros, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import core
import core.nn.functional as F

t = core.tensor([0, 1, 2])
PIECEWISE: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu, "relu method": lambda x: x.relu(), "relu6": F.relu6, "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh, "hardsigmoid": F.hardsigmoid, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0), "rrelu": F.rrelu, "abs": core.abs,
    "prelu": lambda x: F.prelu(x, core.tensor([0.3])),
    "l1_loss": lambda x: F.l1_loss(x, core.zeros(3, 4)), "nll_loss": lambda x: F.nll_loss(x, t),
    "nll_loss weights": lambda x: F.nll_loss(x, t, core.ones(4)), "norm 1": lambda x: x.norm(1),
    "norm inf": lambda x: x.norm(float("inf")), "matrix norm": lambda x: core.linalg.matrix_norm(x, 1),
    "max_pool1d": lambda x: F.max_pool1d(x[None], 2), "max_pool2d": lambda x: F.max_pool2d(x[None, None], 2),
    "max_pool3d": lambda x: F.max_pool3d(x[None, None, None], (1, 2, 2)),
    "avg_pool1d": lambda x: F.avg_pool1d(x[None], 2), "avg_pool2d": lambda x: F.avg_pool2d(x[None, None], 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[None], 3),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x[None], 2),
    "max_unpool1d": lambda x: F.max_unpool1d(*F.max_pool1d(x[None], 2, return_indices=True), 2),
    "reflect": lambda x: F.pad(x[None], (1, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x[None], (1, 1), mode="replicate"),
    "grid_sample": lambda x: F.grid_sample(x[None, None], core.zeros(1, 2, 2, 2), mode="nearest", align_corners=False),
}  # fmt: skip
LINEAR: dict[str, Callable[[Any], Any]] = {  # of these the gradient has no history, in PyTorch too
    "twice": lambda x: 2 * x, "constant padding": lambda x: F.pad(x, (1, 1)), "sum": lambda x: x.sum(),
}  # fmt: skip


def numbers() -> Any:
    return core.tensor([[0.5, -1.5, 2.5, -0.3], [1.5, -0.7, 0.2, 3.0], [-2.0, 0.4, -0.6, 1.1]], requires_grad=True)


@pytest.mark.parametrize("name", PIECEWISE)
def test_the_second_gradient_is_zeros(name: str) -> None:
    x = numbers()
    (g,) = core.autograd.grad(PIECEWISE[name](x).sum(), x, create_graph=True)
    assert g.requires_grad
    (again,) = core.autograd.grad(g.sum(), x)
    assert again.shape == x.shape
    assert not again.any()
    (plain,) = core.autograd.grad(PIECEWISE[name](x).sum(), x)
    assert plain.tolist() == g.tolist()


def test_both_sides_of_a_distance_have_zeros() -> None:
    x, y = numbers(), core.zeros(3, 1, requires_grad=True)
    found = core.autograd.grad(F.l1_loss(x, y.expand(3, 4), reduction="sum"), (x, y), create_graph=True)
    for a in (x, y):
        assert all(not g.any() for g in core.autograd.grad(sum(f.sum() for f in found), a, retain_graph=True))


def test_a_penalty_on_a_gradient_trains_through_relu() -> None:
    w = core.tensor([[0.5, -1.0]], requires_grad=True)
    x = core.tensor([[2.0], [3.0]], requires_grad=True)
    (g,) = core.autograd.grad(F.relu(w @ x + 5).sum(), x, create_graph=True)
    (g * g).sum().backward()
    assert w.grad.tolist() == [[1, -2]]
    assert x.grad.tolist() == [[0], [0]]


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_linear_gives_a_gradient_without_a_history(name: str) -> None:
    x = numbers()
    (g,) = core.autograd.grad(LINEAR[name](x).sum(), x, create_graph=True)
    assert not g.requires_grad
