"""The device `cpu`, as PyTorch's `torch.cpu` asks after it."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Return whether tensors can live on the CPU: yes."""
    return True


def device_count() -> int:
    """Return how many devices there are: one."""
    return 1


def synchronize(device: object = None) -> None:
    """Nothing to wait for: every op is done when it returns."""


def __getattr__(name: str) -> Any:  # loaded when asked for: it stands on what imports this
    if name != "amp":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(".amp", __name__)
