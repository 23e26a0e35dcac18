"""The convolution kernels against the reference in float64: odd sizes, layouts, the ends of memory, threads."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from core import backends
from core.backends import convolve
from core.declare import op as declarations

# batch, channels, outputs, groups, size, kernel, stride, padding, dilation
CASES: list[tuple[Any, ...]] = [
    (1, 1, 1, 1, (5,), (5,), (1,), (0,), (1,)),
    (3, 7, 13, 1, (40,), (3,), (3,), (2,), (2,)),
    (2, 3, 64, 1, (17, 19), (7, 7), (2, 2), (3, 3), (1, 1)),  # the first layer of a residual network
    (9, 13, 33, 1, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),  # panels that hold several images
    (2, 130, 9, 1, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1)),  # more terms than a depth
    (1, 5, 7, 1, (2, 3), (4, 5), (1, 1), (2, 3), (1, 1)),  # a kernel larger than the image
    (2, 6, 4, 2, (9, 11), (2, 3), (4, 5), (0, 1), (1, 1)),  # a stride larger than the kernel
    (2, 4, 6, 2, (12, 9), (3, 2), (1, 2), (2, 0), (3, 2)),
    (3, 6, 6, 6, (9, 37), (3, 3), (1, 1), (1, 1), (1, 1)),  # depthwise
    (2, 5, 5, 5, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)),  # from planes as they lie
    (2, 5, 5, 5, (9, 36), (3, 3), (2, 2), (1, 1), (1, 1)),
    (3, 4, 4, 4, (1, 10), (3, 3), (2, 2), (1, 1), (1, 1)),
    (2, 3, 3, 3, (41, 2), (3, 3), (2, 2), (1, 1), (1, 1)),
    (2, 5, 10, 5, (11, 8), (5, 3), (2, 3), (2, 1), (1, 2)),
    (2, 40, 1, 1, (9, 9), (1, 1), (1, 1), (0, 0), (1, 1)),
    (2, 64, 72, 1, (8, 7), (1, 1), (1, 1), (0, 0), (1, 1)),  # the input as it lies
    (2, 12, 20, 1, (9, 9), (1, 1), (2, 2), (0, 0), (1, 1)),
    (1, 3, 5, 1, (600,), (1,), (1,), (0,), (1,)),  # a row longer than a block of pixels
    (2, 12, 24, 1, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),  # two columns beyond the last panel, and three
    (3, 40, 18, 1, (5, 7), (1, 1), (1, 1), (0, 0), (1, 1)),
    (2, 24, 32, 1, (14, 13), (3, 3), (2, 2), (1, 1), (1, 1)),  # rows of weights packed for several passes
    (1, 8, 16, 1, (12, 9), (9, 8), (1, 1), (4, 4), (1, 1)),  # more taps than are turned at once
    (2, 16, 17, 1, (5, 4), (3, 3), (4, 4), (1, 1), (1, 1)),  # a tap or none in a pass
    (2, 3, 4, 1, (4, 6, 5), (3, 2, 3), (2, 1, 1), (1, 0, 1), (1, 2, 1)),
    (1, 4, 4, 2, (3, 5, 4), (2, 2, 2), (1, 2, 3), (0, 1, 1), (1, 1, 1)),
]


def _nothing(name: str, *arrays: Any, **params: Any) -> None:
    """Instead of the reference, where only the kernels matter."""


def _reference(name: str, *arrays: Any, **params: Any) -> Any:
    op: Any = declarations.table[name]
    return op.forward(np, *(None if a is None else a.astype("d") for a in arrays), **params)


def _close(got: Any, want: Any) -> None:
    tolerance = 2e-5 if got.dtype.char == "f" else 1e-12
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * (np.abs(want).max() + 1))


def _all(case: tuple[Any, ...], dtype: str, layout: int = 0, reference: Any = _reference) -> list[tuple[Any, Any]]:
    """What the kernels give and what it should be."""
    batch, channels, outputs, groups, size, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (batch, channels, *size)).astype(dtype)
    if layout == 1:  # channels last
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    elif layout == 2:
        x = np.repeat(x, 3, axis=-1)[..., ::-3]
    w = rng.uniform(-1, 1, (outputs, channels // groups, *kernel)).astype(dtype)
    turned = rng.uniform(-1, 1, (channels, outputs // groups, *kernel)).astype(dtype)
    bias = None if layout else rng.uniform(-1, 1, outputs).astype(dtype)
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    y = convolve.conv(x, w, bias, **params)
    g = rng.uniform(-1, 1, y.shape).astype(dtype)
    found = [
        (y, reference("conv", x, w, bias, **params)),
        (convolve.conv_weight(x, g, kernel, **params), reference("conv_weight", x, g, kernel=kernel, **params)),
    ]
    extra = tuple(max(s, d) - 1 for s, d in zip(stride, dilation, strict=True))
    if all((n - 1) * s + d * (k - 1) + 1 + e > 2 * p for n, s, p, d, k, e in
           zip(size, stride, padding, dilation, kernel, extra, strict=True)):  # fmt: skip
        params["output_padding"] = extra
        found.append((convolve.conv_transpose(x, turned, bias, **params),
                      reference("conv_transpose", x, turned, bias, **params)))  # fmt: skip
    return found


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("layout", [0, 1, 2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_reference(case: tuple[Any, ...], layout: int, dtype: str, kernels: ModuleType) -> None:
    for got, want in _all(case, dtype, layout):
        _close(got, want)


def test_several_chunks_of_samples(kernels: ModuleType) -> None:
    case = (5, 64, 9, 1, (80, 81), (3, 3), (2, 1), (1, 1), (1, 1))  # planes of more bytes than are laid out at once
    for got, want in _all(case, "f"):
        _close(got, want)


@pytest.mark.parametrize("case", [CASES[k] for k in (2, 3, 4, 8, 10, 15, 20, 23)], ids=str)
def test_the_threads_do_not_change_a_bit(case: tuple[Any, ...], kernels: ModuleType) -> None:
    batch, channels, outputs, groups, size, *rest = case
    larger = (batch * 4, channels * 2, outputs * 2, groups, tuple(2 * n + 1 for n in size), *rest)
    found = []
    for threads in (1, 2, 3):
        kernels.set_num_threads(threads)
        found.append([got for got, _ in _all(larger, "f", reference=_nothing)])
    for others in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], others, strict=True))


def test_the_error_of_many_terms_is_that_of_few(kernels: ModuleType) -> None:
    """4608 terms in one chain were off by 3e-6 of the largest, a chain for every 576 by less than 5e-7."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 512, 7, 7), np.float32), rng.standard_normal((64, 512, 3, 3), np.float32)
    settings = ((1, 1), (1, 1), (1, 1), (7, 7), 1, False)
    got = kernels.kernels["conv"](x, w, None, *settings)
    want = kernels.kernels["conv"](x.astype("d"), w.astype("d"), None, *settings)
    assert np.abs(got - want).max() < 8e-7 * np.abs(want).max()


def test_what_is_not_finite_stays_where_it_is(kernels: ModuleType) -> None:
    """A vector's length is read where fewer count: the rest must not come in, not even multiplied by 0."""
    for channels, groups in ((4, 1), (4, 4)):
        x, w = np.ones((1, channels, 9, 21), "f"), np.ones((channels, channels // groups, 3, 3), "f")
        x[0, :, 4, 10] = np.inf
        y = convolve.conv(x, w, None, (1, 1), (0, 0), (1, 1), groups)
        assert np.isinf(y).sum() == 9 * channels
        assert not np.isnan(y).any()
        g = np.ones((1, channels, 7, 19), "f")
        g[0, :, 2:5, 8:11] = 0  # the places that see it
        gw = convolve.conv_weight(x, g, (3, 3), (1, 1), (0, 0), (1, 1), groups)
        assert np.isnan(gw).all()  # inf by 0: every tap sees it
        x[0, :, 4, 10] = 1
        x[0, :, 0, 0] = np.inf  # the first tap alone sees it
        gw = convolve.conv_weight(x, g, (3, 3), (1, 1), (0, 0), (1, 1), groups)
        assert np.isinf(gw[..., 0, 0]).all()
        assert np.isfinite(gw.reshape(-1, 9)[:, 1:]).all()


@pytest.mark.parametrize("stride", [1, 2])
def test_what_is_not_finite_reaches_no_other_row(stride: int, kernels: ModuleType) -> None:
    """Where rows lie behind one another the end of one is a neighbour in memory of the next one's beginning."""
    settings = {"stride": (stride, stride), "padding": (1, 1), "dilation": (1, 1), "groups": 3}
    w = np.ones((3, 1, 3, 3), "f")
    for y, at in ((4, 0), (4, 8), (0, 4), (8, 8), (3, 5)):
        x = np.ones((2, 3, 9, 9), "f")
        x[1, 1, y, at] = np.inf
        out = convolve.conv(x, w, None, **settings)
        padded = np.pad(np.isinf(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
        seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).any((-1, -2))
        assert np.array_equal(np.isinf(out), seen[:, :, ::stride, ::stride])
        assert not np.isnan(out).any()


def test_nothing_in_or_out(kernels: ModuleType) -> None:
    bias = np.array([1, 2], "f")
    for x, w in (((0, 3, 4, 4), (2, 3, 1, 1)), ((1, 0, 4, 4), (2, 0, 1, 1)), ((2, 3, 0, 4), (2, 3, 1, 1))):
        y = convolve.conv(np.ones(x, "f"), np.ones(w, "f"), bias, (1, 1), (0, 0), (1, 1), 1)
        assert y.shape == (x[0], 2, *x[2:])
        assert y.sum() == 3 * x[0] * math.prod(x[2:])


def test_rows_and_errors(kernels: ModuleType) -> None:
    x, w = np.ones((1, 2, 5, 5), "f"), np.ones((3, 2, 3, 3), "f")
    params = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    picked = backends.pick("conv", "cpu", (x, w, None), params)
    assert picked is not None
    assert (picked.name, picked.backend) == ("conv_forward", "C")
    one, none = (1, 1), (0, 0)
    for arguments, phrase in (
        ((x[0, 0], w, None, one, none, one, (3, 3), 1, False), "takes x: real"),
        ((x, w, None, (0, 1), none, one, (3, 3), 1, False), "takes x: real"),
        ((x, w[:, :1], None, one, none, one, (3, 3), 1, False), "takes x: real"),
        ((x, w, np.ones(2, "f"), one, none, one, (3, 3), 1, False), "takes x: real"),
        ((x[..., None, None], w[..., None, None], None, one * 2, none * 2, one * 2, (3, 3, 1, 1), 1, False),
         "takes x: real"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=phrase):
            kernels.kernels["conv"](*arguments)
    with pytest.raises(TypeError, match="takes x: real"):
        kernels.kernels["conv"](x, w.astype("d"), None, one, none, one, (3, 3), 1, False)
