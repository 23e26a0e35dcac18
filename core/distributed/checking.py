"""Collectives that differ between ranks, found and told with the lines of both.

MPI would wait for ever, or sum what does not belong together. So each collective sends along to the next rank what it
is: its op, shapes, dtype and the user's line (`Beside`); who hears something else raises an error, at the latest when
the operation is done. Where TORCH_DISTRIBUTED_DEBUG is DETAIL every rank hears from all others before anything begins
(`compare`), and knows who has not come.
"""

from __future__ import annotations

import os
import zlib
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
    table = np.empty((size, _BYTES), np.uint8)
    table[own] = _record(op, agreed)
    others = [r for r in range(size) if r != own]
    requests = [q for r in others for q in group.comm.receive(table[r], r, _TAG)]
    requests += [q for r in others for q in group.comm.send(table[own], r, _TAG)]
    Work(f"{op} (at {describe(here())})", group, requests, size_bytes=0, held=table).wait(timeout)
    for r in others:
        error = _mismatch(group, table[own], r, table[r])
        if error is not None:
            raise error


class Beside:
    """What one collective says to the next rank, and hears from the one before."""

    def __init__(self, group: ProcessGroup, op: str, agreed: str) -> None:
        self._group, self._own, self._heard = group, _record(op, agreed), np.zeros(_BYTES, np.uint8)
        size, rank = group.size(), group.rank()
        self._before = (rank - 1) % size
        self.requests = [*group.comm.receive(self._heard, self._before, _TAG),
                         *group.comm.send(self._own, (rank + 1) % size, _TAG)]  # fmt: skip

    def mismatch(self) -> DistBackendError | None:
        """Return the error of ranks in different calls, None where nothing is known of one."""
        return _mismatch(self._group, self._own, self._before, self._heard) if self._heard[0] else None


def _mismatch(group: ProcessGroup, own: Any, rank: int, heard: Any) -> DistBackendError | None:
    """Return the error of two ranks in different calls."""
    if np.array_equal(own, heard):
        return None
    mine, other = (bytes(row).rstrip(b"\0").decode(errors="replace").split("\t") for row in (own, heard))
    if mine[:2] == other[:2]:
        return None
    return DistBackendError(text(
        f"Detected mismatch between collectives on ranks. Rank {group.ranks[group.rank()]} is running collective: "
        f"{_told(mine)}, but Rank {group.ranks[rank]} is running collective: {_told(other)}",
        op=f"distributed.{mine[0]}",
        needed="the same collective with the same shape and dtype on every rank"))  # fmt: skip


def _told(row: list[str]) -> str:
    op, agreed, place = (*row, "", "", "")[:3]
    return f"{op}({agreed}) at {place}"


_records: dict[Any, Any] = {}


def _record(op: str, agreed: str) -> Any:
    """Return the bytes that say what this rank begins, and on which line."""
    key = op, agreed, here(3)
    found = _records.get(key)
    if found is None:
        if len(_records) > 10_000:
            _records.clear()
        said = f"{op}\t{agreed}"
        if len(said) > _BYTES - 140:  # many shapes: what is cut off counts too
            said = f"{said[: _BYTES - 152]} ... {zlib.crc32(said.encode()):08x}"
        said += f"\t{describe(key[2])}"
        found = _records[key] = np.frombuffer(said.encode()[:_BYTES].ljust(_BYTES, b"\0"), np.uint8)
    return found
