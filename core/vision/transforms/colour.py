"""What the pixels are: brightness, contrast, saturation, hue, grey, blur, sharpness; on tensors and Pillow images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import text
from ...nn.functional import conv2d
from ...nn.functional import pad as fill_up
from ...ops.creation import arange, from_numpy, tensor
from ...ops.joining import cat, stack
from ...tensors.tensor import Tensor
from ..images import checked, dimensions
from .conversion import pil_to_tensor, to_pil_image
from .geometry import numbered

__all__ = ["adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
           "adjust_sharpness", "autocontrast", "equalize", "gaussian_blur", "invert", "posterize", "rgb_to_grayscale",
           "solarize", "to_grayscale"]  # fmt: skip


def _bound(img: Tensor) -> float:
    return 1.0 if img.dtype.is_floating_point else 255.0


def _float(img: Tensor) -> Tensor:
    return img if img.dtype.is_floating_point else img.float()  # type: ignore[attr-defined, no-any-return]


def _blend(img: Tensor, other: Any, ratio: float) -> Tensor:
    """``ratio img + (1 - ratio) other``, within the image's bounds; bytes are cut off, as torchvision does."""
    mixed = _float(img) * ratio + other * (1.0 - ratio)
    return mixed.clamp(0, _bound(img)).to(img.dtype)  # type: ignore[no-any-return]


def _enhanced(img: Any, what: str, factor: float) -> Any:
    from PIL import ImageEnhance

    return getattr(ImageEnhance, what)(img).enhance(factor)


def _not_negative(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(text(f"{name} ({factor}) is not non-negative.", op=f"adjust_{name.split('_')[0]}"))


def _channels(img: Any, op: str, allowed: tuple[int, ...] = (1, 3)) -> int:
    channels = dimensions(img, op)[0]
    if channels not in allowed:
        raise TypeError(
            text(f"Input image tensor permitted channel values are {list(allowed)}, but found {channels}", op=op)
        )
    return channels


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """``0.2989 red + 0.587 green + 0.114 blue``, in one channel or three equal ones.

    >>> import core
    >>> rgb_to_grayscale(core.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1))
    tensor([[[0.2989]]])
    """
    if num_output_channels not in (1, 3):
        raise ValueError(text("num_output_channels should be either 1 or 3", op="rgb_to_grayscale",
                              came=str(num_output_channels)))  # fmt: skip
    if not isinstance(img, Tensor):
        return to_grayscale(img, num_output_channels)
    if _channels(img, "rgb_to_grayscale") == 1:
        grey = img
    else:
        red, green, blue = (_float(img[..., k : k + 1, :, :]) for k in range(3))
        grey = (red * 0.2989 + green * 0.587 + blue * 0.114).to(img.dtype)
    return cat([grey] * 3, -3) if num_output_channels == 3 else grey  # type: ignore[list-item]


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Return a Pillow image (or a tensor) in grey: of mode "L", or RGB with three equal channels."""
    if isinstance(img, Tensor):
        return rgb_to_grayscale(img, num_output_channels)
    grey = checked(img, "to_grayscale").convert("L")
    if num_output_channels not in (1, 3):
        raise ValueError(text("num_output_channels should be either 1 or 3", op="to_grayscale"))
    return grey if num_output_channels == 1 else grey.convert("RGB")


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 is black, 1 the image, 2 twice as bright.

    >>> import core
    >>> adjust_brightness(core.tensor([[[0.25, 0.75]]]), 2.0)
    tensor([[[0.5000, 1.0000]]])
    """
    _not_negative("brightness_factor", brightness_factor)
    if not isinstance(img, Tensor):
        return _enhanced(checked(img, "adjust_brightness"), "Brightness", brightness_factor)
    return _blend(img, 0.0, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 is the mean grey everywhere, 1 the image."""
    _not_negative("contrast_factor", contrast_factor)
    if not isinstance(img, Tensor):
        return _enhanced(checked(img, "adjust_contrast"), "Contrast", contrast_factor)
    _channels(img, "adjust_contrast")
    return _blend(img, _float(rgb_to_grayscale(img)).mean(dim=(-3, -2, -1), keepdim=True), contrast_factor)  # type: ignore[attr-defined]


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 is grey, 1 the image."""
    _not_negative("saturation_factor", saturation_factor)
    if not isinstance(img, Tensor):
        return _enhanced(checked(img, "adjust_saturation"), "Color", saturation_factor)
    return (
        img
        if _channels(img, "adjust_saturation") == 1
        else _blend(img, _float(rgb_to_grayscale(img)), saturation_factor)
    )


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Return the colours turned round the circle, by -0.5 to 0.5 of it.

    >>> import core
    >>> red = core.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)
    >>> adjust_hue(red, 1 / 3).flatten()
    tensor([0., 1., 0.])
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(text(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].", op="adjust_hue"))
    if not isinstance(img, Tensor):
        import numpy as np

        mode = checked(img, "adjust_hue").mode
        if mode in ("L", "1", "I", "F"):
            return img
        h, s, v = img.convert("HSV").split()
        turned = np.asarray(h) + np.uint8(int(hue_factor * 255) % 256)  # bytes wrap round, as the circle does
        from PIL import Image

        return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert(mode)
    if _channels(img, "adjust_hue") == 1:
        return img
    x = _float(img) / _bound(img)
    h, s, v = _hsv(x)
    y = _rgb((h + hue_factor) % 1.0, s, v)
    if img.dtype.is_floating_point:
        return y.to(img.dtype)
    return (y * 255.999).floor().to(img.dtype)  # type: ignore[attr-defined]


def _hsv(x: Tensor) -> tuple[Any, Any, Any]:
    """*Source*: A. R. Smith, "Color gamut transform pairs" (1978)."""
    red, green, blue = (x[..., k, :, :] for k in range(3))
    high, low = x.amax(-3), x.amin(-3)  # type: ignore[attr-defined]
    spread = high - low
    flat = spread == 0
    safe = spread + flat.to(x.dtype)
    s = spread / (high + (high == 0).to(x.dtype))
    from_red, from_green, from_blue = (blue - green) / safe, (red - blue) / safe + 2.0, (green - red) / safe + 4.0
    is_red, is_green = high == red, (high == green) & (high != red)
    h = (-from_red).where(is_red, (-from_green + 4.0).where(is_green, -from_blue + 8.0))
    return (h / 6.0).where(~flat, h * 0) % 1.0, s, high


def _rgb(h: Any, s: Any, v: Any) -> Tensor:
    def channel(n: float) -> Any:
        k = (h * 6.0 + n) % 6.0
        return v - v * s * k.minimum(4.0 - k).clamp(0.0, 1.0)

    return stack([channel(5.0), channel(3.0), channel(1.0)], -3)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """``gain * x ** gamma``, of values in [0, 1].

    >>> import core
    >>> adjust_gamma(core.tensor([[[0.5]]]), 2.0)
    tensor([[[0.2500]]])
    """
    if gamma < 0:
        raise ValueError(text("Gamma should be a non-negative real number", op="adjust_gamma", came=str(gamma)))
    if not isinstance(img, Tensor):
        mode = checked(img, "adjust_gamma").mode
        table = [int(min((255 + 1 - 1e-3) * gain * (k / 255.0) ** gamma, 255)) for k in range(256)]
        plain = img if mode == "RGB" else img.convert("RGB")
        return plain.point(table * 3).convert(mode)
    y = (gain * (_float(img) / _bound(img)) ** gamma).clamp(0, 1)
    return y.to(img.dtype) if img.dtype.is_floating_point else (y * 255.999).floor().to(img.dtype)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Return the image under a Gaussian bell; borders are reflected.

    kernel_size : odd, one number or (x, y). sigma : in pixels; by default ``0.3 ((k - 1) / 2 - 1) + 0.8``.

    >>> import core
    >>> gaussian_blur(core.ones(1, 5, 5), 3).flatten()[12]
    tensor(1.)
    """
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if any(k % 2 == 0 or k < 0 for k in sizes):
        raise ValueError(text(f"kernel_size should have odd and positive integers. Got {sizes}", op="gaussian_blur"))
    if sigma is None:
        sigma = [0.3 * ((k - 1) * 0.5 - 1) + 0.8 for k in sizes]
    sigmas = [float(sigma)] * 2 if isinstance(sigma, int | float) else [float(s) for s in sigma] * (3 - len(sigma))
    if any(s <= 0 for s in sigmas):
        raise ValueError(text(f"sigma should have positive values. Got {sigmas}", op="gaussian_blur"))
    if not isinstance(img, Tensor):
        return to_pil_image(gaussian_blur(pil_to_tensor(checked(img, "gaussian_blur")), sizes, sigmas))

    def work(x: Tensor) -> Tensor:
        channels = tuple(x.shape)[1]
        for k, s, along in ((sizes[0], sigmas[0], "x"), (sizes[1], sigmas[1], "y")):
            bell = (-0.5 * ((arange(k, dtype=x.dtype, device=x.device) - (k - 1) * 0.5) / s) ** 2).exp()  # type: ignore[attr-defined]
            bell = bell / bell.sum()
            shape, border = (
                ((1, 1, 1, k), [k // 2, k // 2, 0, 0]) if along == "x" else ((1, 1, k, 1), [0, 0, k // 2, k // 2])
            )
            kernel = bell.reshape(*shape).expand(channels, 1, *shape[2:])
            x = conv2d(fill_up(x, border, mode="reflect"), kernel, groups=channels)
        return x

    return numbered(checked(img, "gaussian_blur"), work)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """0 is blurred, 1 the image, 2 sharpened."""
    _not_negative("sharpness_factor", sharpness_factor)
    if not isinstance(img, Tensor):
        return _enhanced(checked(img, "adjust_sharpness"), "Sharpness", sharpness_factor)
    _, h, w = dimensions(img)
    if h <= 2 or w <= 2:
        return img

    def smooth(x: Tensor) -> Tensor:
        channels = tuple(x.shape)[1]
        kernel = tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]], dtype=x.dtype, device=x.device) / 13
        y = x.clone()
        y[..., 1:-1, 1:-1] = conv2d(x, kernel.expand(channels, 1, 3, 3), groups=channels)
        return y

    return _blend(img, _float(numbered(img, smooth)), sharpness_factor)


def _by_image_ops(name: str, *args: Any) -> Callable[[Any], Any]:
    def work(img: Any) -> Any:
        from PIL import ImageOps

        return getattr(ImageOps, name)(checked(img, name), *args)

    return work


def invert(img: Any) -> Any:
    """Dark and light exchanged.

    >>> import core
    >>> invert(core.tensor([[[0, 200]]], dtype=core.uint8)).tolist()
    [[[255, 55]]]
    """
    if not isinstance(img, Tensor):
        return _by_image_ops("invert")(img)
    return (_bound(img) - _float(img)).to(img.dtype)


def posterize(img: Any, bits: int) -> Any:
    """Only the upper `bits` of every byte kept."""
    if not isinstance(img, Tensor):
        return _by_image_ops("posterize", bits)(img)
    if img.dtype.name != "uint8":
        raise TypeError(text(f"Only torch.uint8 image tensors are supported, but found {img.dtype}", op="posterize"))
    return img & (256 - 2 ** (8 - bits))


def solarize(img: Any, threshold: float) -> Any:
    """Return what is at least `threshold` inverted."""
    if not isinstance(img, Tensor):
        return _by_image_ops("solarize", threshold)(img)
    if threshold > _bound(img):
        raise TypeError(text("Threshold should be less than bound of img.", op="solarize", came=str(threshold)))
    return invert(img).where(img >= threshold, img)


def autocontrast(img: Any) -> Any:
    """Every channel spread over the whole range."""
    if not isinstance(img, Tensor):
        return _by_image_ops("autocontrast")(img)
    x = _float(img)
    low, high = x.amin((-2, -1), keepdim=True), x.amax((-2, -1), keepdim=True)  # type: ignore[attr-defined]
    flat = (high == low).to(x.dtype)
    return (
        ((x - low * (1 - flat)) * (_bound(img) * (1 - flat) / (high - low + flat) + flat))
        .clamp(0, _bound(img))
        .to(img.dtype)
    )


def equalize(img: Any) -> Any:
    """Every channel's histogram made flat; of bytes."""
    if not isinstance(img, Tensor):
        return _by_image_ops("equalize")(img)
    if img.dtype.name != "uint8":
        raise TypeError(text(f"Only torch.uint8 image tensors are supported, but found {img.dtype}", op="equalize"))
    import numpy as np

    array = img.cpu()._a
    out = np.empty_like(array).reshape(-1, *array.shape[-2:])
    for k, channel in enumerate(array.reshape(-1, *array.shape[-2:])):
        counts = np.bincount(channel.ravel(), minlength=256)
        step = (counts.sum() - counts[np.flatnonzero(counts)[-1:]].sum()) // 255
        table = np.arange(256) if step == 0 else ((np.cumsum(counts) - counts + step // 2) // step).clip(0, 255)
        out[k] = table.astype(np.uint8)[channel]
    return from_numpy(out.reshape(array.shape)).to(img.device)
