"""PyTorch's questions about whichever accelerator is there: answered by `core.cuda`; on the CPU there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from . import cuda
from .base.device import device as Device
from .base.errors import text

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
           "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info",
           "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
           "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx",
           "set_device_index", "set_stream", "synchronize"]  # fmt: skip


def is_available() -> bool:
    """Return whether there is an accelerator.

    >>> import core
    >>> core.accelerator.is_available() == core.cuda.is_available()
    True
    """
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> Any:
    """Return its device, ``cuda``; None where there is none."""
    return Device("cuda") if is_available() else None


def device_count() -> int:
    """Return how many devices it has."""
    return cuda.device_count() if is_available() else 0


def _there(op: str) -> Any:
    """Return what answers. *Raises*: RuntimeError where there is no accelerator."""
    if not is_available():
        raise RuntimeError(text("Cannot access accelerator device when none is available.", op=f"accelerator.{op}",
                                came=cuda.reason(), remedy="ask core.accelerator.is_available() first"))  # fmt: skip
    return cuda


def current_device_index() -> int:
    """Return the number of the device on which new tensors are made. *Raises*: RuntimeError where there is none."""
    return int(_there("current_device_index").current_device())


def set_device_index(device: Any, /) -> None:
    """Choose the device on which new tensors are made. *Raises*: RuntimeError where there is none."""
    _there("set_device_index").set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


@contextlib.contextmanager
def device_index(device: int | None, /) -> Iterator[None]:
    """A block with another device for new tensors; with None, as it is."""
    if device is None:
        yield
        return
    with _there("device_index").device(device):
        yield


def current_stream(device: Any = None, /) -> Any:
    """Return the stream of a device. *Raises*: RuntimeError where there is none."""
    return _there("current_stream").current_stream(device)


def set_stream(stream: Any) -> None:
    """Choose the stream. *Raises*: RuntimeError where there is no accelerator."""
    _there("set_stream").set_stream(stream)


def synchronize(device: Any = None, /) -> None:
    """Wait for the device; on the CPU there is nothing to wait for."""
    if is_available():
        cuda.synchronize(device)


def empty_cache() -> None:
    """Give memory back that the device keeps for later."""
    if is_available():
        cuda.empty_cache()


def empty_host_cache() -> None:
    """Give pinned memory back: none is kept."""


def get_device_capability(device: Any = None, /) -> Any:
    """Return what the device can do. *Raises*: RuntimeError where there is none."""
    return _there("get_device_capability").get_device_capability(device)


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Return the free and the total bytes of the device. *Raises*: RuntimeError where there is none."""
    free, total = _there("get_memory_info").mem_get_info(device_index)
    return int(free), int(total)


def _bytes(name: str, device: Any) -> int:
    return int(getattr(cuda, name)(device)) if is_available() else 0


def memory_allocated(device_index: Any = None, /) -> int:
    """Return the bytes of tensors on the device: 0 where there is none."""
    return _bytes("memory_allocated", device_index)


def memory_reserved(device_index: Any = None, /) -> int:
    """Return the bytes that are kept on the device: 0 where there is none."""
    return _bytes("memory_reserved", device_index)


def max_memory_allocated(device_index: Any = None, /) -> int:
    """Return the most bytes of tensors that there were: 0 where there is no device."""
    return _bytes("max_memory_allocated", device_index)


def max_memory_reserved(device_index: Any = None, /) -> int:
    """Return the most bytes that were kept: 0 where there is no device."""
    return _bytes("max_memory_reserved", device_index)


def memory_stats(device_index: Any = None, /) -> dict[str, Any]:
    """Return figures of the device's memory: none where there is no device."""
    return dict(cuda.memory_stats(device_index)) if is_available() else {}


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Begin to count the most bytes anew."""
    if is_available():
        cuda.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Begin to count what was allocated anew: it is not counted."""
