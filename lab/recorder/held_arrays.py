"""Arrays and tensors that the user's variables hold at the end of a cell: their dtypes, and some of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .tensor_stats import on_host
from .tensor_types import seen

MOST = 128  # variables
SAMPLE = 256  # values of each: neighbours, in the order of the last dimension


@dataclass
class Held:
    """What a variable holds."""

    dtype: str
    shape: tuple[int, ...]
    values: Any
    """Its first values, as an array of NumPy's."""


def held_arrays(space: Mapping[str, Any]) -> dict[str, Held]:
    """Return what each variable holds that is an array of numbers, or a tensor on the CPU without a gradient."""
    found: dict[str, Held] = {}
    for name, value in space.items():
        if len(found) == MOST:
            break
        if not name.startswith("_") and (held := _held(value)) is not None:
            found[name] = held
    return found


def _held(value: Any) -> Held | None:
    if type(value) is np.ndarray:
        array, dtype = value, value.dtype.name
    else:
        t = seen(value)
        if t is None or t._requires_grad or t._kind.device.type != "cpu":
            return None
        try:
            array, dtype = on_host(t._a), t._kind.dtype.name
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            return None  # sparse, nested, or of another library's own layout: it is no array
    if array.dtype.kind not in "fiub" or not array.size or not array.ndim:
        return None
    row = array[(0,) * (array.ndim - 1)]
    few = row if array.ndim == 1 or len(row) >= SAMPLE else array[: SAMPLE // max(array[0].size, 1) + 1].reshape(-1)
    return Held(dtype, tuple(array.shape), np.array(few[:SAMPLE]))
