"""Memory that processes share, without names: nothing of it can be left behind, however a process ends.

A segment is a `memfd`: a file that lies in memory, has no path, and is gone with the last descriptor and mapping of it.
A worker hands the descriptor to its parent over their socket. A parent gives the number of a segment back when the last
array over it is gone, and the worker fills it again: a page that was there before costs a tenth of a new one (3 MB
batches: 0.1 ms against 1.1 ms).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

ALIGN = 64  # a cache line, and the widest vector
_READ_WRITE, _SHARED, _PRIVATE = 3, 1, 2
_MOST_BUFFERS = 512  # of one call of writev; the system's limit is 1024


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


class Mapping:
    """The memory of a segment as bytes; let go of with the last array over it.

    Python's own `mmap` keeps a descriptor open for each, and a process has few.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_address", "_size", "_unmap")

    def __init__(self, file: int, size: int, private: bool = False) -> None:
        libc = _libc()
        found = libc.mmap(None, size, _READ_WRITE, _PRIVATE if private else _SHARED, file, 0)
        if found in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._address, self._size, self._unmap = found, size, libc.munmap
        self.__array_interface__ = {"data": (found, False), "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        if hasattr(self, "_address"):
            self._unmap(self._address, self._size)


def aligned(size: int) -> int:
    """Return the next multiple of a cache line."""
    return -(-size // ALIGN) * ALIGN


def offsets(sizes: Iterable[int]) -> tuple[list[int], int]:
    """Return where buffers of these sizes begin, each on a cache line, and where the last one ends."""
    begins, end = [], 0
    for size in sizes:
        begins.append(end)
        end = aligned(end + size)
    return begins, end


def create(name: str) -> int:
    """Return a new segment's descriptor. *Raises*: OSError where there is none to be had."""
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no memfd_create")
    return os.memfd_create(f"gradlab-{name}", os.MFD_CLOEXEC)


def fill(file: int, buffers: Sequence[Any]) -> None:
    """Write buffers into a segment, each from a cache line on.

    Written by calls and not through a mapping: memory that runs out is then an OSError, and not a deadly signal.
    """
    pieces: list[Any] = []
    for b in buffers:
        view = memoryview(b).cast("B")
        pieces.append(view)
        if gap := aligned(len(view)) - len(view):
            pieces.append(memoryview(bytes(gap)))
    at, i = 0, 0
    while i < len(pieces):
        written = os.pwritev(file, pieces[i : i + _MOST_BUFFERS], at)
        at += written
        while i < len(pieces) and written >= len(pieces[i]):
            written -= len(pieces[i])
            i += 1
        if written:
            pieces[i] = pieces[i][written:]


class Outbox:
    """The segments of a worker, by number, and which of them are free."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}
        self._maps: dict[int, Any] = {}
        self._free: list[int] = []
        self._numbers = 0

    def released(self, free: Iterable[int], dropped: Iterable[int]) -> None:
        """The parent wants to see the ones filled again, and the others no more."""
        self._free.extend(free)
        for number in dropped:
            os.close(self._files.pop(number))
            self._maps.pop(number, None)

    def put(self, buffers: Sequence[Any], size: int) -> tuple[int, int, int | None]:
        """Place buffers in a segment: its number, its size, and its descriptor if the parent does not know it yet.

        *Raises*: OSError where no memory can be had.
        """
        for i, number in enumerate(self._free):
            room = self._maps.get(number)
            if room is None:
                room = self._maps[number] = np.asarray(
                    Mapping(self._files[number], os.fstat(self._files[number]).st_size)
                )
            if room.size >= size:
                at = 0
                for b in buffers:
                    view = np.frombuffer(b, np.uint8)
                    room[at : at + view.size] = view
                    at = aligned(at + view.size)
                del self._free[i]
                return number, room.size, None
        if self._free:  # too small for this one: the parent lets go of it when it sees its number again
            number = self._free.pop()
            self.released((), (number,))
        else:
            number, self._numbers = self._numbers, self._numbers + 1
        new = create("batch")
        try:
            fill(new, buffers)
        except BaseException:
            os.close(new)
            raise
        self._files[number] = new
        return number, size, new


class _Lease:
    """Holds a segment for the arrays that lie in it, and says when the last of them is gone."""

    __slots__ = ("__array_interface__", "_inbox", "_number", "_room")

    def __init__(self, inbox: Inbox, number: int, room: Mapping) -> None:
        self._inbox, self._number, self._room = inbox, number, room
        self.__array_interface__ = room.__array_interface__

    def __del__(self) -> None:
        back = self._inbox.back  # appending is one step: this may run in any thread and at any time
        if back is not None:
            back.append((self._number, self._room))


class Inbox:
    """What the parent knows of one worker's segments."""

    def __init__(self, keep: int) -> None:
        self.back: list[tuple[int, Mapping]] | None = []  # what arrays let go of; None when the worker is gone
        self._rooms: dict[int, Mapping] = {}
        self._kept: set[int] = set()  # free ones, known to the worker as such
        self._keep = keep
        self._unmapped: list[int] = []
        self._shy: set[int] = set()  # a forked child may look into them: never to be filled again

    def take(self, number: int, size: int, file: int | None) -> Any:
        """Return the bytes of a segment that the worker has filled."""
        self._kept.discard(number)
        if file is not None:
            self._rooms.pop(number, None)
            try:
                self._rooms[number] = Mapping(file, size)
            except OSError:  # a process has only so many mappings (65,530): a copy, and the worker may drop it
                self._unmapped.append(number)
                copy: Any = np.empty(size, np.uint8)
                at = 0
                while at < size:
                    at += os.preadv(file, [copy[at:]], at)
                return copy
        return np.asarray(_Lease(self, number, self._rooms[number]))

    def released(self) -> tuple[list[int], list[int]]:
        """Return the numbers of segments to be filled again, and of those to be dropped, since the last call."""
        free: list[int] = []
        dropped, self._unmapped = self._unmapped, []
        while self.back:
            number, room = self.back.pop()
            if self._rooms.get(number) is not room:
                continue
            if len(self._kept) < self._keep and number not in self._shy:
                self._kept.add(number)
                free.append(number)
            else:
                self._shy.discard(number)
                del self._rooms[number]
                dropped.append(number)
        return free, dropped

    def close(self) -> None:
        """The worker is gone: each segment ends with the last array over it."""
        self.back = None
        self._rooms.clear()

    def forked(self) -> None:
        """A child of this process may look into what is lent: what comes back from now on is not used again."""
        self._shy.update(self._rooms.keys() - self._kept)
