"""Sequences of layers that count as one. Each says of which layers it is made."""

from __future__ import annotations

from typing import Any

from ....base.errors import text
from ....nn.modules import activation, batchnorm, container, conv, linear


class _FusedModule(container.Sequential):
    """A sequence that is watched and rounded as a whole."""

    of: tuple[type[Any], ...] = ()

    def __init__(self, *layers: Any) -> None:
        if len(layers) != len(self.of) or not all(isinstance(m, c) for m, c in zip(layers, self.of, strict=True)):
            raise AssertionError(text("Incorrect types for input modules", op=type(self).__name__,
                                      came=", ".join(type(m).__name__ for m in layers),
                                      needed=", ".join(c.__name__ for c in self.of)))  # fmt: skip
        super().__init__(*layers)


class ConvReLU1d(_FusedModule):
    """`Conv1d` and `ReLU`."""

    of = (conv.Conv1d, activation.ReLU)


class ConvReLU2d(_FusedModule):
    """`Conv2d` and `ReLU`."""

    of = (conv.Conv2d, activation.ReLU)


class ConvReLU3d(_FusedModule):
    """`Conv3d` and `ReLU`."""

    of = (conv.Conv3d, activation.ReLU)


class ConvBn1d(_FusedModule):
    """`Conv1d` and `BatchNorm1d`, before training."""

    of = (conv.Conv1d, batchnorm.BatchNorm1d)


class ConvBn2d(_FusedModule):
    """`Conv2d` and `BatchNorm2d`, before training."""

    of = (conv.Conv2d, batchnorm.BatchNorm2d)


class ConvBn3d(_FusedModule):
    """`Conv3d` and `BatchNorm3d`, before training."""

    of = (conv.Conv3d, batchnorm.BatchNorm3d)


class ConvBnReLU1d(_FusedModule):
    """`Conv1d`, `BatchNorm1d` and `ReLU`, before training."""

    of = (conv.Conv1d, batchnorm.BatchNorm1d, activation.ReLU)


class ConvBnReLU2d(_FusedModule):
    """`Conv2d`, `BatchNorm2d` and `ReLU`, before training."""

    of = (conv.Conv2d, batchnorm.BatchNorm2d, activation.ReLU)


class ConvBnReLU3d(_FusedModule):
    """`Conv3d`, `BatchNorm3d` and `ReLU`, before training."""

    of = (conv.Conv3d, batchnorm.BatchNorm3d, activation.ReLU)


class BNReLU2d(_FusedModule):
    """`BatchNorm2d` and `ReLU`."""

    of = (batchnorm.BatchNorm2d, activation.ReLU)


class BNReLU3d(_FusedModule):
    """`BatchNorm3d` and `ReLU`."""

    of = (batchnorm.BatchNorm3d, activation.ReLU)


class LinearReLU(_FusedModule):
    """`Linear` and `ReLU`."""

    of = (linear.Linear, activation.ReLU)


class LinearBn1d(_FusedModule):
    """`Linear` and `BatchNorm1d`, before training."""

    of = (linear.Linear, batchnorm.BatchNorm1d)
