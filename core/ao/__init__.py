"""PyTorch's ``ao``: of its quantisation, the parts that change no numbers."""

from __future__ import annotations

from . import quantization

__all__ = ["quantization"]
