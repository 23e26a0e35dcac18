"""Batches from samples: tensors, arrays and numbers are stacked; lists, tuples and dicts are gone into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...creation import as_tensor, tensor
from ...dtypes import float64
from ...op import functions
from ...tensor import Tensor
from .pinning import rebuilt

_TEXT = "SaUO"


def _error(found: Any) -> TypeError:
    return TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {found}\n"
        "  remedy: a collate_fn of your own: DataLoader(..., collate_fn=...)"
    )


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples as one: numbers become a tensor (floats float64), tensors and arrays are stacked.

    *Raises*: TypeError for other values, RuntimeError for samples of different lengths or shapes.

    >>> import core
    >>> core.utils.data.default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.], dtype=core.float64)]
    """
    first: Any = batch[0]
    if isinstance(first, Tensor):
        return functions["stack"](list(batch), 0)
    if isinstance(first, np.ndarray):
        if first.dtype.kind in _TEXT:
            raise _error(first.dtype)
        return functions["stack"]([as_tensor(b) for b in batch], 0)
    if isinstance(first, np.generic) and not isinstance(first, str | bytes):
        return as_tensor(np.array(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return rebuilt(first, {key: default_collate([b[key] for b in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(samples) for samples in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(samples) for samples in zip(*batch, strict=True)]
        return parts if isinstance(first, tuple) else rebuilt(first, parts)
    raise _error(type(first))


def default_convert(data: Any) -> Any:
    """One sample with its arrays as tensors, where nothing is batched.

    >>> import core
    >>> core.utils.data.default_convert({"a": "text", "b": 1})
    {'a': 'text', 'b': 1}
    """
    if isinstance(data, np.ndarray | np.generic) and not isinstance(data, str | bytes):
        if data.dtype.kind in _TEXT:
            return data
        return as_tensor(data) if isinstance(data, np.ndarray) else tensor(data)
    if isinstance(data, Mapping):
        return rebuilt(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return rebuilt(data, [default_convert(d) for d in data])
    return data
