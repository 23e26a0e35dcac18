"""MobileNet v3: v2's blocks with attention to channels and cheaper activations. Source: arXiv 1905.02244.

The keys are torchvision's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from ... import nn
from ...tensors.tensor import Tensor
from .blocks import Conv2dNormActivation, Layer, SqueezeExcitation, divisible, start
from .weights import built


class BlockSetting(NamedTuple):
    """What a block is: kernel size, channels between, channels out, whether channels are scaled, whether its
    activation is Hardswish (else ReLU), stride, dilation."""

    kernel: int
    expanded: int
    out: int
    use_se: bool
    use_hs: bool
    stride: int = 1
    dilation: int = 1


# tables 1 and 2 of the paper
LARGE = (
    BlockSetting(3, 16, 16, False, False), BlockSetting(3, 64, 24, False, False, 2),
    BlockSetting(3, 72, 24, False, False), BlockSetting(5, 72, 40, True, False, 2),
    BlockSetting(5, 120, 40, True, False), BlockSetting(5, 120, 40, True, False),
    BlockSetting(3, 240, 80, False, True, 2), BlockSetting(3, 200, 80, False, True),
    BlockSetting(3, 184, 80, False, True), BlockSetting(3, 184, 80, False, True),
    BlockSetting(3, 480, 112, True, True), BlockSetting(3, 672, 112, True, True),
    BlockSetting(5, 672, 160, True, True, 2), BlockSetting(5, 960, 160, True, True),
    BlockSetting(5, 960, 160, True, True),
)  # fmt: skip
SMALL = (
    BlockSetting(3, 16, 16, True, False, 2), BlockSetting(3, 72, 24, False, False, 2),
    BlockSetting(3, 88, 24, False, False), BlockSetting(5, 96, 40, True, True, 2),
    BlockSetting(5, 240, 40, True, True), BlockSetting(5, 240, 40, True, True), BlockSetting(5, 120, 48, True, True),
    BlockSetting(5, 144, 48, True, True), BlockSetting(5, 288, 96, True, True, 2),
    BlockSetting(5, 576, 96, True, True), BlockSetting(5, 576, 96, True, True),
)  # fmt: skip


def setting_of(blocks: Sequence[BlockSetting], last_channel: int, width_mult: float = 1.0, reduced_tail: bool = False,
               dilated: bool = False) -> tuple[list[BlockSetting], int]:  # fmt: skip
    """Return the blocks and the last layer's width with all channels multiplied, the last three blocks with half of
    theirs, or dilated in place of their stride.

    >>> setting_of(SMALL, 1024, width_mult=0.5)[0][0].out
    8
    """
    half, found = 2 if reduced_tail else 1, []
    for k, b in enumerate(blocks):
        if k >= len(blocks) - 3:
            # the first of the three still widens by what came before it
            expanded = b.expanded if k == len(blocks) - 3 else b.expanded // half
            b = b._replace(expanded=expanded, out=b.out // half, dilation=2 if dilated else 1)
        found.append(b._replace(expanded=divisible(b.expanded * width_mult), out=divisible(b.out * width_mult)))
    return found, divisible(last_channel // half * width_mult)


class InvertedResidual(nn.Module):
    """v2's block with another kernel size and activation, and with its channels scaled where its setting says so.

    Shapes: (N, channels, H, W) -> (N, setting.out, H / stride, W / stride).

    >>> import core
    >>> InvertedResidual(8, BlockSetting(3, 16, 8, True, True), core.nn.BatchNorm2d)(core.ones(1, 8, 4, 4)).shape
    core.Size([1, 8, 4, 4])
    """

    def __init__(self, channels: int, setting: BlockSetting, norm_layer: Layer) -> None:
        super().__init__()
        kernel, wide, out, use_se, use_hs, stride, dilation = setting
        activation = nn.Hardswish if use_hs else nn.ReLU
        layers: list[nn.Module] = []
        if wide != channels:
            layers.append(Conv2dNormActivation(channels, wide, 1, 1, 1, norm_layer, activation))
        step = 1 if dilation > 1 else stride
        layers.append(Conv2dNormActivation(wide, wide, kernel, step, wide, norm_layer, activation, dilation))
        if use_se:
            layers.append(SqueezeExcitation(wide, divisible(wide // 4)))
        layers.append(Conv2dNormActivation(wide, out, 1, 1, 1, norm_layer, None))
        self.block = nn.Sequential(*layers)
        self.out_channels, self.use_res_connect = out, stride == 1 and channels == out

    def forward(self, input: Tensor) -> Tensor:
        """Return the block of the input, added to it where the shapes are equal."""
        y: Tensor = self.block(input)
        return y + input if self.use_res_connect else y


class MobileNetV3(nn.Module):
    """MobileNet v3 of these blocks; `mobilenet_v3_large` and `mobilenet_v3_small` have the paper's.

    last_channel : the width of the layer before the last. channels : that of the first convolution.

    Shapes: (N, 3, H, W) -> (N, num_classes).

    >>> import core
    >>> model = MobileNetV3(*setting_of(SMALL, 1024, width_mult=0.25), num_classes=10, channels=8)
    >>> model.eval()(core.ones(1, 3, 32, 32)).shape
    core.Size([1, 10])
    """

    def __init__(self, inverted_residual_setting: Sequence[BlockSetting], last_channel: int, num_classes: int = 1000,
                 norm_layer: Layer | None = None, dropout: float = 0.2, channels: int = 16) -> None:  # fmt: skip
        super().__init__()
        norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        features: list[nn.Module] = [Conv2dNormActivation(3, channels, 3, 2, 1, norm, nn.Hardswish)]
        for setting in inverted_residual_setting:
            features.append(InvertedResidual(channels, setting, norm))
            channels = setting.out
        features.append(Conv2dNormActivation(channels, 6 * channels, 1, 1, 1, norm, nn.Hardswish))
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * channels, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        start(self, linear_std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return logits


def _mobilenet(op: str, blocks: Sequence[BlockSetting], last: int, weights: Any,
               settings: dict[str, Any]) -> MobileNetV3:  # fmt: skip
    shape = {name: settings.pop(name) for name in ("width_mult", "reduced_tail", "dilated") if name in settings}

    def make(**more: Any) -> MobileNetV3:
        return MobileNetV3(*setting_of(blocks, last, **shape), channels=divisible(16 * shape.get("width_mult", 1.0)),
                           **more)  # fmt: skip

    return built(op, make, "classifier.3", weights, settings)


def mobilenet_v3_large(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> MobileNetV3:
    """Return MobileNet v3 large: 5.5 million parameters, 0.2 billion multiplications for a picture of 224×224.

    weights : the path of a file with torchvision's keys. progress : as in torchvision's signature, without effect.
    kwargs : `num_classes` (without it the file says how many there are, or there are 1000), `dropout`, `norm_layer`;
        `width_mult`, `reduced_tail` and `dilated`, as `setting_of` takes them.

    >>> sum(p.numel() for p in mobilenet_v3_large().parameters())
    5483032
    """
    return _mobilenet("mobilenet_v3_large", LARGE, 1280, weights, kwargs)


def mobilenet_v3_small(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> MobileNetV3:
    """Return MobileNet v3 small, of 2.5 million parameters; arguments as `mobilenet_v3_large`'s.

    >>> sum(p.numel() for p in mobilenet_v3_small().parameters())
    2542856
    """
    return _mobilenet("mobilenet_v3_small", SMALL, 1024, weights, kwargs)
