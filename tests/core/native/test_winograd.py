"""3 x 3 convolutions by Winograd's minimal filtering: errors, odd sizes, what is not finite, wide ranges, threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from core import native
from core.backends import convolve, cpu
from triton_kernels.tune.memory import Fenced

ONE = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
METHODS = ("direct", "F2", "F4")
# the rms error over the rms result that each may have, forward and backward
MOST = {"direct": 6e-7, "F2": 3e-7, "F4": 1e-6}


@pytest.fixture(autouse=True)
def method_as_before() -> Iterator[None]:
    """A test may set the method."""
    yield
    cpu.set_convolution_method("chosen")


def given(n: int, ins: int, outs: int, high: int, wide: int, padding: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Return x, weights, bias, and a gradient of the result."""
    rng = np.random.default_rng(seed)
    out = high + 2 * padding - 2, wide + 2 * padding - 2
    shapes = ((n, ins, high, wide), (outs, ins, 3, 3), (outs,), (n, outs, *out))
    x, w, b, g = (rng.standard_normal(shape, np.float32) for shape in shapes)
    return x, w, b, g


def all_three(x: Any, w: Any, b: Any, g: Any, padding: int) -> list[Any]:
    """Return the convolution and its gradients of x and the weights."""
    settings = {**ONE, "padding": (padding, padding)}
    return [
        convolve.conv(x, w, b, **settings),
        convolve.conv_transpose(g, w, None, output_padding=(0, 0), **settings),
        convolve.conv_weight(x, g, (3, 3), **settings),
    ]


def rms(found: Any, right: Any) -> float:
    """Return the rms error over the rms of what is right."""
    return float(np.sqrt(np.mean((found - right) ** 2) / np.mean(right**2)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 16, 16, 5, 5, 1),  # a tile and a bit
        (2, 17, 23, 7, 9, 1),  # channels and outputs beyond whole eights
        (3, 32, 40, 8, 8, 0),
        (2, 33, 16, 13, 30, 2),
        (1, 16, 20, 1, 1, 1),
        (1, 16, 16, 2, 3, 2),
        (1, 16, 16, 3, 100, 1),  # long rows
        (2, 20, 24, 40, 6, 1),  # rows shorter than a vector
        (1, 64, 64, 32, 32, 1),  # several blocks of tiles
        (1, 16, 24, 3, 1100, 1),  # a row of tiles is more than a block
        (1, 512, 16, 8, 8, 1),  # many terms
    ],
    ids=str,
)
def test_the_error_is_small_whatever_the_shape(shape: tuple[int, ...], method: str) -> None:
    arrays = given(*shape)
    right = all_three(*(a.astype("d") for a in arrays), shape[-1])
    cpu.set_convolution_method(method)
    for found, expected in zip(all_three(*arrays, shape[-1]), right, strict=True):
        assert rms(found, expected) < MOST[method]


def test_views_are_read_as_they_lie() -> None:
    x, w, b, g = given(2, 32, 16, 20, 12, 1)
    turned = np.ascontiguousarray(x.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3)
    wider = np.zeros((2, 32, 40, 30), "f")
    wider[:, :, ::2, 5:17] = x
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)  # this one is no row of neighbours
    for method in ("F2", "F4"):
        cpu.set_convolution_method(method)
        expected = all_three(x, w, b, g, 1)
        for view in (turned, wider[:, :, ::2, 5:17]):
            assert all(np.array_equal(a, e) for a, e in zip(all_three(view, w, b, g, 1), expected, strict=True))
        assert rms(all_three(last, w, b, g, 1)[0], expected[0]) < MOST["F4"]


@pytest.mark.parametrize("method", ["F2", "F4"])
def test_no_memory_beyond_the_arrays_is_read(method: str) -> None:
    cpu.set_convolution_method(method)
    arrays = given(2, 16, 24, 9, 11, 1)
    fenced = []
    for array in arrays:
        one = Fenced(array.shape, array.dtype)
        one.lay("end")
        one.array[...] = array
        fenced.append(one)
    found = all_three(*(one.array for one in fenced), 1)
    assert all(np.array_equal(a, e) for a, e in zip(found, all_three(*arrays, 1), strict=True))


@pytest.mark.parametrize("method", ["F2", "F4", "chosen"])
def test_the_threads_do_not_change_a_bit(method: str, kernels: Any) -> None:
    cpu.set_convolution_method(method)
    for shape in ((3, 48, 72, 33, 20, 1), (1, 32, 200, 6, 6, 1)):
        found = []
        for threads in (1, 2, 3):
            kernels.set_num_threads(threads)
            found.append(all_three(*given(*shape), 1))
        for others in found[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(found[0], others, strict=True))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stands_where_the_direct_sum_has_it(value: float) -> None:
    x, w, b, g = given(1, 16, 16, 16, 16, 1)
    for method in ("chosen", "F2", "F4"):
        for y in range(4, 8):  # every place of a tile
            for at in range(4, 8):
                spoiled = x.copy()
                spoiled[0, 3, y, at] = value
                cpu.set_convolution_method("direct")
                right = all_three(spoiled, w, b, g, 1)
                cpu.set_convolution_method(method)
                for found, expected in zip(all_three(spoiled, w, b, g, 1), right, strict=True):
                    assert np.array_equal(np.isnan(found), np.isnan(expected))
                    assert np.array_equal(np.isinf(found), np.isinf(expected))


@pytest.mark.parametrize("large", [1e3, 1e6, 1e20, 3e38])
def test_beside_a_large_number_the_others_keep_their_digits(large: float) -> None:
    x, w, b, _ = given(1, 16, 16, 24, 24, 1)
    for y, at in ((8, 8), (9, 10), (11, 11), (0, 23)):
        x[0, 3, y, at] = large
        right = convolve.conv(x.astype("d"), w.astype("d"), b.astype("d"), padding=(1, 1), **ONE)
        found = convolve.conv(x, w, b, padding=(1, 1), **ONE)
        others = np.ones(right.shape[2:], bool)
        others[max(y - 1, 0) : y + 2, max(at - 1, 0) : at + 2] = False
        assert rms(found[..., others], right[..., others]) < MOST["direct"]
        assert np.isfinite(found).all() == (np.abs(right).max() < np.finfo("f").max)
        x[0, 3, y, at] = 1


def test_numbers_at_the_ends_of_the_range_are_those_of_the_direct_sum() -> None:
    x, w, _, _ = given(1, 16, 16, 16, 16, 1)
    for scale in (1e-42, 1e-30, 1e30, 1e37):
        settings = {**ONE, "padding": (1, 1)}
        cpu.set_convolution_method("direct")
        right = convolve.conv(x * np.float32(scale), w, None, **settings)
        cpu.set_convolution_method("chosen")
        found = convolve.conv(x * np.float32(scale), w, None, **settings)
        assert np.array_equal(np.isfinite(found), np.isfinite(right))
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=scale * 1e-4)


def test_which_is_chosen() -> None:
    def taken(shape: tuple[int, ...], change: Any = None) -> dict[str, int]:
        x, w, b, _ = given(*shape)
        if change is not None:
            change(x)
        before = native.module.paths()
        convolve.conv(x, w, b, padding=(1, 1), **ONE)
        after = native.module.paths()
        return {name[-1]: after[name] - before[name] for name in ("conv_winograd_2", "conv_winograd_4")}

    def wide(x: Any) -> None:
        x[0, 0, 0, 0] = 1e6

    def infinite(x: Any) -> None:
        x[0, 0, 0, 0] = np.inf

    assert taken((1, 16, 16, 16, 16, 1)) == {"2": 0, "4": 1}
    assert taken((1, 16, 16, 16, 16, 1), wide) == {"2": 1, "4": 0}
    assert taken((1, 16, 16, 16, 16, 1), infinite) == {"2": 0, "4": 0}
    assert taken((1, 15, 16, 16, 16, 1)) == taken((1, 16, 15, 16, 16, 1)) == {"2": 0, "4": 0}  # few channels
    assert taken((1, 16, 16, 12, 16, 1)) == {"2": 1, "4": 0}  # few tiles
    assert taken((1, 16, 16, 6, 8, 1)) == {"2": 0, "4": 0}


def test_a_method_has_a_name() -> None:
    assert cpu.get_convolution_method() == "chosen"
    with pytest.raises(ValueError, match=r"takes 'chosen', 'direct', 'F2' or 'F4', got 'F8'"):
        cpu.set_convolution_method("F8")
