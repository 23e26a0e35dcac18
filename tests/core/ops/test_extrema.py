from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core.autograd import gradcheck, gradgradcheck

X = np.random.default_rng(2).permutation(24).reshape(2, 3, 4) / 5.0


@pytest.mark.parametrize("function", [
    lambda x: x.amax(1), lambda x: x.amin((0, 2), True), lambda x: x.max(), lambda x: x.min(),
    lambda x: x.max(2)[0], lambda x: x.min(0, keepdim=True).values, lambda x: core.aminmax(x, dim=1),
])  # fmt: skip
def test_gradients_to_second_order(function: Any) -> None:
    x = core.tensor(X, requires_grad=True)
    gradcheck(function, x)
    gradgradcheck(
        lambda t: tuple(y * y for y in (function(t) if isinstance(function(t), tuple) else (function(t),))), x
    )


@pytest.mark.parametrize(("function", "gradient"), [
    (lambda x: x.max(), [0, 0.5, 0.5]),
    (lambda x: x.amax(0), [0, 0.5, 0.5]),
    (lambda x: x.max(0).values, [0, 1, 0]),
    (lambda x: x.min(), [1, 0, 0]),
])  # fmt: skip
def test_how_ties_share_the_gradient(function: Any, gradient: list[float]) -> None:
    x = core.tensor([1.0, 3.0, 3.0], requires_grad=True)
    function(x).backward()
    assert x.grad.tolist() == gradient


def test_values_and_indices_are_a_named_tuple() -> None:
    x = core.tensor([[1.0, 5.0], [7.0, 2.0]])
    values, indices = x.max(dim=1)
    assert (values.tolist(), indices.tolist()) == ([5, 7], [1, 0])
    assert indices.dtype is core.int64
    found = x.min(1, keepdim=True)
    assert found.indices.tolist() == [[0], [1]]
    assert repr(x.max(0)) == "core.return_types.max(\nvalues=tensor([7., 5.]),\nindices=tensor([1, 0]))"
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found)
    assert again.values.tolist() == [[1], [2]]


def test_of_two_tensors_it_is_the_elementwise_one() -> None:
    a, b = core.tensor([1.0, 4.0]), core.tensor([3.0, 2.0])
    assert core.max(a, b).tolist() == a.max(other=b).tolist() == [3, 4]
    assert a.min(b).tolist() == [1, 2]


def test_nan_wins() -> None:
    x = core.tensor([1.0, math.nan, 3.0])
    assert math.isnan(x.max().item())
    assert x.argmax().item() == x.argmin().item() == x.min(0).indices.item() == 1


def test_places() -> None:
    x = core.from_numpy(X)
    for name in ("argmax", "argmin"):
        f, want = getattr(x, name), getattr(np, name)
        assert f().item() == want(X)
        assert f(1).tolist() == want(X, 1).tolist()
        assert f(dim=2, keepdim=True).tolist() == want(X, 2, keepdims=True).tolist()
        assert tuple(f(keepdim=True).shape) == (1, 1, 1)


@pytest.mark.parametrize(("call", "error", "phrase"), [
    (lambda v: v.max(), RuntimeError, "max.*Expected reduction dim to be specified"),
    (lambda v: v.amin(), RuntimeError, "amin.*Expected reduction dim to be specified"),
    (lambda v: v.max(0), IndexError, "max.*Expected reduction dim 0 to have non-zero size"),
    (lambda v: v.argmin(), IndexError, "argmin.*Expected reduction dim to be specified"),
    (lambda v: v.argmax(0), IndexError, "Expected reduction dim 0 to have non-zero size"),
    (lambda v: (v > 0).argmax(1), RuntimeError, "does not support bool input"),
    (lambda v: v.max(2), IndexError, "Dimension out of range"),
])  # fmt: skip
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call(core.zeros(0, 3))


def test_an_empty_dimension_that_is_not_reduced() -> None:
    assert tuple(core.zeros(0, 3).amax(1).shape) == (0,)
    assert tuple(core.zeros(0, 3).max(1).values.shape) == (0,)
