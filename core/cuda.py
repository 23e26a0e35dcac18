"""The device `cuda`, as PyTorch's `torch.cuda` asks after it."""

from __future__ import annotations

from .backends import cuda as _rows


def is_available() -> bool:
    """Whether tensors can live on `cuda`: a GPU with CuPy, or Triton's interpreter (TRITON_INTERPRET=1)."""
    return _rows.availability()[0]


def reason() -> str:
    """Why the device is there, or why it is not, in a sentence."""
    return _rows.availability()[1]


def device_count() -> int:
    """How many devices there are."""
    return _rows.device_count()


def synchronize(device: object = None) -> None:
    """Wait until the device has done what it was told."""
    import numpy as np

    if is_available() and _rows.array_library() is not np:
        _rows.array_library().cuda.Device().synchronize()
