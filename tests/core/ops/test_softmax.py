from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck

X = np.random.default_rng(4).uniform(-3, 3, (2, 3, 5))


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_as_numpy_with_gradients(dim: int) -> None:
    x = core.tensor(X, requires_grad=True)
    want = np.exp(X) / np.exp(X).sum(dim, keepdims=True)
    np.testing.assert_allclose(x.softmax(dim).detach().numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(x.log_softmax(dim).detach().numpy(), np.log(want), rtol=1e-12)
    for f in (core.softmax, core.log_softmax):
        gradcheck(lambda t, f=f: f(t, dim), x)
        gradgradcheck(lambda t, f=f: f(t, dim), x)


def test_large_numbers() -> None:
    x = core.tensor([1e30, 1e30, -1e30])
    assert x.softmax(0).tolist() == [0.5, 0.5, 0]
    assert core.tensor([1000.0, 0.0]).log_softmax(0).tolist() == [0, -1000]
    assert core.tensor([0.0, -math.inf]).softmax(0).tolist() == [1, 0]


def test_dtype_is_where_it_is_computed() -> None:
    i = core.tensor([[1, 2], [3, 4]])
    assert i.softmax(1, dtype=core.float64).dtype is core.float64
    assert core.ones(2, dtype=core.float16).softmax(0).dtype is core.float16
    assert F.log_softmax(i, 1, dtype=core.float32).dtype is core.float32


def test_of_a_scalar_and_of_nothing() -> None:
    assert core.tensor(3.0).softmax(0).item() == 1
    assert core.tensor(3.0).log_softmax(-1).item() == 0
    assert tuple(core.zeros(0, 3).softmax(0).shape) == (0, 3)


def test_softmin_and_the_dim_that_once_was_implicit() -> None:
    x = core.tensor(X)
    np.testing.assert_allclose(F.softmin(x, 1).numpy(), (-x).softmax(1).numpy())
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax has been deprecated"):
        assert F.softmax(x).tolist() == x.softmax(0).tolist()


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (
            lambda: core.ones(2, 2, dtype=core.int64).softmax(1),
            NotImplementedError,
            "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'",
        ),
        (
            lambda: core.ones(2, 2, dtype=core.int64).log_softmax(0),
            NotImplementedError,
            "\"log_softmax_kernel_impl\" not implemented for 'Long'",
        ),
        (lambda: core.ones(2, 2).softmax(2), IndexError, "Dimension out of range"),
        (lambda: core.softmax([1.0], 0), TypeError, "must be Tensor, not list"),
    ],
)
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call()
