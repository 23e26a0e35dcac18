"""MobileNet v2: blocks that widen, convolve each channel by itself, and narrow again. Source: arXiv 1801.04381.

The keys are torchvision's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ...base.errors import text
from ...tensors.tensor import Tensor
from .blocks import Conv2dNormActivation, Layer, divisible, start
from .weights import built

# of each group of blocks: times the channels widen, channels, blocks, stride of the first (table 2 of the paper)
SETTING = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class InvertedResidual(nn.Module):
    """1×1 to `expand_ratio` times the channels, 3×3 of each by itself, 1×1 to `oup`; added to the input where shapes
    allow.

    Shapes: (N, inp, H, W) -> (N, oup, H / stride, W / stride).

    *Raises*: ValueError for a stride other than 1 and 2.

    >>> import core
    >>> InvertedResidual(8, 8, 1, 6)(core.ones(1, 8, 4, 4)).shape
    core.Size([1, 8, 4, 4])
    """

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int,
                 norm_layer: Layer | None = None) -> None:  # fmt: skip
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(text(f"stride should be 1 or 2 instead of {stride}", op="InvertedResidual"))
        norm, wide = norm_layer or nn.BatchNorm2d, round(inp * expand_ratio)
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers.append(Conv2dNormActivation(inp, wide, 1, 1, 1, norm, nn.ReLU6))
        layers.append(Conv2dNormActivation(wide, wide, 3, stride, wide, norm, nn.ReLU6))
        layers += nn.Conv2d(wide, oup, 1, bias=False), norm(oup)
        self.conv = nn.Sequential(*layers)
        self.stride, self.out_channels, self.use_res_connect = stride, oup, stride == 1 and inp == oup

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of x, added to x where the shapes are equal."""
        y: Tensor = self.conv(x)
        return x + y if self.use_res_connect else y


class MobileNetV2(nn.Module):
    """MobileNet v2.

    width_mult : by how much to multiply the channels of all layers, rounded to multiples of `round_nearest`
    inverted_residual_setting : rows of (times the channels widen, channels, blocks, stride); the paper's
    block, norm_layer : classes of blocks and norms

    Shapes: (N, 3, H, W) -> (N, num_classes).

    *Raises*: ValueError for rows of another form.

    >>> import core
    >>> model = MobileNetV2(num_classes=10, width_mult=0.25)
    >>> model(core.ones(2, 3, 32, 32)).shape
    core.Size([2, 10])
    """

    def __init__(self, num_classes: int = 1000, width_mult: float = 1.0,
                 inverted_residual_setting: Sequence[Sequence[int]] | None = None, round_nearest: int = 8,
                 block: Callable[..., nn.Module] | None = None, norm_layer: Layer | None = None,
                 dropout: float = 0.2) -> None:  # fmt: skip
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        setting = SETTING if inverted_residual_setting is None else inverted_residual_setting
        if not setting or any(len(row) != 4 for row in setting):
            raise ValueError(
                text("inverted_residual_setting should be non-empty or a 4-element list", op="MobileNetV2",
                     came=repr(inverted_residual_setting),
                     needed="rows of (times the channels widen, channels, blocks, stride)")
            )  # fmt: skip
        channels = divisible(32 * width_mult, round_nearest)
        self.last_channel = divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[nn.Module] = [
            Conv2dNormActivation(3, channels, 3, 2, norm_layer=norm, activation_layer=nn.ReLU6)
        ]
        for times, wanted, count, stride in setting:
            for step in (stride, *(1,) * (count - 1)):
                given, channels = channels, divisible(wanted * width_mult, round_nearest)
                features.append((block or InvertedResidual)(given, channels, step, times, norm_layer=norm))
        features.append(
            Conv2dNormActivation(channels, self.last_channel, 1, norm_layer=norm, activation_layer=nn.ReLU6)
        )
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))
        start(self, linear_std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        means = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1)).flatten(1)
        logits: Tensor = self.classifier(means)
        return logits


def mobilenet_v2(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> MobileNetV2:
    """Return MobileNet v2: 3.5 million parameters, 0.3 billion multiplications for a picture of 224×224.

    weights : the path of a file with torchvision's keys. progress : as in torchvision's signature, without effect.
    kwargs : as `MobileNetV2` takes them; without `num_classes` the file says how many there are, or there are 1000.

    >>> sum(p.numel() for p in mobilenet_v2().parameters())
    3504872
    """
    return built("mobilenet_v2", MobileNetV2, "classifier.1", weights, kwargs)
