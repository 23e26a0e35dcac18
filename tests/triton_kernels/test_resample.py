"""Resampling by tables against products of matrices in float64."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import resample

TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2, np.float32: 2e-6, np.float64: 1e-14}


def table(rng, n, out, taps, dtype):
    """Taps among n inputs, with weights of which some are nothing."""
    w = rng.uniform(-1, 1, (out, taps)) * (rng.random((out, taps)) < 0.8)
    return rng.integers(0, n, (out, taps)).astype(np.int32), w.astype(resample.weight_type(dtype))


def matrix(n, at, w):
    m = np.zeros((len(at), n))
    np.add.at(m, (np.arange(len(at))[:, None], at), w.astype("d"))
    return m


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("sizes", "out", "taps"), [((7,), (33,), (2,)), ((5, 3), (4, 7), (4, 1)), ((2, 3, 4), (3, 1, 5), (2, 3, 1))]
)
def test_against_matrices(sizes, out, taps, dtype, rng):
    x = rng.standard_normal((3, 2, *sizes)).astype(dtype).swapaxes(0, 1)
    tables = [table(rng, n, o, t, np.dtype(dtype)) for n, o, t in zip(sizes, out, taps, strict=True)]
    want = x.astype("d")
    for axis, (n, (at, w)) in enumerate(zip(sizes, tables, strict=True), 2):
        want = np.moveaxis(np.moveaxis(want, axis, -1) @ matrix(n, at, w).T, -1, axis)
    for config in (None, {"BLOCK": 256, "num_warps": 4}):
        y = np.full((2, 3, *out), 9, dtype)
        resample.resample(x, tables, y, config)
        assert np.allclose(y.astype("d"), want, rtol=TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])


def test_what_has_no_weight_does_not_count():
    x = np.array([[[1.0, np.inf, np.nan]]], "f")
    at, w = np.array([[0, 1], [0, 2], [1, 0]], np.int32), np.array([[1, 0], [2, 0], [1, 1]], "f")
    y = np.empty((1, 1, 3), "f")
    resample.resample(x, [(at, w)], y)
    assert y.tolist() == [[[1.0, 2.0, np.inf]]]


def test_wrong_arguments_and_space():
    x, y = np.ones((1, 1, 3), "f"), np.empty((1, 1, 2), "f")
    at, w = np.zeros((2, 1), np.int32), np.ones((2, 1), "f")
    for bad in ([(at.astype(np.int64), w)], [(at, w.astype("d"))], [(at[:1], w[:1])]):
        with pytest.raises(TypeError, match=r"resample: takes .* a table \(places, taps\) of int32 and float32"):
            resample.resample(x, bad, y)
    assert resample.default_for((7,)) in list(resample.SPACE.configs())
