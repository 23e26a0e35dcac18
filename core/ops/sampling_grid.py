"""Reading an image at any places: `affine_grid` makes the places, `grid_sample` reads them.

All steps are ops on tensors, so gradients to any order reach the image and the places. The commonest way of reading,
between four pixels with zeros around the image, is one op on the CPU (native/kernels/grid.c).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ..base.errors import text
from ..base.modes import state as modes
from ..base.shape import Size as Shape
from ..base.source import warn
from ..declare.kernel import kernel
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..events import observe
from ..tensors.tensor import Tensor
from .constant import piecewise
from .creation import linspace, ones, zeros
from .joining import stack
from .precision import rounded, wide
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


def _index(at: list[Tensor], sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return which element stands at whole places (N, P) of each dimension, and whether one does."""
    index: Any = 0
    inside: Any = None
    for i, m in zip(at, sizes, strict=True):
        index = index * m + i.clamp(0, m - 1)
        here = (i >= 0) & (i <= m - 1)
        inside = here if inside is None else inside & here
    return where(inside, index, 0.0).long(), inside  # a NaN is nowhere


def _read(flat: Tensor, at: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    """Return the elements at whole places (N, P) of each dimension; zero outside."""
    index, inside = _index(at, sizes)
    n, c, _ = flat._a.shape
    index = index.unsqueeze(1).expand(n, c, index.shape[-1])
    return where(inside.unsqueeze(1), flat.gather(2, index), 0.0)


# -- between four pixels, as one op ------------------------------------------------------------------------------------


def _sampled_forward(xp: Any, x: Any, grid: Any, align: bool) -> Any:
    n, c, *sizes = x.shape
    flat, places = wide(x).reshape(n, c, -1), wide(grid).reshape(n, -1, 2)
    raw = [_coordinates(places[..., 1 - d], m, align) for d, m in enumerate(sizes)]
    low = [xp.floor(at) for at in raw]
    total: Any = None
    for corner in product((0, 1), repeat=2):
        i, j = (b + k for b, k in zip(low, corner, strict=True))
        ti, tj = (x - b if k else 1 - (x - b) for x, b, k in zip(raw, low, corner, strict=True))
        inside = (i >= 0) & (i <= sizes[0] - 1) & (j >= 0) & (j <= sizes[1] - 1)
        index = xp.where(inside, i * sizes[1] + j, 0).astype(np.int64)[:, None]
        value = xp.where(inside[:, None], xp.take_along_axis(flat, index, 2), flat.dtype.type(0))
        value = value * (ti * tj)[:, None]
        total = value if total is None else total + value
    return rounded(total, x.dtype).reshape(n, c, *grid.shape[1:3])


def _sampled_vjp(g: Tensor, x: Tensor, grid: Tensor, align: bool, needs: tuple[bool, ...]) -> Any:
    n, c, *sizes = x._a.shape
    flat, g = x.flatten(2), g.flatten(2)
    raw = [_coordinates(grid[..., 1 - d].flatten(1), m, align) for d, m in enumerate(sizes)]
    low = [at.detach().floor() for at in raw]
    part = [at - b for at, b in zip(raw, low, strict=True)]
    gx: Any = zeros(n, c, sizes[0] * sizes[1], dtype=x.dtype, device=x.device) if needs[0] else None
    slopes: list[Any] = [0.0, 0.0]
    for corner in product((0, 1), repeat=2):
        index, inside = _index([b + k for b, k in zip(low, corner, strict=True)], tuple(sizes))
        weights = [t if k else 1 - t for k, t in zip(corner, part, strict=True)]
        index = index.unsqueeze(1).expand(n, c, index.shape[-1])
        if needs[0]:
            gx = gx.scatter_add(2, index, where(inside.unsqueeze(1), g * (weights[0] * weights[1]).unsqueeze(1), 0.0))
        if needs[1]:
            value = (where(inside.unsqueeze(1), flat.gather(2, index), 0.0) * g).sum(1)
            for d in range(2):
                turned = value * weights[1 - d]
                slopes[d] = slopes[d] + (turned if corner[d] else -turned)
    ggrid = None
    if needs[1]:
        scale = [(m - 1 if align else m) / 2 for m in sizes]
        ggrid = stack([slopes[1] * scale[1], slopes[0] * scale[0]], -1).reshape(grid._a.shape)
    return None if gx is None else gx.reshape(x._a.shape), ggrid


_sampled: Any = operation(
    "grid_sample", _sampled_forward, inputs="x grid", params={"align": False}, vjp=_sampled_vjp,
    samples=lambda rng: [((rng.uniform(-1, 1, (2, c, 4, 3)), rng.uniform(-1.1, 1.1, (2, 3, 2, 2))), {"align": a})
                         for c, a in ((1, False), (5, True))],
    doc="Images read between four pixels, zeros around them.",
)  # fmt: skip
_SHAPE = "struct('grid_shape', n, c, list_of(h, w), i * j, align)"
_FITS = ("two == 2", "h * w <= 16777216")
kernel(
    "grid_sample",
    "x: real[n, c, h, w], grid: real[n, i, j, two], align: flag",
    gives="y: real[n, c, i, j]",
    call=f"grid_read.T({_SHAPE}, x, grid, y)",
    takes=_FITS,
    misfit=True,
    fails="declines",
)
kernel(
    "grid_sample.backward",
    "g: real[n, c, i, j], x: real[n, c, h, w], grid: real[n, i, j, two], align: flag, needs: needs",
    gives="gx: real[n, c, h, w] if needs[0], ggrid: real[n, i, j, two] if needs[1]",
    call=f"grid_back.T({_SHAPE}, g, x, grid, gx, ggrid)",
    takes=_FITS,
    misfit=True,
    fails="declines",
)

# -- any places --------------------------------------------------------------------------------------------------------


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


@public(namespace="nn.functional", method=False, home="layers",
        fast=[Fast(body="read_at(op.grid_sample, input, grid, align_corners)", types={"input": "real", "grid": "real"},
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
    plain = mode == "bilinear" and padding_mode == "zeros" and n == 2 and input.device.type == "cpu"
    if plain and modes.batch is None and not observe.wanted("as ops"):
        return _sampled(input, grid, align=align)  # type: ignore[no-any-return]
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


def _places(spatial: tuple[int, ...], align: bool, dtype: Any, device: Any) -> Tensor:
    """Return the places of a grid's points between -1 and 1, the last dimension first, and a 1 with each."""
    n, kind = len(spatial), {"dtype": dtype, "device": device}
    axes = []
    for d in range(n):
        m = spatial[d]
        line = linspace(-1, 1, m, **kind) if m > 1 else ones(1, **kind) * 0.0
        if not align and m > 1:
            line = line * ((m - 1) / m)
        axes.append(line.reshape([-1 if i == d else 1 for i in range(n)]).expand(*spatial))
    return stack([*reversed(axes), ones(spatial, **kind)], -1).reshape(1, -1, n + 1)


_kept_places = lru_cache(16)(_places)  # layers make the same grid again and again
_MOST_KEPT = 1 << 14  # points


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
    plain = not observe.observers and modes.batch is None and math.prod(spatial) <= _MOST_KEPT
    base = (_kept_places if plain else _places)(spatial, align, theta.dtype, theta.device)
    return (base @ theta.mT).reshape(sizes[0], *spatial, n)
