"""What `lab.fit` asks of a batch: its samples, its device, its shapes in words."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from core.tensors.tensor import Tensor


def shapes(batch: Any) -> str:
    """Return what a batch consists of, for a message.

    >>> import core
    >>> shapes((core.zeros(4, 3), [1, 2]))
    'float32 (4, 3), list of 2'
    """
    if isinstance(batch, Tensor):
        return f"{str(batch.dtype).removeprefix('core.')} {tuple(batch.shape)}"
    if isinstance(batch, Mapping):
        return ", ".join(f"{name}: {shapes(value)}" for name, value in batch.items())
    if isinstance(batch, list | tuple) and any(isinstance(b, Tensor) for b in batch):
        return ", ".join(map(shapes, batch))
    return f"{type(batch).__name__} of {len(batch)}" if hasattr(batch, "__len__") else type(batch).__name__


def samples(batch: Any) -> int:
    """Return how many samples a batch has: the length of its first tensor.

    >>> import core
    >>> samples((core.zeros(4, 3), core.zeros(4)))
    4
    """
    first = batch
    while not isinstance(first, Tensor):
        if isinstance(first, list | tuple) and first:
            first = first[0]
        elif isinstance(first, Mapping) and first:
            first = next(iter(first.values()))
        else:
            return 1
    return len(first._a) if first._a.ndim else 1


def to_device(batch: Any, device: Any) -> Any:
    """Return a batch whose tensors are on the model's device; itself where they are there."""
    if isinstance(batch, Tensor):
        return batch if batch._kind.device is device else batch.to(device)
    if isinstance(batch, list | tuple):
        moved = [to_device(value, device) for value in batch]
        if all(map(operator.is_, moved, batch)):
            return batch
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    if isinstance(batch, Mapping):
        return {name: to_device(value, device) for name, value in batch.items()}
    return batch
