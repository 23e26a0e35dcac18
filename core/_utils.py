"""PyTorch's helpers by their names in ``torch._utils``, as far as packages touch them."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from . import accelerator, cpu, cuda
from .base.device import device as Device
from .ops.joining import cat
from .tensors.tensor import Tensor

_MODULES = {"cpu": cpu, "cuda": cuda}


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the number of a device; that of the current one where it has none and `optional` says so.

    *Raises*: ValueError for a device without a number.
    """
    if isinstance(device, int):
        return device
    found = None if device is None else Device(device)
    if found is not None and found.type == "cpu" and allow_cpu:
        return -1
    index = None if found is None else found.index
    if index is None:
        if not optional:
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
        return accelerator.current_device_index() if accelerator.is_available() else -1
    return int(index)


def _get_available_device_type() -> str | None:
    """Return the name of the accelerator's device; None where there is none."""
    return "cuda" if cuda.is_available() else None


def _get_device_module(device_type: str) -> types.ModuleType:
    """Return the module that is asked about a device. *Raises*: RuntimeError for one that is not there."""
    if device_type not in _MODULES:
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module registered as "
                           f"'torch.{device_type}'.")  # fmt: skip
    return _MODULES[device_type]


def _element_size(dtype: Any) -> int:
    """Return the bytes of an element of a dtype."""
    return int(dtype.itemsize)


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of tensors as one vector."""
    found: Tensor = cat([t.reshape(-1) for t in tensors])  # type: ignore[attr-defined]
    return found


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return a vector in parts of the shapes of tensors."""
    found, at = [], 0
    for t in tensors:
        found.append(flat[at : at + t.numel()].view(t.shape))
        at += t.numel()
    return tuple(found)


def is_compiling() -> bool:
    """Return False: what runs is the program itself."""
    return False


class ExceptionWrapper:
    """An error of another thread or process with its traceback as text, which `reraise` raises."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        self.exc_type, self.error, self.where = exc_info[0], exc_info[1], where

    def reraise(self) -> None:
        """Raise the error."""
        raise self.error
