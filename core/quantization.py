"""PyTorch's older path of `core.ao.quantization`: the same names.

>>> import core
>>> core.quantization.quantize_dynamic is core.ao.quantization.quantize_dynamic
True
"""

from __future__ import annotations

from typing import Any

from .ao import quantization
from .ao.quantization import *  # noqa: F403

__all__ = quantization.__all__


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # its files are not this module's
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(quantization, name)
