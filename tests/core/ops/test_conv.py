"""Convolutions against the sum that defines them, and their errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core

F = core.nn.functional


def defined(x, w, stride, padding, dilation, groups):
    """The definition, one product at a time."""
    spatial = x.ndim - 2
    framed = np.zeros((*x.shape[:2], *(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))))
    framed[(..., *(slice(p, p + n) for p, n in zip(padding, x.shape[2:], strict=True)))] = x
    sizes = zip(framed.shape[2:], w.shape[2:], stride, dilation, strict=True)
    out = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes)
    y = np.zeros((len(x), w.shape[0], *out))
    inside, outside = w.shape[1], w.shape[0] // groups
    for o, c, *at in product(range(w.shape[0]), range(inside), *(range(k) for k in w.shape[2:])):
        key = tuple(slice(a * d, a * d + (m - 1) * s + 1, s)
                    for a, d, m, s in zip(at, dilation, out, stride, strict=True))  # fmt: skip
        y[:, o] += framed[(slice(None), o // outside * inside + c, *key)] * w[(o, c, *at)]
    assert len(out) == spatial
    return y


@st.composite
def convolutions(draw):
    n, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    pick = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(n))
    kernel, stride, padding, dilation = pick(1, 3), pick(1, 3), pick(0, 2), pick(1, 2)
    sizes = tuple(max(1, d * (k - 1) + 1 - 2 * p + draw(st.integers(0, 4)))
                  for k, p, d in zip(kernel, padding, dilation, strict=True))  # fmt: skip
    inside, outside, batch = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(0, 3))
    return (batch, inside * groups, *sizes), (outside * groups, inside, *kernel), stride, padding, dilation, groups


@settings(max_examples=60, deadline=None)
@given(convolutions(), st.sampled_from(["float32", "float64"]))
def test_it_is_the_sum_that_defines_it(case, dtype):
    x_shape, w_shape, stride, padding, dilation, groups = case
    rng = np.random.default_rng(0)
    x, w = rng.uniform(-1, 1, x_shape).astype(dtype), rng.uniform(-1, 1, w_shape).astype(dtype)
    f = getattr(F, f"conv{x.ndim - 2}d")
    tx, tw = core.tensor(x).requires_grad_(), core.tensor(w).requires_grad_()
    y = f(tx, tw, None, stride, padding, dilation, groups)
    want = defined(x, w, stride, padding, dilation, groups)
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    np.testing.assert_allclose(y.detach().numpy(), want, atol=tolerance)
    g = rng.uniform(-1, 1, want.shape).astype(dtype)
    y.backward(core.tensor(g))
    # the convolution is linear in x and in w, so <g, conv(dx, w)> is <gradient of x, dx>
    dx, dw = rng.uniform(-1, 1, x_shape), rng.uniform(-1, 1, w_shape)
    for grad, d, moved in ((tx.grad, dx, (dx, w)), (tw.grad, dw, (x, dw))):
        turned = (defined(*moved, stride, padding, dilation, groups) * g).sum()
        assert abs(float((grad.numpy() * d).sum()) - turned) <= tolerance * 10 * max(1.0, np.abs(g).sum())


def test_a_transposed_convolution_undoes_the_shape():
    x, w = core.rand(2, 3, 9, 7), core.rand(4, 3, 3, 2)
    y = F.conv2d(x, w, stride=2, padding=1)
    assert F.conv_transpose2d(y, w, stride=2, padding=1, output_padding=(0, 1)).shape == x.shape


def test_rows_and_reference_take_what_they_say(rng):
    x, w = core.tensor(rng.uniform(-1, 1, (1, 2, 4, 4))), core.tensor(rng.uniform(-1, 1, (2, 2, 3, 3)))
    exact = F.conv2d(x, w, padding=1)
    half = F.conv2d(x.half(), w.half(), padding=1)
    assert half.dtype is core.float16
    assert (half.double() - exact).abs().max() < 1e-2
    whole = F.conv2d(core.ones(1, 1, 3, 3, dtype=core.int64), core.ones(1, 1, 2, 2, dtype=core.int64))
    assert whole.dtype is core.int64
    assert whole.unique().tolist() == [4]


def test_layouts_do_not_matter(rng):
    x, w = rng.uniform(-1, 1, (2, 3, 6, 5)), rng.uniform(-1, 1, (4, 3, 3, 3))
    want = F.conv2d(core.tensor(x), core.tensor(w))
    turned = core.tensor(np.ascontiguousarray(x.transpose(0, 1, 3, 2))).transpose(2, 3)
    back = core.from_numpy(x[:, :, ::-1].copy()).flip(2)
    for other in (turned, back):
        assert core.equal(F.conv2d(other, core.tensor(w)), want)


def test_a_wrong_number_of_channels_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"expected input\[1, 4, 3, 3\] to have 3 channels, but got 4 channels"):
        F.conv2d(core.ones(1, 4, 3, 3), core.ones(2, 3, 3, 3))
    with pytest.raises(RuntimeError, match="remedy: a smaller kernel, or padding"):
        F.conv2d(core.ones(1, 3, 2, 2), core.ones(2, 3, 3, 3))
