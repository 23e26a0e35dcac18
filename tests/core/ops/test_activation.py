from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck

X = np.array([-4.0, -2.0, -0.7, -0.2, 0.3, 0.6, 1.5, 5.0])


@pytest.mark.parametrize(("f", "want"), [
    (F.mish, X * np.tanh(np.log1p(np.exp(X)))),
    (F.selu, 1.0507009873554805 * np.where(X > 0, X, 1.6732632423543772 * np.expm1(X))),
    (lambda x: F.celu(x, 2.0), np.where(X > 0, X, 2 * np.expm1(X / 2))),
    (F.hardsigmoid, np.clip(X / 6 + 0.5, 0, 1)),
    (F.hardswish, X * np.clip(X / 6 + 0.5, 0, 1)),
    (F.softsign, X / (1 + np.abs(X))),
    (F.tanhshrink, X - np.tanh(X)),
    (F.softshrink, np.sign(X) * np.maximum(np.abs(X) - 0.5, 0)),
    (F.hardshrink, np.where(np.abs(X) > 0.5, X, 0)),
    (lambda x: F.threshold(x, 0.4, 9.0), np.where(X > 0.4, X, 9)),
    (F.relu6, np.clip(X, 0, 6)),
    (lambda x: F.prelu(x, core.tensor([0.1], dtype=core.float64)), np.where(X > 0, X, 0.1 * X)),
])  # fmt: skip
def test_values_and_gradients(f: Any, want: Any) -> None:
    x = core.tensor(X, requires_grad=True)
    np.testing.assert_allclose(f(x).detach().numpy(), want, rtol=1e-12, atol=1e-15)
    gradcheck(f, x)
    gradgradcheck(f, x)


@pytest.mark.parametrize(
    "name",
    ["relu", "leaky_relu", "elu", "celu", "selu", "silu", "mish", "hardtanh", "relu6", "hardsigmoid", "hardswish"],
)
def test_in_place_writes_the_input(name: str) -> None:
    f = getattr(F, name)
    leaf = core.tensor(X, requires_grad=True)
    x = leaf * 1
    y = f(x, inplace=True)
    assert y is x
    np.testing.assert_array_equal(y.detach().numpy(), f(core.tensor(X)).numpy())
    y.sum().backward()
    other = core.tensor(X, requires_grad=True)
    f(other).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), other.grad.numpy())


def test_threshold_in_place() -> None:
    x = core.tensor([0.0, 2.0])
    assert F.threshold(x, 1, 5, inplace=True) is x
    assert x.tolist() == [5, 2]


def test_prelu_by_channel_and_glu() -> None:
    x = core.tensor(np.random.default_rng(0).uniform(-1, 1, (2, 3, 4)), requires_grad=True)
    w = core.tensor([0.1, 0.2, 0.3], dtype=core.float64, requires_grad=True)
    a = x.detach().numpy()
    np.testing.assert_allclose(
        F.prelu(x, w).detach().numpy(), np.where(a > 0, a, a * np.array([0.1, 0.2, 0.3])[:, None])
    )
    np.testing.assert_allclose(F.glu(x).detach().numpy(), a[..., :2] / (1 + np.exp(-a[..., 2:])))
    for f, args in ((F.prelu, (x, w)), (F.glu, (x,)), (lambda t: F.glu(t, 0), (x,))):
        gradcheck(f, args)
        gradgradcheck(f, args)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="Halving dimension must be even, but dimension 1 is size 3"):
        F.glu(core.ones(2, 3))
    with pytest.raises(RuntimeError, match="Mismatch of parameter numbers and input channel size"):
        F.prelu(core.ones(2, 3), core.ones(2))
    with pytest.raises(ValueError, match="min_val cannot be greater than max_val"):
        F.hardtanh(core.ones(2), 1, 0)


@pytest.mark.parametrize("lambd", [-1.0, float("nan"), 1e39])
def test_softshrink_takes_no_negative_lambda(lambd: float) -> None:
    with pytest.raises(RuntimeError, match="lambda must be in range"):
        F.softshrink(core.ones(2), lambd)
    with pytest.raises(RuntimeError, match="lambda must be in range"):
        core.nn.Softshrink(lambd)(core.ones(2))


def test_celu_takes_no_alpha_of_zero() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError: alpha cannot be 0 for CELU"):
        F.celu(core.ones(2), alpha=0.0)


# The gradient at the kinks and on both sides of them, as PyTorch gives it.
KINKS: dict[str, tuple[Any, dict[float, float]]] = {
    "relu": (F.relu, {-1: 0, 0: 0, 1: 1}),
    "relu6": (F.relu6, {-1: 0, 0: 0, 3: 1, 6: 0, 7: 0}),
    "hardtanh": (F.hardtanh, {-2: 0, -1: 0, 0: 1, 1: 0, 2: 0}),
    "hardsigmoid": (F.hardsigmoid, {-4: 0, -3: 0, 0: 1 / 6, 3: 0, 4: 0}),
    "hardswish": (F.hardswish, {-4: 0, -3: 0, 0: 0.5, 3: 1, 4: 1}),
    "hardshrink": (F.hardshrink, {-1: 1, -0.5: 0, 0: 0, 0.5: 0, 1: 1}),
    "softshrink": (F.softshrink, {-1: 1, -0.5: 0, 0: 0, 0.5: 0, 1: 1}),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), {-1: 0.2, 0: 0.2, 1: 1}),
    "elu": (lambda x: F.elu(x, 2.0), {-1: 2 * np.exp(-1), 0: 2, 1: 1}),
    "celu": (lambda x: F.celu(x, 2.0), {-1: np.exp(-0.5), 0: 1, 1: 1}),
    "selu": (F.selu, {-1: 0.646768603034814, 0: 1.758099340847377, 1: 1.05070098735548}),
    "softsign": (F.softsign, {-1: 0.25, 0: 1, 1: 0.25}),
    "softplus": (F.softplus, {0: 0.5, 19: 1 / (1 + np.exp(-19)), 20: 1 / (1 + np.exp(-20)), 21: 1}),
    "threshold": (lambda x: F.threshold(x, 1.0, 7.0), {0: 0, 1: 0, 2: 1}),
    "prelu": (lambda x: F.prelu(x, core.tensor([0.3], dtype=core.float64)), {-1: 0.3, 0: 0.3, 1: 1}),
    "clamp": (lambda x: x.clamp(-1.0, 1.0), {-2: 0, -1: 1, 0: 1, 1: 1, 2: 0}),
    "clamp below": (lambda x: x.clamp(min=-1.0), {-2: 0, -1: 1, 0: 1}),
    "clamp above": (lambda x: x.clamp(max=1.0), {0: 1, 1: 1, 2: 0}),
    "maximum": (lambda x: core.maximum(x, x.detach() * 0), {-1: 0, 0: 0.5, 1: 1}),
    "minimum": (lambda x: core.minimum(x, x.detach() * 0), {-1: 1, 0: 0.5, 1: 0}),
    "fmax": (lambda x: core.fmax(x, x.detach() * 0), {-1: 0, 0: 1, 1: 1}),
    "fmin": (lambda x: core.fmin(x, x.detach() * 0), {-1: 1, 0: 1, 1: 0}),
    "abs": (core.abs, {-1: -1, 0: 0, 1: 1}),
    "huber": (lambda x: F.huber_loss(x, x.detach() * 0, "sum"), {-2: -1, -1: -1, -0.5: -0.5, 0: 0, 1: 1, 2: 1}),
    "smooth_l1": (lambda x: F.smooth_l1_loss(x, x.detach() * 0, reduction="sum"), {-2: -1, -0.5: -0.5, 0: 0, 1: 1}),
    "pow of 0": (lambda x: x**0, {-1: 0, 0: 0, 1: 0}),
    "copysign": (lambda x: core.copysign(x, -1.0), {-2: 1, 0: 0, 2: -1}),
}


@pytest.mark.parametrize("name", KINKS)
def test_the_gradient_at_kinks(name: str) -> None:
    f, points = KINKS[name]
    x = core.tensor([float(v) for v in points], dtype=core.float64, requires_grad=True)
    f(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), list(points.values()), atol=1e-15)
