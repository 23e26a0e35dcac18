"""Memory in which a kernel that writes or reads outside of its arrays is found out.

On this processor an array lies between pages that nobody may touch, with zones of a known content where it does not end
at such a page: a write nearby changes a zone, any other access ends the process, a worker that its session can afford
to lose. On a GPU there are zones alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

PLACES = {"middle": "", "end": "right after an array's end no access is allowed here",
          "start": "right before an array's start no access is allowed here",
          "off": "the arrays are aligned to their items alone here, as x[1:] is"}  # fmt: skip
"""Where an array may lie: in the middle with a zone on both sides, next to a page that nobody may touch, or in the
middle at an address that only its items' size divides; and what is to be known of a place where a process ends."""
_PAGE = mmap.PAGESIZE
_LEAST_FENCE, _MOST_FENCE = 1 << 16, 1 << 26  # bytes; they are reserved and take no memory
_ZONE = 1 << 20  # bytes on a GPU, on both sides
_FILL = 0xFF  # as float32 and float64 these bytes are NaN
_PERTURB, _ALLOCATED = -6, 0x80  # glibc's M_PERTURB; what is allocated holds the complement: 3.4e38 as float32


class Fenced:
    """The memory of one array; `array` is the array where it lies now.

    In the middle its address differs from one to the next by multiples of 16 bytes within a page, as those of NumPy's
    arrays do: how two arrays lie to one another can decide how fast a kernel is.

    >>> fenced = Fenced((3,), "float32")
    >>> fenced.array[...] = 1
    >>> fenced.spoiled()
    False
    >>> fenced.lay("end")
    >>> fenced.array.ctypes.data % 4096, bool(np.isnan(fenced.array).all())
    (4084, True)
    """

    def __init__(self, shape: Sequence[int], dtype: Any, rng: np.random.Generator | None = None) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        open_ = -(-self.size // _PAGE) * _PAGE + 3 * _PAGE
        fence = min(max(-(-self.size // _PAGE) * _PAGE, _LEAST_FENCE), _MOST_FENCE)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        everything = np.frombuffer(mmap.mmap(-1, open_ + 2 * fence, flags=flags), np.uint8)
        first = everything.ctypes.data
        for where in (first, first + fence + open_):
            if _libc().mprotect(ctypes.c_void_p(where), ctypes.c_size_t(fence), 0):
                raise OSError(ctypes.get_errno(), "mprotect: the pages around an array cannot be closed")
        self.memory = everything[fence : fence + open_]
        rng = rng or np.random.default_rng()
        self._middle = _PAGE + 16 * int(rng.integers(_PAGE // 16))
        self.lay("middle")

    def lay(self, place: str) -> None:
        """Put the array in one of `PLACES`; it and its zones are filled anew."""
        room = len(self.memory)
        self._from = {
            "middle": self._middle, "end": room - self.size, "start": 0, "off": _PAGE + self.dtype.itemsize
        }[place]  # fmt: skip
        self.place = place
        self.memory.fill(_FILL)
        self.array = self.memory[self._from : self._from + self.size].view(self.dtype).reshape(self.shape)

    def spoiled(self) -> bool:
        """Return whether something was written into the zones."""
        return bool(
            (self.memory[: self._from] != _FILL).any() or (self.memory[self._from + self.size :] != _FILL).any()
        )


class Zoned:
    """An array of another library (a GPU's) between two zones; see `Fenced`. xp : the library, as CuPy."""

    def __init__(self, xp: Any, content: np.ndarray) -> None:
        self.xp, self.size = xp, content.nbytes
        self.memory = xp.empty(content.nbytes + 2 * _ZONE, np.uint8)
        self.memory.fill(_FILL)
        inside = self.memory[_ZONE : _ZONE + content.nbytes]
        self.array = inside.view(content.dtype).reshape(content.shape)
        self.array[...] = xp.asarray(content)

    def spoiled(self) -> bool:
        """Return whether something was written into the zones, which are made whole again."""
        ends = self.memory[:_ZONE], self.memory[_ZONE + self.size :]
        found = any(bool((end != _FILL).any()) for end in ends)
        for end in ends if found else ():
            end.fill(_FILL)
        return found


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def disturbed() -> Iterator[None]:
    """Within, what the C library allocates holds large numbers, not the zeros that fresh memory has at random."""
    try:
        mallopt = _libc().mallopt if sys.platform == "linux" else None
    except AttributeError:  # a C library that has no such thing
        mallopt = None
    if mallopt is None:
        yield
        return
    mallopt(_PERTURB, _ALLOCATED)
    try:
        yield
    finally:
        mallopt(_PERTURB, 0)
