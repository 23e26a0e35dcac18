from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core
from core.autograd import gradcheck, gradgradcheck

X = np.random.default_rng(1).uniform(-2, 2, (2, 3, 4))


def leaf(a: Any = X) -> Any:
    return core.tensor(np.array(a), requires_grad=True)


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), (1, 0, 2), ()])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
def test_as_numpy(name: str, dim: Any, keepdim: bool) -> None:
    got = getattr(core, name)(core.from_numpy(X), dim, keepdim)
    want = getattr(np, name)(X, axis=None if dim == () else dim, keepdims=keepdim)
    assert tuple(got.shape) == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want)


@pytest.mark.parametrize("function", [
    lambda x: x.sum(1), lambda x: x.mean((0, 2), True), lambda x: x.prod(1), lambda x: x.cumsum(2),
    lambda x: x.logsumexp((0, 1)), lambda x: core.nansum(x, 0), lambda x: core.nanmean(x, 1),
])  # fmt: skip
def test_gradients_to_second_order(function: Any) -> None:
    gradcheck(function, leaf())
    gradgradcheck(function, leaf())


@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_the_gradient_of_a_product_with_zeros(zeros: int) -> None:
    x = np.array([2.0, 3.0, 4.0])
    x[:zeros] = 0
    gradcheck(lambda t: t.prod(), leaf(x))
    gradgradcheck(lambda t: t.prod(0), leaf(x))
    t = leaf(x)
    t.prod().backward()
    want = [12.0, 0.0, 0.0] if zeros == 1 else [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(t.grad.numpy(), want)


def test_integers_and_bools_sum_to_int64() -> None:
    for d in (core.bool, core.uint8, core.int32):
        x = core.ones(3, dtype=d)
        assert x.sum().dtype is x.prod(0).dtype is x.cumsum(0).dtype is core.int64
    assert core.ones(2).sum(dtype=core.float64).dtype is core.float64


def test_half_types_accumulate_in_float32() -> None:
    for d in (core.float16, core.bfloat16):
        x = core.full((5000,), 1.0, dtype=d)
        assert abs(x.sum().item() - 5000) <= 16
        assert x.mean().item() == 1
        assert x.sum().dtype is d


def test_of_nothing() -> None:
    void = core.zeros(0, 3)
    assert void.sum().item() == 0
    assert void.prod().item() == 1
    assert math.isnan(void.mean().item())
    assert void.logsumexp(0).tolist() == [-math.inf] * 3
    assert void.all().item()
    assert not void.any().item()


def test_logsumexp_neither_overflows_nor_gives_nan() -> None:
    x = core.tensor([[1e4, 1e4], [-math.inf, -math.inf]], dtype=core.float64, requires_grad=True)
    y = x.logsumexp(1)
    np.testing.assert_allclose(y.tolist(), [1e4 + math.log(2), -math.inf])
    y[0].backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0.5, 0.5], [0, 0]])


def test_truth() -> None:
    x = core.tensor([[0, 2], [3, 4]])
    assert x.all(1).tolist() == [False, True]
    assert x.any(0, keepdim=True).tolist() == [[True, True]]
    assert x.to(core.uint8).all(0).dtype is core.uint8
    assert core.count_nonzero(x, 1).tolist() == [1, 2]


def test_numpy_names_of_arguments() -> None:
    x = core.from_numpy(X)
    for name in ("sum", "mean", "amax", "argmax", "std"):
        f = getattr(core, name)
        assert f(x, axis=1, keepdims=True).tolist() == f(x, dim=1, keepdim=True).tolist()
        with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
            f(x, foo=1)


@pytest.mark.parametrize(("call", "error", "phrase"), [
    (lambda x: x.long().mean(), RuntimeError, "could not infer output dtype.*Got: Long"),
    (lambda x: (x > 0).mean(0), RuntimeError, "Got: Bool"),
    (lambda x: x.sum(3), IndexError, r"expected to be in range of \[-3, 2\], but got 3"),
    (lambda x: x.sum((0, 0)), RuntimeError, "dim 0 appears multiple times"),
    (lambda x: x.sum(0, 1), TypeError, "argument 'keepdim' .* must be bool, not int"),
    (lambda x: core.sum([1.0]), TypeError, "must be Tensor, not list"),
])  # fmt: skip
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call(core.from_numpy(X))
