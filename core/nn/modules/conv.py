"""Convolution layers: `Conv1d` to `Conv3d` and their transposes."""

from __future__ import annotations

import math
from typing import Any

from ...ops.creation import empty
from ...tensors.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import MaybeParameter, Parameter
from .module import Module

_MODES = ("zeros", "reflect", "replicate", "circular")


def tuple_of(value: Any, n: int) -> tuple[Any, ...]:
    """Return a setting of each of `n` dimensions; one value stands for all."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * n


class _ConvNd(Module):
    """What the six layers share: their settings, weight and bias. Weights start uniform in ±1/sqrt(fan in)."""

    n = 1
    transposed = False
    bias: MaybeParameter

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                 output_padding: Any, groups: int, bias: bool, padding_mode: str, device: Any,
                 dtype: Any) -> None:  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of ['same', 'valid']")
            if padding == "same" and any(s != 1 for s in tuple_of(stride, self.n)):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {set(_MODES)}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = tuple_of(kernel_size, self.n), tuple_of(stride, self.n)
        self.padding: Any = padding if isinstance(padding, str) else tuple_of(padding, self.n)
        self.dilation, self.output_padding = tuple_of(dilation, self.n), tuple_of(output_padding, self.n)
        self.padding_mode = padding_mode
        channels = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(empty(*channels, *self.kernel_size, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew. Source: arXiv 1502.01852 with a = sqrt(5), as PyTorch has it."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * self.n:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self.n:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * self.n:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(_ConvNd):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
                         padding_mode, device, dtype)  # fmt: skip

    def _border(self) -> list[int]:
        """Return what F.pad takes, the last dimension first."""
        border: list[int] = []
        for d in reversed(range(self.n)):
            if self.padding == "same":
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                border += [total // 2, total - total // 2]
            else:
                border += [0, 0] if self.padding == "valid" else [self.padding[d]] * 2
        return border

    def forward(self, input: Tensor) -> Tensor:
        function, padding = getattr(F, f"conv{self.n}d"), self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._border(), self.padding_mode), 0
        y: Tensor = function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
        return y


class Conv1d(_Conv):
    """A convolution along one dimension; the weight is ``(out_channels, in_channels / groups, kernel_size)``.

    *Shapes*: ``(N, in_channels, L)`` or ``(in_channels, L)``. See `nn.functional.conv1d`.

    >>> import core
    >>> core.nn.Conv1d(3, 4, 2)(core.ones(5, 3, 8)).shape
    core.Size([5, 4, 7])
    """

    n = 1


class Conv2d(_Conv):
    """A convolution over images; the weight is ``(out_channels, in_channels / groups, *kernel_size)``.

    *Shapes*: ``(N, in_channels, H, W)`` or ``(in_channels, H, W)``. See `nn.functional.conv2d`.

    >>> import core
    >>> layer = core.nn.Conv2d(3, 4, 3, padding=1)
    >>> layer(core.ones(5, 3, 8, 8)).shape, layer
    (core.Size([5, 4, 8, 8]), Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)))
    """

    n = 2


class Conv3d(_Conv):
    """A convolution over volumes; the weight is ``(out_channels, in_channels / groups, *kernel_size)``.

    *Shapes*: ``(N, in_channels, D, H, W)`` or without N. See `nn.functional.conv3d`.

    >>> import core
    >>> core.nn.Conv3d(1, 2, 2)(core.ones(1, 1, 3, 3, 3)).shape
    core.Size([1, 2, 2, 2, 2])
    """

    n = 3


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
                 output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
                 padding_mode: str = "zeros", device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups,
                         bias, padding_mode, device, dtype)  # fmt: skip

    def _extra(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        if output_size is None:
            return self.output_padding
        wanted = tuple(int(v) for v in output_size)[-self.n :]
        extra = []
        have = input.shape[input.ndim - self.n :]
        for m, v, k, s, p, d in zip(have, wanted, self.kernel_size, self.stride, self.padding, self.dilation,
                                    strict=True):  # fmt: skip
            least = (m - 1) * s - 2 * p + d * (k - 1) + 1
            if not least <= v <= least + s - 1:
                raise ValueError(f"requested an output size of {list(wanted)}, but valid sizes range from {least} to "
                                 f"{least + s - 1} (for an input of {list(have)})")  # fmt: skip
            extra.append(v - least)
        return tuple(extra)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        y: Tensor = getattr(F, f"conv_transpose{self.n}d")(input, self.weight, self.bias, self.stride, self.padding,
                                                           self._extra(input, output_size), self.groups,
                                                           self.dilation)  # fmt: skip
        return y


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d`; the weight is ``(in_channels, out_channels / groups, kernel_size)``.

    >>> import core
    >>> core.nn.ConvTranspose1d(3, 4, 2, stride=2)(core.ones(5, 3, 8)).shape
    core.Size([5, 4, 16])
    """

    n = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d`; the weight is ``(in_channels, out_channels / groups, *kernel_size)``.

    >>> import core
    >>> core.nn.ConvTranspose2d(3, 4, 2, stride=2)(core.ones(5, 3, 8, 8)).shape
    core.Size([5, 4, 16, 16])
    """

    n = 2


class ConvTranspose3d(_ConvTranspose):
    """The transpose of `Conv3d`; the weight is ``(in_channels, out_channels / groups, *kernel_size)``.

    >>> import core
    >>> core.nn.ConvTranspose3d(1, 2, 2)(core.ones(1, 1, 3, 3, 3)).shape
    core.Size([1, 2, 4, 4, 4])
    """

    n = 3
