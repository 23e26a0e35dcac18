"""Pooling and columns: the greatest and sums of windows, and their gradients, against windows taken one by one."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import pool, windows

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 2e-3, BF16: 2e-2, np.float32: 1e-6, np.float64: 1e-14}
SMALL = {"BLOCK": 256, "num_warps": 4}

# sizes, then kernel, stride, padding, dilation
CASES = {
    "1d": ((33,), ((3,), (2,), (1,), (1,))),
    "2d": ((7, 9), ((3, 2), (2, 1), (1, 1), (1, 2))),
    "3d": ((3, 4, 5), ((2, 1, 3), (1, 2, 2), (0, 0, 1), (1, 1, 1))),
    "apart": ((9, 7), ((2, 2), (3, 4), (0, 0), (1, 1))),
    "large": ((7, 6), ((5, 4), (1, 2), (2, 2), (1, 1))),
}


def rows_of(sizes, out, window):
    """For every place its window's flat places inside, and the taps that see them."""
    for q in product(*(range(n) for n in out)):
        seen = []
        for j, tap in enumerate(product(*(range(k) for k in window[0]))):
            at = [v * s + t * d - p for v, t, s, p, d in zip(q, tap, *window[1:], strict=True)]
            if all(0 <= i < n for i, n in zip(at, sizes, strict=True)):
                seen.append((int(np.ravel_multi_index(at, sizes)), j))
        yield q, [f for f, _ in seen], [j for _, j in seen]


def shares_of(sizes, out):
    """The same for windows that share the input out."""
    for q in product(*(range(n) for n in out)):
        spans = [range(v * n // o, -(-(v + 1) * n // o)) for v, n, o in zip(q, sizes, out, strict=True)]
        yield q, [int(np.ravel_multi_index(at, sizes)) for at in product(*spans)], None


def maxima(x, g, out, rows):
    y, index = np.empty((*x.shape[:2], *out)), np.empty((*x.shape[:2], *out), np.int64)
    gx, flat = np.zeros((*x.shape[:2], int(np.prod(x.shape[2:])))), x.reshape(*x.shape[:2], -1).astype("d")
    for q, places, _ in rows:
        for a, b in np.ndindex(*x.shape[:2]):
            best = places[int(np.argmax(flat[a, b, places]))]
            y[(a, b, *q)], index[(a, b, *q)] = flat[a, b, best], best
            gx[a, b, best] += g[(a, b, *q)].astype("d")
    return y, index, gx.reshape(x.shape)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_the_greatest(name, dtype, rng):
    sizes, window = CASES[name]
    out = windows.out_sizes(sizes, *window)
    check_greatest(rng, dtype, sizes, out, window, list(rows_of(sizes, out, window)))


@pytest.mark.parametrize(("sizes", "out"), [((7,), (3,)), ((5, 6), (4, 6)), ((3, 2, 4), (2, 5, 1))])
def test_the_greatest_of_shares(sizes, out, rng):
    check_greatest(rng, np.float32, sizes, out, None, list(shares_of(sizes, out)))


def check_greatest(rng, dtype, sizes, out, window, rows):
    x = rng.permutation(2 * 3 * int(np.prod(sizes))).reshape(3, 2, *sizes)
    x = (x % 61 - 30).astype(dtype).swapaxes(0, 1)  # with ties; the leading dimensions are not in order
    g = rng.standard_normal((2, 3, *out)).astype(dtype)
    want, where, gradient = maxima(x, g, out, rows)
    for config in (None, SMALL):
        y, index, gx = np.full(g.shape, 9, dtype), np.full(g.shape, -1), np.full(x.shape, 9, dtype)
        pool.max_pool_forward(x, y, index, window, config)
        assert np.array_equal(y.astype("d"), want)
        assert np.array_equal(index, where)
        pool.max_pool_backward(g, index, gx, window, config)
        assert np.allclose(gx.astype("d"), gradient, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_nan_infinities_and_padding():
    x = np.array([[[-np.inf, -np.inf, 1.0, np.nan, 2.0, np.inf, 3.0]]], "f")
    y, index = np.empty((1, 1, 7), "f"), np.empty((1, 1, 7), np.int64)
    pool.max_pool_forward(x, y, index, ((3,), (1,), (1,), (1,)))
    assert np.array_equal(y[0, 0], [-np.inf, 1, np.nan, np.nan, np.nan, np.inf, np.inf], equal_nan=True)
    assert index[0, 0].tolist() == [0, 2, 3, 3, 3, 5, 5]
    lowest = np.full((1, 1, 4), -np.inf, "f")  # the first tap inside is named, though the first of all is padding
    y, index, gx = np.empty((1, 1, 2), "f"), np.empty((1, 1, 2), np.int64), np.empty_like(lowest)
    pool.max_pool_forward(lowest, y, index, ((2,), (2,), (1,), (3,)))
    assert index.tolist() == [[[2, 1]]]
    pool.max_pool_backward(np.ones((1, 1, 2), "f"), index, gx, ((2,), (2,), (1,), (3,)))
    assert gx.tolist() == [[[0, 1, 1, 0]]]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_sums_and_columns(name, dtype, rng):
    sizes, (kernel, stride, padding, dilation) = CASES[name]
    dense = (kernel, stride, padding, (1,) * len(sizes))
    check_sums(rng, dtype, sizes, dense)
    check_columns(rng, dtype, sizes, (kernel, stride, padding, dilation))


def check_sums(rng, dtype, sizes, window):
    out = windows.out_sizes(sizes, *window)
    x, g = (rng.standard_normal((2, 3, *n)).astype(dtype) for n in (sizes, out))
    y, gx = np.empty(g.shape, dtype), np.empty(x.shape, dtype)
    want, gradient = np.zeros(g.shape), np.zeros((2, 3, int(np.prod(sizes))))
    for q, places, _ in rows_of(sizes, out, window):
        want[(..., *q)] = x.reshape(2, 3, -1).astype("d")[:, :, places].sum(2)
        gradient[:, :, places] += g[(..., *q)].astype("d")[..., None]
    pool.window_sum(x, y, *window[:3])
    pool.window_spread(g, gx, *window[:3], SMALL)
    tolerance = TOLERANCE[dtype] * 4
    assert np.allclose(y.astype("d"), want, rtol=tolerance, atol=tolerance)
    assert np.allclose(gx.reshape(gradient.shape).astype("d"), gradient, rtol=tolerance, atol=tolerance)


def check_columns(rng, dtype, sizes, window):
    out, taps = windows.out_sizes(sizes, *window), int(np.prod(window[0]))
    x = rng.standard_normal((2, 3, *sizes)).astype(dtype)
    columns, back = np.empty((2, 3, *window[0], *out), dtype), np.empty(x.shape, dtype)
    want, summed = np.zeros((2, 3, taps, *out)), np.zeros((2, 3, int(np.prod(sizes))))
    for q, places, seen in rows_of(sizes, out, window):
        want[(slice(None), slice(None), seen, *q)] = x.reshape(2, 3, -1).astype("d")[:, :, places]
        summed[:, :, places] += want[(slice(None), slice(None), seen, *q)]
    pool.unfold(x, columns, window, SMALL)
    assert np.array_equal(columns.reshape(want.shape).astype("d"), want)
    pool.fold(columns, back, window)
    tolerance = TOLERANCE[dtype] * 4
    assert np.allclose(back.reshape(summed.shape).astype("d"), summed, rtol=tolerance, atol=tolerance)


def test_wrong_arguments_and_space():
    x = np.ones((1, 1, 4), "f")
    with pytest.raises(TypeError, match="max_pool: takes floating-point arrays of one dtype"):
        pool.max_pool_forward(x.astype(np.int64), np.ones((1, 1, 2), np.int64), np.ones((1, 1, 2), np.int64))
    with pytest.raises(TypeError, match=r"window_sum: .* a row-major output"):
        pool.window_sum(x, np.ones((1, 2, 2), "f").T, (2,), (1,), (0,))
    pool.window_sum(x[:0], np.ones((0, 1, 3), "f"), (2,), (1,), (0,))
    assert all(pool.default_for((n,)) in list(pool.SPACE.configs()) for n in (1, 10**6))
