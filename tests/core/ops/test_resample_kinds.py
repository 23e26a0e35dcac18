"""Interpolation of every kind and in every dimension against its formula along one line at a time; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core

F = core.nn.functional


def cubic(t: float, a: float) -> float:
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def table(n: int, out: int, mode: str, align: bool, scale: float | None, smooth: bool = False) -> Any:
    """The weights (out, n) of the places of a line."""
    w = np.zeros((out, n))
    step = (n - 1) / (out - 1) if align and out > 1 else 0.0 if align else 1 / scale if scale else n / out
    for i in range(out):
        if mode == "nearest":
            w[i, min(int(i * step), n - 1)] = 1
        elif mode == "nearest-exact":
            w[i, min(int((i + 0.5) * step), n - 1)] = 1
        elif mode == "area":
            a, b = i * n // out, -(-(i + 1) * n // out)
            w[i, a:b] = 1 / (b - a)
        elif smooth:
            wide = max(step, 1.0)
            middle = step * (i + 0.5)  # with aligned corners too, as PyTorch
            part = [(cubic((k + 0.5 - middle) / wide, -0.5) if mode == "cubic"
                     else max(0.0, 1 - abs(k + 0.5 - middle) / wide)) for k in range(n)]  # fmt: skip
            w[i] = np.array(part) / sum(part)
        else:
            at = i * step if align else (i + 0.5) * step - 0.5
            at = max(at, 0.0) if mode == "linear" else at
            low = math.floor(at)
            for k in range(-1, 3):
                share = cubic(at - low - k, -0.75) if mode == "cubic" else max(0.0, 1 - abs(at - low - k))
                w[i, min(max(low + k, 0), n - 1)] += share
    return w


KINDS = [(mode, n) for mode in ("nearest", "nearest-exact", "area") for n in (1, 2, 3)]
KINDS += [("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2)]
SIZES = (5, 4, 3)


def resized(x: Any, n: int, tables: list[Any]) -> Any:
    for d, w in enumerate(tables):
        x = np.moveaxis(np.tensordot(w, x, (1, 2 + d)), 0, 2 + d)
    return x


@pytest.mark.parametrize(("mode", "n"), KINDS)
@pytest.mark.parametrize("out", [(8, 3, 4), (2, 7, 1), (5, 4, 3)])
@pytest.mark.parametrize("align", [None, False, True])
def test_to_a_size(mode: str, n: int, out: tuple[int, ...], align: bool | None) -> None:
    kind = mode if mode in ("nearest", "nearest-exact", "area") else "cubic" if mode == "bicubic" else "linear"
    if kind == mode and mode != "linear" and align is not None:
        with pytest.raises(ValueError, match="align_corners option can only be set"):
            F.interpolate(core.ones(1, 1, *SIZES[:n]), out[:n], mode=mode, align_corners=align)
        return
    x = np.random.default_rng(0).normal(size=(2, 2, *SIZES[:n]))
    want = resized(x, n, [table(m, o, kind, bool(align), None) for m, o in zip(SIZES[:n], out, strict=False)])
    got = F.interpolate(core.tensor(x), out[:n], mode=mode, align_corners=align)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize(("mode", "n"), KINDS)
@pytest.mark.parametrize("scale", [2.0, 0.7, (1.5, 0.5, 2.3)])
@pytest.mark.parametrize("again", [None, False, True])
def test_by_a_factor(mode: str, n: int, scale: Any, again: bool | None) -> None:
    kind = mode if mode in ("nearest", "nearest-exact", "area") else "cubic" if mode == "bicubic" else "linear"
    factors = scale[:n] if isinstance(scale, tuple) else (scale,) * n
    x = np.random.default_rng(0).normal(size=(1, 2, *SIZES[:n]))
    tables = [table(m, math.floor(m * f), kind, False, None if again or kind == "area" else f)
              for m, f in zip(SIZES, factors, strict=False)]  # fmt: skip
    got = F.interpolate(core.tensor(x), scale_factor=factors if isinstance(scale, tuple) else scale, mode=mode,
                        recompute_scale_factor=again)  # fmt: skip
    np.testing.assert_allclose(got.numpy(), resized(x, n, tables), atol=1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("out", [(2, 3), (3, 2), (7, 2)])
@pytest.mark.parametrize("align", [False, True])
def test_antialiased(mode: str, out: tuple[int, int], align: bool) -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 6, 5))
    tables = [table(m, o, mode[2:], align, None, True) for m, o in zip((6, 5), out, strict=True)]
    got = F.interpolate(core.tensor(x), out, mode=mode, align_corners=align, antialias=True)
    np.testing.assert_allclose(got.numpy(), resized(x, 2, tables), atol=1e-12)


X = core.ones(1, 1, 4, 4)
WRONG = [
    (lambda: F.interpolate(X, 2, mode="cubic"), NotImplementedError, "Only 3D, 4D and 5D input"),
    (lambda: F.interpolate(X, 2, mode="linear"), NotImplementedError, "Got 4D input, but linear mode needs 3D"),
    (lambda: F.interpolate(X[0], 2, mode="bilinear"), NotImplementedError, "Got 3D input, but bilinear mode needs 4D"),
    (lambda: F.interpolate(X[0, 0], 2), NotImplementedError, "got 2D"),
    (lambda: F.interpolate(X[None, None], 2), NotImplementedError, "got 6D"),
    (lambda: F.interpolate(X, 2, antialias=True), ValueError, "Anti-alias option is restricted"),
    (lambda: F.interpolate(X[0], 2, mode="linear", antialias=True), ValueError, "Anti-alias option is restricted"),
    (lambda: F.interpolate(X, 0), RuntimeError, "should be greater than 0"),
    (lambda: F.interpolate(X[..., :0], 2), RuntimeError, "should be greater than 0"),
    (lambda: F.interpolate(X.long(), 2, mode="bilinear"), NotImplementedError, '"upsample_bilinear" not implemented'),
    (lambda: F.interpolate(X), ValueError, "size"),
    (lambda: F.interpolate(X, 2, 2.0), ValueError, "size"),
    (lambda: core.pixel_shuffle(X[0, 0], 2), RuntimeError, "at least 3 dimensions, but got input with 2"),
    (lambda: core.pixel_shuffle(X, 0), RuntimeError, "positive upscale_factor, but got 0"),
    (lambda: core.pixel_shuffle(X, 2), RuntimeError, r"size\(-3\)=1 is not divisible by 4"),
    (lambda: core.pixel_unshuffle(X[0, 0], 2), RuntimeError, "at least 3 dimensions, but got input with 2"),
    (lambda: core.pixel_unshuffle(X, 0), RuntimeError, "positive downscale_factor, but got 0"),
    (lambda: core.pixel_unshuffle(X[..., :3, :], 2), RuntimeError, r"height .* input.size\(-2\)=3"),
    (lambda: core.pixel_unshuffle(X[..., :3], 2), RuntimeError, r"width .* input.size\(-1\)=3"),
    (lambda: core.channel_shuffle(X[0, 0], 2), RuntimeError, "input with > 2 dims"),
    (lambda: core.channel_shuffle(X, 0), RuntimeError, "must be positive. Value of groups:0"),
    (lambda: core.channel_shuffle(X, 2), RuntimeError, "Got 1 channels and 2 groups"),
]


@pytest.mark.parametrize(("call", "error", "said"), WRONG, ids=[row[2] for row in WRONG])
def test_what_is_refused(call: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call()


def test_integers_have_neighbours() -> None:
    assert F.interpolate(core.arange(4).reshape(1, 1, 4).to(core.uint8), 2).tolist() == [[[0, 2]]]


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_pixels_and_channels(r: int, lead: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=(*lead, 2 * r * r, 3, 4))
    want = np.zeros((*lead, 2, 3 * r, 4 * r))
    for c, i, j in np.ndindex(2, r, r):
        want[..., c, i::r, j::r] = x[..., c * r * r + i * r + j, :, :]
    y = core.pixel_shuffle(core.tensor(x), r)
    np.testing.assert_array_equal(y.numpy(), want)
    np.testing.assert_array_equal(core.pixel_unshuffle(y, r).numpy(), x)


@pytest.mark.parametrize("shape", [(2, 6, 3), (1, 6, 2, 3)])
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_channels_dealt_in_turn(shape: tuple[int, ...], groups: int) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    order = [g * (6 // groups) + k for k in range(6 // groups) for g in range(groups)]
    np.testing.assert_array_equal(core.channel_shuffle(core.tensor(x), groups).numpy(), x[:, order])


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_older_names_warn(name: str) -> None:
    x = core.tensor(np.random.default_rng(0).normal(size=(1, 1, 3, 4)))
    with pytest.warns(UserWarning, match=f"`nn.functional.{name}` is deprecated"):
        got = getattr(F, name)(x, (5, 2))
    how: Any = {"mode": "bilinear", "align_corners": True} if "bilinear" in name else {"mode": "nearest"}
    np.testing.assert_array_equal(got.numpy(), F.interpolate(x, (5, 2), **how).numpy())
