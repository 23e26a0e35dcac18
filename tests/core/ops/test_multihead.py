"""Attention of several heads against its formula, head by head, with everything that can be given to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

F = core.nn.functional
LENGTH, SOURCE, BATCH, SIZE, HEADS = 3, 5, 2, 4, 2
EACH = SIZE // HEADS
RNG = np.random.default_rng(0)
PACKED, PACKED_BIAS = RNG.normal(size=(3 * SIZE, SIZE)), RNG.normal(size=3 * SIZE)
OUT, OUT_BIAS = RNG.normal(size=(SIZE, SIZE)), RNG.normal(size=SIZE)
BIAS_K, BIAS_V = RNG.normal(size=(1, 1, SIZE)), RNG.normal(size=(1, 1, SIZE))
QUERY, KEY, VALUE = (RNG.normal(size=(n, BATCH, SIZE)) for n in (LENGTH, SOURCE, SOURCE))
HIDDEN = np.array([[False, True, False, False, True], [False, False, False, True, False]])
LOOK = RNG.normal(size=(LENGTH, SOURCE))
LOOK_EACH = RNG.normal(size=(BATCH * HEADS, LENGTH, SOURCE))
STATIC = RNG.normal(size=(BATCH * HEADS, 6, EACH))
APART = RNG.normal(size=(SIZE, SIZE)), RNG.normal(size=(SIZE, 3)), RNG.normal(size=(SIZE, 6))


def formula(query: Any, key: Any, value: Any, bias: Any = PACKED_BIAS, weights: Any = None, mask: Any = None,
            hidden: Any = None, bias_k: Any = None, bias_v: Any = None, zero: bool = False, static_k: Any = None,
            static_v: Any = None) -> tuple[Any, Any]:  # fmt: skip
    """The output, and each head's weights ``(n, heads, l, s)``."""
    w = np.split(PACKED, 3) if weights is None else weights
    b = np.split(np.zeros(3 * SIZE) if bias is None else bias, 3)
    q, k, v = (x @ one.T + more for x, one, more in zip((query, key, value), w, b, strict=True))
    y, shares = np.zeros(q.shape), []
    for n in range(q.shape[1]):
        for head in range(HEADS):
            part = slice(head * EACH, (head + 1) * EACH)
            qh, kh, vh = q[:, n, part], k[:, n, part], v[:, n, part]
            if bias_k is not None:
                kh, vh = np.vstack([kh, bias_k[0, 0, part]]), np.vstack([vh, bias_v[0, 0, part]])
            kh = kh if static_k is None else static_k[n * HEADS + head]
            vh = vh if static_v is None else static_v[n * HEADS + head]
            if zero:
                kh, vh = np.vstack([kh, np.zeros(EACH)]), np.vstack([vh, np.zeros(EACH)])
            scores = qh @ kh.T / np.sqrt(EACH)
            for given in (mask, hidden):
                if given is not None:
                    one = (
                        given
                        if given is mask and mask.ndim == 2
                        else given[n * HEADS + head]
                        if given is mask
                        else given[n]
                    )
                    one = np.where(one, -np.inf, 0.0) if one.dtype == bool else one
                    scores[:, : one.shape[-1]] += one
            share = np.exp(scores - scores.max(-1, keepdims=True))
            share /= share.sum(-1, keepdims=True)
            y[:, n, part] = share @ vh
            shares.append(share)
    return y @ OUT.T + OUT_BIAS, np.array(shares).reshape(q.shape[1], HEADS, *shares[0].shape)


def tensor(x: Any) -> Any:
    return None if x is None else core.tensor(x)


def attention(query: Any, key: Any, value: Any, need: bool, average: bool = True, bias: Any = PACKED_BIAS,
              weights: Any = None, mask: Any = None, hidden: Any = None, bias_k: Any = None, bias_v: Any = None,
              zero: bool = False, static_k: Any = None, static_v: Any = None, **more: Any) -> Any:  # fmt: skip
    apart = dict(
        zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), map(tensor, weights or (None,) * 3), strict=True)
    )
    return F.multi_head_attention_forward(
        query, key, value, SIZE, HEADS, None if weights else tensor(PACKED), tensor(bias), tensor(bias_k),
        tensor(bias_v), zero, more.pop("dropout_p", 0.0), tensor(OUT), tensor(OUT_BIAS),
        key_padding_mask=tensor(hidden), need_weights=need, attn_mask=tensor(mask),
        use_separate_proj_weight=weights is not None, static_k=tensor(static_k), static_v=tensor(static_v),
        average_attn_weights=average, **apart, **more)  # fmt: skip


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": None},
    "a mask": {"mask": LOOK},
    "a bool mask": {"mask": LOOK > 0.5},
    "a mask for each head": {"mask": LOOK_EACH},
    "a bool mask for each head": {"mask": LOOK_EACH > 0.5},
    "hidden": {"hidden": HIDDEN},
    "hidden, added": {"hidden": np.where(HIDDEN, -2.0, 1.0)},
    "both masks": {"mask": LOOK > 0.5, "hidden": HIDDEN},
    "one more": {"bias_k": BIAS_K, "bias_v": BIAS_V, "mask": LOOK},
    "zeros": {"zero": True, "hidden": HIDDEN},
    "two more": {"bias_k": BIAS_K, "bias_v": BIAS_V, "zero": True, "mask": LOOK, "hidden": HIDDEN * 1.0},
    "static": {"static_k": STATIC, "static_v": STATIC + 1},
    "static and zeros": {"static_k": STATIC, "static_v": STATIC + 1, "zero": True},
}


@pytest.mark.parametrize("need", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_formula(name: str, need: bool) -> None:
    settings = SETTINGS[name]
    want, shares = formula(QUERY, KEY, VALUE, **settings)
    y, weights = attention(*map(tensor, (QUERY, KEY, VALUE)), need, **settings)
    np.testing.assert_allclose(y.numpy(), want, atol=1e-12)
    if not need:
        assert weights is None
        return
    np.testing.assert_allclose(weights.numpy(), shares.mean(1), atol=1e-12)
    each = attention(*map(tensor, (QUERY, KEY, VALUE)), True, average=False, **settings)[1]
    np.testing.assert_allclose(each.numpy(), shares, atol=1e-12)


@pytest.mark.parametrize("need", [False, True])
@pytest.mark.parametrize("same", [False, True])
def test_one_sequence_without_a_batch(need: bool, same: bool) -> None:
    q = QUERY[:, :1]
    k, v = (q, q) if same else (KEY[:, :1], VALUE[:, :1])
    x = tensor(q[:, 0])
    given = (x, x, x) if same else (x, tensor(k[:, 0]), tensor(v[:, 0]))
    hidden = HIDDEN[:1, : len(k)]
    want, shares = formula(q, k, v, hidden=hidden)
    y, weights = attention(*given, need, hidden=hidden[0])
    np.testing.assert_allclose(y.numpy(), want[:, 0], atol=1e-12)
    if need:
        np.testing.assert_allclose(weights.numpy(), shares.mean(1)[0], atol=1e-12)
    mask = RNG.normal(size=(HEADS, LENGTH, len(k)))
    y, _ = attention(*given, need, mask=mask)
    np.testing.assert_allclose(y.numpy(), formula(q, k, v, mask=mask)[0][:, 0], atol=1e-12)


def test_weights_apart() -> None:
    key, value = RNG.normal(size=(SOURCE, BATCH, 3)), RNG.normal(size=(SOURCE, BATCH, 6))
    y, _ = attention(*map(tensor, (QUERY, key, value)), True, weights=APART)
    np.testing.assert_allclose(y.numpy(), formula(QUERY, key, value, weights=APART)[0], atol=1e-12)


@pytest.mark.parametrize("hidden", [None, np.array([[False, False, True], [False, True, True]])])
@pytest.mark.parametrize("need", [False, True])
def test_causal(need: bool, hidden: Any) -> None:
    x, later = tensor(QUERY), np.triu(np.ones((LENGTH, LENGTH), bool), 1)
    y, _ = attention(x, x, x, need, mask=later, hidden=hidden, is_causal=True)
    np.testing.assert_allclose(y.numpy(), formula(QUERY, QUERY, QUERY, mask=later, hidden=hidden)[0], atol=1e-12)


@pytest.mark.parametrize("need", [False, True])
def test_dropout_is_for_training(need: bool) -> None:
    x = [tensor(QUERY), tensor(KEY), tensor(VALUE)]
    want = formula(QUERY, KEY, VALUE)[0]
    np.testing.assert_allclose(attention(*x, need, dropout_p=0.5, training=False)[0].numpy(), want, atol=1e-12)
    assert not np.allclose(attention(*x, need, dropout_p=0.5)[0].numpy(), want)
    everything = attention(*x, need, dropout_p=1.0)[0]
    np.testing.assert_allclose(everything.numpy(), np.broadcast_to(OUT_BIAS, want.shape), atol=1e-12)


Q, K = core.ones(LENGTH, BATCH, SIZE), core.ones(SOURCE, BATCH, SIZE)
WRONG: list[tuple[Any, Any, Any, dict[str, Any], type[Exception], str]] = [
    (core.ones(1, 1, 1, 4), K, K, {}, AssertionError, "received 4-D query"),
    (core.ones(4), K, K, {}, AssertionError, "received 1-D query"),
    (Q, K[:, 0], K, {}, AssertionError, r"batched \(3-D\).*found 2-D and 3-D"),
    (Q[:, 0], K[:, 0], K, {}, AssertionError, r"unbatched \(2-D\).*found 2-D and 3-D"),
    (Q, K, K, {"hidden": np.zeros(5)}, AssertionError, "`key_padding_mask` to be `None` or 2-D"),
    (Q, K, K, {"mask": np.zeros(5)}, AssertionError, "`attn_mask` to be `None`, 2-D or 3-D"),
    (Q, K, K, {"mask": np.zeros((3, 4))}, RuntimeError, r"2D attn_mask is .*should be \(3, 5\)"),
    (Q, K, K, {"mask": np.zeros((2, 3, 5))}, RuntimeError, r"3D attn_mask is .*should be \(4, 3, 5\)"),
    (Q[:, 0], K[:, 0], K[:, 0], {"mask": np.zeros((1, 3, 5))}, AssertionError, r"shape to be \(2, 3, 5\)"),
    (Q, K, K, {"mask": np.zeros((3, 5), int)}, AssertionError, "only bool and floating types of attn_mask"),
    (Q, K, K, {"hidden": np.zeros((2, 5), int)}, AssertionError, "only bool and floating types of key_padding_mask"),
    (Q, K, K, {"hidden": np.zeros((3, 5))}, AssertionError, r"shape\[0\] to be 2, but got 3"),
    (Q, K, K, {"hidden": np.zeros((2, 4))}, AssertionError, r"shape\[1\] to be 5, but got 4"),
    (Q, K, K, {"is_causal": True}, RuntimeError, "Need attn_mask"),
    (core.ones(3, 2, 6), K, K, {}, AssertionError, "embedding dimension of 4, but got 6"),
    (Q, K, K[1:], {}, AssertionError, "does not match value shape"),
    (Q, K, K[1:], {"weights": APART}, AssertionError, "sequence and batch dims"),
    (Q, K[:, :1], K[:, :1], {}, RuntimeError, r"shape '\[5, 4, 2\]' is invalid for input of size 20"),
    (Q, K, K, {"bias_k": BIAS_K}, AssertionError, "given together"),
    (Q, K, K, {"bias_v": BIAS_V}, AssertionError, "given together"),
    (Q, K, K, {"bias_k": BIAS_K, "bias_v": BIAS_V, "static_k": STATIC}, AssertionError, "static key or value"),
    (Q, K, K, {"bias_k": BIAS_K, "bias_v": BIAS_V, "static_v": STATIC}, AssertionError, "static key or value"),
]  # fmt: skip


@pytest.mark.parametrize(("q", "k", "v", "settings", "error", "said"), WRONG, ids=[row[5] for row in WRONG])
def test_what_does_not_fit(q: Any, k: Any, v: Any, settings: Any, error: Any, said: str) -> None:
    q, k, v = (x.double() for x in (q, k, v))
    with pytest.raises(error, match=said):
        attention(q, k, v, True, **settings)


def test_heads_share_the_size() -> None:
    x = core.ones(1, 1, 3)
    with pytest.raises(AssertionError, match="embed_dim 3 not divisible by num_heads 2"):
        F.multi_head_attention_forward(x, x, x, 3, 2, core.ones(9, 3), None, None, None, False, 0.0, core.eye(3), None)


def test_masks_of_two_types_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        y, _ = attention(*map(tensor, (QUERY, KEY, VALUE)), True, mask=LOOK, hidden=HIDDEN)
    np.testing.assert_allclose(y.numpy(), formula(QUERY, KEY, VALUE, mask=LOOK, hidden=HIDDEN)[0], atol=1e-12)
