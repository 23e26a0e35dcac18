"""The Mersenne twister in the order in which PyTorch's CPU generator consumes it, through NumPy's MT19937.

All draws are PyTorch's bit for bit; normal ones of float32 as PyTorch makes them on processors with AVX2, exponential
ones up to what two libraries' logarithms differ by.
Source: ATen/core/DistributionsHelper.h and ATen/native/cpu/DistributionTemplates.h.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .box_muller import sixteens


class Mersenne:
    """A stream of draws in PyTorch's order."""

    kind = "torch"

    def __init__(self, seed: int) -> None:
        self.seed = seed & 0xFFFFFFFFFFFFFFFF
        self._twister = np.random.MT19937()
        self._twister._legacy_seeding(self.seed & 0xFFFFFFFF)
        self._next: float | None = None  # the second number of the last pair of a scalar normal draw

    def _words(self, n: int) -> Any:
        return self._twister.random_raw(n).astype(np.uint64) if n else np.zeros(0, np.uint64)

    def _words64(self, n: int) -> Any:
        w = self._words(2 * n)
        return (w[0::2] << np.uint64(32)) | w[1::2]

    def uniform(self, xp: Any, n: int) -> Any:
        """n float32 in [0, 1): 24 bits."""
        return xp.asarray(((self._words(n) & np.uint64((1 << 24) - 1)) * 2.0**-24).astype(np.float32))

    def uniform_bits(self, xp: Any, n: int, bits: int) -> Any:
        """n float32 for a half-precision type. PyTorch rounds 24 bits to it, so `bits` does not matter."""
        return self.uniform(xp, n)

    def uniform64(self, xp: Any, n: int) -> Any:
        return xp.asarray((self._words64(n) & np.uint64((1 << 53) - 1)).astype(np.float64) * 2.0**-53)

    def _normal_one(self) -> float:
        """One number by Box and Muller in double precision; every second one is the sine of the last pair."""
        if self._next is not None:
            y, self._next = self._next, None
            return y
        a, b = self.uniform64(np, 2).tolist()
        radius, angle = math.sqrt(-2.0 * math.log1p(-b)), 2.0 * math.pi * a
        self._next = radius * math.sin(angle)
        return radius * math.cos(angle)

    def _normal(self, n: int, dtype: Any) -> Any:
        if n < 16:  # in double precision, whatever the dtype
            return np.array([self._normal_one() for _ in range(n)])
        draw = self.uniform if dtype == np.float32 else self.uniform64
        out = draw(np, n)
        whole = n - n % 16
        out[:whole] = sixteens(out[:whole])
        if n % 16:  # the last 16 are drawn anew
            out[n - 16 :] = sixteens(draw(np, 16))
        return out

    def normal(self, xp: Any, n: int) -> Any:
        return xp.asarray(self._normal(n, np.dtype(np.float32)))

    def normal64(self, xp: Any, n: int) -> Any:
        return xp.asarray(self._normal(n, np.dtype(np.float64)))

    def integers(self, xp: Any, n: int, span: int, long: int = 1 << 28) -> Any:
        """n int64 in 0..span-1: what a word leaves when divided by span; from a span of `long` up, PyTorch's, a word of
        64 bits, of which the low numbers are hardly likelier than the others."""
        if span >= long:
            w = self._words64(n)
            return xp.asarray(w.view(np.int64) if span >= 1 << 64 else (w % np.uint64(span)).astype(np.int64))
        return xp.asarray((self._words(n) % np.uint64(span)).astype(np.int64))

    def permutation(self, xp: Any, n: int) -> Any:
        """0..n-1 in random order, by exchanges from the front."""
        order = list(range(n))
        for i, w in enumerate(self._words(max(n - 1, 0)).tolist()):
            j = i + w % (n - i)
            order[i], order[j] = order[j], order[i]
        return xp.asarray(np.array(order, np.int64))

    def bernoulli(self, xp: Any, p: Any) -> Any:
        """For each probability whether a uniform number is below it."""
        draw = self.uniform64 if p.dtype == np.float64 else self.uniform
        return draw(xp, p.size).reshape(p.shape) < p

    def state(self) -> bytes:
        state = self._twister.state["state"]
        pair = np.array([0.0 if self._next is None else self._next, self._next is not None], np.float64)
        return (self.seed.to_bytes(8, "little") + np.asarray(state["key"], np.uint32).tobytes()
                + int(state["pos"]).to_bytes(8, "little") + pair.tobytes())  # fmt: skip

    def set_state(self, state: bytes) -> None:
        self.seed = int.from_bytes(state[:8], "little")
        key = np.frombuffer(state[8 : 8 + 2496], np.uint32).copy()
        self._twister.state = {"bit_generator": "MT19937",
                               "state": {"key": key, "pos": int.from_bytes(state[2504:2512], "little")}}  # fmt: skip
        value, there = np.frombuffer(state[2512:], np.float64)
        self._next = float(value) if there else None
