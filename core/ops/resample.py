"""Changing resolution: interpolation, and the rearrangements between channels and pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import text
from ..base.source import warn
from ..declare.kinds import Ints
from ..declare.signature import Fast
from ..dispatch.publish import namespaces, public
from ..tensors.tensor import Tensor
from .resample_ops import _resample, sizes_by

_KIND = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}  # the dimensions that each is for
_MODES = "nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact"


def _sizes(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return the output's sizes, and the factors to compute places with (None: from the sizes)."""
    n = input.ndim - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    name, given = ("size", size) if size is not None else ("scale_factor", scale_factor)
    many = tuple(given) if isinstance(given, tuple | list) else (given,) * n
    if len(many) != n:
        kind, shown = ("output", "output size") if name == "size" else ("scale_factor", "scale_factor")
        raise ValueError(
            f"Input and {kind} must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and {shown} of {'shape ' * (kind != 'output')}{given}. Please provide input "
            f"tensor in (N, C, d1, d2, ...,dK) format and {shown} in (s1, s2, ...,sK) format."
        )
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return tuple(int(v) for v in many), (None,) * n
    factors = tuple(float(f) for f in many)
    return sizes_by(factors, input.shape[2:]), (None,) * n if recompute else factors


@public(namespace="nn.functional", method=False)
def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`input` at another resolution: of the given `size`, or larger by `scale_factor`.

    *Shapes*: ``(N, C, L)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``. `mode` is "nearest", "nearest-exact", "linear",
    "bilinear", "bicubic" (a = -0.75), "trilinear" or "area". With `align_corners` the middles of the corner pixels stay
    where they are. `antialias` widens the kernel where the image shrinks ("bilinear" and "bicubic").

    >>> import core
    >>> core.nn.functional.interpolate(core.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    >>> core.nn.functional.interpolate(core.tensor([[[1.0, 3.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1., 2., 3.]]])
    """
    plain = mode in ("nearest", "area", "nearest-exact")
    if plain:
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | "
                "bicubic | trilinear"
            )
    elif mode not in _KIND:
        raise NotImplementedError(
            text(
                f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: {_MODES} "
                f"(got {mode})",
                op="interpolate",
            )
        )
    if input.ndim not in (3, 4, 5) or (not plain and _KIND[mode] != input.ndim - 2):
        if not plain and input.ndim in (3, 4, 5):
            raise NotImplementedError(
                f"Got {input.ndim}D input, but {mode} mode needs {_KIND[mode] + 2}D input\n  came: {tuple(input.shape)}"
            )
        raise NotImplementedError(
            text(
                f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: {_MODES} "
                f"(got {mode})",
                op="interpolate",
            )
        )
    out, factors = _sizes(input, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if min(*out, *input.shape[2:], 1) < 1:
        raise RuntimeError(
            text(
                f"Input and output sizes should be greater than 0, but got input {list(input.shape[2:])} and output "
                f"{list(out)}",
                op="interpolate",
            )
        )
    if input.dtype.category < 2 and not (mode.startswith("nearest")):
        raise NotImplementedError(
            text(
                f"\"upsample_{mode}\" not implemented for '{input.dtype.scalar_type}'",
                op="interpolate",
                remedy="x.float()",
            )
        )
    kind = mode if plain else "cubic" if mode == "bicubic" else "linear"
    if mode == "area":
        factors = (None,) * len(out)
    if antialias:
        kind = "smooth-" + kind
    return _resample(input, out=out, mode=kind, align=bool(align_corners), scales=factors)


@public(namespace="nn.functional", method=False)
def upsample(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` under its older name, which warns.

    >>> import core, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     core.nn.functional.upsample(core.ones(1, 1, 2, 2), scale_factor=2).shape
    core.Size([1, 1, 4, 4])
    """
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


@public(namespace="nn.functional", method=False)
def upsample_nearest(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with mode "nearest", under its older name, which warns.

    >>> import core, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     core.nn.functional.upsample_nearest(core.ones(1, 1, 2, 2), scale_factor=2).shape
    core.Size([1, 1, 4, 4])
    """
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


@public(namespace="nn.functional", method=False)
def upsample_bilinear(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with mode "bilinear" and corners aligned, under its older name, which warns.

    >>> import core, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     core.nn.functional.upsample_bilinear(core.ones(1, 1, 2, 2), scale_factor=2).shape
    core.Size([1, 1, 4, 4])
    """
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# -- between channels and pixels ---------------------------------------------------------------------------------------


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels into pixels: ``(..., C r², H, W) -> (..., C, H r, W r)``. Source: arXiv 1609.05158.

    >>> import core
    >>> core.pixel_shuffle(core.tensor([1, 2, 3, 4]).reshape(4, 1, 1), 2)
    tensor([[[1, 2],
             [3, 4]]])
    """
    r = int(upscale_factor)
    if input.ndim < 3:
        raise RuntimeError(
            text(
                "pixel_shuffle expects input to have at least 3 dimensions, but got input with "
                f"{input.ndim} dimension(s)",
                op="pixel_shuffle",
            )
        )
    if r <= 0:
        raise RuntimeError(text(f"pixel_shuffle expects a positive upscale_factor, but got {r}", op="pixel_shuffle"))
    *lead, c, h, w = input._a.shape
    if c % (r * r):
        raise RuntimeError(
            text(
                "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}",
                op="pixel_shuffle",
            )
        )
    n = len(lead)
    x = input.reshape(*lead, c // (r * r), r, r, h, w).permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*lead, c // (r * r), h * r, w * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels into channels, the reverse of `pixel_shuffle`.

    >>> import core
    >>> core.pixel_unshuffle(core.tensor([[[1, 2], [3, 4]]]), 2).flatten()
    tensor([1, 2, 3, 4])
    """
    r = int(downscale_factor)
    if input.ndim < 3:
        raise RuntimeError(
            text(
                "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
                f"{input.ndim} dimension(s)",
                op="pixel_unshuffle",
            )
        )
    if r <= 0:
        raise RuntimeError(
            text(f"pixel_unshuffle expects a positive downscale_factor, but got {r}", op="pixel_unshuffle")
        )
    *lead, c, h, w = input._a.shape
    for name, m, at in (("height", h, -2), ("width", w, -1)):
        if m % r:
            raise RuntimeError(
                text(
                    f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                    f"input.size({at})={m} is not divisible by {r}",
                    op="pixel_unshuffle",
                )
            )
    n = len(lead)
    x = input.reshape(*lead, c, h // r, r, w // r, r).permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return x.reshape(*lead, c * r * r, h // r, w // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return the channels of `groups` groups dealt in turn: ``(N, g, C / g, ...)`` becomes ``(N, C / g, g, ...)``.

    >>> import core
    >>> core.channel_shuffle(core.tensor([1, 2, 3, 4]).reshape(1, 4, 1), 2).flatten()
    tensor([1, 3, 2, 4])
    """
    if input.ndim < 3:
        raise RuntimeError(
            text(
                f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}",
                op="channel_shuffle",
            )
        )
    if groups <= 0:
        raise RuntimeError(
            text(
                f"Number of groups to divide channels in must be positive. Value of groups:{groups}",
                op="channel_shuffle",
            )
        )
    n, c, *rest = input._a.shape
    if c % groups:
        raise RuntimeError(
            text(
                f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.",
                op="channel_shuffle",
            )
        )
    return input.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(n, c, *rest)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle` under another of PyTorch's names.

    >>> import core
    >>> core.native_channel_shuffle(core.tensor([1, 2, 3, 4]).reshape(1, 4, 1), 2).flatten()
    tensor([1, 3, 2, 4])
    """
    return channel_shuffle(input, groups)


def _moved(function: Any, body: str) -> Any:
    """Public in nn.functional, and like PyTorch's in `core` too; `body`: the C function of plain calls."""
    fast = [Fast(body=body, types={"input": "piece"})]
    known = public(namespace="nn.functional", method=False, home="rearranged", state="quiet", fast=fast)(function)
    namespaces[""][function.__name__] = known
    return known


pixel_shuffle = _moved(pixel_shuffle, "pixels_of_channels(input, upscale_factor)")
pixel_unshuffle = _moved(pixel_unshuffle, "channels_of_pixels(input, downscale_factor)")
channel_shuffle = _moved(channel_shuffle, "channels_dealt(input, groups)")
native_channel_shuffle = _moved(native_channel_shuffle, "channels_dealt(input, groups)")
