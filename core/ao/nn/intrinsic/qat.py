"""Joined layers that train for fewer bits.

With a batch norm the weight is rounded as it will be when the norm is folded into it: times ``gamma / sqrt(running_var
+ eps)``; what the convolution gives is divided by that again before the norm. Source: Jacob et al., arXiv 1712.05877;
Krishnamoorthi, arXiv 1806.08342.
"""

from __future__ import annotations

from typing import Any, Self

from ....base.modes import no_grad
from ....nn import functional as F
from ....nn.modules import conv, linear
from ....nn.utils.fusion import fuse_conv_bn_weights
from .. import qat


class _WithReLU:
    """What ends in a `ReLU`."""

    def forward(self, input: Any) -> Any:
        return F.relu(super().forward(input))  # type: ignore[misc]


class LinearReLU(_WithReLU, qat.Linear):
    """`Linear` and `ReLU` that round the weight in each forward."""


class ConvReLU1d(_WithReLU, qat.Conv1d):
    """`Conv1d` and `ReLU` that round the weight in each forward."""


class ConvReLU2d(_WithReLU, qat.Conv2d):
    """`Conv2d` and `ReLU` that round the weight in each forward."""


class ConvReLU3d(_WithReLU, qat.Conv3d):
    """`Conv3d` and `ReLU` that round the weight in each forward."""


class _WithNorm:
    """A layer, and the batch norm behind it."""

    bn: Any
    bias: Any
    weight_fake_quant: Any
    training: bool
    _parameters: dict[str, Any]
    freeze_bn = False

    def forward(self, input: Any) -> Any:
        bn, own = self.bn, self._parameters
        scale = (bn.running_var + bn.eps).rsqrt()
        scale = scale if bn.weight is None else bn.weight * scale
        weight, bias = own["weight"], own["bias"]
        try:
            own["weight"] = self.weight_fake_quant(weight * scale.reshape(-1, *[1] * (weight.ndim - 1)))
            own["bias"] = None
            y = super().forward(input)  # type: ignore[misc]
        finally:
            own["weight"], own["bias"] = weight, bias
        spread = (-1, *[1] * (weight.ndim - 2))
        y = y / scale.reshape(spread)
        return bn(y if bias is None else y + bias.reshape(spread))

    def train(self, mode: bool = True) -> Self:
        """Set the mode; a norm whose statistics are frozen stays in evaluation."""
        super().train(mode)  # type: ignore[misc]
        if self.freeze_bn:
            self.bn.eval()
        return self

    def freeze_bn_stats(self) -> Self:
        """Keep the norm's statistics from now on, and normalise by them in training too."""
        self.freeze_bn = True
        self.bn.eval()
        return self

    def update_bn_stats(self) -> Self:
        """Let the norm's statistics follow the batches again."""
        self.freeze_bn = False
        self.bn.train(self.training)
        return self

    def fold(self) -> None:
        """Write the norm into the weight and the bias."""
        bn = self.bn
        with no_grad():
            weight, bias = fuse_conv_bn_weights(self._parameters["weight"], self.bias, bn.running_mean, bn.running_var,
                                                bn.eps, bn.weight, bn.bias)  # fmt: skip
        self._parameters["weight"], self._parameters["bias"] = weight, bias


class LinearBn1d(_WithNorm, linear.Linear):
    """`Linear` and `BatchNorm1d` that train together."""


class ConvBn1d(_WithNorm, conv.Conv1d):
    """`Conv1d` and `BatchNorm1d` that train together."""


class ConvBn2d(_WithNorm, conv.Conv2d):
    """`Conv2d` and `BatchNorm2d` that train together."""


class ConvBn3d(_WithNorm, conv.Conv3d):
    """`Conv3d` and `BatchNorm3d` that train together."""


class ConvBnReLU1d(_WithReLU, ConvBn1d):
    """`Conv1d`, `BatchNorm1d` and `ReLU` that train together."""


class ConvBnReLU2d(_WithReLU, ConvBn2d):
    """`Conv2d`, `BatchNorm2d` and `ReLU` that train together."""


class ConvBnReLU3d(_WithReLU, ConvBn3d):
    """`Conv3d`, `BatchNorm3d` and `ReLU` that train together."""


def freeze_bn_stats(mod: Any) -> None:
    """Freeze the statistics of a norm that trains with the layer before it; for ``model.apply(freeze_bn_stats)``."""
    if isinstance(mod, _WithNorm):
        mod.freeze_bn_stats()


def update_bn_stats(mod: Any) -> None:
    """Let such a norm's statistics follow the batches; for ``model.apply(update_bn_stats)``."""
    if isinstance(mod, _WithNorm):
        mod.update_bn_stats()
