"""Which values are tensors to the recorder: core's own, and those of a library that an adapter tells it of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.tensors.tensor import Tensor


class Foreign:
    """A tensor of another library, with the attributes of core's tensors that a recorder reads.

    `original` is the library's own tensor, or None once that is gone.
    """

    original: Any
    _a: Any
    _kind: Any
    _node: Any
    _grad: Any
    _requires_grad: bool
    _version: int
    _note: Any = None


TENSORS = (Tensor, Foreign)
adapters: list[Callable[[Any], Foreign | None]] = []
"""Each gives a value of its library as a `Foreign`, None for any other value; there is one while it records."""


def seen(value: Any) -> Any:
    """Return a value as a tensor that the recorder knows; None if it is none."""
    if isinstance(value, TENSORS):
        return value
    return next((found for adapt in adapters if (found := adapt(value)) is not None), None)


def original(t: Any) -> Any:
    """Return the tensor that the user's variables hold."""
    return t.original if isinstance(t, Foreign) else t
