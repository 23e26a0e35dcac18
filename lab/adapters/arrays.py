"""Tensors of another library as NumPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def values(t: Any) -> Any:
    """Return the values of another library's tensor as NumPy's array."""
    t = t.detach() if hasattr(t, "detach") else t
    if str(getattr(t, "dtype", "")).endswith("bfloat16"):
        t = t.float()
    return as_array(t.cpu()) if hasattr(t, "cpu") else t


def as_array(t: Any) -> Any:
    """Return a PyTorch tensor on the CPU, without a gradient, as NumPy's array over the same memory.

    By DLPack: `t.numpy()` marks the tensor's storage as one that cannot be resized any more, for good, and a program's
    own `resize_` would fail after the recorder has looked.
    """
    return np.from_dlpack(t)
