"""How long a launch may take that was compiled and counted, not run: a few constants of the machine, fitted to recorded
times.

A program's loads wait for memory: with `flying` bytes under way it asks for `flying` bytes in every `latency` (Little's
law); all programs of a multiprocessor share its way to the L2 cache and its arithmetic. Whichever takes longest is a
program's time; programs come in waves; and the whole is never quicker than memory can be read once. What is compared
with recorded times, and how well it orders them, `static_ranks` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .devices import Device, Occupancy


@dataclass(frozen=True)
class Launched:
    """A launch: operations, bytes that move at least, bytes that programs ask for, and how the kernel was compiled.
    flying : bytes of loads that a program has under way at a time. fed : bytes of shared memory that its arithmetic
    reads for an operation. pipelined : whether loads go on while it computes."""

    dtype: str
    flops: float
    moved: float
    asked: float
    programs: int
    num_warps: int
    flying: float
    full: Occupancy
    fed: float = 0.0
    pipelined: bool = True


@dataclass(frozen=True)
class Constants:
    """What the fit says: ns from a load to its data, the L2 cache's bytes a second over the memory's, the shares of
    peak arithmetic and of shared memory's speed that compiled loops reach, and us that a program takes besides."""

    latency_ns: float = 1390.0
    l2_ratio: float = 2.2
    reached: float = 0.7
    fed: float = 0.44
    besides_us: float = 1.7


CONSTANTS = Constants()
"""Fitted to the recorded spaces; the figures of `static_ranks` leave out the space that they are about. What these tell
least of is `reached`: their times are bytes', and fits that begin elsewhere end between 0.5 and 0.9."""

LEAST = 0.5
"""A rank correlation with measured times below which an order is no advice."""


APART = 1.05
"""Two recorded configs whose estimates are nearer than that were in their order 43 times of 100."""

AGREED = (0.52, 0.81, 0.92, 10)
"""Least, middle and greatest rank correlation with recorded times, and on how many spaces, each left out of the fit:
products of matrices of 64 and 128 rows on an H100 (`static_ranks`; a test holds these to what it says)."""


def trust(flops: float, asked: float) -> str:
    """Return in words how far an order of estimates is to be trusted, by what was counted of a kernel.

    >>> trust(0.0, 1e6)[:60]
    'how well this order agrees with measured times is not known '
    """
    low, middle, high, count = AGREED
    if flops and asked:
        return (
            f"of products of matrices, estimates ordered the configs of {count} spaces recorded on an H100, of "
            f"few rows, with a rank correlation of {low:.2f} to {high:.2f}, {middle:.2f} in the middle: the best "
            "may well be another of the first ten"
        )
    what = "products of matrices alone have been compared" if asked else "what it does was not counted"
    return f"how well this order agrees with measured times is not known ({what}): take it for no advice"


def time_ms(device: Device, launched: Launched, constants: Constants) -> float:
    """Return the estimated time of a launch."""
    units, blocks = device.units, max(launched.full.blocks, 1)
    whole, left = divmod(launched.programs, units * blocks)
    took = whole * _wave_s(device, launched, constants, blocks)
    if left:  # the last wave's programs have more of the multiprocessors to themselves
        took += _wave_s(device, launched, constants, math.ceil(left / units))
    return max(took, launched.moved / device.bytes_per_s) * 1e3


def _wave_s(device: Device, launched: Launched, c: Constants, resident: int) -> float:
    """Return how long so many programs on every multiprocessor take, which began together."""
    one, flops = launched.asked / launched.programs, launched.flops / launched.programs
    waiting = one / max(launched.flying, 1.0) * c.latency_ns * 1e-9
    through_l2 = one * resident * device.units / (device.bytes_per_s * c.l2_ratio)
    feeding = launched.fed / (device.shared_bytes_per_s * c.fed)
    computing = flops * device.units * max(1.0 / (device.flops[launched.dtype] * c.reached), feeding)
    alone = waiting if launched.pipelined else waiting + computing
    return max(alone, through_l2, resident * computing) + c.besides_us * 1e-6


def ranks(values: Sequence[float]) -> list[float]:
    """Return each value's place, from 1; equal ones share the mean of theirs.

    >>> ranks([3.0, 1.0, 3.0])
    [2.5, 1.0, 2.5]
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    places = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for i in order[at:end]:
            places[i] = (at + 1 + end) / 2
        at = end
    return places


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 where one of the two is the same throughout.

    >>> correlation([1, 2, 3, 4], [10, 20, 30, 40]), round(correlation([1, 2, 3, 4], [10, 30, 20, 40]), 3)
    (1.0, 0.8)
    """
    x, y = ranks(a), ranks(b)
    mean = (len(x) + 1) / 2
    both = sum((p - mean) * (q - mean) for p, q in zip(x, y, strict=True))
    spread = math.sqrt(sum((p - mean) ** 2 for p in x) * sum((q - mean) ** 2 for q in y))
    return both / spread if spread else 0.0
