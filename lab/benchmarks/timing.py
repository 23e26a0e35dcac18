"""Timing things in turn: what every benchmark here is made of.

Machines are shared and their clocks move, so nothing is quoted alone: what is compared runs alternately, in an order by
chance, and a figure is the median of the rounds' ratios with their middle half.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

Work = Callable[[], object]
CALM_S = 0.03
"""Between two contestants: idle threads of OpenMP and OpenBLAS spin for up to 25 ms, on the next one's processors."""


class Spread(NamedTuple):
    """The middle half of some figures, and their median."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """Of any number of figures.

        >>> Spread.of([3.0, 1.0, 2.0, 9.0, 4.0])
        Spread(low=2.0, median=3.0, high=4.0)
        """
        ordered = sorted(figures)
        quarter = len(ordered) // 4
        return cls(ordered[quarter], statistics.median(ordered), ordered[-1 - quarter])


class Ratio(NamedTuple):
    """A compared to B: the median of `a/b` over alternating rounds, its middle half, and both medians in µs."""

    name: str
    median: float
    low: float
    high: float
    a_us: float
    b_us: float

    def __str__(self) -> str:
        return (
            f"{self.name:44} {self.median:7.3f}   [{self.low:.3f} … {self.high:.3f}]   "
            f"{self.a_us:9.2f} / {self.b_us:9.2f} µs"
        )


def ratio(name: str, pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Return the ratio of pairs of times in seconds, each pair taken in one round."""
    low, median, high = Spread.of([x / y for x, y in pairs])
    a, b = statistics.median(x for x, _ in pairs), statistics.median(y for _, y in pairs)
    return Ratio(name, median, low, high, a * 1e6, b * 1e6)


def seconds(work: Work, number: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """One timing of `number` calls, per call."""
    start = clock()
    for _ in range(number):
        work()
    return (clock() - start) / number


def in_turn(works: dict[str, Work], rounds: int = 15, block_s: float = 0.01, calm_s: float = CALM_S,
            most_s: float = 20.0,
            clock: Callable[[], float] = time.perf_counter) -> dict[str, list[float]]:  # fmt: skip
    """Time every contestant once a round, in a random order; gives seconds a call, by contestant and round.

    Parameters
    ----------
    works : contestants by name; each has run before.
    block_s : how long one timing lasts at least: so many calls are made.
    calm_s : the pause before each timing; one call that is not timed follows it, for the caches are another's.
    most_s : rounds end here, though never before the third.
    clock : `time.process_time` leaves out what other processes take of the processor, where one thread does the work.
    """
    numbers = {}
    for name, work in works.items():
        work()
        numbers[name] = max(1, int(block_s / max(seconds(work, 1), 1e-7)))
        if numbers[name] > 20:  # one call of a short work says little
            numbers[name] = max(1, int(block_s / max(seconds(work, 20), 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in works}
    order, chance, end = list(works), random.Random(0), time.perf_counter() + most_s
    for done in range(rounds):
        if done >= 3 and time.perf_counter() > end:
            break
        chance.shuffle(order)
        for name in order:
            time.sleep(calm_s)
            works[name]()
            times[name].append(seconds(works[name], numbers[name], clock))
    return times
