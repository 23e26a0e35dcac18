from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core
from core.autograd import gradcheck, gradgradcheck

X = np.random.default_rng(3).uniform(-2, 2, (2, 3, 4))


@pytest.mark.parametrize("dim", [None, 1, (0, 2)])
@pytest.mark.parametrize("correction", [0, 1, 2])
@pytest.mark.parametrize("name", ["var", "std"])
def test_as_numpy(name: str, dim: Any, correction: int) -> None:
    got = getattr(core, name)(core.from_numpy(X), dim, correction=correction)
    np.testing.assert_allclose(got.numpy(), getattr(np, name)(X, axis=dim, ddof=correction))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.var(1),
        lambda x: x.std((0, 2), keepdim=True),
        lambda x: core.var_mean(x, 0),
        lambda x: core.std_mean(x),
        lambda x: x.norm(),
        lambda x: x.norm(1, 1),
        lambda x: x.norm(math.inf, 2),
        lambda x: x.norm(3, (0, 1)),
        lambda x: x.norm(2, dim=0, keepdim=True),
        lambda x: x.norm(-math.inf),
        lambda x: x.norm(1.5, 2),
    ],
)
def test_gradients_to_second_order(function: Any) -> None:
    x = core.tensor(X, requires_grad=True)
    gradcheck(function, x)
    gradgradcheck(function, x)


def test_the_correction_is_one_unless_said_otherwise() -> None:
    x = core.tensor([1.0, 2.0, 3.0, 4.0])
    assert x.var().item() == pytest.approx(5 / 3)
    assert x.var(unbiased=False).item() == x.var(False).item() == pytest.approx(5 / 4)


def test_one_element_has_no_spread() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert math.isnan(core.tensor([1.0]).var().item())


def test_at_kinks_the_slope_is_zero_not_nan() -> None:
    for f in (lambda x: x.std(), lambda x: x.norm(), lambda x: x.norm(3)):
        x = core.full((3,), 0.0, requires_grad=True)
        f(x).backward()
        assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, math.inf, -math.inf])
def test_norms_as_numpy(p: float) -> None:
    got = core.from_numpy(X).norm(p, 2)
    np.testing.assert_allclose(got.numpy(), np.linalg.norm(X, p, 2))
    assert core.from_numpy(X).norm("fro").item() == pytest.approx(np.sqrt((X * X).sum()))


@pytest.mark.parametrize(("call", "phrase"), [
    (lambda: core.ones(3, dtype=core.int64).var(), "std and var only support floating point"),
    (lambda: core.ones(3, dtype=core.int64).norm(), "Expected a floating point or complex tensor as input. Got Long"),
    (lambda: core.ones(3).norm("abc"), "Order abc not supported"),
])  # fmt: skip
def test_errors(call: Any, phrase: str) -> None:
    with pytest.raises(RuntimeError, match=phrase):
        call()


def test_norm_knows_the_nuclear_norm() -> None:
    x = core.from_numpy(X)
    want = np.linalg.svd(X, compute_uv=False).sum(-1)
    np.testing.assert_allclose(x.norm("nuc", dim=(1, 2)).numpy(), want)
    np.testing.assert_allclose(x[0].norm("nuc", keepdim=True).numpy(), want[:1, None])
