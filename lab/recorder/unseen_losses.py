"""The first loss that is not finite, of a step that was not recorded: where, and what the variables hold then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import CO_NEWLOCALS
from typing import Any

from . import tensor_stats
from .cell_trace import Chain
from .op_to_row import Folder
from .tensor_types import seen
from .user_files import users_frame

FEW = 512  # variables of a frame that are looked at
ITEMS = 16  # of a container
LARGEST = 1 << 22  # values of a tensor


@dataclass
class UnseenLoss:
    """A loss that is not finite."""

    step: int
    """Of the loop, counted from 1."""
    place: Chain
    """Where its backward() was called."""
    data: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Variables without history that held NaN or infinity then: name, how many NaN, how many infinite, of how many."""


def look(step: int, fold: Folder) -> UnseenLoss:
    """Note a loss that is not finite before its backward() runs: the weights are what the last step made of them."""
    frame: Any = users_frame(sys._getframe(1))
    place = () if frame is None else fold.chain(fold.site((frame.f_code, frame.f_lasti)))
    found = UnseenLoss(step, place)
    while frame is not None:
        for name, value in list(frame.f_locals.items())[:FEW]:
            for called, inner in _parts(name, value):
                _note(found, called, inner)
        if not frame.f_code.co_flags & CO_NEWLOCALS:
            break
        frame = users_frame(frame.f_back)
    return found


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if type(value) in (tuple, list):
        yield from ((f"{name}[{k}]", part) for k, part in enumerate(value[:ITEMS]))
    elif type(value) is dict:
        yield from ((f"{name}[{key!r}]", part) for key, part in list(value.items())[:ITEMS])


def _note(found: UnseenLoss, name: str, value: Any) -> None:
    t = seen(value)
    if name.startswith("_") or t is None or t._requires_grad or t._node is not None or t._kind.device.type != "cpu":
        return
    a = t._a
    if a.dtype.kind != "f" or not 0 < a.size <= LARGEST or tensor_stats.finite(a):
        return
    nan, infinite = tensor_stats.census(a)
    if nan or (a == float("inf")).any():  # -inf alone hides values: an attention mask
        found.data.append((name, nan, infinite, int(a.size)))
