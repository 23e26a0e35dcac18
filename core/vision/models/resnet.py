"""ResNet: deep networks whose blocks add to what they are given. Source: arXiv 1512.03385.

The keys are torchvision's. The stride of a `Bottleneck` is that of its 3×3 convolution, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ... import nn
from ...base.errors import text
from ...tensors.tensor import Tensor
from .blocks import Layer, start
from .weights import built


def _conv3(channels: int, planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, planes, 3, stride, dilation, dilation, groups, bias=False)


def _conv1(channels: int, planes: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions, and the input added: the block of ResNet-18 and 34.

    downsample : what brings the input to the output's shape, where they differ.

    Shapes: (N, inplanes, H, W) -> (N, planes, H / stride, W / stride).

    *Raises*: ValueError for groups, another base_width or a dilation, which only `Bottleneck` has.

    >>> import core
    >>> BasicBlock(4, 4)(core.ones(1, 4, 8, 8)).shape
    core.Size([1, 4, 8, 8])
    """

    expansion: ClassVar[int] = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
                 groups: int = 1, base_width: int = 64, dilation: int = 1,
                 norm_layer: Layer | None = None) -> None:  # fmt: skip
        super().__init__()
        if (groups, base_width, dilation) != (1, 64, 1):
            raise ValueError(
                text("BasicBlock only supports groups=1 and base_width=64, and no dilation", op="BasicBlock",
                     came=f"groups={groups}, base_width={base_width}, dilation={dilation}", remedy="Bottleneck")
            )  # fmt: skip
        norm = norm_layer or nn.BatchNorm2d
        self.conv1, self.bn1 = _conv3(inplanes, planes, stride), norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = _conv3(planes, planes), norm(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of x, added to x."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return _added(self, x, y)


class Bottleneck(nn.Module):
    """A 1×1, a 3×3 and a 1×1 convolution, and the input added: the block of ResNet-50 and deeper ones.

    groups, base_width : of the 3×3 convolution; those of ResNeXt (arXiv 1611.05431) and wide ResNet (arXiv 1605.07146).

    Shapes: (N, inplanes, H, W) -> (N, 4 planes, H / stride, W / stride).

    >>> import core
    >>> Bottleneck(16, 4)(core.ones(1, 16, 8, 8)).shape
    core.Size([1, 16, 8, 8])
    """

    expansion: ClassVar[int] = 4

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
                 groups: int = 1, base_width: int = 64, dilation: int = 1,
                 norm_layer: Layer | None = None) -> None:  # fmt: skip
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width, outplanes = planes * base_width // 64 * groups, planes * self.expansion
        self.conv1, self.bn1 = _conv1(inplanes, width), norm(width)
        self.conv2, self.bn2 = _conv3(width, width, stride, groups, dilation), norm(width)
        self.conv3, self.bn3 = _conv1(width, outplanes), norm(outplanes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of x, added to x."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return _added(self, x, self.bn3(self.conv3(y)))


def _added(block: Any, x: Tensor, y: Tensor) -> Tensor:
    shortcut = x if block.downsample is None else block.downsample(x)
    sum_: Tensor = block.relu(y + shortcut)
    return sum_


class ResNet(nn.Module):
    """A 7×7 convolution, a maximum pool, four stages of blocks, the mean of each channel, and a linear layer.

    block, layers : the class of blocks, and how many of them each stage has
    zero_init_residual : whether the last norm of a block begins at 0, so that the block adds nothing at first
    groups, width_per_group : of the blocks' 3×3 convolutions
    replace_stride_with_dilation : for each of the last three stages, whether it keeps the size and dilates instead
    norm_layer : the class of norms

    Shapes: (N, 3, H, W) -> (N, num_classes).

    >>> import core
    >>> model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)
    >>> model(core.ones(2, 3, 32, 32)).shape
    core.Size([2, 10])
    """

    def __init__(self, block: type[BasicBlock | Bottleneck], layers: Sequence[int], num_classes: int = 1000,
                 zero_init_residual: bool = False, groups: int = 1, width_per_group: int = 64,
                 replace_stride_with_dilation: Sequence[bool] | None = None,
                 norm_layer: Layer | None = None) -> None:  # fmt: skip
        super().__init__()
        dilated = (False, *(replace_stride_with_dilation or (False,) * 3))
        if len(dilated) != 4:
            raise ValueError(
                text("replace_stride_with_dilation should be None or a 3-element tuple", op="ResNet",
                     came=repr(replace_stride_with_dilation), needed="one for each of layer2, layer3 and layer4")
            )  # fmt: skip
        norm = norm_layer or nn.BatchNorm2d
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1, self.relu, self.maxpool = norm(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1)
        width, dilation = 64, 1
        for stage, (count, dilate) in enumerate(zip(layers, dilated, strict=True)):
            planes, stride, before = 64 * 2**stage, 1 if stage == 0 else 2, dilation
            if dilate:
                stride, dilation = 1, dilation * stride
            blocks = []
            for first in [True] + [False] * (count - 1):
                step, shortcut = stride if first else 1, None
                if step != 1 or width != planes * block.expansion:
                    outplanes = planes * block.expansion
                    shortcut = nn.Sequential(_conv1(width, outplanes, step), norm(outplanes))
                blocks.append(block(width, planes, step, shortcut, groups, width_per_group,
                                    before if first else dilation, norm))  # fmt: skip
                width = planes * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, num_classes)
        start(self, nonlinearity="relu")
        for m in self.modules() if zero_init_residual else ():
            if isinstance(m, BasicBlock | Bottleneck):
                nn.init.zeros_((m.bn3 if isinstance(m, Bottleneck) else m.bn2).weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        logits: Tensor = self.fc(self.avgpool(x).flatten(1))  # type: ignore[attr-defined]
        return logits


def _resnet(op: str, block: Any, layers: Sequence[int], weights: Any, settings: dict[str, Any]) -> ResNet:
    return built(op, lambda **more: ResNet(block, layers, **more), "fc", weights, settings)


def resnet18(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """Return ResNet-18: 11.7 million parameters, 1.8 billion multiplications for a picture of 224×224.

    weights : the path of a file with torchvision's keys. progress : as in torchvision's signature, without effect.
    kwargs : as `ResNet` takes them; without `num_classes` the file says how many there are, or there are 1000.

    >>> import core
    >>> sum(p.numel() for p in resnet18().parameters())
    11689512
    """
    return _resnet("resnet18", BasicBlock, (2, 2, 2, 2), weights, kwargs)


def resnet34(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """Return ResNet-34, of 21.8 million parameters; arguments as `resnet18`'s.

    >>> len(resnet34(num_classes=10).layer3)
    6
    """
    return _resnet("resnet34", BasicBlock, (3, 4, 6, 3), weights, kwargs)


def resnet50(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """Return ResNet-50, of 25.6 million parameters; arguments as `resnet18`'s.

    >>> resnet50(num_classes=10).fc
    Linear(in_features=2048, out_features=10, bias=True)
    """
    return _resnet("resnet50", Bottleneck, (3, 4, 6, 3), weights, kwargs)


def resnet101(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> ResNet:
    """Return ResNet-101, of 44.5 million parameters; arguments as `resnet18`'s.

    >>> len(resnet101(num_classes=10).layer3)
    23
    """
    return _resnet("resnet101", Bottleneck, (3, 4, 23, 3), weights, kwargs)
