"""The random transforms of place: crops, flips, turns, erased rectangles."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from ...base.errors import text
from ...base.source import warn
from ...ops.creation import tensor
from ...random import randn
from ...tensors.tensor import Tensor
from ..images import dimensions
from . import drawing
from . import functional as F
from .base import Transform
from .geometry import InterpolationMode, mode_of, pair_of


class RandomHorizontalFlip(Transform):
    """Left and right exchanged, with probability `p`.

    >>> import core
    >>> RandomHorizontalFlip(p=1.0)(core.tensor([[[1, 2]]])).tolist()
    [[[2, 1]]]
    """

    said = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        """Return the image, mirrored or not."""
        return F.hflip(img) if drawing.chance(self.p) else img


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top and bottom exchanged, with probability `p`.

    >>> import core
    >>> RandomVerticalFlip(p=1.0)(core.tensor([[[1], [2]]])).tolist()
    [[[2], [1]]]
    """

    def forward(self, img: Any) -> Any:
        """Return the image, upside down or not."""
        return F.vflip(img) if drawing.chance(self.p) else img


class RandomCrop(Transform):
    """A part of that size from a random place, of the image with a border if `padding` gives one.

    pad_if_needed : also where the image is too small. padding_mode : "constant", "edge", "reflect" or "symmetric".

    *Raises*: ValueError when the image is smaller than the crop.

    >>> import core
    >>> RandomCrop(32, padding=4, padding_mode="reflect")(core.zeros(3, 32, 32)).shape
    core.Size([3, 32, 32])
    """

    said = ("size", "padding")

    def __init__(self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0,
                 padding_mode: str = "constant") -> None:  # fmt: skip
        super().__init__()
        self.size = pair_of(size, "RandomCrop")
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = padding, pad_if_needed, fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return a place: (top, left, height, width)."""
        _, h, w = dimensions(img, "RandomCrop")
        height, width = output_size
        if h < height or w < width:
            raise ValueError(text(f"Required crop size {(height, width)} is larger than input image size {(h, w)}",
                                  op="RandomCrop", remedy="padding=..., or pad_if_needed=True"))  # fmt: skip
        if (h, w) == (height, width):
            return 0, 0, h, w
        return drawing.integer(h - height + 1), drawing.integer(w - width + 1), height, width

    def forward(self, img: Any) -> Any:
        """Return the crop."""
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, h, w = dimensions(img, "RandomCrop")
        if self.pad_if_needed and w < self.size[1]:
            img = F.pad(img, [self.size[1] - w, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and h < self.size[0]:
            img = F.pad(img, [0, self.size[0] - h], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))


class RandomResizedCrop(Transform):
    """A part of random area and proportions, brought to that size.

    scale : the area's share of the image. ratio : width by height, drawn evenly on a logarithmic scale.

    >>> import core
    >>> RandomResizedCrop(8)(core.rand(3, 20, 30)).shape
    core.Size([3, 8, 8])
    """

    said = ("size", "scale", "ratio", "interpolation", "antialias")

    def __init__(self, size: Any, scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (3 / 4, 4 / 3),
                 interpolation: Any = InterpolationMode.BILINEAR, antialias: bool | None = True) -> None:  # fmt: skip
        super().__init__()
        self.size = pair_of(size, "RandomResizedCrop")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            warn("Scale and ratio should be of kind (min, max)")
        self.interpolation = InterpolationMode(mode_of(interpolation, "RandomResizedCrop"))
        self.scale, self.ratio, self.antialias = scale, ratio, antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Return a part: (top, left, height, width); after ten misses the largest of allowed proportions in the
        middle."""
        _, h, w = dimensions(img, "RandomResizedCrop")
        low, high = math.log(ratio[0]), math.log(ratio[1])
        for _ in range(10):
            area = h * w * drawing.uniform(scale[0], scale[1])
            aspect = math.exp(drawing.uniform(low, high))
            width, height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < width <= w and 0 < height <= h:
                return drawing.integer(h - height + 1), drawing.integer(w - width + 1), height, width
        if w / h < min(ratio):
            width, height = w, round(w / min(ratio))
        elif w / h > max(ratio):
            width, height = round(h * max(ratio)), h
        else:
            width, height = w, h
        return (h - height) // 2, (w - width) // 2, height, width

    def forward(self, img: Any) -> Any:
        """Return the part in its new size."""
        place = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *place, self.size, self.interpolation, self.antialias)


def span_of(value: Any, name: str) -> tuple[float, float]:
    """Return (low, high) of a pair, or of one number on both sides of 0."""
    if isinstance(value, numbers.Number):
        if value < 0:  # type: ignore[operator]
            raise ValueError(text(f"If {name} is a single number, it must be positive.", came=str(value)))
        return -float(value), float(value)  # type: ignore[arg-type]
    if len(value) != 2:
        raise ValueError(text(f"{name} should be a sequence of length 2.", came=repr(value)))
    return float(value[0]), float(value[1])


class RandomRotation(Transform):
    """Turned by an angle drawn evenly from `degrees`, (low, high) or one number for both sides.

    >>> import core
    >>> RandomRotation((90, 90))(core.tensor([[[1, 2], [3, 4]]])).tolist()
    [[[2, 4], [1, 3]]]
    """

    said = ("degrees", "interpolation", "expand", "fill")

    def __init__(self, degrees: Any, interpolation: Any = InterpolationMode.NEAREST, expand: bool = False,
                 center: Sequence[float] | None = None, fill: Any = 0) -> None:  # fmt: skip
        super().__init__()
        self.degrees = span_of(degrees, "degrees")
        self.interpolation = InterpolationMode(mode_of(interpolation, "RandomRotation"))
        self.expand, self.center, self.fill = expand, center, fill

    def forward(self, img: Any) -> Any:
        """Return the turned image."""
        angle = drawing.uniform(*self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, self.fill)


class RandomAffine(Transform):
    """Turned, moved, scaled and sheared at random, about the middle.

    translate : the largest moves, as shares of width and height. scale : (low, high). shear : in degrees, for x alone
    (a number or two) or for x and y (four).

    >>> import core
    >>> RandomAffine(10, translate=(0.1, 0.1), scale=(0.9, 1.1), shear=5)(core.rand(3, 8, 8)).shape
    core.Size([3, 8, 8])
    """

    said = ("degrees", "translate", "scale", "shear", "interpolation")

    def __init__(self, degrees: Any, translate: Sequence[float] | None = None, scale: Sequence[float] | None = None,
                 shear: Any = None, interpolation: Any = InterpolationMode.NEAREST, fill: Any = 0,
                 center: Sequence[float] | None = None) -> None:  # fmt: skip
        super().__init__()
        self.degrees = span_of(degrees, "degrees")
        if translate is not None and (len(translate) != 2 or not all(0.0 <= t <= 1.0 for t in translate)):
            raise ValueError(
                text("translation values should be between 0 and 1", op="RandomAffine", came=f"{translate}")
            )
        if scale is not None and (len(scale) != 2 or min(scale) <= 0):
            raise ValueError(text("scale values should be positive", op="RandomAffine", came=f"{scale}"))
        if shear is not None and not isinstance(shear, numbers.Number) and len(shear) == 4:
            self.shear: Any = tuple(float(s) for s in shear)
        else:
            self.shear = None if shear is None else span_of(shear, "shear")
        self.interpolation = InterpolationMode(mode_of(interpolation, "RandomAffine"))
        self.translate, self.scale, self.fill, self.center = translate, scale, fill, center

    def get_params(self, size: tuple[int, int]) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Return (angle, (x, y), scale, (shear in x, in y)) for an image of (width, height)."""
        angle = drawing.uniform(*self.degrees)
        move = (0, 0)
        if self.translate is not None:
            far = [t * n for t, n in zip(self.translate, size, strict=True)]
            move = (round(drawing.uniform(-far[0], far[0])), round(drawing.uniform(-far[1], far[1])))
        scale = 1.0 if self.scale is None else drawing.uniform(*self.scale)
        shear = (0.0, 0.0)
        if self.shear is not None:
            x = drawing.uniform(*self.shear[:2])
            shear = (x, drawing.uniform(*self.shear[2:]) if len(self.shear) == 4 else 0.0)
        return angle, move, scale, shear

    def forward(self, img: Any) -> Any:
        """Return the image as it was drawn."""
        _, h, w = dimensions(img, "RandomAffine")
        angle, move, scale, shear = self.get_params((w, h))
        return F.affine(img, angle, move, scale, shear, self.interpolation, self.fill, self.center)


class RandomErasing(Transform):
    """A rectangle of random area and proportions erased, with probability `p`; of tensors.

    scale : the area's share. ratio : height by width. value : a number, one a channel, or "random" for noise.

    *Source*: Z. Zhong et al., "Random erasing data augmentation" (2020).

    >>> import core
    >>> image = RandomErasing(p=1.0, scale=(0.25, 0.25), ratio=(1, 1))(core.ones(1, 8, 8))
    >>> int((image == 0).sum())
    16
    """

    said = ("p", "scale", "ratio", "value", "inplace")

    def __init__(self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3),
                 value: Any = 0, inplace: bool = False) -> None:  # fmt: skip
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(
                text("Random erasing probability should be between 0 and 1", op="RandomErasing", came=str(p))
            )
        if min(scale) < 0 or max(scale) > 1:
            raise ValueError(text("Scale should be between 0 and 1", op="RandomErasing", came=f"{scale}"))
        if isinstance(value, str) and value != "random":
            raise ValueError(text("If value is str, it should be 'random'", op="RandomErasing", came=repr(value)))
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    def forward(self, img: Any) -> Any:
        """Return the image, with the rectangle or without."""
        if not drawing.chance(self.p):
            return img
        if not isinstance(img, Tensor):
            raise TypeError(text(f"Unexpected type {type(img)}", op="RandomErasing", needed="a tensor",
                                 remedy="put it after ToTensor()"))  # fmt: skip
        channels, h, w = dimensions(img, "RandomErasing")
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(10):
            area = h * w * drawing.uniform(*self.scale)
            aspect = math.exp(drawing.uniform(low, high))
            height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if height < h and width < w:
                top = left = 0
                value = self._value(img, channels, height, width)
                top, left = drawing.integer(h - height + 1), drawing.integer(w - width + 1)
                return F.erase(img, top, left, height, width, value, self.inplace)
        return img

    def _value(self, img: Tensor, channels: int, height: int, width: int) -> Any:
        if self.value == "random":
            return randn(channels, height, width).to(img.dtype)
        values = [self.value] if isinstance(self.value, numbers.Number) else list(self.value)
        if len(values) not in (1, channels):
            raise ValueError(text("If value is a sequence, it should have either a single value or "
                                  f"{channels} (number of input channels)", op="RandomErasing"))  # fmt: skip
        return tensor(values, dtype=img.dtype, device=img.device).reshape(-1, 1, 1)
