"""What a launch does, counted: some of its programs run in Triton's interpreter, with no product computed and nothing
written.

Loops run as often as they do for these arguments, so that operations and bytes need nobody's formula: of a tile beyond
the matrix's edge the products count, and its masked lanes move no bytes.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import Address
from .measure import Failed
from .worker import Worker

SAMPLED = 3  # programs: the first, and those at a third and at two thirds
_FIRST_S, _LATER_S = 30.0, 10.0  # the first has to wait for a process to start
ENOUGH_S = 0.5  # after so long no further program is begun


@dataclass(frozen=True)
class Counts:
    """A launch's operations of `tl.dot` (a multiplication and an addition are two) and bytes that its programs ask
    for, whether a cache has them or not; idle : the share of lanes of loads that a mask leaves out."""

    flops: float
    loaded: float
    stored: float
    idle: float


class Counter:
    """Asked by the interpreter about each access; see `interpreter.Memory`. ranges : the first and last addresses of
    what there is to read; loads of what is outside get zeros."""

    multiplies = False

    def __init__(self, ranges: Sequence[tuple[int, int]] = ()) -> None:
        self.program, self.ranges = 0, ranges
        self.flops = self.loaded = self.stored = self.lanes = self.live = 0

    def check(self, kind: str, pointers: np.ndarray, mask: np.ndarray | None, size_bytes: int) -> np.ndarray | None:
        pointers = np.asarray(pointers)
        lanes = pointers.size
        live = lanes if mask is None else int(np.count_nonzero(np.broadcast_to(np.asarray(mask, bool), pointers.shape)))
        if kind == "load":
            self.loaded += live * size_bytes
            self.lanes += lanes
            self.live += live
            if not self.ranges:
                return np.zeros(pointers.shape, bool)
            ends = pointers + np.uint64(size_bytes)
            there = np.any([(pointers >= low) & (ends <= high) for low, high in self.ranges], axis=0)
            return there if mask is None else there & np.asarray(mask, bool)
        self.stored += live * size_bytes
        return np.zeros(pointers.shape, bool)

    def dot(self, dtype: str, depth: int, flops: int) -> None:
        self.flops += flops


def counted(
    kernel: Any, arguments: Mapping[str, Any], grid: Sequence[int], ranges: Sequence[tuple[int, int]] = ()
) -> Counts:
    """Count a launch by some of its programs. *Raises*: what the kernel raises.

    arguments : all of them by name, as `interpreter.run` takes them. ranges : see `Counter`.
    """
    from ..interpreter import run

    count, counter, done = math.prod(grid), Counter(ranges), 0
    began = time.monotonic()
    for program in sorted({k * count // SAMPLED for k in range(SAMPLED)}):
        run(kernel, arguments, grid, counter, [program])
        done += 1
        if time.monotonic() - began > ENOUGH_S:
            break
    times = count / done
    idle = 1.0 - counter.live / counter.lanes if counter.lanes else 0.0
    return Counts(counter.flops * times, counter.loaded * times, counter.stored * times, round(idle, 4))


class Counting:
    """A measure that counts launches of the tuner's own kernels for a process that compiles. See `measure.Measure`."""

    kind, estimate, steady, apart = "interpret", False, False, True
    environment: Mapping[str, str] = {"TRITON_INTERPRET": "1"}

    def open(self) -> dict[str, str]:
        return {"device": "Triton's interpreter"}

    def build(self, *_: Any) -> Any:
        """Refuse: the session that asks for counts builds, checks and times by a measure of its own."""
        raise NotImplementedError("Counting: builds, checks and times nothing. Remedy: call count()")

    check = pairs = rounds = build

    def count(self, module: str, name: str, arguments: Mapping[str, Any], grid: Sequence[int]) -> Counts:
        """Count a launch of a kernel that stands in a module; its arrays are not there, and read as zeros."""
        return counted(getattr(importlib.import_module(module), name), arguments, grid)


class Ledger:
    """Counts of launches, each asked for once, from a worker that interprets. Where the first, the default's, fails or
    takes too long, nothing is counted: estimates with and without counts are not to be compared."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._limit_s = worker, _FIRST_S
        self._known: dict[str, Counts] = {}
        self._off = False

    def of(self, key: str, *arguments: Any) -> Counts | None:
        """Return the counts of what the worker's `count` is called with; None where nothing is counted. *Raises*:
        Failed, for one that cannot be counted where others were."""
        if key in self._known or self._off:
            return self._known.get(key)
        try:
            self._known[key] = self._worker.call("count", *arguments, limit_s=self._limit_s)
        except Failed:
            if self._known:
                raise
            self._off = True
            return None
        self._limit_s = _LATER_S
        return self._known[key]


def pointers(dtypes: Sequence[str]) -> list[Address]:
    """Return addresses of arrays that are not there."""
    return [Address((k + 1) << 40, dtype) for k, dtype in enumerate(dtypes)]
