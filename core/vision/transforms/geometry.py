"""Where the pixels are: sizes, crops, flips, padding, rotation; on tensors (..., C, H, W) and on Pillow images."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from ...base.errors import text
from ...nn.functional import grid_sample, interpolate
from ...nn.functional import pad as fill_up
from ...ops.creation import arange, full, ones
from ...ops.joining import cat, stack
from ...tensors.tensor import Tensor
from ..images import checked, dimensions, is_pillow, pillow
from .conversion import pil_to_tensor, to_pil_image

__all__ = ["InterpolationMode", "affine", "center_crop", "crop", "erase", "five_crop", "hflip", "pad", "resize",
           "resized_crop", "rotate", "ten_crop", "vflip"]  # fmt: skip


class InterpolationMode(Enum):
    """How values between pixels are found.

    >>> InterpolationMode.BILINEAR.value
    'bilinear'
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PILLOW = {"nearest": 0, "nearest-exact": 0, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5, "lanczos": 1}


def mode_of(interpolation: Any, op: str, among: Sequence[str] = tuple(_PILLOW)) -> str:
    """Return the name of a mode: of the enum, of its value, or of Pillow's number for it."""
    if isinstance(interpolation, int) and not isinstance(interpolation, bool):
        interpolation = {0: "nearest", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming", 1: "lanczos"}.get(
            interpolation, interpolation
        )
    name = interpolation.value if isinstance(interpolation, InterpolationMode) else interpolation
    if name not in among:
        raise ValueError(
            text(f"This Interpolation mode is unsupported: {interpolation}", op=op, needed=", ".join(among))
        )
    return str(name)


def numbered(tensor: Tensor, work: Callable[[Tensor], Tensor]) -> Tensor:
    """`work` on the image as a batch of floats (N, C, H, W), and back to its dtype and dimensions."""
    shape = tuple(tensor.shape)
    x = tensor.reshape(-1, *shape[-3:]) if tensor.ndim >= 3 else tensor.reshape(1, 1, *shape)
    y = work(x if x.dtype.is_floating_point else x.float())  # type: ignore[attr-defined]
    if not tensor.dtype.is_floating_point:
        y = y.round().clamp(0, 255 if tensor.dtype.name == "uint8" else None).to(tensor.dtype)  # type: ignore[attr-defined]
    return y.reshape(*(shape[:-3] if tensor.ndim >= 3 else ()), *tuple(y.shape)[1 if tensor.ndim >= 3 else 2 :])


def resize(img: Any, size: int | Sequence[int], interpolation: Any = InterpolationMode.BILINEAR,
           max_size: int | None = None, antialias: bool | None = True) -> Any:  # fmt: skip
    """Return an image of another size: (height, width), or one number for the shorter side.

    max_size : the longer side's limit where one number is given. antialias : of tensors; Pillow's always is.

    >>> import core
    >>> resize(core.zeros(3, 10, 20), 5).shape, resize(core.zeros(3, 10, 20), (4, 4)).shape
    (core.Size([3, 5, 10]), core.Size([3, 4, 4]))
    """
    _, height, width = dimensions(img, "resize")
    mode = mode_of(interpolation, "resize")
    wanted = _wanted_size((height, width), size, max_size)
    if wanted == (height, width):
        return img
    if not isinstance(img, Tensor):
        return img.resize((wanted[1], wanted[0]), _PILLOW[mode])
    if mode not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise ValueError(text(f"This Interpolation mode is unsupported with Tensor input: {mode}", op="resize",
                              needed="nearest, nearest-exact, bilinear or bicubic"))  # fmt: skip
    smooth = mode in ("bilinear", "bicubic")
    options: dict[str, Any] = {"align_corners": False, "antialias": bool(antialias)} if smooth else {}
    return numbered(img, lambda x: interpolate(x, size=wanted, mode=mode, **options))


def _wanted_size(old: tuple[int, int], size: int | Sequence[int], max_size: int | None) -> tuple[int, int]:
    if not isinstance(size, int) and len(size) not in (1, 2):
        raise ValueError(text(f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element "
                              "tuple/list", op="resize"))  # fmt: skip
    if not isinstance(size, int) and len(size) == 2:
        if max_size is not None:
            raise ValueError(text("max_size should only be passed if size specifies the length of the smaller edge",
                                  op="resize"))  # fmt: skip
        wanted = (int(size[0]), int(size[1]))
    else:
        short_wanted = int(size if isinstance(size, int) else size[0])
        short, long = min(old), max(old)
        new_short, new_long = short_wanted, int(short_wanted * long / short)
        if max_size is not None:
            if max_size <= short_wanted:
                raise ValueError(text(f"max_size = {max_size} must be strictly greater than the requested size for the "
                                      f"smaller edge size = {size}", op="resize"))  # fmt: skip
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
        wanted = (new_short, new_long) if old[0] <= old[1] else (new_long, new_short)
    if min(wanted) < 1:
        raise ValueError(text(f"the size {wanted} has no pixels", op="resize", came=f"size={size} of {old}"))
    return wanted


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Return a part of the image; what lies outside it is 0.

    >>> import core
    >>> crop(core.arange(9).reshape(1, 3, 3), 1, 1, 2, 3).tolist()
    [[[4, 5, 0], [7, 8, 0]]]
    """
    _, h, w = dimensions(img, "crop")
    if not isinstance(img, Tensor):
        return img.crop((left, top, left + width, top + height))
    bottom, right = top + height, left + width
    if top < 0 or left < 0 or bottom > h or right > w:
        inside = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        return fill_up(inside, [max(min(right, 0) - left, 0), max(right - max(w, left), 0),
                                max(min(bottom, 0) - top, 0), max(bottom - max(h, top), 0)])  # fmt: skip
    return img[..., top:bottom, left:right]


def pair_of(size: Any, op: str) -> tuple[int, int]:
    """Return (height, width) of one number, a sequence of one, or a pair."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if len(size) not in (1, 2):
        raise ValueError(text("Please provide only two dimensions (h, w) for size.", op=op, came=repr(size)))
    return int(size[0]), int(size[-1])


def center_crop(img: Any, output_size: Any) -> Any:
    """Return the middle of the image, with 0 around it where it is smaller.

    >>> import core
    >>> center_crop(core.arange(16).reshape(1, 4, 4), 2).tolist()
    [[[5, 6], [9, 10]]]
    """
    height, width = pair_of(output_size, "center_crop")
    _, h, w = dimensions(img, "center_crop")
    if width > w or height > h:
        left, top = max(width - w, 0) // 2, max(height - h, 0) // 2
        img = pad(img, [left, top, max(width - w + 1, 0) // 2, max(height - h + 1, 0) // 2], fill=0)
        _, h, w = dimensions(img)
    return crop(img, round((h - height) / 2.0), round((w - width) / 2.0), height, width)


def resized_crop(img: Any, top: int, left: int, height: int, width: int, size: Any,
                 interpolation: Any = InterpolationMode.BILINEAR, antialias: bool | None = True) -> Any:  # fmt: skip
    """Return a part of the image brought to `size`.

    >>> import core
    >>> resized_crop(core.zeros(3, 9, 9), 1, 1, 6, 4, (3, 2)).shape
    core.Size([3, 3, 2])
    """
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Left and right exchanged.

    >>> import core
    >>> hflip(core.tensor([[[1, 2]]])).tolist()
    [[[2, 1]]]
    """
    return checked(img, "hflip").flip(-1) if isinstance(img, Tensor) else checked(img, "hflip").transpose(0)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return checked(img, "vflip").flip(-2) if isinstance(img, Tensor) else checked(img, "vflip").transpose(1)


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """Return the four corners (top left, top right, bottom left, bottom right) and the middle.

    *Raises*: ValueError when the image is smaller.
    """
    height, width = pair_of(size, "five_crop")
    _, h, w = dimensions(img, "five_crop")
    if width > w or height > h:
        raise ValueError(
            text(f"Requested crop size {(height, width)} is bigger than input size {(h, w)}", op="five_crop")
        )
    corners = [crop(img, y, x, height, width) for y in (0, h - height) for x in (0, w - width)]
    return (*corners, center_crop(img, (height, width)))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of the image and of its mirror image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


_PAD_MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "symmetric": "symmetric"}


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Return the image with a border: one width, (left and right, top and bottom), or (left, top, right, bottom).

    padding_mode : "constant" (of `fill`), "edge" repeats the last pixel, "reflect" mirrors without it, "symmetric" with
    it. Negative widths cut.

    >>> import core
    >>> pad(core.tensor([[[1, 2]]]), (1, 0), padding_mode="symmetric").tolist()
    [[[1, 1, 2, 2]]]
    """
    checked(img, "pad")
    if padding_mode not in _PAD_MODES:
        raise ValueError(text("Padding mode should be either constant, edge, reflect or symmetric", op="pad",
                              came=padding_mode))  # fmt: skip
    if isinstance(padding, int):
        padding = [padding]
    if len(padding) not in (1, 2, 4):
        raise ValueError(text(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element "
                              "tuple", op="pad"))  # fmt: skip
    left, top, right, bottom = [*padding] * (4 // len(padding))
    if not isinstance(img, Tensor):
        return _pad_pillow(img, (left, top, right, bottom), fill, padding_mode)
    if padding_mode == "constant":
        value = _single(fill, "pad")
        return fill_up(img, [left, right, top, bottom], value=value)
    if min(left, top, right, bottom) < 0:
        _, h, w = dimensions(img)
        img = crop(img, max(-top, 0), max(-left, 0), h + min(top, 0) + min(bottom, 0), w + min(left, 0) + min(right, 0))
        left, top, right, bottom = (max(n, 0) for n in (left, top, right, bottom))
    if padding_mode == "symmetric":
        return _symmetric(img, left, top, right, bottom)
    return numbered(img, lambda x: fill_up(x, [left, right, top, bottom], mode=_PAD_MODES[padding_mode]))


def _single(fill: Any, op: str) -> Any:
    if isinstance(fill, list | tuple):
        if len(set(fill)) != 1:
            raise ValueError(text("a border of a tensor has one value", op=op, came=f"fill={fill}"))
        return fill[0]
    return fill


def _symmetric(img: Tensor, left: int, top: int, right: int, bottom: int) -> Tensor:
    _, h, w = dimensions(img)
    for n, before, after in ((h, top, bottom), (w, left, right)):
        if max(before, after) > n:
            raise ValueError(text(f"a symmetric border of {max(before, after)} is wider than the image", op="pad",
                                  came=f"{(h, w)}"))  # fmt: skip
    rows = [*range(top - 1, -1, -1), *range(h), *range(h - 1, h - 1 - bottom, -1)]
    columns = [*range(left - 1, -1, -1), *range(w), *range(w - 1, w - 1 - right, -1)]
    return img[..., rows, :][..., columns]  # type: ignore[no-any-return]


def _pad_pillow(img: Any, widths: tuple[int, ...], fill: Any, mode: str) -> Any:
    left, top, right, bottom = widths
    if mode == "constant":
        if isinstance(fill, numbers.Number) and len(img.getbands()) > 1:
            fill = (int(fill),) * len(img.getbands())  # type: ignore[call-overload]
        new = pillow("pad").new(img.mode, (img.width + left + right, img.height + top + bottom),
                                tuple(fill) if isinstance(fill, list) else fill)  # fmt: skip
        if img.mode == "P" and img.getpalette() is not None:
            new.putpalette(img.getpalette())
        new.paste(img, (left, top))
        return new
    palette = img.getpalette() if img.mode == "P" else None
    if img.mode in ("1", "P"):
        from PIL import Image

        plain = Image.frombytes("L", img.size, img.convert("L").tobytes() if img.mode == "1" else img.tobytes())
        padded = _pad_pillow(plain, widths, fill, mode)
        if palette is None:
            return padded.convert("1")
        padded.putpalette(palette)
        return padded
    return to_pil_image(pad(pil_to_tensor(img), list(widths), padding_mode=mode), None)


def _inverse_matrix(center: Sequence[float], angle: float, translate: Sequence[float], scale: float,
                    shear: Sequence[float]) -> list[float]:  # fmt: skip
    """Return where in the input a point of the output comes from, in six numbers.

    Forward it is: from the centre, shear in x, shear in y, turn (clockwise on the screen), scale, back, translate.
    """
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    m = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]  # the determinant of a b c d is 1
    cx, cy = center
    tx, ty = translate
    m[2] = m[0] * (-cx - tx) + m[1] * (-cy - ty) + cx
    m[5] = m[3] * (-cx - tx) + m[4] * (-cy - ty) + cy
    return m


def _warp(img: Tensor, matrix: Sequence[float], mode: str, fill: Any, size: tuple[int, int] | None = None) -> Tensor:
    """Take every pixel from where `matrix`, about the middle of the image, points."""

    def work(x: Tensor) -> Tensor:
        n, channels, h, w = tuple(x.shape)
        height, width = size or (h, w)
        ys = (arange(height, dtype=x.dtype, device=x.device) - (height - 1) * 0.5).reshape(-1, 1)
        xs = (arange(width, dtype=x.dtype, device=x.device) - (width - 1) * 0.5).reshape(1, -1)
        a, b, c, d, e, f = matrix
        grid = stack([(xs * a + ys * b + c) / (0.5 * w), (xs * d + ys * e + f) / (0.5 * h)], -1)  # type: ignore[arg-type]
        grid = grid.expand(n, height, width, 2)  # type: ignore[attr-defined]
        if fill is None or fill == 0:
            return grid_sample(x, grid, mode=mode, padding_mode="zeros", align_corners=False)
        seen = ones(n, 1, h, w, dtype=x.dtype, device=x.device)
        y = grid_sample(cat([x, seen], 1), grid, mode=mode, padding_mode="zeros", align_corners=False)  # type: ignore[list-item]
        y, share = y[:, :channels], y[:, channels:]
        values = [float(v) for v in (fill if isinstance(fill, list | tuple) else [fill])]
        if len(values) not in (1, channels):
            raise ValueError(text(f"fill has {len(values)} values and the image {channels} channels", op="rotate"))
        ground = full((1, len(values), 1, 1), 0.0, dtype=x.dtype, device=x.device)
        for k, v in enumerate(values):
            ground[:, k] = v
        return y.where(share > 0.5, ground) if mode == "nearest" else y + (1 - share) * ground  # type: ignore[attr-defined, no-any-return]

    return numbered(img, work)


def rotate(img: Any, angle: float, interpolation: Any = InterpolationMode.NEAREST, expand: bool = False,
           center: Sequence[float] | None = None, fill: Any = None) -> Any:  # fmt: skip
    """Return the image turned counter-clockwise.

    angle : in degrees. expand : make it large enough to hold the whole image. center : (x, y) in pixels from the upper
    left, by default the middle. fill : what the corners become, by default 0.

    >>> import core
    >>> rotate(core.tensor([[[1, 2], [3, 4]]]), 90).tolist()
    [[[2, 4], [1, 3]]]
    """
    _, h, w = dimensions(img, "rotate")
    if center is not None and len(center) != 2:
        raise ValueError(text("Argument center should be a sequence of length 2", op="rotate", came=repr(center)))
    if not isinstance(img, Tensor):
        mode = mode_of(interpolation, "rotate", ("nearest", "bilinear", "bicubic"))
        return img.rotate(angle, _PILLOW[mode], expand, center, fillcolor=_pillow_fill(fill, img))
    mode = mode_of(interpolation, "rotate", ("nearest", "bilinear"))
    about = [0.0, 0.0] if center is None else [center[0] - w * 0.5, center[1] - h * 0.5]
    matrix = _inverse_matrix(about, -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    size = None
    if expand:
        if center is not None:
            raise ValueError(text("expand turns about the middle", op="rotate", came=f"center={center}"))
        turn = math.radians(angle)
        cos, sin = abs(math.cos(turn)), abs(math.sin(turn))
        size = (_upwards(w * sin + h * cos), _upwards(w * cos + h * sin))
    return _warp(img, matrix, mode, fill, size)


def _upwards(length: float) -> int:
    return math.ceil(length - 1e-6)


def _pillow_fill(fill: Any, img: Any) -> Any:
    if fill is None:
        return None
    bands = len(img.getbands())
    values = list(fill) if isinstance(fill, list | tuple) else [fill]
    values = [v if img.mode == "F" else int(v) for v in values] * (bands if len(values) == 1 else 1)
    if len(values) != bands:
        raise ValueError(text(f"The number of elements in 'fill' does not match the number of channels of the image "
                              f"({len(values)} != {bands})", op="rotate"))  # fmt: skip
    return tuple(values) if bands > 1 else values[0]


def affine(img: Any, angle: float, translate: Sequence[int], scale: float, shear: Any,
           interpolation: Any = InterpolationMode.NEAREST, fill: Any = None,
           center: Sequence[float] | None = None) -> Any:  # fmt: skip
    """Return the image sheared, turned clockwise, scaled and moved, all about its middle or `center`.

    angle, shear : in degrees; shear is one number (x) or two (x, y). translate : (x, y) in pixels.

    >>> import core
    >>> affine(core.tensor([[[1, 2, 3]]]), 0, (1, 0), 1.0, 0).tolist()
    [[[0, 1, 2]]]
    """
    _, h, w = dimensions(img, "affine")
    shear = [shear, 0.0] if isinstance(shear, numbers.Number) else [*shear, 0.0][:2]
    if len(translate) != 2:
        raise ValueError(text("Argument translate should be a sequence of length 2", op="affine", came=repr(translate)))
    if scale <= 0.0:
        raise ValueError(text("Argument scale should be positive", op="affine", came=str(scale)))
    if not isinstance(img, Tensor):
        mode = mode_of(interpolation, "affine", ("nearest", "bilinear", "bicubic"))
        about = [w * 0.5, h * 0.5] if center is None else center
        matrix = _inverse_matrix(about, angle, translate, scale, shear)
        return img.transform((w, h), 0, matrix, _PILLOW[mode], fillcolor=_pillow_fill(fill, img))
    mode = mode_of(interpolation, "affine", ("nearest", "bilinear"))
    about = [0.0, 0.0] if center is None else [center[0] - w * 0.5, center[1] - h * 0.5]
    return _warp(img, _inverse_matrix(about, angle, translate, scale, shear), mode, fill)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """Return the image with a rectangle of `v`: from row `i`, column `j`, of height `h` and width `w`.

    >>> import core
    >>> erase(core.ones(1, 2, 2), 0, 0, 1, 2, 0.0).tolist()
    [[[0.0, 0.0], [1.0, 1.0]]]
    """
    if is_pillow(img):
        return to_pil_image(erase(pil_to_tensor(img), i, j, h, w, v))
    img = checked(img, "erase") if inplace else checked(img, "erase").clone()
    img[..., i : i + h, j : j + w] = v
    return img
