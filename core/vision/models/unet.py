"""U-Net: a label for each pixel, from what is seen far around it and what is seen close by. Source: arXiv 1505.04597.

torchvision has none, so the keys are our own, for ``i`` from 0 at the full size to ``depth - 1``:

    encoder.i.conv1, .norm1, .conv2, .norm2     two 3×3 convolutions with their norms, before each halving
    middle.conv1, .norm1, .conv2, .norm2        the same at the smallest size
    decoder.i.up                                a transposed 2×2 convolution to the size of encoder.i
    decoder.i.convs.conv1, .norm1, ...          two convolutions of it and of what encoder.i gave
    head                                        a 1×1 convolution to the classes

Unlike the paper's, convolutions keep the size and have norms, so that the output is as large as the input.
"""

from __future__ import annotations

from typing import Any

from ... import nn
from ...base.errors import text
from ...ops.joining import cat
from ...tensors.tensor import Tensor
from .blocks import Layer, start
from .weights import built


class _Convolutions(nn.Module):
    """Two 3×3 convolutions, each with a norm and a ReLU."""

    def __init__(self, channels: int, width: int, norm: Layer) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, width, 3, padding=1, bias=False), norm(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), norm(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm1(self.conv1(x)))
        x = self.relu(self.norm2(self.conv2(x)))
        return x


class _Up(nn.Module):
    """Twice the size, beside what the encoder gave at that size."""

    def __init__(self, width: int, norm: Layer) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.convs = _Convolutions(2 * width, width, norm)

    def forward(self, x: Tensor, beside: Tensor) -> Tensor:
        x = self.up(x)
        high, wide = beside.shape[-2] - x.shape[-2], beside.shape[-1] - x.shape[-1]
        if high or wide:  # an odd size was halved
            x = nn.functional.pad(x, (0, wide, 0, high))
        y: Tensor = self.convs(cat([beside, x], dim=1))
        return y


class UNet(nn.Module):
    """A U-Net that halves the size `depth` times and doubles the channels with each, from `width` on.

    Shapes: (N, in_channels, H, W) -> (N, num_classes, H, W), the logits of each pixel; H and W from 2**depth on, odd
    ones too.

    *Raises*: ValueError for smaller pictures.

    >>> import core
    >>> model = UNet(in_channels=1, num_classes=3, width=4, depth=2)
    >>> model(core.ones(2, 1, 21, 32)).shape
    core.Size([2, 3, 21, 32])
    """

    def __init__(self, in_channels: int = 3, num_classes: int = 2, width: int = 64, depth: int = 4,
                 norm_layer: Layer | None = None) -> None:  # fmt: skip
        super().__init__()
        norm, widths = norm_layer or nn.BatchNorm2d, [width * 2**i for i in range(depth)]
        given = [in_channels, *widths[:-1]]
        self.encoder = nn.ModuleList(_Convolutions(c, w, norm) for c, w in zip(given, widths, strict=True))
        self.pool = nn.MaxPool2d(2)
        self.middle = _Convolutions(widths[-1], 2 * widths[-1], norm)
        self.decoder = nn.ModuleList(_Up(w, norm) for w in widths)
        self.head = nn.Conv2d(width, num_classes, 1)
        start(self, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of each pixel."""
        least = 2 ** len(self.encoder)
        if min(x.shape[-2:]) < least:
            raise ValueError(
                text(f"pictures of {x.shape[-2]}×{x.shape[-1]} are too small to be halved {len(self.encoder)} times",
                     op="UNet", needed=f"at least {least}×{least}", remedy="a smaller depth=")
            )  # fmt: skip
        kept = []
        for convs in self.encoder:
            x = convs(x)
            kept.append(x)
            x = self.pool(x)
        x = self.middle(x)
        for up, beside in zip(reversed(self.decoder), reversed(kept), strict=True):
            x = up(x, beside)
        logits: Tensor = self.head(x)
        return logits


def unet(*, weights: Any = None, **kwargs: Any) -> UNet:
    """Return a U-Net: 31.0 million parameters with what it takes by default.

    weights : the path of a file with the keys of this module's docstring.
    kwargs : as `UNet` takes them; without `num_classes` the file says how many there are, or there are 2.

    >>> len(unet(width=4, depth=3).encoder)
    3
    """
    return built("unet", UNet, "head", weights, kwargs)
