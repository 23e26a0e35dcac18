"""Telling configs apart by noisy times: few repeats for the hopeless, an interleaved final for the best.

Everything is a ratio of two times taken one after the other: on a machine that others use too, these scatter by 1 %
where the times themselves scatter by 12 %. Medians and their order-statistic intervals, since the noise is one-sided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

Pairs = Callable[[int], tuple[list[float], list[float]]]

# After so many pairs in all, a config whose ratio at this rank (0 is the smallest) exceeds the bound, or whose median
# exceeds the last figure, has lost. A search ends among configs that are nearly as good: most of the samples go there,
# and whether such a one is 1 or 2 % behind, nobody needs to know.
_STAGES = ((2, 0, 1.06, math.inf), (4, 1, 1.015, math.inf), (8, 2, 1.01, 1.0), (16, 0, math.inf, math.inf))


@dataclass(frozen=True)
class Race:
    """A config against the best so far: the median ratio of its times to the other's, and how many pairs were taken."""

    ratio: float
    count: int
    lost: bool
    samples: tuple[float, ...]


def race(pairs: Pairs) -> Race:
    """Take pairs of times until the config has clearly lost, or all are taken.

    >>> race(lambda count: ([2.0] * count, [1.0] * count))
    Race(ratio=2.0, count=2, lost=True, samples=(2.0, 2.0))
    >>> race(lambda count: ([0.9] * count, [1.0] * count)).count
    16
    """
    mine: list[float] = []
    ratios: list[float] = []
    for total, rank, bound, middle in _STAGES:
        new, other = pairs(total - len(mine))
        mine += new
        ratios += [a / b for a, b in zip(new, other, strict=True)]
        if sorted(ratios)[rank] > bound or np.median(ratios) > middle:
            return Race(float(np.median(ratios)), len(mine), True, tuple(mine))
    return Race(float(np.median(ratios)), len(mine), False, tuple(mine))


def interval(values: Sequence[float] | np.ndarray, comparisons: int = 1) -> tuple[float, float, float]:
    """The median and its 95 % interval by order statistics; below six values the interval is all of them.

    comparisons : of so many intervals, 95 % that none of them misses (Bonferroni's): whoever looks at the best of five
    is misled five times as often.

    Source: Conover, Practical Nonparametric Statistics, 3rd ed. (1999), section 3.2.

    >>> interval([1.0, 2.0, 3.0])
    (2.0, 1.0, 3.0)
    >>> interval(range(1, 101)), interval(range(1, 101), comparisons=5)
    ((50.5, 40.0, 61.0), (50.5, 37.0, 64.0))
    """
    ordered = np.sort(np.asarray(values, float))
    n = len(ordered)
    sure = 0.98 if comparisons < 2 else NormalDist().inv_cdf(1.0 - 0.025 / comparisons) / 2.0
    below = max(math.floor(n / 2 - sure * math.sqrt(n)), 0) if n >= 6 else 0
    low = ordered[max(below - 1, 0)] if n >= 6 else ordered[0]
    return float(np.median(ordered)), float(low), float(ordered[n - 1 - max(below - 1, 0)] if n >= 6 else ordered[-1])


@dataclass(frozen=True)
class Standing:
    """Where each config of a final stands: (median, low, high) of its ratio to the first, the winner, its ties."""

    ratios: list[tuple[float, float, float]]
    times_ms: list[float]
    winner: int
    ties: list[int]
    verdict: str
    width: float  # the half-width of the interval of the fastest but the default, which is to be narrow


def standing(times: Sequence[Sequence[float]]) -> Standing:
    """What the rounds of a final say; the first is the default, which wins unless another is measurably faster.

    >>> standing([[1.0] * 8, [0.5] * 8, [0.5] * 8]).verdict, standing([[1.0] * 8, [1.0] * 8]).verdict
    ('faster', 'default')
    """
    columns = np.asarray(times, float)
    ratios = [interval(row / columns[0]) for row in columns]
    fastest = min(range(len(ratios)), key=lambda i: ratios[i][0])
    verdict, winner = "faster", fastest
    surely = interval(columns[fastest] / columns[0], len(columns) - 1)
    if surely[2] >= 1.0 or fastest == 0:
        verdict, winner = ("noisy" if ratios[fastest][0] < 0.99 else "default"), 0
    rival = min(range(1, len(ratios)), key=lambda i: ratios[i][0], default=0)
    width = (ratios[rival][2] - ratios[rival][1]) / 2
    ties = [i for i in range(len(ratios)) if i != winner and _tied(columns[i] / columns[winner])]
    return Standing(ratios, [float(np.median(row)) for row in columns], winner, ties, verdict, width)


def _tied(ratios: np.ndarray) -> bool:
    _, low, high = interval(ratios)
    return low <= 1.0 <= high
