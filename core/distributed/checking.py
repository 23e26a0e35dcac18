"""Collectives that differ between ranks, found before they begin.

Where TORCH_DISTRIBUTED_DEBUG is DETAIL each collective first sends every other rank what it is: its op, shapes, dtype
and the user's line. Ranks that are not in the same call raise an error with both lines, where otherwise MPI would wait
for ever or sum what does not belong together. It costs a short message to every other rank.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import text
from ..base.source import describe, here
from .dist_errors import DistBackendError
from .work import Work

if TYPE_CHECKING:
    from .groups import ProcessGroup

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]

_TAG, _BYTES = 32767, 512  # of the messages


class DebugLevel(Enum):
    """How much is checked: with DETAIL collectives are compared before they begin."""

    OFF, INFO, DETAIL = range(3)


_level = [DebugLevel.OFF]


def get_debug_level() -> DebugLevel:
    """Return how much is checked."""
    return _level[0]


def set_debug_level(level: DebugLevel) -> None:
    """Set how much is checked, on every rank alike."""
    _level[0] = level


def set_debug_level_from_env() -> None:
    """Set how much is checked to what TORCH_DISTRIBUTED_DEBUG says: OFF, INFO or DETAIL.

    *Raises*: RuntimeError for what is none of them.
    """
    asked = os.getenv("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if asked not in DebugLevel.__members__:
        raise RuntimeError(text("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL",
                                op="distributed", came=asked))  # fmt: skip
    _level[0] = DebugLevel[asked]


set_debug_level_from_env()


def wanted(group: ProcessGroup) -> bool:
    """Return whether collectives of a group are compared."""
    return _level[0] is DebugLevel.DETAIL and group.size() > 1


def compare(group: ProcessGroup, op: str, agreed: str, timeout: Any = None) -> None:
    """Wait until all ranks of a group have said what they begin.

    *Raises*: DistBackendError where they begin different things, or some have said nothing after the timeout.
    """
    size, own = group.size(), group.rank()
    said = f"{op}\t{agreed}\t{describe(here())}".encode()[:_BYTES]
    table = np.zeros((size, _BYTES), np.uint8)
    table[own, : len(said)] = np.frombuffer(said, np.uint8)
    others = [r for r in range(size) if r != own]
    requests = [q for r in others for q in group.comm.receive(table[r], r, _TAG)]
    requests += [q for r in others for q in group.comm.send(table[own], r, _TAG)]
    Work(f"{op} (at {describe(here())})", group, requests, size_bytes=0, held=table).wait(timeout)
    rows = [bytes(row).rstrip(b"\0").decode(errors="replace").split("\t") for row in table]
    for r in others:
        if rows[r][:2] != rows[own][:2]:
            raise DistBackendError(text(
                f"Detected mismatch between collectives on ranks. Rank {group.ranks[own]} is running collective: "
                f"{_told(rows[own])}, but Rank {group.ranks[r]} is running collective: {_told(rows[r])}",
                op=f"distributed.{op}",
                needed="the same collective with the same shape and dtype on every rank"))  # fmt: skip


def _told(row: list[str]) -> str:
    op, agreed, place = (*row, "", "", "")[:3]
    return f"{op}({agreed}) at {place}"
