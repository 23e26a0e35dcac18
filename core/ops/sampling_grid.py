"""Reading an image at any places: `affine_grid` makes the places, `grid_sample` reads them.

All steps are ops on tensors, so gradients to any order reach the image and the places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from ..base.errors import text
from ..base.shape import Size as Shape
from ..base.source import warn
from ..declare.signature import Fast
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .constant import piecewise
from .creation import linspace, ones
from .joining import stack
from .where import where


def _coordinates(g: Tensor, n: int, align: bool) -> Tensor:
    """-1..1 as places 0..n-1: of the middles of the corner pixels, or of the image's edges."""
    return (g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2


def _reflected(x: Tensor, twice_low: int, twice_high: int) -> Tensor:
    """`x` folded back at both bounds, which are given doubled."""
    if twice_low == twice_high:
        return x * 0.0
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    x = (x - low).abs()
    flips = (x.detach() / span).floor()
    extra = x - flips * span
    return where(flips % 2 == 0, extra + low, span - extra + low)


def _bounded(x: Tensor, n: int, mode: str, align: bool) -> Tensor:
    if mode == "zeros":
        return x
    if mode == "reflection":
        x = _reflected(x, 0, 2 * (n - 1)) if align else _reflected(x, -1, 2 * n - 1)
    return where(x == x, x, 0.0).clamp(0, n - 1)  # as PyTorch, which reads the first place for a NaN


def _read(flat: Tensor, at: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    """Return the elements at whole places (N, P) of each dimension; zero outside."""
    index: Any = 0
    inside: Any = None
    for i, m in zip(at, sizes, strict=True):
        index = index * m + i.clamp(0, m - 1)
        here = (i >= 0) & (i <= m - 1)
        inside = here if inside is None else inside & here
    n, c, _ = flat._a.shape
    index = where(inside, index, 0.0).long().unsqueeze(1).expand(n, c, index.shape[-1])  # a NaN is nowhere
    return where(inside.unsqueeze(1), flat.gather(2, index), 0.0)


def _cubic_weights(t: Tensor) -> list[Tensor]:
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _chosen(align_corners: bool | None) -> bool:
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
        )
    return bool(align_corners)


def _check(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> int:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    n = input.ndim - 2
    came = f"input {tuple(input.shape)}, grid {tuple(grid.shape)}"
    phrase, shape = "", list(grid.shape)
    if n not in (2, 3) or grid.ndim != input.ndim:
        phrase = (
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    elif input.shape[0] != grid.shape[0]:
        phrase = (
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    elif grid.shape[-1] != n:
        phrase = f"grid_sampler(): expected grid to have size {n} in last dimension, but got grid with sizes {shape}"
    elif 0 in input.shape[2:]:
        phrase = (
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)}"
        )
    elif mode == "bicubic" and n != 2:
        phrase = "grid_sampler(): bicubic interpolation only supports 4D input"
    elif input.dtype is not grid.dtype:
        phrase = (
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input.dtype.scalar_type} "
            f"and grid has {grid.dtype.scalar_type}"
        )
    if phrase:
        raise RuntimeError(text(phrase, op="grid_sample", came=came))
    return n


@public(namespace="nn.functional", method=False, home="layers", state="quiet",
        fast=[Fast(body="read_at(input, grid, align_corners)", types={"input": "real", "grid": "real"},
                   raw=("align_corners",))])  # fmt: skip
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """`input` read at the places of `grid`, whose last dimension is (x, y) or (x, y, z) with -1 and 1 at the borders.

    *Shapes*: input ``(N, C, H, W)``, grid ``(N, h, w, 2)`` -> ``(N, C, h, w)``; or ``(N, C, D, H, W)`` and
    ``(N, d, h, w, 3)``. `mode` is "bilinear", "nearest" or "bicubic"; outside the image are zeros, its border, or its
    reflection. Source: arXiv 1506.02025.

    >>> import core
    >>> image = core.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> core.nn.functional.grid_sample(image, core.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[2.5000]]]])
    """
    n, align = _check(input, grid, mode, padding_mode), _chosen(align_corners)
    sizes = tuple(input._a.shape[2:])
    places = tuple(grid._a.shape[1:-1])
    flat = input.flatten(2)
    raw = [_coordinates(grid[..., n - 1 - d].flatten(1), sizes[d], align) for d in range(n)]
    if mode == "bicubic":
        y = _bicubic(flat, raw, sizes, padding_mode, align)
    else:
        at = [_bounded(x, m, padding_mode, align) for x, m in zip(raw, sizes, strict=True)]
        if mode == "nearest":
            y = _read(flat, [x.detach().round() for x in at], sizes)
            if grid.requires_grad:  # a look-up does not move with the place: its gradient is zeros, not None
                still = stack(at)
                y = y + (where(still.abs() < math.inf, still, 0.0).sum(0) * 0.0).unsqueeze(1)
            y = piecewise(y)
        else:
            low = [x.detach().floor() for x in at]
            part = [x - b for x, b in zip(at, low, strict=True)]
            total: Any = None
            for corner in product((0, 1), repeat=n):
                value = _read(flat, [b + c for b, c in zip(low, corner, strict=True)], sizes)
                weight: Any = None
                for c, t in zip(corner, part, strict=True):
                    w = t if c else 1 - t
                    weight = w if weight is None else weight * w
                value = value * weight.unsqueeze(1)
                total = value if total is None else total + value
            y = total
    return y.reshape(*input._a.shape[:2], *places)


def _bicubic(flat: Tensor, raw: list[Tensor], sizes: tuple[int, ...], padding_mode: str, align: bool) -> Tensor:
    low = [x.detach().floor() for x in raw]
    rows, columns = (_cubic_weights(x - b) for x, b in zip(raw, low, strict=True))
    total: Any = None
    for i, j in product(range(4), repeat=2):
        at = [_bounded(b + (k - 1), m, padding_mode, align) for b, k, m in zip(low, (i, j), sizes, strict=True)]
        value = _read(flat, at, sizes) * (rows[i] * columns[j]).unsqueeze(1)
        total = value if total is None else total + value
    return total


@public(namespace="nn.functional", method=False)
def affine_grid(theta: Tensor, size: Sequence[int] | Shape, align_corners: bool | None = None) -> Tensor:
    """Return the grid for `grid_sample` of an affine map.

    *Shapes*: theta ``(N, 2, 3)`` and size ``(N, C, H, W)`` give ``(N, H, W, 2)``; theta ``(N, 3, 4)`` and
    ``(N, C, D, H, W)`` give ``(N, D, H, W, 3)``.

    >>> import core
    >>> core.nn.functional.affine_grid(core.tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if theta.dtype.category < 2:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    align = _chosen(align_corners)
    sizes = tuple(int(s) for s in size)
    n = len(sizes) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {sizes}."
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (n, n + 1) or theta.shape[0] != sizes[0]:
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {sizes}. Got "
            f"{tuple(theta.shape)}."
        )
    if min(sizes) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {sizes}")
    spatial = sizes[2:]
    kind: dict[str, Any] = {"dtype": theta.dtype, "device": theta.device}
    axes = []
    for d in range(n):
        m = spatial[d]
        line = linspace(-1, 1, m, **kind) if m > 1 else ones(1, **kind) * 0.0
        if not align and m > 1:
            line = line * ((m - 1) / m)
        axes.append(line.reshape([-1 if i == d else 1 for i in range(n)]).expand(*spatial))
    base = stack([*reversed(axes), ones(spatial, **kind)], -1).reshape(1, -1, n + 1)
    return (base @ theta.mT).reshape(sizes[0], *spatial, n)
