"""The random transforms of colour: jitter, grey, blur, sharpness and the like."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from ...base.errors import text
from . import drawing
from . import functional as F
from .base import Transform


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed at random, in random order.

    brightness, contrast, saturation : a number b draws the factor from [max(0, 1 - b), 1 + b]; or (low, high).
    hue : a number draws from [-hue, hue]; at most 0.5.

    >>> import core
    >>> ColorJitter(0.4, 0.4, 0.4, 0.1)(core.rand(3, 4, 4)).shape
    core.Size([3, 4, 4])
    """

    said = ("brightness", "contrast", "saturation", "hue")

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        super().__init__()
        self.brightness = self._span(brightness, "brightness", 1.0, (0.0, float("inf")), clip=True)
        self.contrast = self._span(contrast, "contrast", 1.0, (0.0, float("inf")), clip=True)
        self.saturation = self._span(saturation, "saturation", 1.0, (0.0, float("inf")), clip=True)
        self.hue = self._span(hue, "hue", 0.0, (-0.5, 0.5))

    @staticmethod
    def _span(value: Any, name: str, center: float, bound: tuple[float, float],
              clip: bool = False) -> tuple[float, float] | None:  # fmt: skip
        if isinstance(value, numbers.Number):
            if value < 0:  # type: ignore[operator]
                raise ValueError(text(f"If {name} is a single number, it must be non negative.", op="ColorJitter",
                                      came=str(value)))  # fmt: skip
            low, high = center - float(value), center + float(value)  # type: ignore[arg-type]
            low = max(low, 0.0) if clip else low
        elif isinstance(value, Sequence) and len(value) == 2:
            low, high = float(value[0]), float(value[1])
        else:
            raise TypeError(text(f"{name} should be a single number or a list/tuple with length 2.", op="ColorJitter",
                                 came=repr(value)))  # fmt: skip
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(text(f"{name} values should be between {bound}, but got {(low, high)}.", op="ColorJitter"))
        return None if low == high == center else (low, high)

    def forward(self, img: Any) -> Any:
        """Return the image in other colours."""
        order = drawing.order(4)
        spans = (self.brightness, self.contrast, self.saturation, self.hue)
        factors = [None if span is None else drawing.uniform(*span) for span in spans]
        works = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for k in order:
            if (factor := factors[k]) is not None:
                img = works[k](img, factor)
        return img


class _Sometimes(Transform):
    """A change that happens with probability `p`."""

    said: tuple[str, ...] = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def change(self, img: Any) -> Any:
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        """Return the image, changed or not."""
        return self.change(img) if drawing.chance(self.p) else img


class RandomGrayscale(_Sometimes):
    """Grey in as many channels as before, with probability `p`.

    >>> import core
    >>> image = RandomGrayscale(1.0)(core.rand(3, 2, 2))
    >>> bool((image[0] == image[2]).all())
    True
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def change(self, img: Any) -> Any:
        """Return the grey image."""
        return F.rgb_to_grayscale(img, F.get_image_num_channels(img))


class GaussianBlur(Transform):
    """Blurred under a bell whose width is drawn from `sigma`, (low, high) or one number, in pixels.

    >>> import core
    >>> GaussianBlur(3)(core.rand(3, 8, 8)).shape
    core.Size([3, 8, 8])
    """

    said = ("kernel_size", "sigma")

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        if any(k <= 0 or k % 2 == 0 for k in self.kernel_size):
            raise ValueError(text("Kernel size value should be an odd and positive number.", op="GaussianBlur",
                                  came=f"{kernel_size}"))  # fmt: skip
        low, high = [float(s) for s in ([sigma] * 2 if isinstance(sigma, int | float) else sigma)]
        if not 0.0 < low <= high:
            raise ValueError(text("sigma values should be positive and of the form (min, max).", op="GaussianBlur",
                                  came=f"{sigma}"))  # fmt: skip
        self.sigma = (low, high)

    def forward(self, img: Any) -> Any:
        """Return the blurred image."""
        return F.gaussian_blur(img, self.kernel_size, drawing.uniform(*self.sigma))


class RandomInvert(_Sometimes):
    """Dark and light exchanged, with probability `p`."""

    def change(self, img: Any) -> Any:
        """Return the negative."""
        return F.invert(img)


class RandomPosterize(_Sometimes):
    """Only the upper `bits` of every byte kept, with probability `p`."""

    said = ("bits", "p")

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def change(self, img: Any) -> Any:
        """Return the posterized image."""
        return F.posterize(img, self.bits)


class RandomSolarize(_Sometimes):
    """What is at least `threshold` inverted, with probability `p`."""

    said = ("threshold", "p")

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def change(self, img: Any) -> Any:
        """Return the solarized image."""
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(_Sometimes):
    """Sharpened (or, below 1, blurred) by a factor, with probability `p`."""

    said = ("sharpness_factor", "p")

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img: Any) -> Any:
        """Return the sharpened image."""
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomAutocontrast(_Sometimes):
    """Every channel spread over the whole range, with probability `p`."""

    def change(self, img: Any) -> Any:
        """Return the image with full contrast."""
        return F.autocontrast(img)


class RandomEqualize(_Sometimes):
    """Every channel's histogram made flat, with probability `p`."""

    def change(self, img: Any) -> Any:
        """Return the equalized image."""
        return F.equalize(img)
