"""The trials of a session: what has been tried, and what became of each, told to strategy, store and the world."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from . import attempt as trying
from . import events as ev
from .attempt import Attempt, Task
from .elsewhere import Slots
from .events import Event
from .fronts import Weighed, figure_of
from .measure import Built, Failed
from .problem import Problem
from .space import Config
from .store import Store
from .strategy import Strategy
from .table import Table
from .worker import Clock, Stopped

ENERGY_OF = 12  # configs, the quickest, whose energy is read: each takes a second
ENERGY_LIMIT_S = 60.0


class Trials:
    """What has been tried, and trying one more. `anchor` is the best so far, which all others are raced against."""

    def __init__(self, problem: Problem, table: Table, strategy: Strategy, store: Store | None) -> None:
        self.problem, self.table, self.strategy, self.store = problem, table, strategy, store
        self.stopping = threading.Event()
        self.clock = Clock()
        self.session = ""  # its name in the store
        self.built: dict[tuple[int, ...], Built] = {}
        self.of_binary: dict[str, tuple[Config, float | None, str]] = {}
        self.rejected: list[ev.Rejected] = []
        self.errors: dict[int, float | None] = {}  # by row: the largest, as a share of what is allowed
        self.count = self.merged = self.launches = 0
        self.anchor: Config | None = None
        # In the default's time at the beginning: a value is a ratio to the default times this, so that values can be
        # compared though the machine has become slower or faster since.
        self.value = self.default_ms = float("nan")
        self.check_s = 0.0  # how long the default's check took
        self.device = ""  # which an executor's workers must have

    def build_or_why(self, config: Config, worker: Any) -> Built | Failed | Stopped:
        try:
            return worker.call("build", config, limit_s=trying.BUILD_LIMIT_S)
        except (Failed, Stopped) as failure:
            return failure

    def build(self, config: Config, worker: Any) -> Built:
        found = self.build_or_why(config, worker)
        if not isinstance(found, Built):
            raise found
        self.built[self.table.code(config)] = found
        return found

    def task(self, config: Config, anchor: Config | None = None) -> Task:
        """Return what is to be tried: a config against the best so far, or against `anchor`, which is the default."""
        value, known = (self.value, frozenset(self.of_binary)) if anchor is None else (self.default_ms, frozenset())
        return Task(config, self.problem.space.default, anchor or self.anchor, value, self.default_ms, self.check_s,
                    self.problem.measure.steady, known, self.device)  # fmt: skip

    def weighed(self, objective: str) -> list[Weighed]:
        """Return all that is right with its time and what stands beside it, where that is known."""
        found = []
        for row in np.flatnonzero(np.isfinite(self.strategy.values)).tolist():
            built = self.built.get(self.table.code(self.table.config(row)))
            figure = figure_of(objective, self.errors.get(row), built.facts if built else {})
            if figure == figure:
                ratio = float(self.strategy.values[row]) / self.default_ms
                found.append(Weighed(self.table.config(row), ratio, figure))
        return found

    def read_energy(self, worker: Any) -> str:
        """Read the energy of the quickest configs, as a fact of each; why not, where that fails. *Raises*: Stopped."""
        values = self.strategy.values
        for row in np.argsort(values, kind="stable")[:ENERGY_OF].tolist():
            built = self.built.get(self.table.code(config := self.table.config(row)))
            if built is None or not np.isfinite(values[row]):
                continue
            try:
                found = worker.call("energy", config, limit_s=ENERGY_LIMIT_S)
            except Failed as failure:
                return failure.reason
            self.built[self.table.code(config)] = replace(built, facts={**built.facts, "energy_mj": found})
        return ""

    def attempt(self, worker: Any, task: Task, built: Built | Failed | None = None) -> Attempt:
        """Try a config by a worker, or by an executor. *Raises*: Stopped."""
        return worker.attempt(task) if isinstance(worker, Slots) else trying.attempt(worker, task, built)

    def measured(self, config: Config, built: Built | Failed | Stopped, worker: Any) -> Generator[Event, None, None]:
        """Check and time a config that has been compiled, tell the strategy and the store, then the world."""
        if isinstance(built, Stopped):
            raise built
        if isinstance(built, Built):
            yield self.compiled(config, built)
        elif isinstance(worker, Slots):
            yield from self.concluded(Attempt(config, failure=built))
            return
        yield from self.concluded(self.attempt(worker, self.task(config), built))

    def compiled(self, config: Config, built: Built) -> Event:
        self.built[self.table.code(config)] = built
        return ev.Compiled(config, built.binary, built.compile_ms, built.facts)

    def concluded(self, done: Attempt) -> Generator[Event, None, None]:
        """Take in what became of a config."""
        config, row, built = done.config, self.table.row(done.config), done.built
        self.count += 1
        self.launches += done.launches
        trial: dict[str, Any] = {"config": config}
        if built is not None:
            trial |= {"binary": built.binary, "compile_ms": built.compile_ms}
            if built.binary and (same := self.of_binary.get(built.binary)):
                yield from self.same(row, trial, *same)
                return
        if done.failure is not None:
            if built is not None:
                self.of_binary[built.binary] = (config, None, f"{done.failure.status}|{done.failure.reason}")
            yield from self.reject(row, trial, done.failure)
            return
        assert built is not None
        assert done.race is not None
        assert done.value is not None
        first, value = self.anchor is None, done.value
        self.of_binary[built.binary] = (config, value, "")
        if first:
            self.default_ms, self.check_s = value, done.check_s
        trial |= {"status": "correct", "median_ms": done.time_ms, "ratio": value / self.default_ms,
                  "n": done.race.count, "samples": list(done.race.samples), "max_error": done.max_error}  # fmt: skip
        self.errors[row] = done.max_error
        self.keep(row, trial, value)
        yield ev.Measured(config, done.time_ms, done.race.count, raced_out=done.race.lost)
        if first or value < self.value:
            self.become(config, value)
            if not first:
                yield ev.Improved(config, done.time_ms, value / self.default_ms, *done.between)

    def same(
        self, row: int, trial: dict[str, Any], twin: Config, value: float | None, why: str
    ) -> Generator[Event, None, None]:
        """Yield a config whose machine code has been seen."""
        self.merged += 1
        self.errors[row] = self.errors.get(self.table.row(twin))
        if value is None:
            status, _, reason = why.partition("|")
            yield from self.reject(row, trial, Failed(status, reason))
            return
        trial |= {"status": "correct", "median_ms": value, "ratio": value / self.default_ms, "n": 0}
        self.keep(row, trial, value)
        yield ev.Measured(trial["config"], value, 0, same_as=twin)

    def know(self, trial: dict[str, Any], value: float | None) -> None:
        """A trial of another session, whose machine code needs no second time."""
        if trial.get("binary"):
            why = f"{trial['status']}|{trial.get('reason', '')}"
            self.of_binary.setdefault(trial["binary"], (trial["config"], value, why))

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
        """Return the largest error of a finalist, on other data or at another shape, which need another reference."""
        return worker.call("check", config, seed, odd, limit_s=trying.check_limit(self.task(config)) + 10.0)
