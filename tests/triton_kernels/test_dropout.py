"""Dropout: the numbers of Philox by their definition, any seed and offset, dtypes, what is kept."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import dropout

BF16 = ml_dtypes.bfloat16
M = 0xFFFFFFFF


def rand(seed, counter):
    """Philox4x32-10 and Triton's float of its first word, in Python's integers."""
    k0, k1 = seed & M, seed >> 32 & M
    c0, c1, c2, c3 = counter & M, counter >> 32, 0, 0
    for _ in range(10):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & M, (a >> 32) ^ c3 ^ k1, a & M
        k0, k1 = k0 + 0x9E3779B9 & M, k1 + 0xBB67AE85 & M
    return np.float32(c0 if c0 < 1 << 31 else ~c0 & M) * np.float32(4.6566127342e-10)


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64])
@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (2**64 - 1, 2**32 - 5), (0xDEADBEEF12345678, 2**52)])
def test_the_mask_is_a_function_of_seed_and_place(seed, offset, dtype, rng):
    x = rng.uniform(1, 2, (3, 7)).astype(dtype)
    y = np.empty_like(x)
    dropout.dropout_forward(x, y, 0.3, seed, offset, {"BLOCK": 512})
    keep = np.array([rand(seed, offset + i) for i in range(x.size)]).reshape(x.shape) >= np.float32(0.3)
    assert 0 < keep.sum() < x.size
    wide = np.float64 if dtype is np.float64 else np.float32
    want = np.where(keep, x.astype(wide) * wide(1 / 0.7), 0).astype(dtype)
    assert (y == want).all()


def test_blocks_continue_one_another_and_p_has_its_bounds(rng):
    x, whole, parts = np.ones(1500, "f"), np.empty(1500, "f"), np.empty(1500, "f")
    dropout.dropout_forward(x, whole, 0.5, 7, 100)
    dropout.dropout_forward(x, parts, 0.5, 7, 100, {"BLOCK": 512})
    assert (whole == parts).all()
    assert 600 < (whole > 0).sum() < 900
    tail = np.empty(500, "f")
    dropout.dropout_forward(x[1000:], tail, 0.5, 7, 1100)
    assert (tail == whole[1000:]).all()
    dropout.dropout_forward(x, whole, 1.0, 7, 0)
    assert not whole.any()
    dropout.dropout_forward(x[:0], whole[:0], 0.5, 7, 0)


def test_what_does_not_fit_is_refused():
    x = np.ones((4, 4), "f")
    with pytest.raises(ValueError, match="takes contiguous arrays"):
        dropout.dropout_forward(x[:, ::2], np.ones((4, 2), "f"), 0.5, 0, 0)
    with pytest.raises(TypeError, match="of one type and shape"):
        dropout.dropout_forward(x, x.astype("d"), 0.5, 0, 0)
    with pytest.raises(ValueError, match="the offset is 0 to"):
        dropout.dropout_forward(x, x, 0.5, 0, 1 << 53)
