"""PyTorch's ``ao.nn``: layers of fewer bits, layers that train for it, and layers joined to one."""

from __future__ import annotations

from . import intrinsic, qat, quantized

__all__ = ["intrinsic", "qat", "quantized"]
