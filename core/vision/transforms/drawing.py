"""Random numbers for the transforms, from core's default generator, one draw a number and in torchvision's order.

So a seed repeats an augmentation, a worker process draws from its own seed, and with ``manual_seed(n, kind="torch")``
the numbers are those PyTorch would draw.
"""

from __future__ import annotations

import numpy as np

from ...base.device import cpu
from ...base.device import kind as kind_of
from ...base.dtypes import float32
from ...dispatch.draws import source, uniform_array

_KIND = kind_of(float32, cpu)


def uniform(low: float = 0.0, high: float = 1.0) -> float:
    """Return a number of [low, high).

    >>> import core
    >>> _ = core.manual_seed(0, kind="torch")
    >>> round(uniform(2.0, 4.0), 4)
    2.9925
    """
    return float(uniform_array((1,), _KIND, None)[0]) * (high - low) + low


def integer(high: int) -> int:
    """One of 0 to high - 1."""
    return int(source(None, cpu).integers(np, 1, high)[0])


def chance(p: float) -> bool:
    """True with probability p."""
    return uniform() < p


def order(n: int) -> list[int]:
    """0 to n - 1 in random order."""
    return [int(k) for k in source(None, cpu).permutation(np, n)]
