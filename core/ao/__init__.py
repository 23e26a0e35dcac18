"""PyTorch's ``ao``: models in fewer bits."""

from __future__ import annotations

from . import quantization  # isort: skip - before nn, of which it has the parts
from . import nn

__all__ = ["nn", "quantization"]
