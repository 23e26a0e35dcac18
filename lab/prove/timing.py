"""Is a patched cell faster? On a machine that others use too, one timing of each says little.

The cell and the patched cell run in an order that is drawn at random, block by block. Were the two the same program,
any other order of a block would have been as likely, whatever else the machine did meanwhile. So the share of orders
with as few inversions (pairs of a block of which the patched cell's run took as long or longer) is the chance to take
the same program for a faster one: an exact permutation test, which needs no model of the load. It may be at most
`CHANCE`, for all blocks together. An effect is asked for besides: the patched cell takes at most `FASTER` of the time,
by the medians and by the fastest runs. Where these times do not tell, that is what is said.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import cache
from statistics import median

import numpy as np

FASTER = 0.8  # a patch for speed takes at most so much of the time
CHANCE = 1e-3  # to take a patch that changes nothing for one that does
BLOCKS = 2  # after each of them it is decided, with an equal part of the chance
LEAST, MOST = 3, 40  # runs of one of them in a block
CALM = 1.1  # times the fastest run that the middle one takes where nothing else runs


class Comparison:
    """Times of a cell and of the patched cell, and what they say. `turns` says which is to run next."""

    def __init__(self, cell_ms: float, patched_ms: float, draw: random.Random | None = None) -> None:
        """The times of a first run of each say how many are the cheapest; they do not count."""
        self.counts = cheapest(cell_ms, patched_ms)
        self.blocks: list[tuple[list[float], list[float]]] = []  # of the cell, of the patched one
        self._draw, self._over = draw or random.Random(), False

    def turns(self) -> Iterator[list[float]]:
        """Yield the list that the next run's time is to be put into, until it is known whether the patch is faster."""
        while len(self.blocks) < BLOCKS and self.faster() is None:
            block: tuple[list[float], list[float]] = ([], [])
            self.blocks.append(block)
            order = [which for which, count in enumerate(self.counts) for _ in range(count)]
            self._draw.shuffle(order)
            for which in order:
                yield block[which]
                if self._hopeless():
                    self._over = True
                    return
        self._over = True

    @property
    def times(self) -> tuple[list[float], list[float]]:
        """All times of the cell, and of the patched one."""
        cell, patched = ([ms for block in self.blocks for ms in block[which]] for which in (0, 1))
        return cell, patched

    def medians(self) -> tuple[float, float]:
        """The middle time of the cell, and of the patched one."""
        cell, patched = self.times
        return (median(cell), median(patched)) if cell and patched else (0.0, 0.0)

    def faster(self) -> bool | None:
        """Whether the patched cell is faster; None where these times do not tell."""
        cell, patched = self.times
        if min(len(cell), len(patched)) < 2:
            return None
        shares = median(patched) / median(cell), min(patched) / min(cell)
        if max(shares) <= FASTER and chance(self._whole()) <= CHANCE / BLOCKS:
            return True
        calm = all(median(times) <= CALM * min(times) for times in (cell, patched))
        return False if min(shares) > FASTER or (calm and self._over) else None

    def unknown(self) -> str:
        """Why it cannot be told whether the patch is faster; "" where it can."""
        if self.faster() is not None:
            return ""
        if not self._over:
            return "the time for trials was over"
        wide = max(self.times, key=lambda times: max(times) / min(times))
        return f"the machine is busy: one and the same cell took {min(wide):,.0f} to {max(wide):,.0f} ms"

    def _whole(self) -> list[tuple[list[float], list[float]]]:
        """The blocks that have come to their end: the others' order is not a random one."""
        return [block for block in self.blocks if (len(block[0]), len(block[1])) == self.counts]

    def _hopeless(self) -> bool:
        """Whether the fastest runs are too much alike for the patch to be a faster one."""
        cell, patched = self.times
        return min(len(cell), len(patched)) >= 2 and min(patched) > (1 + FASTER) / 2 * min(cell)


def cheapest(cell_ms: float, patched_ms: float) -> tuple[int, int]:
    """Return how many runs of each make a block that can decide, in the least time.

    >>> cheapest(100.0, 90.0), cheapest(1000.0, 50.0)
    ((5, 9), (3, 21))
    """
    pairs = [(m, n) for m in range(LEAST, MOST) for n in range(LEAST, MOST) if math.comb(m + n, m) >= BLOCKS / CHANCE]
    return min(pairs, key=lambda pair: pair[0] * cell_ms + pair[1] * patched_ms)


@cache
def orders(m: int, n: int) -> tuple[int, ...]:
    """Return how many orders of m runs and n others have 0, 1, 2, ... pairs that are turned.

    >>> orders(2, 2), sum(orders(7, 7)) == math.comb(14, 7)
    ((1, 1, 2, 1, 1), True)
    """
    if not m or not n:
        return (1,)
    out = [0] * (m * n + 1)  # the last is one of the m, which all n others stand before, or one of the n
    for turned, many in enumerate(orders(m - 1, n)):
        out[turned + n] += many
    for turned, many in enumerate(orders(m, n - 1)):
        out[turned] += many
    return tuple(out)


def chance(blocks: list[tuple[list[float], list[float]]]) -> float:
    """Return the share of orders in which the patched runs would have come out as well, were all the same program.

    >>> chance([([3.0, 4.0], [1.0, 2.0])]), chance([([3.0, 4.0], [1.0, 2.0]), ([3.0, 1.0], [1.0, 2.0])])
    (0.16666666666666666, 0.2222222222222222)
    """
    turned = sum(p >= c for cell, patched in blocks for p in patched for c in cell)
    ways, total = np.ones(1), 1.0
    for cell, patched in blocks:
        ways = np.convolve(ways, orders(len(cell), len(patched)))
        total *= math.comb(len(cell) + len(patched), len(cell))
    return float(ways[: turned + 1].sum() / total)
