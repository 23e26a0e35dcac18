"""What several networks are made of: a convolution with its norm and activation, channels scaled by attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import nn
from ...tensors.tensor import Tensor

Layer = Callable[..., nn.Module]


class Conv2dNormActivation(nn.Sequential):
    """A convolution that keeps the size (stride 1), a norm and an activation, with the keys ``0`` and ``1``.

    activation_layer : None for none.

    Shapes: (N, in_channels, H, W) -> (N, out_channels, ceil(H / stride), ceil(W / stride)) for an odd kernel_size.

    >>> import core
    >>> list(Conv2dNormActivation(3, 8).state_dict())[:3]
    ['0.weight', '1.weight', '1.bias']
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int = 3, stride: int = 1, groups: int = 1,
                 norm_layer: Layer = nn.BatchNorm2d, activation_layer: Layer | None = nn.ReLU,
                 dilation: int = 1) -> None:  # fmt: skip
        layers = [
            nn.Conv2d(in_channels, out_channels, kernel_size, stride, (kernel_size - 1) // 2 * dilation, dilation,
                      groups, bias=False),
            norm_layer(out_channels),
        ]  # fmt: skip
        if activation_layer is not None:
            layers.append(activation_layer(inplace=True))
        super().__init__(*layers)
        self.out_channels = out_channels


class SqueezeExcitation(nn.Module):
    """Channels scaled by what their means say, with the keys ``fc1`` and ``fc2``. Source: arXiv 1709.01507.

    Shapes: (N, input_channels, H, W), kept.

    >>> import core
    >>> SqueezeExcitation(8, 2)(core.ones(1, 8, 4, 4)).shape
    core.Size([1, 8, 4, 4])
    """

    def __init__(self, input_channels: int, squeeze_channels: int, activation: Layer = nn.ReLU,
                 scale_activation: Layer = nn.Hardsigmoid) -> None:  # fmt: skip
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        """Return the input times a number for each picture and channel."""
        squeezed = self.activation(self.fc1(self.avgpool(input)))
        scaled: Tensor = input * self.scale_activation(self.fc2(squeezed))
        return scaled


def divisible(channels: float, by: int = 8) -> int:
    """Return the nearest multiple of `by` that is not below nine tenths of the channels, and not 0.

    >>> divisible(32 * 0.5), divisible(3), divisible(19)
    (16, 8, 24)
    """
    nearest = max(by, int(channels + by / 2) // by * by)
    return nearest + by if nearest < 0.9 * channels else nearest


def start(module: nn.Module, linear_std: float | None = None, **normal: Any) -> None:
    """Give convolutions normal weights for ReLU, by the number of outputs (arXiv 1502.01852), norms 1 and 0.

    linear_std : how far linear layers' weights spread; None leaves them.
    """
    for m in module.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", **normal)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.BatchNorm2d | nn.GroupNorm) and m.weight is not None and m.bias is not None:
            nn.init.ones_(m.weight)
            nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear) and linear_std is not None:
            nn.init.normal_(m.weight, 0.0, linear_std)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
