"""The device `cpu`, as PyTorch's `torch.cpu` asks after it."""

from __future__ import annotations

import os
import platform
from typing import Any


def is_available() -> bool:
    """Return whether tensors can live on the CPU: yes."""
    return True


def device_count() -> int:
    """Return how many devices there are: one."""
    return 1


def synchronize(device: object = None) -> None:
    """Nothing to wait for: every op is done when it returns."""


def get_capabilities() -> dict[str, Any]:
    """Return what the processor can: its architecture, and the vectors that the kernels were compiled for."""
    return {"architecture": platform.machine(), "num_threads": os.cpu_count()}


def __getattr__(name: str) -> Any:  # loaded when asked for: it stands on what imports this
    if name != "amp":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(".amp", __name__)
