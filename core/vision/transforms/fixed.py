"""The transforms that draw nothing: conversion, size, crops, padding, grey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtypes import dtype as Dtype
from ...base.errors import text
from . import functional as F
from .base import Transform
from .geometry import InterpolationMode, mode_of, pair_of

Size = int | Sequence[int]


class ToTensor(Transform):
    """A Pillow image or an array (H, W, C) as a tensor (C, H, W); bytes become floats of [0, 1].

    >>> from PIL import Image
    >>> ToTensor()(Image.new("L", (3, 2), 255)).shape
    core.Size([1, 2, 3])
    """

    def forward(self, pic: Any) -> Any:
        """Return the tensor."""
        return F.to_tensor(pic)


class PILToTensor(Transform):
    """A Pillow image as a tensor (C, H, W), its values as they are.

    >>> from PIL import Image
    >>> PILToTensor()(Image.new("L", (1, 1), 7)).item()
    7
    """

    def forward(self, pic: Any) -> Any:
        """Return the tensor."""
        return F.pil_to_tensor(pic)


class ToPILImage(Transform):
    """A tensor (C, H, W) or an array (H, W, C) as a Pillow image.

    >>> import core
    >>> ToPILImage()(core.zeros(3, 2, 4)).size
    (4, 2)
    """

    said = ("mode",)

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, pic: Any) -> Any:
        """Return the image."""
        return F.to_pil_image(pic, self.mode)


class ConvertImageDtype(Transform):
    """Another dtype, values rescaled.

    >>> import core
    >>> ConvertImageDtype(core.uint8)(core.ones(1, 1, 1)).item()
    255
    """

    said = ("dtype",)

    def __init__(self, dtype: Dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Any) -> Any:
        """Return the image in that dtype."""
        return F.convert_image_dtype(image, self.dtype)


class Normalize(Transform):
    """``(x - mean) / std``, channel by channel, of floating tensors.

    >>> import core
    >>> Normalize(mean=[0.5], std=[0.5])(core.ones(1, 1, 2))
    tensor([[[1., 1.]]])
    """

    said = ("mean", "std")

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Any) -> Any:
        """Return the normalised image."""
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class Resize(Transform):
    """Another size: (height, width), or one number for the shorter side.

    >>> import core
    >>> Resize(4)(core.zeros(3, 8, 16)).shape
    core.Size([3, 4, 8])
    """

    said = ("size", "interpolation", "max_size", "antialias")

    def __init__(self, size: Size, interpolation: Any = InterpolationMode.BILINEAR, max_size: int | None = None,
                 antialias: bool | None = True) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(size, int | Sequence):
            raise TypeError(text(f"Size should be int or sequence. Got {type(size)}", op="Resize"))
        self.interpolation = InterpolationMode(mode_of(interpolation, "Resize"))
        self.size, self.max_size, self.antialias = size, max_size, antialias

    def forward(self, img: Any) -> Any:
        """Return the image in that size."""
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(Transform):
    """The middle of the image.

    >>> import core
    >>> CenterCrop((2, 4))(core.zeros(3, 8, 8)).shape
    core.Size([3, 2, 4])
    """

    said: tuple[str, ...] = ("size",)

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = pair_of(size, "CenterCrop")

    def forward(self, img: Any) -> Any:
        """Return the crop."""
        return F.center_crop(img, self.size)


class FiveCrop(CenterCrop):
    """The four corners and the middle, as a tuple.

    >>> import core
    >>> len(FiveCrop(2)(core.zeros(3, 8, 8)))
    5
    """

    def forward(self, img: Any) -> Any:
        """Return the crops."""
        return F.five_crop(img, self.size)


class TenCrop(CenterCrop):
    """`FiveCrop` of the image and of its mirror image, as a tuple."""

    said = ("size", "vertical_flip")

    def __init__(self, size: Size, vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> Any:
        """Return the crops."""
        return F.ten_crop(img, self.size, self.vertical_flip)


class Pad(Transform):
    """A border: one width, (left and right, top and bottom), or (left, top, right, bottom).

    >>> import core
    >>> Pad(1, padding_mode="reflect")(core.zeros(3, 4, 4)).shape
    core.Size([3, 6, 6])
    """

    said = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Size, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(text("Padding mode should be either constant, edge, reflect or symmetric", op="Pad",
                                  came=padding_mode))  # fmt: skip
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        """Return the image with its border."""
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class Grayscale(Transform):
    """Grey, in one channel or three equal ones.

    >>> import core
    >>> Grayscale(3)(core.rand(3, 4, 4)).shape
    core.Size([3, 4, 4])
    """

    said = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        """Return the grey image."""
        return F.rgb_to_grayscale(img, self.num_output_channels)
