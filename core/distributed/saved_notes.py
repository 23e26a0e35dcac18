"""What ops save of whole parameters of a unit (`sharding.Unit`): notes of which they are, in place of their memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import saved_tensor_hooks
from ..tensors.tensor import Tensor, from_array

__all__ = ["forget", "note", "save_notes"]

_known: dict[int, tuple[Any, Any]] = {}  # by the memory of whole parameters


def _root(a: Any) -> Any:
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def note(unit: Any, part: Any) -> None:
    """Know a whole parameter by its memory."""
    a = part.full._a
    if isinstance(a, np.ndarray):
        _known[id(_root(a))] = unit, part


def forget(part: Any) -> None:
    """Forget the memory of a whole parameter that is let go of."""
    a = part.full._a
    if isinstance(a, np.ndarray):
        _known.pop(id(_root(a)), None)


class _Noted:
    """A view of a whole parameter, without its memory."""

    def __init__(self, unit: Any, part: Any, a: Any) -> None:
        self.unit, self.part = unit, part
        self.offset = a.__array_interface__["data"][0] - _root(a).__array_interface__["data"][0]
        self.shape, self.strides, self.dtype = a.shape, a.strides, a.dtype

    def get(self) -> Tensor:
        assert self.unit.family is not None
        self.unit.family.needed(self.unit)
        memory = _root(self.part.full._a)
        return from_array(np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides))


def save_notes() -> None:
    """Let ops save notes of whole parameters, and anything else as the hooks that stand would."""
    outer = saved_tensor_hooks.stack.hooks[-1] if saved_tensor_hooks.stack.hooks else None

    def pack(t: Tensor) -> Any:
        found = _known.get(id(_root(t._a))) if isinstance(t._a, np.ndarray) else None
        if found is not None:
            return _Noted(*found, t._a)
        return t if outer is None else outer[0](t)

    def unpack(payload: Any) -> Tensor:
        if isinstance(payload, _Noted):
            return payload.get()
        return payload if outer is None else outer[1](payload)

    saved_tensor_hooks.push(pack, unpack)
