"""Batches in page-locked memory, from which a GPU copies by itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from ... import cuda
from ...base.source import warn


def pins(loader: Any) -> bool:
    """Return whether a loader's batches are to be pinned; warns where they should be and nothing is there to pin
    them for."""
    if not loader.pin_memory:
        return False
    if loader.pin_memory_device:
        warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device, "
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
        )
    if cuda.is_available():
        return True
    warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.\n"
        f"  reason: {cuda.reason()}",
    )
    return False


def pin(data: Any) -> Any:
    """Return a batch with its tensors pinned, and whatever else has a method `pin_memory`."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, Mapping):
        return rebuilt(data, {key: pin(value) for key, value in data.items()})
    if isinstance(data, tuple):
        items = [pin(d) for d in data]
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    if isinstance(data, Sequence):
        return rebuilt(data, [pin(d) for d in data])
    return data


def pin_memory(data: Any, device: Any = None) -> Any:
    """Return a batch with its tensors in page-locked memory; where no GPU is, as it is."""
    return pin(data)


def rebuilt(like: Any, items: Mapping[Any, Any] | list[Any]) -> Any:
    """Return a container of the kind of `like`; a plain dict or list where its class cannot be made so."""
    try:
        clone: Any
        if isinstance(like, MutableMapping):
            clone = copy.copy(like)
            clone.update(items)
            return clone
        if isinstance(like, MutableSequence):
            clone = copy.copy(like)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(like)(items)
    except TypeError:
        return items
