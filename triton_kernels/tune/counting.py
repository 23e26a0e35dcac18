"""What a launch does, counted: some of its programs run in Triton's interpreter, with no product computed and nothing
written.

Loops run as often as they do for these arguments, so that operations and bytes need nobody's formula: of a tile beyond
the matrix's edge the products count, and its masked lanes move no bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SAMPLED = 3  # programs: the first, and those at a third and at two thirds


@dataclass(frozen=True)
class Counts:
    """A launch's operations of `tl.dot` (a multiplication and an addition are two) and bytes that its programs ask
    for, whether a cache has them or not; idle : the share of lanes of loads that a mask leaves out."""

    flops: float
    loaded: float
    stored: float
    idle: float


class Counter:
    """Asked by the interpreter about each access; see `interpreter.Memory`. reads : whether what loads ask for is
    there; where it is not, they get zeros."""

    multiplies = False

    def __init__(self, reads: bool = True) -> None:
        self.program, self.reads = 0, reads
        self.flops = self.loaded = self.stored = self.lanes = self.live = 0

    def check(self, kind: str, pointers: np.ndarray, mask: np.ndarray | None, size_bytes: int) -> np.ndarray | None:
        pointers = np.asarray(pointers)
        lanes = pointers.size
        live = lanes if mask is None else int(np.count_nonzero(np.broadcast_to(np.asarray(mask, bool), pointers.shape)))
        if kind == "load":
            self.loaded += live * size_bytes
            self.lanes += lanes
            self.live += live
            return None if self.reads else np.zeros(pointers.shape, bool)
        self.stored += live * size_bytes
        return np.zeros(pointers.shape, bool)

    def dot(self, dtype: str, depth: int, flops: int) -> None:
        self.flops += flops


def counted(kernel: Any, arguments: Mapping[str, Any], grid: Sequence[int], reads: bool = True) -> Counts:
    """Count a launch by some of its programs. *Raises*: what the kernel raises.

    arguments : all of them by name, as `interpreter.run` takes them.
    """
    from ..interpreter import run

    count = math.prod(grid)
    programs = sorted({k * count // SAMPLED for k in range(SAMPLED)})
    counter = Counter(reads)
    run(kernel, arguments, grid, counter, programs)
    times = count / len(programs)
    idle = 1.0 - counter.live / counter.lanes if counter.lanes else 0.0
    return Counts(counter.flops * times, counter.loaded * times, counter.stored * times, round(idle, 4))
