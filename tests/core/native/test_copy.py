"""Copies into one piece: every order of the axes, steps of any sign, every size of item; sizes around the blocks."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from core import native

c = native.module
pytestmark = pytest.mark.skipif(c is None, reason="the C extension is not built")


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(70, 90), (33, 5, 64), (16, 16), (200, 17), (5, 1, 900), (2, 3, 4, 5, 60)])
def test_any_strides(dtype, shape):
    a = (np.random.default_rng(0).random(shape) * 100).astype(dtype)
    for order in list(permutations(range(a.ndim)))[:24]:
        t = a.transpose(order)
        for b in (t, t[..., ::-1], t[::2], t[..., 1:], np.broadcast_to(t[..., :1], t.shape)):
            found = c.copied(b)
            assert found.flags.c_contiguous
            assert found.flags.owndata or found.base is not None
            assert not np.shares_memory(found, b)
            assert found.dtype == b.dtype
            np.testing.assert_array_equal(found, b)


def test_past_the_cache():
    a = np.random.default_rng(0).standard_normal((2060, 2051), np.float32)  # 17 MB
    np.testing.assert_array_equal(c.copied(a), a)
    np.testing.assert_array_equal(c.copied(a.T), a.T)
    np.testing.assert_array_equal(c.copied(a[:, 1:]), a[:, 1:])


@pytest.mark.parametrize("dtype", ["int8", "int16", "f4", "f8", "c16", "S3", "S5000"])
@pytest.mark.parametrize(("rows", "n"), [(1, 100_003), (1, 4_200_000), (3, 70_001), (900, 37), (2, 2_100_000)])
def test_repeated(dtype, rows, n):
    a = np.arange(1, rows + 1).astype(dtype)[:, None]
    n = min(n, 24_000_000 // a.itemsize)  # some past the cache
    b = np.broadcast_to(a, (rows, n))
    np.testing.assert_array_equal(c.copied(b), b)
    np.testing.assert_array_equal(c.copied(b[:, None, 1:]), b[:, None, 1:])


def test_nothing_and_no_array():
    assert c.copied(np.zeros((0, 3))).shape == (0, 3)
    assert c.copied(np.asarray(2.0)).shape == ()
    with pytest.raises(TypeError, match="copied takes a NumPy array, got list"):
        c.copied([1.0])
