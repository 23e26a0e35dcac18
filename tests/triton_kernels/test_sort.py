"""Sorting and the first k against NumPy's stable sort: ties, NaN, infinities, both zeros, rows longer than a block."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import sort
from triton_kernels.sort import declined, sort_forward, topk_forward

TILE = {"TILE": 512, "num_warps": 4}


def order(x, descending):
    """The stable order of each row, NaN the greatest."""
    wide = x.astype(np.float64) if x.dtype.kind not in "iub" else x.astype(np.int64)
    if not descending:
        return np.argsort(wide, axis=1, kind="stable")
    return x.shape[1] - 1 - np.argsort(wide[:, ::-1], axis=1, kind="stable")[:, ::-1]


def sample(rng, shape, dtype):
    if dtype not in (np.float32, np.float16, ml_dtypes.bfloat16):
        return rng.integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)
    x = rng.integers(-4, 5, shape) * rng.choice([0.5, 1e-3, 1e4, -0.0], shape)
    flat = x.reshape(-1)
    flat[rng.integers(0, x.size, 3)] = [np.nan, np.inf, -np.inf]
    return x.astype(dtype)


def checked(x, k, descending, values, indices):
    want = order(x, descending)[:, :k]
    assert np.array_equal(indices, want)
    assert np.take_along_axis(x, want, 1).tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize(("shape", "config"), [((3, 1), None), ((9, 7), TILE), ((2, 33), None), ((3, 130), None)])
def test_rows_of_one_block(shape, config, dtype, rng):
    x = sample(rng, shape, dtype)
    for descending in (False, True):
        values, indices = np.empty_like(x), np.empty(shape, np.int64)
        sort_forward(x, values, indices, descending, config)
        checked(x, shape[1], descending, values, indices)
        k = (shape[1] + 1) // 2
        values, indices = values[:, :k].copy(), indices[:, :k].copy()
        topk_forward(x, values, indices, descending, config)
        checked(x, k, descending, values, indices)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("n", "k"), [(513, 513), (1300, 1100), (1300, 70)])
def test_rows_of_several_blocks(n, k, dtype, rng):
    x = sample(rng, (2, n), dtype)
    for descending in (False, True):
        values, indices = np.empty((2, k), dtype), np.empty((2, k), np.int64)
        topk_forward(x, values, indices, descending, TILE)
        checked(x, k, descending, values, indices)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize(("shape", "k", "config"), [((1, 1), 1, None), ((3, 40), 40, None), ((2, 600), 7, TILE)])
def test_64_bits(shape, k, config, dtype, rng):
    if dtype is np.int64:  # both halves tell some apart, and there are equal ones
        x = rng.integers(-2, 3, shape) * (1 << 62) + rng.integers(-2, 3, shape) * ((1 << 31) - 1)
        x[0, -1], x[0, 0] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    else:
        x = rng.integers(-2, 3, shape) * rng.choice([1.0, 1 + 2.0**-50, 1e300, 5e-324, -0.0], shape)
        x.reshape(-1)[rng.integers(0, x.size, 4)] = [np.nan, -np.nan, np.inf, -np.inf]
    for descending in (False, True):
        values, indices = np.empty((shape[0], k), dtype), np.empty((shape[0], k), np.int64)
        topk_forward(x, values, indices, descending, config)
        checked(x, k, descending, values, indices)


def test_the_network_of_a_gpu(rng, monkeypatch):
    """`tl.sort`, which the interpreter runs too slowly for the other tests."""
    monkeypatch.setattr(sort, "INTERPRET", False)
    sort._launches.clear()
    x = sample(rng, (2, 16), np.float32)
    values, indices = np.empty_like(x), np.empty(x.shape, np.int64)
    monkeypatch.setattr(sort.SPACE, "complete", lambda config: {"TILE": 32, "num_warps": 4})
    sort_forward(x, values, indices, True)
    checked(x, 16, True, values, indices)
    sort._launches.clear()


def test_what_is_declined():
    assert declined(np.float32, 1 << 20) is None
    assert "at most" in declined(np.float32, (1 << 20) + 1)
    assert "got complex64" in declined(np.complex64, 3)
    x, z = np.zeros((2, 3), np.int64), np.zeros((2, 3), np.uint16)
    with pytest.raises(TypeError, match="integers and bools, got uint16"):
        sort_forward(z, z.copy(), x.copy())
    y = np.zeros((2, 3), "f")
    with pytest.raises(ValueError, match=r"rows \(2, 3\) do not go into values \(2, 4\)"):
        topk_forward(y, np.zeros((2, 4), "f"), np.zeros((2, 4), np.int64))
    sort_forward(y[:0], y[:0].copy(), x[:0].copy())
