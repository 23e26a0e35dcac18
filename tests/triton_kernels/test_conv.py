"""Convolution, its transpose and its weight's gradient by implicit GEMM, against windows summed in float64."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import conv, conv_weight, depthwise, windows

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 2e-3, BF16: 2e-2, np.float32: 3e-6}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 16, "num_warps": 4}

# channels in and out, groups, sizes, kernel, stride, padding, dilation
CASES = {
    "1d": (5, 7, 1, (33,), (3,), (3,), (2,), (2,)),
    "2d": (5, 7, 1, (9, 7), (3, 2), (2, 1), (1, 0), (1, 2)),
    "3d": (3, 5, 1, (3, 5, 4), (2, 3, 1), (2, 1, 2), (1, 1, 0), (1, 2, 1)),
    "grouped": (6, 4, 2, (7, 5), (3, 3), (1, 2), (1, 1), (2, 2)),
    "depthwise": (3, 6, 3, (9, 8), (3, 3), (2, 1), (1, 2), (1, 2)),
    "pointwise": (33, 7, 1, (5, 3), (1, 1), (1, 1), (0, 0), (1, 1)),
    "patches": (3, 5, 1, (8, 8), (4, 4), (4, 4), (0, 0), (1, 1)),
}


def places(tap, sizes, out, stride, padding, dilation):
    """Where a tap of every window stands, and which of these are inside."""
    at = [np.arange(o) * s + t * d - p for o, s, t, d, p in zip(out, stride, tap, dilation, padding, strict=True)]
    ok = [(a >= 0) & (a < n) for a, n in zip(at, sizes, strict=True)]
    return np.ix_(*(a[i] for a, i in zip(at, ok, strict=True))), np.ix_(*(np.flatnonzero(i) for i in ok))


def exact(x, w, b, y, groups, stride, padding, dilation):
    """The convolution, and from a gradient y those of x and w."""
    x, w, y = (a.astype("d") for a in (x, w, y))
    out, gx, gw = np.zeros_like(y), np.zeros_like(x), np.zeros_like(w)
    o, c = w.shape[0] // groups, w.shape[1]
    for g, tap in product(range(groups), product(*(range(k) for k in w.shape[2:]))):
        here, there = places(tap, x.shape[2:], y.shape[2:], stride, padding, dilation)
        for n in range(len(x)):
            part, turn = x[n, g * c : (g + 1) * c], w[(slice(g * o, (g + 1) * o), slice(None), *tap)]
            seen, arrived = part[(slice(None), *here)], y[n, g * o : (g + 1) * o][(slice(None), *there)]
            out[n, g * o : (g + 1) * o][(slice(None), *there)] += np.tensordot(turn, seen, 1)
            gx[n, g * c : (g + 1) * c][(slice(None), *here)] += np.tensordot(turn.T, arrived, 1)
            gw[(slice(g * o, (g + 1) * o), slice(None), *tap)] += np.tensordot(
                arrived, seen, ((*[range(1, seen.ndim)] * 2,))
            )
    return out + b.astype("d").reshape(-1, *(1,) * len(stride)), gx, gw


def made(rng, name, dtype):
    channels, outputs, groups, sizes, kernel, *settings = CASES[name]
    out = windows.out_sizes(sizes, kernel, *settings)
    shapes = (2, channels, *sizes), (outputs, channels // groups, *kernel), (outputs,), (2, outputs, *out)
    return [rng.standard_normal(s).astype(dtype) for s in shapes], groups, settings


def agree(got, want, dtype):
    scale = np.abs(want).max()
    assert np.allclose(got.astype("d"), want, rtol=0, atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize(
    ("dtype", "how"),
    [
        (np.float32, {}),
        (BF16, {}),
        (np.float32, {"config": SMALL, "dense": False}),
        (np.float16, {"config": SMALL | {"BLOCK_K": 32}, "dense": True}),
    ],
    ids=["float32", "bfloat16", "by taps", "channels and taps as one"],
)
@pytest.mark.parametrize("name", CASES)
def test_against_windows(name, dtype, how, rng):
    (x, w, b, y), groups, settings = made(rng, name, dtype)
    want, want_x, want_w = exact(x, w, b, y, groups, *settings)
    out, gx, gw = np.full_like(y, 9), np.full_like(x, 9), np.full_like(w, 9)
    conv.conv_forward(x, w, out, *settings, groups, b, **how)
    agree(out, want, dtype)
    conv.conv_transpose_forward(y, w, gx, *settings, groups, **how)
    agree(gx, want_x, dtype)
    conv_weight.conv_weight(x, y, gw, *settings, groups, parts=3 if how else None, **how)
    agree(gw, want_w, dtype)


@pytest.mark.parametrize("name", ["2d", "depthwise"])
def test_strides_are_free(name, rng):
    """Channels last, a transposed weight and every second bias: the same bits as dense arrays."""
    (x, w, b, y), groups, settings = made(rng, name, np.float32)
    last, turned = np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1), w.T.copy().T
    dense, other = np.empty_like(y), np.moveaxis(np.empty_like(np.moveaxis(y, 1, -1), order="C"), -1, 1)
    conv.conv_forward(x, w, dense, *settings, groups, b)
    conv.conv_forward(last, turned, other, *settings, groups, np.repeat(b, 2)[::2])
    assert np.array_equal(dense, other)
    gw, gw_last = np.empty_like(w), np.empty_like(w)
    conv_weight.conv_weight(x, y, gw, *settings, groups)
    conv_weight.conv_weight(last, other * 0 + y, gw_last, *settings, groups)
    assert np.array_equal(gw, gw_last)


def test_output_padding_bias_and_nan(rng):
    """Places of the transpose that no window reaches have the bias alone; a NaN reaches its own windows, no others."""
    x, w, b = (rng.standard_normal(s).astype("f") for s in ((1, 2, 3), (2, 3, 2), (3,)))
    out = np.empty((1, 3, 8), "f")
    conv.conv_transpose_forward(x, w, out, (3,), (0,), (1,), 1, b)
    want = np.zeros((3, 9))
    for i, k in product(range(3), range(2)):
        want[:, 3 * i + k] += x[0, :, i].astype("d") @ w[:, :, k].astype("d")
    assert np.allclose(out[0], (want + b[:, None])[:, :8], rtol=1e-5)
    assert np.array_equal(out[0, :, 2], b)
    x[0, 1, 1] = np.nan
    y = np.empty((1, 2, 2), "f")
    conv.conv_forward(x, w.transpose(1, 0, 2)[:2], y, (2,), (1,), (1,))
    assert np.isnan(y).tolist() == [[[False, True]] * 2]


def test_many_parts_give_the_same_bits_again(rng):
    x, y = rng.standard_normal((3, 4, 11, 9)).astype("f"), rng.standard_normal((3, 4, 11, 9)).astype("f")
    first, second = np.empty((4, 1, 3, 3), "f"), np.empty((4, 1, 3, 3), "f")
    for out in (first, second):
        conv_weight.conv_weight(x, y, out, (1, 1), (1, 1), (1, 1), 4, parts=4)
    assert np.array_equal(first, second)
    once = np.empty_like(first)
    conv_weight.conv_weight(x, y, once, (1, 1), (1, 1), (1, 1), 4, parts=1)
    assert np.allclose(first, once, rtol=1e-4, atol=1e-4)
    assert conv_weight.divided(1000, 4, 32, 3) == (352, 3)


def test_empty_and_wrong_arguments(rng):
    nothing = np.empty((0, 3, 5), "f")
    conv.conv_forward(nothing, np.empty((2, 3, 3), "f"), np.empty((0, 2, 3), "f"), (1,), (0,), (1,))
    x, w = np.ones((1, 3, 5), "f"), np.ones((2, 3, 3), "f")
    with pytest.raises(ValueError, match=r"groups=1 do not fit: a group sums over 3 channels and gives 2"):
        conv.conv_forward(x, w, np.empty((1, 4, 3), "f"), (1,), (0,), (1,))
    with pytest.raises(TypeError, match="float16, bfloat16 or float32 arrays of one dtype"):
        conv.conv_forward(x, w.astype("d"), np.empty((1, 2, 3), "f"), (1,), (0,), (1,))
    with pytest.raises(ValueError, match=r"expected bias of shape \(2,\)"):
        conv.conv_forward(x, w, np.empty((1, 2, 3), "f"), (1,), (0,), (1,), 1, np.ones(3, "f"))
    with pytest.raises(ValueError, match="row-major"):
        conv_weight.conv_weight(x, np.ones((1, 2, 3), "f"), w.T.copy().T, (1,), (0,), (1,))


def test_defaults_stand_in_their_spaces():
    for dtype, columns, rows in product((np.float32, np.float16), (8, 48, 256), (100, 10_000, 1_000_000)):
        assert conv.default_for((rows, columns, 576), dtype) in list(conv.space_for(dtype).configs())
    assert depthwise.default_for() in list(depthwise.SPACE.configs())
    assert windows.transposed_walk((9,), (4,), (1,), (2,))[-1] == (1, 1, 2)
    far = np.lib.stride_tricks.as_strided(np.zeros(1, "f"), (2, 1, 4), (2**33, 4, 4))  # nothing is read of it
    assert conv.index_type(np.empty((1, 1, 4), "f")) != conv.index_type(far)
