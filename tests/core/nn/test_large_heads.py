"""The adaptive softmax and the linear cross entropy: what holds without PyTorch beside them."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import nn


def test_the_adaptive_softmax_is_a_distribution_that_predicts() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 50, [5, 20])
    x = 4 * core.randn(30, 16)
    whole = layer.log_prob(x)
    assert core.allclose(whole.exp().sum(1), core.ones(30), atol=1e-5)
    targets = core.randint(0, 50, (30,))
    output, loss = layer(x, targets)
    assert core.allclose(output, whole.gather(1, targets.unsqueeze(1)).squeeze(1), atol=1e-5)
    assert core.allclose(loss, -output.mean())
    assert core.equal(layer.predict(x), whole.argmax(1))


def test_pieces_hold_no_logits() -> None:
    """Of a batch in pieces nothing of the size of the logits is kept for the gradient."""
    x, w = core.randn(64, 8, requires_grad=True), core.randn(500, 8, requires_grad=True)
    t = core.randint(0, 500, (64,))
    found = []
    kept: list[int] = []

    def keep(a: core.Tensor) -> core.Tensor:
        kept.append(a.numel())
        return a

    for options in (None, nn.LinearCrossEntropyOptions(batch_chunk_size=10)):
        kept.clear()
        with core.autograd.graph.saved_tensors_hooks(keep, lambda a: a):
            loss = nn.functional.linear_cross_entropy(x, w, t, options=options)
        found.append((max(kept, default=0), core.autograd.grad(loss, (x, w)), loss))
    (whole, grads, loss), (pieces, others, other) = found
    assert whole >= 64 * 500 > 10 * 500 >= pieces
    assert core.allclose(loss, other)
    for a, b in zip(grads, others, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)


def test_pieces_without_gradient_and_with_ignored_targets() -> None:
    layer = nn.LinearCrossEntropyLoss(4, 6, ignore_index=0, options=nn.LinearCrossEntropyOptions(batch_chunk_size=2))
    plain = nn.LinearCrossEntropyLoss(4, 6, ignore_index=0)
    plain.load_state_dict(layer.state_dict())
    x, t = core.randn(5, 4), core.tensor([0, 1, 2, 0, 5])
    with core.no_grad():
        assert core.allclose(layer(x, t), plain(x, t))


def test_the_older_response_norm_in_any_type() -> None:
    layer = nn.CrossMapLRN2d(3, alpha=0.3)
    x = core.randn(2, 5, 3, 3)
    plain = nn.LocalResponseNorm(3, alpha=0.3)(x)
    assert core.allclose(layer(x)[:, :2], plain[:, :2])  # where channel 0 is in the window anyway
    assert layer(x.half()).dtype is core.float16


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pools_draw_anew(n: int) -> None:
    layer = getattr(nn, f"FractionalMaxPool{n}d")(2, output_ratio=0.6, return_indices=True)
    x = core.arange(12.0**n).reshape(1, 1, *(12,) * n)
    y, places = layer(x)
    assert core.equal(y.flatten(), x.flatten()[places.flatten()])
    assert any(not core.equal(layer(x)[0], y) for _ in range(20))
