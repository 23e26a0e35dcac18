"""Telling configs apart by noisy times: few repeats for the hopeless, an interleaved final for the best.

Everything is a ratio of two times taken one after the other: on a machine that others use too, these scatter by 1 %
where the times themselves scatter by 12 %. Medians and their order-statistic intervals, since the noise is one-sided.

The ratio itself differs from process to process, by where the arrays lie in memory: within one process two kernels can
differ by 7 times that differ by 3 in the next. So a final runs in several, and its intervals hold what lies between.
"""

from __future__ import annotations

import functools
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
    """Return the median and its 95 % interval by order statistics; below six values the interval is all of them.

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


@functools.lru_cache(maxsize=64)
def student_t(freedom: int, p: float) -> float:
    """Return the quantile of Student's distribution; by its integral in the angle, tan(angle) = t / sqrt(freedom).

    >>> round(student_t(2, 0.975), 2), round(student_t(7, 0.995), 2)
    (4.3, 3.5)
    """
    angles = np.linspace(0.0, math.pi / 2, 20_001)
    height = np.cos(angles) ** (freedom - 1)
    area = np.concatenate(([0.0], np.cumsum((height[1:] + height[:-1]) / 2)))
    return math.sqrt(freedom) * math.tan(float(np.interp(2.0 * p - 1.0, area / area[-1], angles)))


def interval_over(
    values: Sequence[float] | np.ndarray, parts: Sequence[int], comparisons: int = 1
) -> tuple[float, float, float]:
    """As `interval`, of values of several processes, `parts` of each: of the middle over all processes.

    It is never narrower than the one that takes all values as alike, and holds the median of every process that there
    was: whoever runs the kernels runs them in one, and is to find what was said. Of few processes, the logarithms of
    their medians are taken as normally distributed, and Student's distribution gives the rest. Where there are so many
    that their least and greatest are an interval by order statistics, nothing is assumed: a default of two threads that
    in one process out of three waits for the other leaves no doubt about what is faster in all of them.

    >>> interval_over([7.4, 7.4, 2.9, 2.9, 5.0, 5.0], [2, 2, 2])[1] < 2.9
    True
    >>> interval_over([2.0] * 6, [3, 3])
    (2.0, 2.0, 2.0)
    >>> interval_over([0.7, 0.2, 0.3, 0.7, 0.7, 0.7, 0.6, 0.7], [1] * 8, comparisons=5)
    (0.7, 0.2, 0.7)
    """
    values = np.asarray(values, float)
    alike = interval(values, comparisons)
    if len(parts) < 2:
        return alike
    medians = np.array([np.median(part) for part in np.split(values, np.cumsum(parts)[:-1])])
    if 0.5 ** len(parts) <= 0.025 / comparisons:
        low, high = float(medians.min()), float(medians.max())
        return float(np.median(medians)), min(alike[1], low), max(alike[2], high)
    logs = np.log(medians)
    middle = float(logs.mean())
    half = student_t(len(parts) - 1, 1.0 - 0.025 / comparisons) * float(logs.std(ddof=1)) / math.sqrt(len(parts))
    low, high = min(middle - half, float(logs.min())), max(min(middle + half, 700.0), float(logs.max()))
    return math.exp(middle), min(alike[1], math.exp(low)), max(alike[2], math.exp(high))


@dataclass(frozen=True)
class Standing:
    """Where each config of a final stands: (median, low, high) of its ratio to the first, the winner, its ties."""

    ratios: list[tuple[float, float, float]]
    times_ms: list[float]
    winner: int
    ties: list[int]
    verdict: str
    width: float  # the half-width of the interval of the fastest but the default, which is to be narrow


def standing(times: Sequence[Sequence[float]], parts: Sequence[int] = ()) -> Standing:
    """Return what the rounds of a final say; the first is the default, which wins unless another is measurably faster.

    Of those that are, the one with the lowest median wins, though another may seem faster still whose interval holds 1.

    parts : how many of the rounds each process ran.

    >>> standing([[1.0] * 8, [0.5] * 8, [0.5] * 8]).verdict, standing([[1.0] * 8, [1.0] * 8]).verdict
    ('faster', 'default')
    >>> standing([[1.0] * 8, [0.5] * 5 + [2.0] * 3, [0.9] * 8]).winner
    2
    """
    columns = np.asarray(times, float)
    parts = parts or [columns.shape[1]]
    others = max(len(columns) - 1, 1)  # that is how often the best of them could have come out ahead at random
    ratios = [interval_over(row / columns[0], parts, others) for row in columns]
    sure = [i for i in range(1, len(ratios)) if ratios[i][2] < 1.0]
    winner = min(sure, key=lambda i: ratios[i][0], default=0)
    verdict = "faster" if sure else "noisy" if min(ratios)[0] < 0.99 else "default"
    rival = min(range(1, len(ratios)), key=lambda i: ratios[i][0], default=0)
    width = (ratios[rival][2] - ratios[rival][1]) / 2
    ties = [i for i in range(len(ratios)) if i != winner and _tied(columns[i] / columns[winner], parts)]
    return Standing(ratios, [float(np.median(row)) for row in columns], winner, ties, verdict, width)


def _tied(ratios: np.ndarray, parts: Sequence[int]) -> bool:
    _, low, high = interval_over(ratios, parts)
    return low <= 1.0 <= high
