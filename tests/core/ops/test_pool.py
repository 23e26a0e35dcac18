"""Pooling against windows taken one by one; places; NaN; padding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core

F = core.nn.functional


def one_by_one(x, kernel, stride, padding, take):
    """`take` of each window of the last two dimensions, of what is inside the image."""
    h, w = x.shape[-2:]
    rows = (h + 2 * padding - kernel) // stride + 1
    columns = (w + 2 * padding - kernel) // stride + 1
    y = np.zeros((*x.shape[:-2], rows, columns))
    for i in range(rows):
        for j in range(columns):
            a, b = i * stride - padding, j * stride - padding
            part = x[..., max(a, 0) : min(a + kernel, h), max(b, 0) : min(b + kernel, w)]
            y[..., i, j] = take(part.reshape(*x.shape[:-2], -1))
    return y


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.integers(0, 3))
def test_windows_one_by_one(kernel, stride, padding, more):
    padding = min(padding, kernel // 2)
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, kernel + more, kernel + 1))
    t = core.tensor(x)
    found = F.max_pool2d(t, kernel, stride, padding)
    np.testing.assert_array_equal(found.numpy(), one_by_one(x, kernel, stride, padding, lambda p: p.max(-1)))
    mean = F.avg_pool2d(t, kernel, stride, padding)
    want = one_by_one(x, kernel, stride, padding, lambda p: p.sum(-1)) / kernel**2
    np.testing.assert_allclose(mean.numpy(), want, atol=1e-14)
    inside = F.avg_pool2d(t, kernel, stride, padding, count_include_pad=False)
    np.testing.assert_allclose(inside.numpy(), one_by_one(x, kernel, stride, padding, lambda p: p.mean(-1)), atol=1e-14)


def test_places_lead_back_to_the_values():
    x = core.rand(2, 3, 7, 6)
    for y, at in (F.max_pool2d(x, 3, 2, 1, return_indices=True), F.adaptive_max_pool2d(x, (3, 4), return_indices=True)):
        assert core.equal(x.flatten(2).gather(2, at.flatten(2)).reshape(y.shape), y)


def test_a_nan_is_the_greatest_and_minus_infinity_is_a_value():
    x = core.tensor([[1.0, math.nan, 3.0, 2.0]])
    assert F.max_pool1d(x, 2)[0].isnan().tolist() == [True, False]
    low = core.full((1, 4, 4), -math.inf)
    y, at = F.max_pool2d(low, 3, 2, 1, return_indices=True)
    assert y.isinf().all()
    assert 0 <= at.min() <= at.max() < 16


def test_the_gradient_of_overlapping_windows_adds_up():
    x = core.tensor([[0.0, 5.0, 0.0]], requires_grad=True)
    F.max_pool1d(x, 2, 1).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 0.0]]


def test_unpooling_puts_back():
    x = core.rand(1, 2, 4, 6)
    y, at = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(y, at, 2)
    assert core.equal(F.max_pool2d(back, 2), y)
    assert (back != 0).sum() == y.numel()
    with pytest.raises(ValueError, match="invalid output_size"):
        F.max_unpool2d(y, at, 2, output_size=(9, 9))


def test_sums_in_half_precision_are_rounded_once():
    x = core.full((1, 1, 64, 64), 0.1, dtype=core.float16)
    assert abs(F.avg_pool2d(x, 64).item() - 0.1) < 2e-4
    assert F.adaptive_avg_pool2d(x, 3).dtype is core.float16


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pooling_says_what_is_wrong_as_pytorch_does(kind):
    for n in (1, 2, 3):
        f, x = getattr(F, f"adaptive_{kind}_pool{n}d"), core.ones((2, 2, 3, 3, 3)[: n + 2])
        with pytest.raises(RuntimeError, match="output_size"):
            f(x, ())
        if n > 1:
            with pytest.raises(ValueError, match=f"Input dimension should be at least {n + 1}"):
                f(core.ones((2,) * n), (1,) * n)


def test_fractional_pooling_of_an_empty_batch():
    assert F.fractional_max_pool3d(core.ones(0, 1, 4, 5, 4), (2, 2, 1), output_size=2).shape == (0, 1, 2, 2, 2)


@pytest.mark.parametrize("out", [(1, 1), (2, 3), (4, 4), (5, 7), (6, 9)])
def test_adaptive_windows_reach_to_their_last_place(out: tuple[int, int]) -> None:
    x = np.random.default_rng(2).permutation(2 * 5 * 7).reshape(2, 5, 7).astype(np.float32)
    found, places = core.nn.functional.adaptive_max_pool2d(core.tensor(x), out, return_indices=True)
    ways = [[(i * m // o, -(-(i + 1) * m // o)) for i in range(o)] for m, o in zip((5, 7), out, strict=True)]
    expected = [[[plane[a:b, c:d].max() for c, d in ways[1]] for a, b in ways[0]] for plane in x]
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(
        x.reshape(2, 35)[np.arange(2)[:, None], places.reshape(2, -1).numpy()].reshape(found.shape), expected
    )
