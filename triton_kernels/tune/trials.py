"""The trials of a session: one config after another is compiled, checked and raced, and told to strategy and store."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import numpy as np

from . import events as ev
from .events import Event
from .measure import Built, Failed
from .problem import Problem
from .race import Race, interval, race
from .space import Config
from .store import Store
from .strategy import Strategy
from .table import Table
from .worker import Stopped

BUILD_LIMIT_S = 90.0
CHECK_LIMIT_S = 3.0  # besides twenty of the best's times


class Trials:
    """What has been tried, and trying one more. `anchor` is the best so far, which all others are raced against."""

    def __init__(self, problem: Problem, table: Table, strategy: Strategy, store: Store | None) -> None:
        self.problem, self.table, self.strategy, self.store = problem, table, strategy, store
        self.stopping = threading.Event()
        self.session = ""  # its name in the store
        self.built: dict[tuple[int, ...], Built] = {}
        self.of_binary: dict[str, tuple[Config, float | None, str]] = {}
        self.rejected: list[ev.Rejected] = []
        self.count = self.merged = 0
        self.anchor: Config | None = None
        # In the default's time at the beginning: a value is a ratio to the default times this, so that values can be
        # compared though the machine has become slower or faster since.
        self.value = self.default_ms = float("nan")

    def build_or_why(self, config: Config, worker: Any) -> Built | Failed | Stopped:
        try:
            return worker.call("build", config, limit_s=BUILD_LIMIT_S)
        except (Failed, Stopped) as failure:
            return failure

    def build(self, config: Config, worker: Any) -> Built:
        found = self.build_or_why(config, worker)
        if not isinstance(found, Built):
            raise found
        self.built[self.table.code(config)] = found
        return found

    def measured(self, config: Config, built: Built | Failed | Stopped, worker: Any) -> Generator[Event, None, None]:
        """Check and time a config, tell the strategy and the store, then the world."""
        if isinstance(built, Stopped):
            raise built
        row = self.table.row(config)
        self.count += 1
        trial: dict[str, Any] = {"config": config}
        if isinstance(built, Failed):
            yield from self.reject(row, trial, built)
            return
        self.built[self.table.code(config)] = built
        trial |= {"binary": built.binary, "compile_ms": built.compile_ms, "facts": built.facts}
        yield ev.Compiled(config, built.binary, built.compile_ms, built.facts)
        if built.binary and (same := self.of_binary.get(built.binary)):
            yield from self.same(row, trial, *same)
            return
        try:
            trial["max_error"] = self.check(config, worker)
            run = self.race(config, worker)
        except Failed as failure:
            self.of_binary[built.binary] = (config, None, f"{failure.status}|{failure.reason}")
            yield from self.reject(row, trial, failure)
            return
        first = self.anchor is None
        value = run.ratio * (1.0 if first else self.value)
        time_ms = float(np.median(run.samples))
        between: list[float] = []
        if not first and value < self.value and not self.problem.measure.steady:
            value, time_ms, *between = self.confirmed(config, worker)
        self.of_binary[built.binary] = (config, value, "")
        if first:
            self.default_ms = value
        trial |= {"status": "correct", "median_ms": time_ms, "ratio": value / self.default_ms, "n": run.count,
                  "samples": list(run.samples)}  # fmt: skip
        self.keep(row, trial, value)
        yield ev.Measured(config, time_ms, run.count, raced_out=run.lost)
        if first or value < self.value:
            self.become(config, value)
            if not first:
                yield ev.Improved(config, time_ms, value / self.default_ms, *between)

    def same(
        self, row: int, trial: dict[str, Any], twin: Config, value: float | None, why: str
    ) -> Generator[Event, None, None]:
        """A config whose machine code has been seen."""
        self.merged += 1
        if value is None:
            status, _, reason = why.partition("|")
            yield from self.reject(row, trial, Failed(status, reason))
            return
        trial |= {"status": "correct", "median_ms": value, "ratio": value / self.default_ms, "n": 0}
        self.keep(row, trial, value)
        yield ev.Measured(trial["config"], value, 0, same_as=twin)

    def reject(self, row: int, trial: dict[str, Any], failure: Failed) -> Generator[Event, None, None]:
        event = ev.Rejected(trial["config"], failure.status, failure.reason, failure.detail)
        self.rejected.append(event)
        trial |= {"status": failure.status, "reason": failure.reason, "detail": failure.detail}
        self.keep(row, trial, None)
        yield event

    def keep(self, row: int, trial: dict[str, Any], value: float | None) -> None:
        if self.store is not None and not self.problem.measure.estimate:
            self.store.add(self.problem.key, self.session, trial)
        self.strategy.tell(row, value)

    def become(self, config: Config, value: float) -> None:
        self.anchor, self.value = config, value

    def check(self, config: Config, worker: Any, seed: int = 0, odd: bool = False) -> float:
        # another shape or seed needs another reference; how long the default takes is not known beforehand
        limit = CHECK_LIMIT_S + 0.02 * self.value if self.anchor is not None else 60.0
        if seed or odd:
            limit += 10.0
        return worker.call("check", config, seed, odd, limit_s=limit)

    def race(self, config: Config, worker: Any) -> Race:
        """The config against the best so far; the default, which has none before it, against the clock."""
        if self.problem.measure.steady:
            mine, _ = worker.call("pairs", config, None, 1, limit_s=BUILD_LIMIT_S)
            return Race(mine[0] / (1.0 if self.anchor is None else self.value), 1, False, tuple(mine))
        if self.anchor is None:
            mine, _ = worker.call("pairs", config, None, 8, limit_s=60.0)
            return Race(float(np.median(mine)), 8, False, tuple(mine))

        def pairs(count: int) -> tuple[list[float], list[float]]:
            limit = 2.0 + (2 * count + 4) * 10.0 * max(self.value, 0.2) / 1e3
            return worker.call("pairs", config, self.anchor, count, limit_s=limit)

        return race(pairs)

    def confirmed(self, config: Config, worker: Any) -> tuple[float, float, float, float]:
        """A config that has just won a race, taken anew beside the default: its value, its time in ms, and the 95 %
        interval of its ratio to the default.

        What wins by luck in one race would carry its luck into all that is raced against it: after ten such winners the
        product of ratios was a tenth of the truth.
        """
        limit = 5.0 + 20.0 * 10.0 * max(self.default_ms, 0.2) / 1e3
        mine, other = worker.call("pairs", config, self.problem.space.default, 8, limit_s=limit)
        ratio, low, high = interval(np.array(mine) / np.array(other))
        return ratio * self.default_ms, float(np.median(mine)), low, high
