from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck

attention = F.scaled_dot_product_attention


def r(*shape: int, seed: int = 0) -> Any:
    return core.tensor(np.random.default_rng(seed).uniform(-1, 1, shape), requires_grad=True)


def by_hand(q: Any, k: Any, v: Any, allowed: Any = None, scale: float | None = None) -> Any:
    s = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if allowed is not None:
        s = np.where(allowed, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3, -0.5])
def test_as_by_hand(causal: bool, scale: float | None) -> None:
    q, k, v = r(2, 3, 4), r(2, 5, 4, seed=1), r(2, 5, 6, seed=2)
    got = attention(q, k, v, is_causal=causal, scale=scale)
    allowed = np.tril(np.ones((3, 5), bool)) if causal else None
    np.testing.assert_allclose(got.detach().numpy(), by_hand(*(t.detach().numpy() for t in (q, k, v)), allowed, scale))


def test_gradients_to_second_order() -> None:
    args = (r(1, 2, 2), r(1, 3, 2, seed=1), r(1, 3, 2, seed=2))
    gradcheck(attention, args)
    gradgradcheck(lambda *a: attention(*a, is_causal=True), args)


def test_masks() -> None:
    q = r(3, 4)
    mask = core.tensor([[True, False, True], [True, True, True], [False, False, False]])
    got = attention(q, q, q, attn_mask=mask)
    np.testing.assert_allclose(
        got[:2].detach().numpy(),
        by_hand(*[q.detach().numpy()] * 3, mask.numpy() | ~mask.numpy().any(1, keepdims=True))[:2],
    )
    assert got[2].tolist() == [0, 0, 0, 0]  # a row that may look at nothing
    added = attention(q[:2], q, q, attn_mask=core.where(mask[:2], 0.0, -math.inf).double())
    np.testing.assert_allclose(added.detach().numpy(), got[:2].detach().numpy())


def test_heads_that_share_keys() -> None:
    q, k = r(1, 4, 3, 2), r(1, 2, 3, 2, seed=1)
    got = attention(q, k, k, enable_gqa=True)
    wide = k.repeat_interleave(2, 1)
    np.testing.assert_allclose(got.detach().numpy(), attention(q, wide, wide).detach().numpy())


def test_dropout_thins_the_weights() -> None:
    core.manual_seed(0)
    q = r(2, 8, 4)
    assert attention(q, q, q, dropout_p=0.5).tolist() != attention(q, q, q).tolist()
    assert attention(q, q, q, dropout_p=1.0).abs().sum().item() == 0


x = core.ones(2, 3, 4)


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (lambda: attention(x[0, 0], x, x), "Expected query, key, and value to all be  at least 2 dimensional"),
        (lambda: attention(x, x, x.double()), "Expected query, key, and value to have the same dtype"),
        (
            lambda: attention(x, x, x, attn_mask=x[0], is_causal=True),
            "Explicit attn_mask should not be set when is_causal=True",
        ),
        (
            lambda: attention(x, x, x, attn_mask=core.ones(3, 3, dtype=core.int64)),
            "Expected attn_mask dtype to be bool or float",
        ),
    ],
)
def test_errors(call: Any, phrase: str) -> None:
    with pytest.raises(RuntimeError, match=phrase):
        call()


@pytest.mark.parametrize("heads", [(4, 2), (4, 1), (2, 2)])
@pytest.mark.parametrize("causal", [False, True])
def test_heads_share_keys_in_every_ratio(heads: tuple[int, int], causal: bool) -> None:
    many, few = heads
    q, k, v = (t.detach() for t in (r(2, many, 3, 4), r(2, few, 3, 4), r(2, few, 3, 5)))
    times = many // few
    want = attention(q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1), is_causal=causal)
    got = attention(q, k, v, is_causal=causal, enable_gqa=True)
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-6)
    leaves = [t.clone().requires_grad_() for t in (q[:1], k[:1], v[:1])]
    core.autograd.gradcheck(lambda a, b, c: attention(a, b, c, is_causal=causal, enable_gqa=True), leaves)


@pytest.mark.parametrize(
    ("q", "k", "v"), [((3, 4), (3, 5), (3, 4)), ((3, 4), (5, 4), (3, 4)), ((3, 4), (2, 4), (3, 2))]
)
def test_sizes_that_do_not_fit(q: Any, k: Any, v: Any) -> None:
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions of batch2"):
        attention(core.ones(2, *q), core.ones(2, *k), core.ones(2, *v))
