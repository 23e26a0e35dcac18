"""Bytes of results alive, over time and by the row that made them: each array is followed by a weak reference."""

from __future__ import annotations

import weakref
from time import perf_counter_ns
from typing import Any

import numpy as np

from core import native

from .cell_trace import Block, Row

LIMIT = 100_000  # arrays that are followed; beyond it the count goes on without them


class Memory:
    """Hears of arrays as ops make them, and of their end: `core.native`'s `Follower` where there is no C.

    Its clock stands still for the time that the `owner`, the recorder, took itself."""

    def __init__(self, blocks: list[Block], owner: Any, limit: int = LIMIT) -> None:
        self.blocks, self.owner, self.limit = blocks, owner, limit
        self._alive: dict[int, tuple[Any, list[bool]]] = {}  # id of an array -> its weak reference, whether all finite

    def made(self, row: Row, a: Any, born_ns: int, backward: bool) -> None:
        """An op made an array; one that is known already (a write in place) or that views a known one adds nothing."""
        key = id(a)
        if key in self._alive or not a.nbytes or len(self.blocks) >= self.limit:
            return
        base = getattr(a, "base", None)
        while base is not None:
            if id(base) in self._alive:
                return
            base = getattr(base, "base", None)
        block = Block(row, int(a.nbytes), born_ns, backward)
        alive, owner = self._alive, self.owner

        def gone(_: Any) -> None:
            block.died_ns = perf_counter_ns() - owner.own_ns
            alive.pop(key, None)

        try:
            alive[key] = weakref.ref(a, gone), []
        except TypeError:  # an array of a library that cannot be followed
            return
        self.blocks.append(block)

    def found_finite(self, a: Any) -> None:
        """All of a followed array's values were seen to be finite."""
        if id(a) in self._alive:
            self._alive[id(a)][1][:] = [True]

    def was_finite(self, a: Any) -> bool:
        """Return whether they were."""
        return bool(id(a) in self._alive and self._alive[id(a)][1])

    def close(self) -> None:
        """Stop following."""
        self._alive.clear()


def follower(blocks: list[Block], owner: Any) -> Any:
    """Make what follows arrays: the class in C, or the one above."""
    return getattr(native.module, "Follower", Memory)(blocks, owner, LIMIT)


def course(blocks: list[Block]) -> tuple[Any, Any]:
    """Return the bytes alive after each change, as two arrays: when, in ns, and how many.

    >>> a, b = Block(None, 100, 0), Block(None, 50, 10)
    >>> a.died_ns = 20
    >>> [part.tolist() for part in course([a, b])]
    [[0, 10, 20], [100, 150, 50]]
    """
    gone = [b for b in blocks if b.died_ns]
    born = np.fromiter((b.born_ns for b in blocks), np.int64, len(blocks))
    died = np.fromiter((b.died_ns for b in gone), np.int64, len(gone))
    size = np.fromiter((b.size for b in blocks), np.int64, len(blocks))
    freed = np.fromiter((b.size for b in gone), np.int64, len(gone))
    times, changes = np.concatenate([born, died]), np.concatenate([size, -freed])
    order = np.lexsort((changes, times))
    return times[order], np.cumsum(changes[order])


def alive_at(blocks: list[Block], when: int) -> list[Block]:
    """Return the blocks that were alive at a moment."""
    return [b for b in blocks if b.born_ns <= when and not (b.died_ns and b.died_ns <= when)]
