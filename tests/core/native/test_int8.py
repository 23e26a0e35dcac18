"""Layers of 8- and 4-bit numbers in C: every way to multiply gives NumPy's bits; odd sizes, layouts, threads, NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import core
from core import native
from core.backends import quantised
from core.ops.quantised import (
    convolution,
    int4_embedding,
    int8_conv2d,
    int8_embedding,
    int8_linear,
    integers,
    quantised_int4,
    quantised_int8,
    weight_int4_linear,
    weight_int8_linear,
)

c: Any = native.module
pytestmark = pytest.mark.skipif(c is None, reason="the C extension is not built")
WAYS = c.int8_ways() if c is not None else []
GIVEN = (np.asarray(0.02, np.float32), -100), (np.asarray(0.02, np.float32), 17), (None, 0)


@pytest.fixture(params=WAYS)
def way(request: Any) -> Iterator[str]:
    with quantised.way(request.param):
        yield request.param


def layer(m: int, n: int, k: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    x, bias = (rng.standard_normal(s).astype("f") for s in ((m, k), (n,)))
    return x, rng.integers(-128, 128, (n, k)).astype(np.int8), rng.uniform(0.01, 0.02, n).astype("f"), bias


def expected(*arrays: Any, **params: Any) -> Any:
    """The reference's own text on NumPy, whose sums are exact."""
    with np.errstate(all="ignore"):
        return integers._forward(np, *arrays, **params)


def same(y: Any, right: Any) -> bool:
    """Whether all bits are the same; one NaN is as good as another."""
    y, right = np.where(np.isnan(y), np.float32(np.nan), y), np.where(np.isnan(right), np.float32(np.nan), right)
    return y.tobytes() == right.tobytes()  # type: ignore[no-any-return]


SIZES = [(m, n, k) for m in (1, 2, 3, 5, 10, 11, 13, 40) for n in (1, 3, 33, 70) for k in (1, 3, 63, 65, 130, 700)]


@pytest.mark.parametrize("given", range(3))
def test_every_way_gives_the_bits_of_numpy(way: str, given: int) -> None:
    step, zero = GIVEN[given]
    for m, n, k in SIZES:
        x, *rest = layer(m, n, k)
        if m > 2:
            x[1, 0], x[2, -1], x[0] = np.nan, np.inf, 0
        for activation in ("", "relu"):
            params = {"input_zero": zero, "activation": activation}
            y = c.entries["int8_linear"](x, *rest, step, zero, activation)
            assert same(y, expected(x, *rest, step, **params)), (m, n, k, zero, activation)


@pytest.mark.parametrize("off", [0, 1, 16, 63])
def test_one_row_of_weights_that_begin_anywhere(way: str, off: int) -> None:
    for given, (step, zero) in enumerate(GIVEN):
        for n, k in ((1, 64), (5, 128), (70, 512), (130, 832), (33, 100)):
            x, weight, *rest = layer(1, n, k)
            block = np.full(n * k + 192, 77, np.int8)
            begin = -block.ctypes.data % 64 + off
            weight_there = block[begin : begin + n * k].reshape(n, k)
            weight_there[...] = weight
            y = c.entries["int8_linear"](x, weight_there, *rest, step, zero, "")
            assert same(y, expected(x, weight, *rest, step, input_zero=zero, activation="")), (given, n, k)


@pytest.mark.parametrize("k", [2, 130, 256, 600, 776])
def test_weights_packed_for_many_rows_are_the_same_floats_in_every_way(k: int) -> None:
    """With AVX-512 they are turned as bytes, elsewhere as floats."""
    found = []
    for name in WAYS:
        with quantised.way(name):
            x, weight, scale, bias = layer(150, 75, k)
            calls = [c.entries["weight_int8_linear"](x, weight, scale, bias)]
            for group in (8, 12, 24, 128, k):
                if k % group == 0:
                    four = [t.numpy() for t in quantised_int4(core.tensor(weight.astype("f")), group)]
                    calls.append(c.entries["weight_int4_linear"](x, *four, bias))
            found.append([y.tobytes() for y in calls])
    assert all(each == found[0] for each in found)


def test_quantised_weights_begin_a_line_of_the_cache() -> None:
    for n in range(256, 264):  # a small layer's time is not the multiplication's
        weight = core.tensor(np.random.default_rng(n).standard_normal((n, 8 * n)).astype("f"))
        assert quantised_int8(weight)[0].data_ptr() % 64 == 0
        assert quantised_int4(weight, 8)[0].data_ptr() % 64 == 0


def test_sums_at_the_end_of_their_range_do_not_overflow(way: str) -> None:
    k = integers.MOST_TERMS
    x, weight = np.full((2, k), -128, np.float32), np.full((3, k), -128, np.int8)
    x[1] = 127
    one, step = np.ones((), np.float32), np.asarray(1.0, np.float32)
    for rows in (x, np.repeat(x, 6, 0)):
        for zero in (0, 127, -128):
            y = c.entries["int8_linear"](rows, weight, one, None, step, zero, "")
            q = np.clip(rows.astype(np.int64) + zero, -128, 127) - zero
            assert np.array_equal(y, (q @ weight.T.astype(np.int64)).astype("f"))


CONVOLUTIONS = [  # batch, channels, height, width, outputs, groups, kernel, stride, padding, dilation
    (2, 3, 9, 11, 5, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 16, 20, 20, 32, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 8, 7, 9, 12, 2, (3, 2), (2, 1), (0, 2), (1, 2)),
    (1, 6, 8, 8, 6, 6, (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 4, 30, 90, 4, 4, (3, 3), (1, 2), (1, 1), (2, 1)),
    (1, 24, 5, 5, 70, 1, (1, 1), (1, 1), (0, 0), (1, 1)),
    (2, 10, 6, 6, 3, 1, (5, 5), (1, 1), (2, 2), (1, 1)),
    (3, 1, 12, 90, 9, 1, (5, 6), (2, 2), (2, 3), (1, 1)),  # few channels: words of four taps
    (2, 6, 9, 21, 4, 2, (3, 4), (1, 3), (1, 3), (2, 2)),
    (1, 5, 33, 17, 5, 5, (1, 1), (2, 4), (0, 0), (1, 1)),
    (7, 19, 5, 5, 20, 1, (3, 3), (1, 1), (1, 1), (1, 1)),  # few places: samples joined,
    (60, 40, 5, 4, 18, 2, (3, 3), (2, 1), (1, 1), (1, 1)),
    (1, 64, 4, 4, 20, 1, (3, 3), (1, 1), (1, 1), (1, 1)),  # or the weight as it lies
    (3, 21, 3, 3, 7, 1, (2, 3), (1, 1), (0, 1), (1, 1)),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("given", range(3))
def test_convolutions_have_the_bits_of_numpy(way: str, given: int, case: Any) -> None:
    batch, channels, high, wide, n, groups, kernel, stride, padding, dilation = case
    rng, (step, zero) = np.random.default_rng(1), GIVEN[given]
    x = rng.standard_normal((batch, channels, high, wide)).astype("f")
    x[-1, 0, 0, 0] = np.nan if batch > 1 else 3
    weight = rng.integers(-128, 128, (n, channels // groups, *kernel)).astype(np.int8)
    scale, bias = rng.uniform(0.01, 0.02, n).astype("f"), rng.standard_normal(n).astype("f")
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "input_zero": zero,
              "activation": "relu"}  # fmt: skip
    with np.errstate(all="ignore"):
        right = convolution._forward(np, x, weight, scale, bias, step, **params)
    channels_last = np.ascontiguousarray(weight.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for lying in (weight, channels_last):
        assert same(quantised.rows["int8_conv2d"].run(x, lying, scale, bias, step, **params), right)


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_smooth_activations(way: str, activation: str) -> None:
    for m in (3, 30):
        x, *rest = layer(m, 37, 100)
        y = c.entries["int8_linear"](x, *rest, None, 0, activation)
        right = expected(x, *rest, None, input_zero=0, activation=activation)
        np.testing.assert_allclose(y, right, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("rows", [1, 12, 300])
def test_threads_change_no_bit(way: str, rows: int) -> None:
    x, weight, scale, bias = layer(rows, 200, 260)
    four = [t.numpy() for t in quantised_int4(core.tensor(weight.astype("f")), 52)]
    found = []
    before = core.get_num_threads()
    for threads in (1, 2):
        c.set_num_threads(threads)
        found.append([c.entries["int8_linear"](x, weight, scale, bias, None, 0, "gelu"),
                      c.entries["weight_int8_linear"](x, weight, scale, bias),
                      c.entries["weight_int4_linear"](x, *four, bias)])  # fmt: skip
    c.set_num_threads(before)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*found, strict=True))


def test_layouts(way: str) -> None:
    x, weight, scale, bias = (core.tensor(a) for a in layer(6, 10, 32))
    right = int8_linear(x, weight, scale, bias)
    for other in (x.t().contiguous().t(), core.stack([x, x], 2)[..., 0], x.reshape(2, 3, 32)):
        y = int8_linear(other, weight.t().contiguous().t(), scale, bias)
        assert y.reshape(6, 10).numpy().tobytes() == right.numpy().tobytes()
    assert int8_linear(x[:0], weight, scale, bias).shape == (0, 10)
    assert core.equal(int8_linear(x[:, :0], weight[:, :0], scale, bias), bias.expand(6, 10))
    assert int8_linear(x, weight[:0], scale[:0], bias[:0]).shape == (6, 0)
    images, kernel = core.randn(2, 5, 5, 3).permute(0, 3, 1, 2), core.ones(4, 3, 2, 2, dtype=core.int8)
    assert core.equal(int8_conv2d(images, kernel, scale[:4]), int8_conv2d(images.contiguous(), kernel, scale[:4]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_types(dtype: str) -> None:
    x, weight, scale, bias = (core.tensor(a) for a in layer(6, 10, 32))
    y = int8_linear(x.to(getattr(core, dtype)), weight, scale, bias)
    assert str(y.dtype).endswith(dtype)
    assert core.allclose(y.float(), int8_linear(x, weight, scale, bias), atol=0.3)


# -- weights alone -----------------------------------------------------------------------------------------------------


def far(y: Any, right: Any, bound: Any) -> float:
    """How far off, as a share of what the magnitudes add up to."""
    return float((np.abs(y - right) / bound).max(initial=0))


@pytest.mark.parametrize("rows", [1, 2, 8, 9, 30, 200])
def test_weights_of_8_bits_are_as_exact_as_float32(way: str, rows: int) -> None:
    for n, k in ((1, 1), (5, 63), (33, 130), (66, 700)):
        x, weight, scale, bias = layer(rows, n, k)
        x *= 10.0 ** np.random.default_rng(0).integers(-3, 3, x.shape).astype("f")  # some outweigh all others
        y = c.entries["weight_int8_linear"](x, weight, scale, bias)
        wide = weight.astype("d") * scale[:, None]
        bound = np.abs(x).astype("d") @ np.abs(wide).T + np.abs(bias)
        assert far(y, x.astype("d") @ wide.T + bias, bound) < 1e-6


@pytest.mark.parametrize("rows", [1, 3, 23, 24, 40])
@pytest.mark.parametrize(
    ("k", "group"), [(2, 2), (6, 3), (64, 8), (96, 32), (192, 64), (640, 128), (768, 256), (60, 20)]
)
def test_weights_of_4_bits_are_as_exact_as_float32(way: str, rows: int, k: int, group: int) -> None:
    for n in (1, 5, 66):
        x, _, _, bias = layer(rows, n, k)
        rng = np.random.default_rng(n)
        weight = rng.integers(0, 256, (n, k // 2)).astype(np.uint8)
        scale, zero = (rng.uniform(a, b, (n, k // group)).astype("f") for a, b in ((0.1, 0.2), (0, 15)))
        y = c.entries["weight_int4_linear"](x, weight, scale, zero, bias)
        q = np.stack([weight & 15, weight >> 4], -1).reshape(n, k).astype("d")
        wide = (q - np.repeat(zero, group, 1)) * np.repeat(scale, group, 1)
        bound = np.abs(x).astype("d") @ np.repeat(15 * scale.astype("d"), group, 1).T + np.abs(bias)
        assert far(y, x.astype("d") @ wide.T + bias, bound) < 1e-6


@pytest.mark.parametrize("rows", [3, 12, 200])
def test_rows_that_are_not_finite_stay_apart(way: str, rows: int) -> None:
    x, weight, scale, _ = layer(rows, 20, 64)
    weight[0, 0] = 0  # times infinity
    x[0, 0], x[1, 0], x[2] = np.inf, np.nan, 1e-44
    with np.errstate(all="ignore"):
        right = x.astype("d") @ (weight.astype("d") * scale[:, None]).T
    four = quantised_int4(core.tensor(weight.astype("f")), 16)
    for y in (c.entries["weight_int8_linear"](x, weight, scale, None),
              c.entries["weight_int4_linear"](x, *(t.numpy() for t in four), None)):  # fmt: skip
        assert np.array_equal(np.isnan(y[1:]), np.isnan(right[1:]))
        assert np.isfinite(y[2:]).all()
        assert not np.isfinite(y[0]).any()


def test_nothing_to_sum() -> None:
    scale = core.ones(3)
    assert core.equal(weight_int8_linear(core.ones(2, 0), core.ones(3, 0, dtype=core.int8), scale, scale),
                      core.ones(2, 3))  # fmt: skip
    assert weight_int8_linear(core.ones(0, 4), core.ones(3, 4, dtype=core.int8), scale).shape == (0, 3)
    few = core.ones(3, 1)
    assert weight_int4_linear(core.ones(0, 4), core.ones(3, 2, dtype=core.uint8), few, few).shape == (0, 3)


def test_rows_of_tables() -> None:
    rng = np.random.default_rng(0)
    weight, scale = rng.integers(-128, 128, (9, 70)).astype(np.int8), rng.uniform(0.01, 0.02, 9).astype("f")
    index = rng.integers(0, 9, (3, 5))
    y = int8_embedding(core.tensor(index), core.tensor(weight), core.tensor(scale))
    assert np.array_equal(y.numpy(), weight[index].astype("f") * scale[index][..., None])
    table = quantised_int4(core.tensor(weight[:, :64].astype("f")), 16)
    widened = weight_int4_linear(core.eye(64), *table).t()
    np.testing.assert_allclose(int4_embedding(core.tensor(index), *table).numpy(), widened.numpy()[index], rtol=1e-5,
                               atol=1e-4)  # fmt: skip
    for f, arguments in ((int8_embedding, (core.tensor(weight), core.tensor(scale))), (int4_embedding, table)):
        with pytest.raises(IndexError, match="index out of range"):
            f(core.tensor([9]), *arguments)


def test_a_way_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no way 'neon'"):
        c.choose_int8_way("neon")
    assert c.int8_way() in c.int8_ways()
