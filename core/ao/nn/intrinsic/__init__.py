"""Layers joined to one, as `fuse_modules` makes them: sequences that are watched and rounded as a whole.

>>> import core
>>> core.ao.nn.intrinsic.LinearReLU(core.nn.Linear(2, 1), core.nn.ReLU())
LinearReLU(
  (0): Linear(in_features=2, out_features=1, bias=True)
  (1): ReLU()
)
"""

from __future__ import annotations

from . import qat
from .joined import (
    BNReLU2d,
    BNReLU3d,
    ConvBn1d,
    ConvBn2d,
    ConvBn3d,
    ConvBnReLU1d,
    ConvBnReLU2d,
    ConvBnReLU3d,
    ConvReLU1d,
    ConvReLU2d,
    ConvReLU3d,
    LinearBn1d,
    LinearReLU,
    _FusedModule,
)

__all__ = ["BNReLU2d", "BNReLU3d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
           "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearReLU", "_FusedModule", "qat"]  # fmt: skip
