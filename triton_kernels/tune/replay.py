"""Recorded results in place of a device: search is judged on real kernels' spaces without any GPU.

Reads Kernel Tuner's cache files (JSON, also gzipped, also cut off at the end, as in the public benchmark collections of
the Auto-Tuning Association). `bench` runs strategies over such a file and counts evaluations.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import strategy as strategies
from .measure import Built, Failed
from .problem import Problem
from .space import Config, Space
from .strategy import History
from .table import Table

_STATUS = {"CompilationFailedConfig": "compile", "RuntimeFailedConfig": "runtime", "InvalidConfig": "constraints"}


@dataclass
class ReplayMeasure:
    """Times by config, as they were recorded: a number of ms, or a `Failed` status. See `measure.Measure`."""

    times: Mapping[tuple[Any, ...], float | str]
    device: str = "recorded"
    kind: str = "replay"
    estimate: bool = False
    steady: bool = True
    apart: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> dict[str, str]:
        return {"device": self.device}

    def build(self, config: Config) -> Built:
        if self._found(config) == "compile":
            raise Failed("compile", "was recorded as failing to compile")
        return Built("", 0.0)

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        found = self._found(config)
        if isinstance(found, str):
            raise Failed(found, f"was recorded as failing ({found})")
        return 0.0

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        return [self._time(config)] * count, [] if anchor is None else [self._time(anchor)] * count

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        return [[self._time(c)] * count for c in configs]

    def _found(self, config: Config) -> float | str:
        return self.times[tuple(config.values())]

    def _time(self, config: Config) -> float:
        found = self._found(config)
        if isinstance(found, str):
            raise Failed(found, f"was recorded as failing ({found})")
        return found


def replayed(times: Mapping[Any, float | str]) -> Problem:
    """Return a problem of one tunable ``BLOCK`` with these times; the first is the default.

    >>> replayed({1: 3.0, 2: 1.0}).space.default
    {'BLOCK': 1}
    """
    space = Space.of([{"BLOCK": block} for block in times])
    measure = ReplayMeasure({(block,): value for block, value in times.items()})
    return Problem("recorded", (1,), "float32", space, measure, "", "recorded", "replay")


def read_cache(path: Path) -> Problem:
    """Return the problem that a Kernel Tuner cache file records. *Raises*: ValueError with what is wrong with it."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        try:
            content = json.loads(text)
        except ValueError:
            content = json.loads(text.rstrip().rstrip(",") + "}}")
        names, cache = content["tune_params_keys"], content["cache"]
        configs = [{name: entry[name] for name in names} for entry in cache.values()]
        goal = content.get("objective", "time")  # where a config failed, its status stands there
        found = [entry["time"] if "time" in entry else entry[goal] for entry in cache.values()]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no cache file of Kernel Tuner: {type(error).__name__}: {error}") from error
    if not any(isinstance(value, int | float) for value in found):
        raise ValueError(f"{path} records no config that ran")
    times = {tuple(c.values()): v if isinstance(v, int | float) else _STATUS.get(v, "runtime")
             for c, v in zip(configs, found, strict=True)}  # fmt: skip
    device, kernel = str(content.get("device_name", "?")), str(content.get("kernel_name", path.name))
    return Problem(kernel, (1,), "float32", Space.of(configs), ReplayMeasure(times, device), "", device, "replay")


Search = Callable[["Trail", int], None]
"""What looks for the best of a trail, beginning with a seed; it ends when the trail raises `Enough`."""


class Enough(Exception):
    """The budget is spent, or a config within 1 % of the optimum was found."""


class Trail:
    """A recorded space to search: values by row, and a count of what was asked for.

    budget : 5 % of the space, between 200 and 600. reached : evaluations until a config within 5 % and within 1 % of
    the optimum, infinite until there is one.
    """

    def __init__(self, table: Table, values: np.ndarray) -> None:
        self.table, self.values = table, values
        self.budget = min(int(min(max(0.05 * len(table), 200), 600)), len(table))
        self.count, self.apart_s = 0, 0.0  # apart: of the processor's time, what recording histories took
        self.reached = {1.05: math.inf, 1.01: math.inf}
        self._best = float(values.min())

    def __call__(self, row: int) -> float | None:
        """Evaluate a row: its recorded value, None where it failed. *Raises*: Enough."""
        if self.count >= self.budget:
            raise Enough
        self.count += 1
        value = float(self.values[row])
        for bound in self.reached:
            if value <= bound * self._best:
                self.reached[bound] = min(self.reached[bound], self.count)
        if math.isfinite(self.reached[1.01]):
            raise Enough
        return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Found:
    """What runs of a strategy over a space found, by geometric mean over seeds; a miss counts as twice the budget.

    there_5, there_1 : share of the runs that got there within the budget. ask_ms : processor time of a suggestion and
    of learning its value.
    """

    space: str
    size: int
    budget: int
    strategy: str
    to_5: float
    to_1: float
    there_5: float
    there_1: float
    ask_ms: float


def recorded(problem: Problem) -> tuple[Table, np.ndarray]:
    """Return the space of a replayed problem, and its values by row; inf for failures."""
    measure = problem.measure
    assert isinstance(measure, ReplayMeasure)
    table = Table(problem.space)
    times = [measure.times[tuple(table.config(row).values())] for row in range(len(table))]
    return table, np.array([math.inf if isinstance(t, str) else t for t in times])


def asking(strategy: str, histories: Callable[[int], Sequence[History]] | None = None) -> Search:
    """Return the search by a strategy of ours; `histories` gives, by seed, what it may recall."""

    def search(trail: Trail, seed: int) -> None:
        chosen = strategies.make(strategy, trail.table, seed)
        if histories is not None:
            began = time.process_time()
            known = histories(seed)
            trail.apart_s += time.process_time() - began
            chosen.recall(known)
        while (row := chosen.ask()) is not None:
            chosen.tell(row, trail(row))

    return search


def bench(
    problem: Problem, strategy: str, seeds: int = 20, search: Search | None = None, name: str = "",
    space: tuple[Table, np.ndarray] | None = None,
) -> Found:  # fmt: skip
    """Evaluations until a config within 5 % and within 1 % of the optimum, from nothing, or as `search` begins."""
    table, values = space or recorded(problem)
    search = search or asking(strategy)
    counts, spent_ms, budget = [], [], 0
    for seed in range(seeds):
        trail, began = Trail(table, values), time.process_time()  # others may use the machine too
        with contextlib.suppress(Enough):
            search(trail, seed)
        spent_ms.append((time.process_time() - began - trail.apart_s) / max(trail.count, 1) * 1e3)
        counts.append(list(trail.reached.values()))
        budget = trail.budget
    reached = np.array(counts)
    there = np.isfinite(reached)
    mean = np.exp(np.log(np.where(there, reached, 2.0 * budget)).mean(0))
    share = there.mean(0)
    return Found(name or f"{problem.kernel}, {problem.device}", len(table), budget, strategy, float(mean[0]),
                 float(mean[1]), float(share[0]), float(share[1]), float(np.mean(spent_ms)))  # fmt: skip
