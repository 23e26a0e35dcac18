"""Reading images at any place against one place at a time."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import core

F = core.nn.functional


def place(g: float, n: int, align: bool) -> float:
    return (g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2


def folded(x: float, n: int, padding: str, align: bool) -> float:
    """A place brought into the image, by walking back and forth between its bounds."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        low, high = (0.0, n - 1.0) if align else (-0.5, n - 0.5)
        while low < high and not low <= x <= high:
            x = 2 * low - x if x < low else 2 * high - x
        x = low if low == high else x
    return min(max(x, 0.0), n - 1.0)


def element(plane: Any, at: tuple[int, ...]) -> float:
    inside = all(0 <= i < n for i, n in zip(at, plane.shape, strict=True))
    return float(plane[at]) if inside else 0.0


def cubic(t: float) -> float:
    """Keys' kernel with a = -0.75."""
    a, t = -0.75, abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def read(plane: Any, raw: list[float], mode: str, padding: str, align: bool) -> float:
    if mode == "bicubic":
        total = 0.0
        for step in itertools.product(range(-1, 3), repeat=2):
            near = [math.floor(x) + s for x, s in zip(raw, step, strict=True)]
            at = tuple(int(folded(i, n, padding, align)) for i, n in zip(near, plane.shape, strict=True))
            weight = math.prod(cubic(x - i) for x, i in zip(raw, near, strict=True))
            total += weight * element(plane, at)
        return total
    at = [folded(x, n, padding, align) for x, n in zip(raw, plane.shape, strict=True)]
    if mode == "nearest":
        return element(plane, tuple(round(x) for x in at))
    total = 0.0
    for corner in itertools.product((0, 1), repeat=len(at)):
        spot = tuple(math.floor(x) + c for x, c in zip(at, corner, strict=True))
        weight = math.prod(1 - abs(x - i) for x, i in zip(at, spot, strict=True))
        total += weight * element(plane, spot)
    return total


SETTINGS = [
    (mode, padding, align, n)
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for align in (False, True)
    for n in (2, 3)
    if not (mode == "bicubic" and n == 3)
]


@pytest.mark.parametrize(("mode", "padding", "align", "n"), SETTINGS)
@pytest.mark.parametrize("single", [False, True])
def test_one_place_at_a_time(mode: str, padding: str, align: bool, n: int, single: bool) -> None:
    rng = np.random.default_rng(n)
    sizes = (1, 1, 1)[:n] if single else (3, 4, 2)[:n]
    image = rng.normal(size=(2, 2, *sizes))
    grid = rng.uniform(-2.3, 2.3, (2, *(3, 2, 2)[:n], n))
    got = F.grid_sample(core.tensor(image), core.tensor(grid), mode, padding, align)
    want = np.zeros(got.shape)
    for b, c, *at in np.ndindex(*got.shape):
        raw = [place(grid[(b, *at, n - 1 - d)], sizes[d], align) for d in range(n)]
        want[(b, c, *at)] = read(image[b, c], raw, mode, padding, align)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("sizes", [(2, 3), (1, 4), (2, 1, 3)])
def test_affine_maps_of_the_middles(align: bool, sizes: tuple[int, ...]) -> None:
    n = len(sizes)
    theta = np.random.default_rng(0).normal(size=(2, n, n + 1))
    got = F.affine_grid(core.tensor(theta), (2, 5, *sizes), align_corners=align)
    want = np.zeros((2, *sizes, n))
    for b, *at in np.ndindex(2, *sizes):
        middle = [0.0 if m == 1 else 2 * i / (m - 1) - 1 if align else (2 * i + 1) / m - 1
                  for i, m in zip(at, sizes, strict=True)]  # fmt: skip
        want[(b, *at)] = theta[b] @ [*reversed(middle), 1.0]
    np.testing.assert_allclose(got.numpy(), want, atol=1e-14)


def test_a_place_that_is_no_number() -> None:
    image, grid = core.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), core.full((1, 1, 1, 2), math.nan)
    for mode in ("bilinear", "nearest"):
        assert F.grid_sample(image, grid, mode, "border", False).item() == 1.0


@pytest.mark.parametrize("channels", [1, 3, 4, 17])
def test_the_one_op_is_what_ops_compose(channels: int) -> None:
    rng = np.random.default_rng(0)
    image, grid = rng.standard_normal((2, channels, 5, 7)), rng.uniform(-1.2, 1.2, (2, 300, 3, 2))
    seed = core.tensor(rng.standard_normal((2, channels, 300, 3)))
    found = []
    for kind in ("op", "ops"):
        x, at = core.tensor(image, requires_grad=True), core.tensor(grid, requires_grad=True)
        y = F.grid_sample(x, at, "bilinear", align_corners=True) if kind == "op" else _composed(x, at)
        y.backward(seed)
        found.append((y.detach().numpy(), x.grad.numpy(), at.grad.numpy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def _composed(x: Any, grid: Any) -> Any:
    """By nearest pixels and their weights."""
    (h, w), places = x.shape[2:], (grid + 1) / 2 * core.tensor([x.shape[3] - 1.0, x.shape[2] - 1.0], dtype=core.float64)
    low = places.detach().floor()
    part = places - low
    total: Any = 0.0
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        column, row = low[..., 0] + j, low[..., 1] + i
        inside = (column >= 0) & (column < w) & (row >= 0) & (row < h)
        at = core.where(inside, row * w + column, 0.0).long().flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
        value = x.flatten(2).gather(2, at).reshape(*x.shape[:2], *grid.shape[1:3]) * inside.unsqueeze(1)
        total = total + value * (
            (part[..., 0] if j else 1 - part[..., 0]) * (part[..., 1] if i else 1 - part[..., 1])
        ).unsqueeze(1)
    return total


def test_places_far_off_and_none() -> None:
    image = core.ones(1, 5, 3, 3)
    for at in (1e30, -math.inf):
        assert F.grid_sample(image, core.full((1, 1, 2, 2), at), align_corners=False).nan_to_num().abs().max() == 0
    assert F.grid_sample(image, core.zeros(1, 0, 2, 2), align_corners=False).shape == (1, 5, 0, 2)


def test_the_gradient_of_the_nearest_place_is_zeros() -> None:
    grid = core.tensor([[[[0.3, math.inf]]]], requires_grad=True)
    F.grid_sample(core.ones(1, 1, 2, 2), grid, "nearest", align_corners=False).sum().backward()
    assert grid.grad.tolist() == [[[[0.0, 0.0]]]]


IMAGE, GRID = (1, 1, 2, 2), (1, 1, 1, 2)
WRONG = [
    ((1, 2, 2), GRID, {}, RuntimeError, "expected 4D or 5D input"),
    ((1, 1, 2, 2, 2), GRID, {}, RuntimeError, "same number of dimensions"),
    ((2, 1, 2, 2), GRID, {}, RuntimeError, "same batch size"),
    (IMAGE, (1, 1, 1, 3), {}, RuntimeError, "to have size 2 in last dimension"),
    ((1, 1, 0, 2), GRID, {}, RuntimeError, "non-empty spatial dimensions"),
    ((1, 1, 2, 2, 2), (1, 1, 1, 1, 3), {"mode": "bicubic"}, RuntimeError, "bicubic interpolation only supports 4D"),
    (IMAGE, GRID, {"mode": "cubic"}, ValueError, "expected mode to be"),
    (IMAGE, GRID, {"padding_mode": "wrap"}, ValueError, "expected padding_mode to be"),
]


@pytest.mark.parametrize(("image", "grid", "settings", "error", "said"), WRONG)
def test_what_does_not_fit(image: Any, grid: Any, settings: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        F.grid_sample(core.ones(image), core.ones(grid), align_corners=False, **settings)


@pytest.mark.parametrize(("theta", "size", "error"), [
    ((1, 2, 3), (1, 1, 2), NotImplementedError), ((1, 2, 3), (1, 1, 2, 2, 2), ValueError),
    ((2, 2, 3), (1, 1, 2, 2), ValueError), ((2, 3), (2, 1, 2, 2), ValueError), ((1, 2, 3), (1, 1, 0, 2), ValueError),
])  # fmt: skip
def test_maps_that_do_not_fit(theta: Any, size: Any, error: Any) -> None:
    with pytest.raises(error):
        F.affine_grid(core.ones(theta), size, align_corners=False)
    with pytest.raises(ValueError, match="floating point type"):
        F.affine_grid(core.ones(1, 2, 3).long(), (1, 1, 2, 2), align_corners=False)


def test_the_two_dtypes_are_one() -> None:
    with pytest.raises(RuntimeError, match="same dtype"):
        F.grid_sample(core.ones(IMAGE), core.ones(GRID).double(), align_corners=False)


def test_unsaid_align_corners_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="align_corners=False since"):
        got = F.grid_sample(core.tensor([[[[1.0, 3.0]]]]), core.tensor([[[[0.5, 0.0]]]]))
    assert got.item() == 3.0  # as with False
