"""What an image is here: a tensor (..., C, H, W) or a Pillow image. Pillow is imported when it is first needed."""

from __future__ import annotations

import sys
from typing import Any

from ..base.errors import text
from ..tensors.tensor import Tensor

PIP = "pip install 'gradlab[vision]' (or: pip install pillow)"


def pillow(op: str) -> Any:
    """Return the module PIL.Image.

    *Raises*: ImportError that names the pip command.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(text(f"{op} needs Pillow, which is not installed", op=op, remedy=PIP)) from None
    return Image


def is_pillow(image: Any) -> bool:
    """Return whether it is a Pillow image; Pillow is not imported to find out.

    >>> is_pillow("a path")
    False
    """
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)


def checked(image: Any, op: str) -> Any:
    """Return the image itself.

    *Raises*: TypeError when it is neither a tensor of at least two dimensions nor a Pillow image.
    """
    if isinstance(image, Tensor):
        if image.ndim < 2:
            raise TypeError(text("Tensor is not a torch image.", op=op, came=f"shape {tuple(image.shape)}",
                                 needed="(..., C, H, W) or (H, W)"))  # fmt: skip
        return image
    if is_pillow(image):
        return image
    raise TypeError(
        text(f"Unexpected type {type(image)}", op=op, needed="a tensor (..., C, H, W) or a Pillow image",
             remedy="transforms.ToTensor() or transforms.ToPILImage() before it")
    )  # fmt: skip


def dimensions(image: Any, op: str = "get_dimensions") -> tuple[int, int, int]:
    """Return (channels, height, width).

    >>> import core
    >>> dimensions(core.zeros(8, 3, 4, 5))
    (3, 4, 5)
    """
    checked(image, op)
    if isinstance(image, Tensor):
        shape = tuple(image.shape)
        return (1 if image.ndim == 2 else shape[-3]), shape[-2], shape[-1]
    return len(image.getbands()), image.height, image.width
