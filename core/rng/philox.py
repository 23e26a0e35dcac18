"""Philox4x32-10: random numbers as a function of (seed, place), the same on every device and equal to Triton's.

Number i of a draw that begins at `offset` is made of the counter ``offset + i`` alone, so any part of a draw can be
made by itself and in any order: a dropout kernel makes its mask where it needs it, forward and backward.
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; triton/language/random.py for how bits
become floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native

_A, _B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)  # the round's multipliers
_KEY_A, _KEY_B = 0x9E3779B9, 0xBB67AE85  # what the key grows by
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_FEW = 4  # as many are made one by one
_CHUNK = 1 << 14  # counters at a time: what the rounds work on stays in a level-2 cache


class Place:
    """Where a CUDA graph's seed and the offset of its first number stand: two int64 in device memory.

    A captured launch is frozen; what it reads there is written before each replay.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._array = make, None

    @property
    def array(self) -> Any:
        if self._array is None:
            self._array = self._make()
        if read is not None:
            read[id(self)] = self
        return self._array


read: dict[int, Place] | None = None
"""The places that the graph which is being captured reads, and must keep; None while there is no such graph."""


class Placed(int):
    """An offset within a captured graph: to it is added, and its seed is, what stands at its place at the replay."""

    place: Place

    @classmethod
    def at(cls, offset: int, place: Place) -> Placed:
        made = cls(offset)
        made.place = place
        return made


def place_of(offset: int) -> Any:
    """Return the array that an offset is added to; None for a plain one."""
    return offset.place.array if isinstance(offset, Placed) else None


def _rounds(xp: Any, seed: Any, counters: Any, words: int) -> list[Any]:
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    typed: Any = np.uint64 if isinstance(seed, int) else lambda k: k
    c0, c1 = counters & _LOW, counters >> _32
    c2 = c3 = xp.zeros_like(counters)
    for _ in range(10):
        a, b = c0 * _A, c2 * _B
        c0, c1 = (b >> _32) ^ c1 ^ typed(k0), b & _LOW
        c2, c3 = (a >> _32) ^ c3 ^ typed(k1), a & _LOW
        k0, k1 = k0 + _KEY_A & 0xFFFFFFFF, k1 + _KEY_B & 0xFFFFFFFF
    return [c0, c1, c2, c3][:words]


def _one(seed: int, counter: int) -> list[int]:
    """Return the four words of one counter, in Python's integers: a fifth of the time of arrays of one element."""
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    c0, c1, c2, c3 = counter & 0xFFFFFFFF, counter >> 32 & 0xFFFFFFFF, 0, 0
    for _ in range(10):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (b >> 32) ^ c1 ^ k0, b & 0xFFFFFFFF
        c2, c3 = (a >> 32) ^ c3 ^ k1, a & 0xFFFFFFFF
        k0, k1 = k0 + _KEY_A & 0xFFFFFFFF, k1 + _KEY_B & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def words(xp: Any, seed: int, offset: int, n: int, count: int = 1) -> tuple[Any, ...]:
    """`count` (at most 4) arrays of n random uint32, from the counters offset, offset + 1, ...

    >>> [hex(int(w[0])) for w in words(np, 0, 0, 1, 4)]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    if isinstance(offset, Placed):
        place = place_of(offset)
        place = (place.get() if xp is np and hasattr(place, "get") else place).view(np.uint64)
        counters = xp.arange(int(offset), int(offset) + n, dtype=np.uint64) + place[1:]
        return tuple([w.astype(np.uint32) for w in _rounds(xp, place[:1], counters, count)])
    if n <= _FEW and xp is np:
        made = [_one(seed, offset + i) for i in range(n)]
        return tuple(np.array([m[k] for m in made], np.uint32) for k in range(count))
    if xp is np and native.module is not None:
        return native.module.kernels["philox_words"](seed, offset, n, count)
    outs = tuple(xp.empty(n, np.uint32) for _ in range(count))
    step = _CHUNK if xp is np else max(n, 1)
    for start in range(0, n, step):
        stop = min(start + step, n)
        counters = xp.arange(offset + start, offset + stop, dtype=np.uint64)
        for out, word in zip(outs, _rounds(xp, seed, counters, count), strict=True):
            out[start:stop] = word
    return outs


def _unit(xp: Any, word: Any) -> Any:
    """Return a word as a float32 in [0, 1), as Triton's `uint_to_uniform_float` has it: 31 bits, the greatest below
    1."""
    signed = word.view(np.int32)
    return xp.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def _unit64(high: Any, low: Any) -> Any:
    """Two words as a float64 in [0, 1): 53 bits."""
    bits = (high.astype(np.uint64) << np.uint64(21)) ^ (low.astype(np.uint64) >> np.uint64(11))
    return bits.astype(np.float64) * 2.0**-53


def uniform(xp: Any, seed: int, offset: int, n: int) -> Any:
    """n float32 in [0, 1): ``tl.rand(seed, offset + i)``.

    >>> uniform(np, 0, 0, 2)
    array([0.7980929 , 0.05551759], dtype=float32)
    """
    if _is_in_c(xp, offset):
        return _in_c["philox_uniform"](seed, offset, n)
    return _unit(xp, words(xp, seed, offset, n)[0])


_in_c: Any = native.module and native.module.kernels


def _is_in_c(xp: Any, offset: int) -> bool:
    """Whether the C kernels make these numbers: not those of a graph's place, nor a GPU's."""
    return xp is np and _in_c is not None and not isinstance(offset, Placed)


def uniform64(xp: Any, seed: int, offset: int, n: int) -> Any:
    """n float64 in [0, 1)."""
    return _unit64(*words(xp, seed, offset, n, 2))


def normal(xp: Any, seed: int, offset: int, n: int) -> Any:
    """n float32 of the standard normal distribution: ``tl.randn(seed, offset + i)`` but for the last bit, by Box and
    Muller."""
    if _is_in_c(xp, offset):
        return _in_c["philox_normal"](seed, offset, n)
    a, b = (_unit(xp, w) for w in words(xp, seed, offset, n, 2))
    radius = xp.sqrt(np.float32(-2.0) * xp.log(xp.maximum(np.float32(1.0e-7), a)))
    return radius * xp.cos(np.float32(6.283185307179586) * b)


def normal64(xp: Any, seed: int, offset: int, n: int) -> Any:
    """n float64 of the standard normal distribution."""
    a, b, c, d = words(xp, seed, offset, n, 4)
    return xp.sqrt(-2.0 * xp.log(1.0 - _unit64(a, b))) * xp.cos(2.0 * np.pi * _unit64(c, d))


class Philox:
    """A stream of draws: a seed and how far it has come."""

    kind = "philox"

    place: Place | None = None  # while a CUDA graph is captured; offsets are then counted from its first number
    reached = 0  # and this is the number after its last

    def __init__(self, seed: int) -> None:
        self.seed, self.offset = seed & 0xFFFFFFFFFFFFFFFF, 0

    def take(self, n: int) -> tuple[int, int]:
        """Set n counters aside; gives (seed, offset), what a kernel needs to make these n numbers itself."""
        at = self.offset
        self.offset = at + n
        if self.place is None:
            return self.seed, at
        self.reached = max(self.reached, self.offset)
        return self.seed, Placed.at(at, self.place)

    def uniform(self, xp: Any, n: int) -> Any:
        return uniform(xp, *self.take(n), n)

    def uniform64(self, xp: Any, n: int) -> Any:
        return uniform64(xp, *self.take(n), n)

    def uniform_bits(self, xp: Any, n: int, bits: int) -> Any:
        """n float32 that are multiples of 2**-bits, so that a half-precision type holds them exactly."""
        (word,) = words(xp, *self.take(n), n)
        return (word >> np.uint32(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)

    def normal(self, xp: Any, n: int) -> Any:
        return normal(xp, *self.take(n), n)

    def normal64(self, xp: Any, n: int) -> Any:
        return normal64(xp, *self.take(n), n)

    def integers(self, xp: Any, n: int, span: int, long: int = 0) -> Any:
        """n int64 in 0..span-1; `long` is another generator's affair. The bias of a number is below span / 2**32, or
        span / 2**64 for a greater span."""
        if span <= 1 << 32:
            seed, offset = self.take(n)
            if _is_in_c(xp, offset):
                return _in_c["philox_integers"](seed, offset, n, span)
            (word,) = words(xp, seed, offset, n)
            return (word.astype(np.uint64) * np.uint64(span) >> _32).astype(np.int64)
        high, low = words(xp, *self.take(n), n, 2)
        both = (high.astype(np.uint64) << _32) | low.astype(np.uint64)
        return (both % np.uint64(span)).astype(np.int64) if span < 1 << 64 else both.view(np.int64)

    def permutation(self, xp: Any, n: int) -> Any:
        """0..n-1 in random order: the order of n random keys of 64 bits."""
        high, low = words(xp, *self.take(n), n, 2)
        return xp.argsort((high.astype(np.uint64) << _32) | low.astype(np.uint64)).astype(np.int64)

    def bernoulli(self, xp: Any, p: Any) -> Any:
        """For each probability whether a uniform number is below it."""
        return self.uniform(xp, p.size).reshape(p.shape) < p

    def state(self) -> bytes:
        return self.seed.to_bytes(8, "little") + self.offset.to_bytes(8, "little")

    def set_state(self, state: bytes) -> None:
        self.seed, self.offset = (int.from_bytes(state[k : k + 8], "little") for k in (0, 8))
