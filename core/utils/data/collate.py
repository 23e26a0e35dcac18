"""Batches from samples: tensors, arrays and numbers are stacked; lists, tuples and dicts are gone into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.dtypes import float64
from ...base.errors import text
from ...declare.op import functions
from ...ops.creation import as_tensor, tensor
from ...tensors.tensor import Tensor
from .pinning import rebuilt

_TEXT = "SaUO"
_OWN = "a collate_fn that pads or crops them, such as one with nn.utils.rnn.pad_sequence; or batch_size=1"


def _error(found: Any) -> TypeError:
    return TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {found}\n"
        "  remedy: a collate_fn of your own: DataLoader(..., collate_fn=...)"
    )


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Return a batch of samples as one, where `collate_fn_map` says for each type how; containers are gone into.

    Each function is called with the samples and the map by its name. The first type that fits decides: first the
    samples' own, then those it is derived from.

    >>> from core.utils.data.collate import collate, default_collate_fn_map
    >>> collate([("a", 1), ("b", 2)], collate_fn_map={**default_collate_fn_map,
    ...                                               str: lambda batch, collate_fn_map: "".join(batch)})
    ['ab', tensor([1, 2])]
    """
    first: Any = batch[0]
    if collate_fn_map is not None:
        if type(first) in collate_fn_map:
            return collate_fn_map[type(first)](batch, collate_fn_map=collate_fn_map)
        for kind, function in collate_fn_map.items():
            if isinstance(first, kind):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        for i, sample in enumerate(batch):
            lacking = [key for key in first if key not in sample]
            if lacking:
                raise KeyError(f"default_collate: sample {i} of the batch lacks the key {lacking[0]!r} that the first "
                               f"has; it has {list(sample)}")  # fmt: skip
        return rebuilt(first, {key: collate([b[key] for b in batch], collate_fn_map=collate_fn_map) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collate(s, collate_fn_map=collate_fn_map) for s in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError(text("each element in list of batch should be of equal size", op="default_collate",
                                    came=f"lengths {', '.join(str(len(b)) for b in batch[:8])}",
                                    remedy=_OWN))  # fmt: skip
        parts = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch, strict=True)]
        return parts if isinstance(first, tuple) else rebuilt(first, parts)
    raise _error(type(first))


def _stacked(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    shape = batch[0].shape
    for i, sample in enumerate(batch):
        if sample.shape != shape:
            raise RuntimeError(text(f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                                    f"{list(sample.shape)} at entry {i}", op="default_collate", came="samples of "
                                    "different shapes in one batch", remedy=_OWN))  # fmt: skip
    return functions["stack"](list(batch), 0)


def _arrays(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in _TEXT:
        raise _error(batch[0].dtype)
    return collate([as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def _numbers(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return as_tensor(np.array(batch))


def _floats(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return tensor(batch, dtype=float64)


def _integers(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return tensor(batch)


def _left(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return batch


# How `default_collate` makes a batch of each type. More may be added, for types of one's own.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _stacked, np.ndarray: _arrays, (np.bool_, np.number, np.object_): _numbers, float: _floats,
    int: _integers, str: _left, bytes: _left,
}  # fmt: skip


def default_collate(batch: Sequence[Any]) -> Any:
    """Return a batch of samples as one: numbers become a tensor (floats float64), tensors and arrays are stacked.

    *Raises*: TypeError for other values, RuntimeError for samples of different lengths or shapes.

    >>> import core
    >>> core.utils.data.default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.], dtype=core.float64)]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


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
