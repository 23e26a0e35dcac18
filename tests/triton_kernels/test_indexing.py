"""Look-ups and their reverse against NumPy: any dtype, odd sizes, repeated places, indices out of range."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import notes
from triton_kernels.indexing import (
    along_places,
    gather_forward,
    one_hot_forward,
    place_step,
    put_forward,
    take_forward,
)
from triton_kernels.segments import segment_sum

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16, np.float64, np.int64, np.uint8, np.bool_]
SMALL = {"TILE": 256, "num_warps": 4}


def numbers(rng, shape, dtype):
    return (rng.integers(0, 2, shape) if dtype is np.bool_ else rng.integers(-9, 100, shape)).astype(dtype)


@pytest.mark.parametrize("shape", [(1, 9, 33), (3, 5, 1), (2, 7, 130)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_take(dtype, shape, rng):
    config = SMALL if dtype in (np.float32, np.bool_) else None
    x, index = numbers(rng, shape, dtype), rng.integers(-shape[1], shape[1], 11)
    out = np.empty((shape[0], 11, shape[2]), dtype)
    take_forward(x, index, out, wrap=True, config=config)
    assert np.array_equal(out, x[:, index])
    take_forward(x, (index % shape[1]).astype(np.int32), out, config=config)
    assert np.array_equal(out, x[:, index])


@pytest.mark.parametrize("config", [None, SMALL])
@pytest.mark.parametrize("shape", [(1, 9, 33), (3, 5, 1), (2, 7, 13)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_])
def test_gather_and_places_along(dtype, shape, config, rng):
    x, index = numbers(rng, shape, dtype), rng.integers(0, shape[1], (shape[0], 4, shape[2]))
    out, places = np.empty(index.shape, dtype), np.empty(index.shape, np.int64)
    gather_forward(x, index, out, config=config)
    assert np.array_equal(out, np.take_along_axis(x, index, 1))
    along_places(index, shape[1], places, config=config)
    assert np.array_equal(x.reshape(-1)[places], out)


def test_places_of_several_indices(rng):
    i, j = rng.integers(-3, 3, 300), rng.integers(-7, 7, 300)
    rows, places = np.empty(300, np.int64), np.empty(300, np.int64)
    place_step(None, i, 3, rows)
    place_step(rows, j, 7, places, config=SMALL)
    assert np.array_equal(places, i % 3 * 7 + j % 7)


@pytest.mark.parametrize("shape", [(1, 9, 33), (3, 5, 1), (2, 7, 130)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int64])
def test_put_the_last_stays(dtype, shape, rng):
    values = numbers(rng, (shape[2], 11, shape[0]), dtype).transpose()  # strided
    places = rng.integers(0, shape[1], 11)
    order = np.argsort(places, kind="stable")
    out = numbers(rng, shape, dtype)
    want = out.copy()
    for j, place in enumerate(places):
        want[:, place] = values[:, j]
    put_forward(values, places[order], order, out, config=SMALL)
    assert np.array_equal(out, want)
    each = rng.permutation(shape[1])
    put_forward(values[:, : shape[1]], each, None, out)
    assert np.array_equal(out[:, each], values[:, : shape[1]])


def sums(rows, places, out):
    want = out.astype(np.float64 if out.dtype.kind != "i" else np.int64)
    for j, place in enumerate(places):
        if 0 <= place < out.shape[1]:
            want[:, place] += rows[:, j].astype(want.dtype)
    return want


BLOCKS = {"TILE": 128, "LENGTH": 16, "num_warps": 2}


TOLERANCE = {np.float32: 1e-6, ml_dtypes.bfloat16: 8e-3, np.float16: 1e-3, np.int64: 0}
SUMS = [(dtype, shape, None, add) for dtype in TOLERANCE for shape, add in [((2, 9, 5), True), ((1, 60, 1), False)]]


@pytest.mark.parametrize(
    ("dtype", "shape", "config", "add"),
    [*SUMS, (np.float32, (1, 5, 33), BLOCKS, True), (ml_dtypes.bfloat16, (1, 60, 1), BLOCKS, False)],
)
def test_segment_sums(dtype, shape, config, add, rng):
    tolerance = TOLERANCE[dtype]
    (outer, n, inner), m = shape, 131
    rows = (rng.integers(-9, 9, (outer, m, inner)) if dtype is np.int64 else rng.random((outer, m, inner))).astype(
        dtype
    )
    places = np.where(rng.random(m) < 0.6, 3, rng.integers(-1, n, m))  # one place many chunks long, some left out
    order = np.argsort(places, kind="stable")
    out = numbers(rng, shape, dtype) if add else np.zeros(shape, dtype)
    want = sums(rows, places, out)
    again = out.copy()
    segment_sum(rows, places[order], order, out, add=add, config=config)
    np.testing.assert_allclose(out.astype(want.dtype), want, rtol=tolerance, atol=4 * tolerance)
    segment_sum(rows, places[order], order, again, add=add, config=config)
    assert out.tobytes() == again.tobytes()


def test_a_skipped_place_and_nan_stay_apart(rng):
    rows, places = rng.random((1, 40, 3)).astype("f"), np.sort(rng.integers(0, 4, 40))
    rows[0, np.flatnonzero(places == 2)[0]] = [np.nan, np.inf, 1]
    out = np.zeros((1, 4, 3), "f")
    segment_sum(rows, places, np.arange(40), out, skip=1)
    assert (out[0, 1] == 0).all()
    assert np.isnan(out[0, 2, 0])
    assert np.isinf(out[0, 2, 1])
    assert np.isfinite(out[0, [0, 3]]).all()


def test_one_hot(rng):
    index, out = rng.integers(0, 7, 33), np.empty((33, 7), np.int64)
    one_hot_forward(index, out, config=SMALL)
    assert np.array_equal(out, np.eye(7, dtype=np.int64)[index])


def test_an_index_out_of_range_is_nan_and_told(rng):
    slot = notes.slot("an index of a test", lambda i: IndexError(f"no element {i}"))
    x, out = rng.random((1, 5, 2)).astype("f"), np.empty((1, 3, 2), "f")
    for bad, wrap in ((5, True), (-6, True), (-1, False), (2**40, False), (-(2**62) - 5, False)):
        told = max(bad, -(2**61))  # what a slot holds
        with pytest.raises(IndexError, match=f"no element {told}"):
            take_forward(x, np.array([1, bad, 0]), out, wrap=wrap, fault=slot)
        assert np.isnan(out[0, 1]).all()
        assert np.array_equal(out[0, ::2], x[0, [1, 0]])
    with pytest.raises(IndexError, match="no element 5"):
        gather_forward(x, np.full((1, 3, 2), 5), out, fault=slot)
    places = np.empty((1, 1, 2), np.int64)
    with pytest.raises(IndexError, match="no element -2"):
        along_places(np.array([[[-2, 1]]]), 5, places, fault=slot)
    assert places.tolist() == [[[-1, 3]]]
    with pytest.raises(IndexError, match="no element 7"):
        one_hot_forward(np.array([7]), np.empty((1, 7), np.int64), fault=slot)
    notes.check()


def test_errors_say_what_came():
    x, index = np.ones((2, 3, 4), "f"), np.zeros(5, np.int64)
    with pytest.raises(ValueError, match=r"gives \(2, 5, 4\) of it"):
        take_forward(x, index, np.empty((2, 5, 3), "f"))
    with pytest.raises(ValueError, match="takes contiguous real arrays"):
        take_forward(x[:, :, ::2], index, np.empty((2, 5, 2), "f"))
    with pytest.raises(TypeError, match="int32 and int64 indices, got float32"):
        take_forward(x, index.astype("f"), np.empty((2, 5, 4), "f"))
    with pytest.raises(TypeError, match="int64 places and order"):
        segment_sum(x, index[:3].astype("i4"), index[:3], np.zeros((2, 9, 4), "f"))
    with pytest.raises(ValueError, match="do not go into out"):
        segment_sum(x, index, index, np.zeros((2, 9, 4), "f"))
