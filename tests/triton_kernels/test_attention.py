"""Attention and its gradients against float64: odd lengths, masks, shared keys, dropout, several sequences."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import attention, attention_backward
from triton_kernels.attention import Dropout, Lengths, attention_forward

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float32: 1e-5, np.float16: 5e-3, BF16: 4e-2}
SMALL = {2: {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4}, 4: {"BLOCK_M": 32, "BLOCK_N": 16, "num_warps": 4}}
SMALL_BACKWARD = {2: {"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4}, 4: {"BLOCK_M": 16, "BLOCK_N": 32, "num_warps": 4}}


def philox(seed, offset, count):
    """tl.rand in NumPy: Philox4x32-10, its first word as a number below 1."""
    low = np.uint64(0xFFFFFFFF)
    counters = np.arange(offset, offset + count, dtype=np.uint64)
    c = [counters & low, counters >> np.uint64(32), counters * np.uint64(0), counters * np.uint64(0)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & low, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & low]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    word = c[0].astype(np.uint32).view(np.int32)
    return np.where(word < 0, ~word, word).astype("f") * np.float32(4.6566127342e-10)


def reference(q, k, v, g, scale, causal=False, mask=None, keep=1.0, shift=0):
    """The result, the log-sum-exp and the three gradients, in float64."""
    q, k, v, g = (a.astype("d") for a in (q, k, v, g))
    share = q.shape[1] // k.shape[1]
    wide_k, wide_v = np.repeat(k, share, 1), np.repeat(v, share, 1)
    x = q @ wide_k.swapaxes(-1, -2) * scale
    if mask is not None:
        x = np.where(mask, x, -np.inf) if mask.dtype == bool else x + mask.astype("d")
    if causal:
        x = np.where(np.tril(np.ones(x.shape[-2:], bool), shift), x, -np.inf)
    top = np.maximum(x.max(-1, keepdims=True), -1e300)
    e = np.exp(x - top)
    total = e.sum(-1, keepdims=True)
    seen = total > 0
    logs = np.where(seen, top + np.log(np.where(seen, total, 1)), np.inf)[..., 0]
    w = e / np.where(seen, total, 1)
    gw = g @ wide_v.swapaxes(-1, -2) * keep
    gs = w * (gw - (gw * w).sum(-1, keepdims=True)) * scale
    dk, dv = gs.swapaxes(-1, -2) @ q, (w * keep).swapaxes(-1, -2) @ g
    joined = [a.reshape(k.shape[0], k.shape[1], share, *a.shape[2:]).sum(2) for a in (dk, dv)]
    return (w * keep) @ wide_v, logs, gs @ wide_k, *joined


def run(q, k, v, g, scale, configs=(None, None), lengths=None, **options):
    """The same by the kernels."""
    y, logs = np.empty((*q.shape[:3], v.shape[3]), q.dtype), np.empty(q.shape[:3], "f")
    attention_forward(q, k, v, y, logs, scale, config=configs[0], lengths=lengths, **options)
    grads = [np.empty(a.shape, a.dtype) for a in (q, k, v)]
    attention_backward.attention_backward(g, q, k, v, y, logs, *grads, scale, config=configs[1], lengths=lengths,
                                          **options)  # fmt: skip
    return y, logs, *grads


def close(got, want, dtype):
    limit = TOLERANCE[dtype]
    for a, b in zip(got, want, strict=True):
        assert np.allclose(
            a.astype("d"), b, rtol=limit, atol=limit * max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0))
        )


def some(rng, dtype, rows, keys, items, values, heads=2, shared=2, batch=1):
    shapes = (batch, heads, rows, items), (batch, shared, keys, items), (batch, shared, keys, values)
    q, k, v = (rng.standard_normal(s).astype(dtype) for s in shapes)
    return q, k, v, rng.standard_normal((batch, heads, rows, values)).astype(dtype)


def small(dtype):
    size = np.dtype(dtype).itemsize
    return SMALL[size], SMALL_BACKWARD[size]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("rows", "keys", "items", "values", "causal"),
    [(1, 1, 16, 16, False), (7, 65, 5, 3, False), (65, 7, 16, 33, True), (130, 130, 64, 64, True)],
)
def test_lengths_and_dtypes(rows, keys, items, values, causal, dtype, rng):
    arrays = some(rng, dtype, rows, keys, items, values)
    close(run(*arrays, 0.3, causal=causal), reference(*arrays, 0.3, causal), dtype)


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("causal", [False, True])
def test_several_blocks(causal, dtype, rng):
    arrays = some(rng, dtype, 70, 64, 16, 16, heads=1, shared=1)
    close(run(*arrays, -0.3, small(dtype), causal=causal), reference(*arrays, -0.3, causal), dtype)


@pytest.mark.parametrize("kind", ["bool", "added"])
def test_masks(kind, rng):
    q, k, v, g = some(rng, np.float32, 33, 40, 16, 16, heads=4, shared=2, batch=2)
    mask = rng.random((2, 1, 33, 40)) > 0.4 if kind == "bool" else rng.standard_normal((2, 1, 33, 40)).astype("f")
    mask[:, :, 3] = False if kind == "bool" else -np.inf  # a row that may look at nothing
    mask = np.broadcast_to(mask, (2, 4, 33, 40))
    got = run(q, k, v, g, 0.25, small(np.float32), mask=mask)
    close(got, reference(q, k, v, g, 0.25, mask=mask), np.float32)
    assert (got[0][:, :, 3] == 0).all()
    assert np.isposinf(got[1][:, :, 3]).all()


def test_what_is_out_of_sight_is_not_seen(rng):
    q, k, v, g = some(rng, np.float32, 5, 6, 16, 16)
    k[:, :, 4:], v[:, :, 4:] = np.nan, 0
    mask = np.broadcast_to(np.arange(6) < 4, (1, 2, 5, 6))
    y = run(q, k, v, g, 0.25, mask=mask)[0]
    exact = reference(q, k[:, :, :4], v[:, :, :4], g, 0.25)[0]
    assert np.allclose(y, exact, rtol=1e-5, atol=1e-6)
    k[0, 0, 1] = np.nan
    assert np.isnan(run(q, k, v, g, 0.25, mask=mask)[0][0, 0]).all()  # and what is seen spreads


def test_strides_of_heads_side_by_side(rng):
    packed = rng.standard_normal((2, 9, 3, 4, 16)).astype("f")  # batch, row, which, head, item
    q, k, v = (packed[:, :, i].swapaxes(1, 2) for i in range(3))
    g = np.ascontiguousarray(rng.standard_normal((2, 9, 4, 16)).astype("f")).swapaxes(1, 2)
    close(run(q, k, v, g, 0.25, causal=True), reference(q, k, v, g, 0.25, True), np.float32)


@pytest.mark.parametrize("configs", [(None, None), small(np.float32)])
def test_dropped_weights_are_told_by_their_place(configs, rng):
    q, k, v, g = some(rng, np.float32, 20, 33, 16, 16, heads=4, shared=2, batch=2)
    drop = Dropout(0.4, seed=(5 << 32) + 7, offset=(1 << 32) - 100)  # a counter of more than 32 bits
    keep = (philox(drop.seed, drop.offset, 2 * 4 * 20 * 33).reshape(2, 4, 20, 33) >= np.float32(0.4)) / 0.6
    got = run(q, k, v, g, 0.25, configs, causal=True, dropout=drop)
    close(got, reference(q, k, v, g, 0.25, True, keep=keep), np.float32)
    everything = run(q, k, v, g, 0.25, causal=True, dropout=Dropout(1.0))
    assert all((a == 0).all() for i, a in enumerate(everything) if i != 1)


@pytest.mark.parametrize("causal", [False, True])
def test_sequences_of_several_lengths(causal, rng):
    rows, keys = [3, 1, 20], [5, 1, 33]
    at_q, at_k = (np.cumsum([0, *n]).astype("i4") for n in (rows, keys))
    q, k, v, g = some(rng, np.float32, sum(rows), sum(keys), 16, 16, heads=4, shared=2)
    got = run(q, k, v, g, 0.25, small(np.float32), Lengths(at_q, at_k, max(rows), max(keys)), causal=causal)
    for i in range(3):
        a, b = slice(at_q[i], at_q[i + 1]), slice(at_k[i], at_k[i + 1])
        want = reference(q[:, :, a], k[:, :, b], v[:, :, b], g[:, :, a], 0.25, causal, shift=keys[i] - rows[i])
        part = [x[:, :, s] for x, s in zip(got, (a, a, a, b, b), strict=True)]
        close(part, want, np.float32)


def test_the_same_bits_every_time(rng):
    arrays = some(rng, np.float32, 40, 40, 16, 16, heads=4, shared=1)
    first, second = (run(*arrays, 0.25, small(np.float32), causal=True) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_errors_say_what_came():
    one = np.ones((1, 2, 3, 4), "f")
    logs = np.empty((1, 2, 3), "f")
    with pytest.raises(TypeError, match="takes one of float16, bfloat16, float32"):
        attention_forward(one.astype("d"), one.astype("d"), one.astype("d"), one, logs, 1.0)
    with pytest.raises(ValueError, match="a multiple of the key heads"):
        attention_forward(one, np.ones((1, 3, 3, 4), "f"), np.ones((1, 3, 3, 4), "f"), one, logs, 1.0)
    wide = np.ones((1, 2, 3, 300), "f")
    with pytest.raises(ValueError, match="rows of at most 256 items fit, got 300"):
        attention_forward(wide, wide, wide, wide, logs, 1.0)
    with pytest.raises(ValueError, match="a mask needs the shape of the scores"):
        attention_forward(one, one, one, one.copy(), logs, 1.0, mask=np.ones((3, 3), bool))
    with pytest.raises(ValueError, match="give both, or neither"):
        attention_backward.attention_backward(one, one, one, one, one, logs, None, one, None, 1.0)


@pytest.mark.parametrize("items", [16, 64, 128, 256])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_defaults_are_of_the_spaces(items, dtype):
    shape = (8, 1000, items)
    for drops in (False, True):
        assert attention.default_for(shape, dtype, drops) in list(attention.space_for(dtype).configs())
    for target, drops, by_rows in itertools.product(("sm_80", "sm_90", "sm_100", "gfx942"), *[(False, True)] * 2):
        config = attention_backward.default_for(shape, dtype, target, drops, by_rows)
        assert config in list(attention_backward.space_for(dtype).configs())
