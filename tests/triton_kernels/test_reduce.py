"""Reductions over any axes and layouts, against float64 NumPy; positions, NaN and empty arrays."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import reduce
from triton_kernels.reduce import reduce_forward

BF16 = ml_dtypes.bfloat16
REFERENCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
AXES = [None, 0, 1, -1, (0, 1), (0, 2), (1, 3), (3, 0, 1), (0, 1, 2, 3)]
TOLERANCE = {np.float16: 2e-3, BF16: 2e-2, np.float32: 2e-6, np.float64: 1e-14}


def views(x):
    yield x
    yield x.transpose(2, 0, 3, 1)
    yield x[:, ::2, 1:, ::-1]
    yield np.broadcast_to(x[:1, :, :1], x.shape)


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64])
@pytest.mark.parametrize("kind", REFERENCE)
def test_axes_and_layouts(kind, dtype, rng):
    x = rng.standard_normal((3, 4, 5, 7)).astype(dtype)
    for view, axes in itertools.product(views(x), AXES):
        exact = REFERENCE[kind](view.astype("d"), axis=axes)
        out = np.empty(np.shape(exact), dtype)
        reduce_forward(kind, view, axes, out)
        assert np.allclose(out.astype("d"), exact, rtol=TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


def test_a_config_of_small_tiles_loops(rng):
    x = rng.standard_normal((9, 1000)).astype("f")
    for kind, axis in itertools.product(REFERENCE, (0, 1)):
        out = np.empty(x.shape[1 - axis], "f")
        reduce_forward(kind, x, axis, out, {"BLOCK_KEPT": 4, "BLOCK_REDUCE": 256})
        assert np.allclose(out, REFERENCE[kind](x.astype("d"), axis=axis), rtol=1e-5, atol=1e-4)


def test_keepdims_and_strided_outputs(rng):
    x = rng.standard_normal((4, 5, 6)).astype("f")
    kept = np.empty((4, 1, 6), "f")
    reduce_forward("sum", x, 1, kept)
    assert np.allclose(kept, x.sum(1, keepdims=True), atol=1e-5)
    out = np.empty((6, 4), "f").T
    reduce_forward("max", x, 1, out)
    assert np.array_equal(out, x.max(1))


def test_half_precision_is_summed_in_float32():
    x = np.full(4096, 1.0, np.float16)
    out = np.empty((), np.float32)
    reduce_forward("sum", x, None, out)
    assert out == 4096  # float16 alone would stop at 2048


def test_nan_wins_and_infinities_are_values():
    x = np.array([[1, np.nan, 3], [-np.inf, -np.inf, -np.inf], [np.inf, 2, 3], [np.nan] * 3], "f")
    for kind in ("max", "min"):
        out = np.empty(4, "f")
        reduce_forward(kind, x, 1, out)
        assert np.array_equal(out, REFERENCE[kind](x, axis=1), equal_nan=True)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_positions(kind, rng):
    x = rng.integers(-3, 4, (4, 5, 6)).astype("f")  # many ties: the first wins
    x[0, 1, 2] = x[3, 1, 2] = np.nan
    x[1], x[2, 0] = -np.inf, np.inf
    for axis, config in itertools.product((0, 1, 2, -1), (None, {"BLOCK_KEPT": 4, "BLOCK_REDUCE": 256})):
        exact = getattr(np, kind)(x, axis=axis)
        out = np.empty(exact.shape, np.int64)
        reduce_forward(kind, x, axis, out, config)
        assert np.array_equal(out, exact)
    flat = np.empty((), np.int64)
    reduce_forward(kind, x, None, flat)
    assert flat == getattr(np, kind)(x)
    with pytest.raises(ValueError, match="takes one axis, or all axes of a contiguous array"):
        reduce_forward(kind, x.T, None, flat)


def test_long_rows_of_positions(rng):
    x = rng.standard_normal((3, 2000)).astype(np.float16)
    out = np.empty(3, np.int64)
    reduce_forward("argmin", x, 1, out, {"BLOCK_KEPT": 4, "BLOCK_REDUCE": 256})
    assert np.array_equal(out, x.argmin(1))


def test_empty():
    x = np.empty((0, 3), "f")
    out = np.full(3, 7, "f")
    reduce_forward("sum", x, 0, out)
    assert (out == 0).all()
    reduce_forward("mean", x, 0, out)
    assert np.isnan(out).all()
    with pytest.raises(ValueError, match=r"Expected reduction dim to be specified for input.numel\(\) == 0"):
        reduce_forward("max", x, 0, out)
    reduce_forward("max", x, 1, np.empty(0, "f"))


def test_zero_dimensions():
    x, out = np.array(3.0, "f"), np.empty((), "f")
    for kind in REFERENCE:
        reduce_forward(kind, x, None, out)
        assert out == 3
    position = np.empty((), np.int64)
    reduce_forward("argmax", x, None, position)
    assert position == 0


def test_errors_say_what_came():
    x, out = np.ones((2, 3), "f"), np.empty(2, "f")
    with pytest.raises(ValueError, match=r"axes \(0, 0\) are not distinct axes"):
        reduce_forward("sum", x, (0, 0), out)
    with pytest.raises(ValueError, match=r"out has shape \(2,\), but x \(2, 3\) leaves \(3,\)"):
        reduce_forward("sum", x, 0, out)
    with pytest.raises(TypeError, match="got int64"):
        reduce_forward("sum", np.ones(3, np.int64), 0, np.empty((), "f"))
    with pytest.raises(ValueError, match="kind is one of sum, mean"):
        reduce_forward("median", x, 1, out)
    scattered = np.lib.stride_tricks.as_strided(np.zeros(2000, "f"), (2,) * 5, (4, 40, 12, 200, 28))
    with pytest.raises(ValueError, match="5 separate dimensions remain"):
        reduce_forward("sum", scattered, None, np.empty((), "f"))


def test_split_reductions_agree_with_one_program(monkeypatch, rng):
    """On a GPU few results of many elements are split over programs; pretend that here."""
    monkeypatch.setattr(reduce, "INTERPRET", False)
    monkeypatch.setattr(reduce, "_launches", {})
    x = rng.standard_normal((3, 50_000)).astype("f")
    for kind, axes in itertools.product(REFERENCE, (1, None)):
        exact = REFERENCE[kind](x.astype("d"), axis=axes)
        out = np.empty(np.shape(exact), "f")
        reduce_forward(kind, x, axes, out)
        assert np.allclose(out, exact, rtol=1e-4, atol=1e-6)


NORMS = {"norm0": 0, "norm1": 1, "norm2": 2, "norminf": np.inf, "norm-inf": -np.inf}


@pytest.mark.parametrize("config", [None, {"BLOCK_KEPT": 4, "BLOCK_REDUCE": 256}])
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64])
def test_products_norms_and_counts(dtype, config, rng):
    x = rng.uniform(0.9, 1.1, (3, 5, 70)).astype(dtype)
    x[0, 0, :3] = 0
    for kind, axes in itertools.product(("prod", *NORMS), ((2,), (0, 1), (0, 1, 2))):
        flat = np.moveaxis(x.astype("d"), [a for a in range(3) if a not in axes], range(3 - len(axes)))
        flat = flat.reshape(*flat.shape[: 3 - len(axes)], -1)
        exact = flat.prod(-1) if kind == "prod" else np.linalg.norm(flat, NORMS[kind], -1)
        out = np.empty(exact.shape, dtype)
        reduce_forward(kind, x, axes, out, config)
        assert np.allclose(out.astype("d"), exact, rtol=4 * TOLERANCE[dtype])
    out, total = np.empty((3, 5), np.int64), np.empty((), np.int64)
    reduce_forward("count", x, 2, out, config)
    reduce_forward("sum", out, None, total, config)
    assert (out == np.count_nonzero(x.astype("d"), 2)).all()
    assert total == np.count_nonzero(x.astype("d"))


def test_truth_of_any_type(rng):
    for dtype in (bool, np.uint8, np.int64, np.float32, BF16):
        x = (rng.random((6, 40)) < 0.05).astype(dtype)
        x[0], x[1] = 0, 1
        some, every = np.empty(6, bool), np.empty(6, bool)
        reduce_forward("any", x, 1, some)
        reduce_forward("all", x, 1, every)
        assert (some == x.astype(bool).any(1)).all()
        assert (every == x.astype(bool).all(1)).all()
    empty = np.empty((2, 0), np.float32)
    reduce_forward("any", empty, 1, some[:2])
    reduce_forward("all", empty, 1, every[:2])
    assert not some[:2].any()
    assert every[:2].all()


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_extremes_come_with_their_places(kind, rng):
    x = rng.integers(-9, 9, (5, 33)).astype("f")
    x[1, 4], x[2] = np.nan, np.inf
    places, values = np.empty(5, np.int64), np.empty(5, "f")
    reduce_forward(kind, x, 1, places, values=values)
    assert (places == getattr(x, kind)(1)).all()
    assert np.array_equal(values, x[np.arange(5), places], equal_nan=True)
    with pytest.raises(ValueError, match="laid out like the positions"):
        reduce_forward(kind, x, 1, places, values=values.astype("d"))
    out = np.empty_like(x)
    reduce.place(values, places, 1, out)
    want = np.zeros_like(x)
    want[np.arange(5), places] = values
    assert np.array_equal(out, want, equal_nan=True)
