"""PyTorch's ``ao.quantization``: the modules that models carry for it. What rounds models is not here, and refuses."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base.absent import absent_names
from ..nn.quantized import DeQuantStub, QuantStub

__all__ = ["DeQuantStub", "QConfig", "QuantStub"]


class QConfig(NamedTuple):
    """What would watch a layer's results and its weights: two classes, or functions that make their instances."""

    activation: Any
    weight: Any


QConfigAny = QConfig | None

__getattr__ = absent_names(__name__, "core.fake_quantize_per_tensor_affine, or run this part on PyTorch")
