"""Between Pillow images, arrays and tensors, and between dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import dtype as Dtype
from ...base.dtypes import float32, get_default_dtype, int64, uint8
from ...base.errors import text
from ...ops.creation import from_numpy
from ...ops.creation import tensor as tensor_of
from ...tensors.tensor import Tensor
from ..images import dimensions, is_pillow, pillow

__all__ = ["channels_first", "convert_image_dtype", "get_dimensions", "get_image_num_channels", "get_image_size",
           "normalize", "pil_to_tensor", "to_pil_image", "to_tensor"]  # fmt: skip

get_dimensions = dimensions


def get_image_size(img: Any) -> list[int]:
    """[width, height], as Pillow counts.

    >>> import core
    >>> get_image_size(core.zeros(3, 4, 5))
    [5, 4]
    """
    _, height, width = dimensions(img, "get_image_size")
    return [width, height]


def get_image_num_channels(img: Any) -> int:
    """Return how many channels an image has."""
    return dimensions(img, "get_image_num_channels")[0]


def channels_first(array: Any) -> Tensor:
    """Return an array (H, W) or (H, W, C) as a tensor (C, H, W) that owns its memory.

    >>> channels_first(np.zeros((4, 5), np.uint8)).shape
    core.Size([1, 4, 5])
    """
    array = array[:, :, None] if array.ndim == 2 else array
    return from_numpy(np.array(array.transpose(2, 0, 1), order="C"))


def _pixels(image: Any) -> Any:
    """Return a Pillow image as an array, without losing bits."""
    kinds = {"I": np.int32, "I;16": np.int32, "F": np.float32, "1": np.uint8}
    array = np.array(image, kinds.get(image.mode), copy=True)
    return array * 255 if image.mode == "1" else array


def to_tensor(pic: Any) -> Tensor:
    """Return a Pillow image or an array (H, W, C) as a tensor (C, H, W); bytes become floats of [0, 1].

    A uint8 tensor is taken as well, with its dimensions as they are.

    *Raises*: TypeError for anything else; ValueError for an array of another number of dimensions.

    >>> to_tensor(np.full((1, 2, 3), 51, np.uint8)).tolist()[0]
    [[0.20000000298023224, 0.20000000298023224]]
    """
    if isinstance(pic, Tensor):
        return pic.to(get_default_dtype()) / 255 if pic.dtype is uint8 else pic
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(text(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.", op="to_tensor"))
        found = channels_first(pic)
    elif is_pillow(pic):
        found = channels_first(_pixels(pic))
    else:
        raise TypeError(text(f"pic should be PIL Image or ndarray. Got {type(pic)}", op="to_tensor"))
    return found.to(get_default_dtype()) / 255 if found.dtype is uint8 else found


def pil_to_tensor(pic: Any) -> Tensor:
    """Return a Pillow image as a tensor (C, H, W) with its values as they are.

    >>> from PIL import Image
    >>> pil_to_tensor(Image.new("RGB", (2, 1), (1, 2, 3))).tolist()
    [[[1, 1]], [[2, 2]], [[3, 3]]]
    """
    if not is_pillow(pic):
        raise TypeError(text(f"pic should be PIL Image. Got {type(pic)}", op="pil_to_tensor"))
    return channels_first(_pixels(pic))


_MODES = {1: ("L",), 2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """Return a tensor (C, H, W) or an array (H, W, C) as a Pillow image; floats of [0, 1] become bytes.

    *Raises*: ImportError without Pillow; TypeError and ValueError for what is no picture.

    >>> import core
    >>> to_pil_image(core.ones(3, 4, 5)).getpixel((0, 0))
    (255, 255, 255)
    """
    Image = pillow("to_pil_image")
    if isinstance(pic, Tensor):
        if pic.ndim not in (2, 3):
            raise ValueError(text(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.", op="to_pil_image"))
        array = pic.detach().cpu()._a
        if pic.dtype.is_floating_point and mode != "F":
            array = (array.astype(np.float32) * np.float32(255)).clip(0, 255).astype(np.uint8)
        array = array.transpose(1, 2, 0) if array.ndim == 3 else array
    elif isinstance(pic, np.ndarray):
        array = pic
        if array.ndim not in (2, 3):
            raise ValueError(text(f"pic should be 2/3 dimensional. Got {array.ndim} dimensions.", op="to_pil_image"))
    else:
        raise TypeError(text(f"pic should be Tensor or ndarray. Got {type(pic)}.", op="to_pil_image"))
    channels = array.shape[2] if array.ndim == 3 else 1
    if channels not in _MODES:
        raise ValueError(text(f"pic should not have > 4 channels. Got {channels} channels.", op="to_pil_image",
                              needed="1 to 4 channels, first in a tensor and last in an array"))  # fmt: skip
    array = array[:, :, 0] if channels == 1 and array.ndim == 3 else array
    if channels == 1:
        known = {"uint8": "L", "int16": "I;16", "int32": "I", "float32": "F"}.get(array.dtype.name)
        if known is None or (mode is not None and mode != known):
            raise ValueError(text(f"Incorrect mode ({mode}) supplied for input type {array.dtype}. Should be {known}",
                                  op="to_pil_image"))  # fmt: skip
        if known == "I;16":
            array = array.astype(np.uint16)
        return Image.fromarray(np.ascontiguousarray(array))
    if array.dtype != np.uint8:
        raise TypeError(text(f"Input type {array.dtype} is not supported", op="to_pil_image", needed="uint8",
                             remedy="bytes, or a floating tensor of [0, 1]"))  # fmt: skip
    if mode is not None and mode not in _MODES[channels]:
        raise ValueError(text(f"Only modes {list(_MODES[channels])} are supported for {channels}D inputs",
                              op="to_pil_image", came=mode))  # fmt: skip
    image = Image.fromarray(np.ascontiguousarray(array))
    if mode in (None, image.mode):
        return image
    return Image.frombytes(mode, image.size, np.ascontiguousarray(array).tobytes())


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """``(x - mean) / std``, channel by channel.

    *Shapes*: (..., C, H, W). *Raises*: TypeError for no floating tensor; ValueError for a `std` of 0.

    >>> import core
    >>> normalize(core.ones(1, 1, 2), [0.5], [0.25])
    tensor([[[2., 2.]]])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(text(f"img should be Tensor Image. Got {type(tensor)}", op="normalize",
                             remedy="ToTensor() before Normalize()"))  # fmt: skip
    if not tensor.dtype.is_floating_point:
        raise TypeError(text(f"Input tensor should be a float tensor. Got {tensor.dtype}.", op="normalize",
                             remedy="ConvertImageDtype(core.float32) before Normalize()"))  # fmt: skip
    if tensor.ndim < 3:
        raise ValueError(text("Expected tensor to be a tensor image of size (..., C, H, W).", op="normalize",
                              came=f"shape {tuple(tensor.shape)}"))  # fmt: skip
    m, s = (tensor_of(v, dtype=tensor.dtype, device=tensor.device) for v in (mean, std))
    if not bool(s.all()):
        raise ValueError(text(f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero.",
                              op="normalize", came=f"std={list(std)}"))  # fmt: skip
    channels = tuple(tensor.shape)[-3]
    for name, t in (("mean", m), ("std", s)):
        if t.numel() not in (1, channels):
            raise ValueError(text(f"{name} has {t.numel()} values and the image {channels} channels", op="normalize",
                                  needed=f"1 or {channels}"))  # fmt: skip
    m, s = m.reshape(-1, 1, 1), s.reshape(-1, 1, 1)
    return tensor.sub_(m).div_(s) if inplace else (tensor - m) / s  # type: ignore[attr-defined, no-any-return]


def convert_image_dtype(image: Tensor, dtype: Dtype = float32) -> Tensor:
    """Return an image in another dtype, its values rescaled: floats span [0, 1], integers 0 to their largest.

    *Raises*: RuntimeError where the integers are too large for the floats.

    >>> import core
    >>> convert_image_dtype(core.tensor([[[0, 255]]], dtype=core.uint8)).tolist()
    [[[0.0, 1.0]]]
    """
    if not isinstance(image, Tensor):
        raise TypeError(text("Input img should be Tensor Image", op="convert_image_dtype", came=str(type(image))))
    if image.dtype is dtype:
        return image
    if image.dtype.is_floating_point:
        if dtype.is_floating_point:
            return image.to(dtype)
        if dtype.name in ("int32", "int64") and (image.dtype is not float32 or dtype is int64):
            wide = image.dtype.name == "float64" and dtype.name == "int32"
            if not wide:
                raise RuntimeError(
                    text(
                        f"The cast from {image.dtype} to {dtype} cannot be performed safely.", op="convert_image_dtype"
                    )
                )
        # a little less than one more than the largest, so that every integer has an equal share of [0, 1]
        return (image * (_largest(dtype) + 1.0 - 1e-3)).to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / _largest(image.dtype)
    here, there = _largest(image.dtype), _largest(dtype)
    if here > there:
        return image.div((here + 1) // (there + 1), rounding_mode="floor").to(dtype)  # type: ignore[attr-defined, no-any-return]
    return image.to(dtype) * ((there + 1) // (here + 1))


def _largest(dtype: Dtype) -> int:
    return 1 if dtype.name == "bool" else int(np.iinfo(dtype.numpy).max)
