"""The end of a session: the best, the default, an earlier session's winner and the vendor's library, in turn.

Whoever is in it has been right on other data, on an odd shape and at the edge of forbidden memory, several times in one
process; whoever is no more when all have run leaves it, and the next best takes the place. It is held in several
processes, each with its arrays elsewhere in memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from . import lookup
from .attempt import BUILD_LIMIT_S, once_more, timing_limit
from .estimates import APART
from .events import Event, Place, Vendor
from .measure import VENDOR, Failed
from .problem import Problem
from .race import Standing, interval_over, standing
from .space import Config
from .trials import Trials
from .worker import Late, Worker, worker_for

FINALISTS = 5
LEAST_PROCESSES, _MOST_PROCESSES = 3, 8  # of eight, no distribution need be assumed: see race.interval_over
_WIDTH = 0.005  # the interval's half-width at which nothing more is asked
_NOISY_TIMES = 3.0  # as long a final goes on, if its budget allows, that has found none to be surely faster
_LEAST_ROUNDS, _MOST_ROUNDS = 4, 24  # in a process
_MOST_ASKED = 200  # configs that are looked at for a place
_MOST_BATCHES = 12  # of finalists that another measure looks at
_BUSY = 0.25  # where nothing else runs, the middle half of a kernel's times spreads by some per cent
_CHECKS = ((1, False), (0, True), (1, False), (0, False))  # of a finalist: with which data, and whether at odd places


class Final:
    """Who is in it, and what came of it: `places` (the winner first), `default`, `ties`, `verdict`, `vendor`."""

    def __init__(self, trials: Trials, limit_s: float, seed: int) -> None:
        self.trials, self.limit_s, self.seed = trials, limit_s, seed
        self.problem, self.table = trials.problem, trials.table
        self.steady = self.problem.measure.steady
        self.notes: list[str] = []
        self.default = self.place(self.problem.space.default, trials.default_ms, (1.0, 1.0, 1.0))
        # as long as no rounds have been run, nothing is known to be faster than the default
        self.places, self.ties, self.verdict = [self.default], list[Config](), "noisy"
        self.ran = False
        self.vendor: Vendor | None = None
        self._seeds = True  # whether the default takes the second data
        self._next: Iterator[Config] = iter(())

    def run(self, worker: Any) -> Generator[Event, None, None]:
        """Hold the final; the events are of those that fall at the last hurdle."""
        self._next = self._ranked()
        if self.steady:
            entrants = [self.problem.space.default, *self.entrants()]
            if self.problem.check is not None:
                yield from self._look_elsewhere(entrants)
                if self.problem.space.default not in entrants:
                    self.places, self.verdict = [], "failed"
                    return
            self._rank(entrants)
            return
        entrants = [self.problem.space.default]
        self._look_at_the_default(worker)
        yield from self._fill(entrants, worker)
        yield from self._rounds(entrants, worker)

    # -- who is in it --------------------------------------------------------------------------------------------------

    def _look_at_the_default(self, worker: Any) -> None:
        """Whether second data that nobody has given, but were derived, are any that the kernel takes."""
        if not getattr(self.problem.measure, "derived", False):
            return
        try:
            self.trials.check(self.problem.space.default, worker, 1)
        except Failed as failure:
            self._seeds = False
            self.notes.append("no config was checked on second data: with three quarters of its floating inputs the "
                              f"default differs from the reference ({failure.reason})")  # fmt: skip
        except Late:
            self._over("the finalists were not checked anew")

    def _fill(self, entrants: list[Config], worker: Any) -> Generator[Event, None, None]:
        """Let the next best in that are right, until there are enough, or half of the time is over."""
        clock, until = self.trials.clock, self.trials.clock.until
        clock.until = min(until, time.monotonic() + 0.5 * max(clock.left_s, 0.0))
        try:
            for config in self._next:
                try:
                    self._look_at(config, worker)
                except Failed as failure:
                    yield from self.trials.reject(self.table.row(config), {"config": config}, failure)
                    continue
                entrants.append(config)
                if len(entrants) > FINALISTS + 1:
                    return
        except Late:
            self._over(f"{len(entrants) - 1} of the best configs were checked anew for the final, the others left out")
        finally:
            clock.until = until

    def _look_at(self, config: Config, worker: Any) -> None:
        """Check a config several times. *Raises*: Failed, Late."""
        self.trials.build(config, worker)
        for k, (seed, odd) in enumerate(_CHECKS):
            if seed and not self._seeds:
                continue
            try:
                self.trials.check(config, worker, seed, odd)
            except Failed as failure:
                raise once_more(failure) if k == len(_CHECKS) - 1 else failure from None

    def _over(self, what: str) -> None:
        self.notes.append(f"the budget was over: {what}")

    def _look_elsewhere(self, entrants: list[Config]) -> Generator[Event, None, None]:
        """Leave in what another measure finds right; where all but the default are wrong, the next best follow."""
        asked = entrants
        for _ in range(_MOST_BATCHES):
            wrong, left = self._wrong_elsewhere(asked)
            for config, why in wrong:
                entrants.remove(config)
                yield from self.trials.reject(self.table.row(config), {"config": config}, why)
            default = self.problem.space.default
            for config in left:
                if config != default:
                    entrants.remove(config)
            asked = [] if entrants != [default] or left else [c for c in self.entrants() if c != default]
            if not asked:
                return
            entrants += asked

    def _ranked(self) -> Iterator[Config]:
        """Yield the best by what the races said, one of each binary; first of all the winner of an earlier session."""
        values = self.trials.strategy.values
        rows = [r for r in np.argsort(values, kind="stable").tolist()[:_MOST_ASKED] if np.isfinite(values[r])]
        if (before := self._stored_winner()) is not None:
            rows.insert(0, before)
        seen = {self._binary(self.problem.space.default)} - {""}
        for row in dict.fromkeys(rows):
            config = self.table.config(row)
            binary = self._binary(config)
            if row != self.table.default and binary not in seen:
                seen |= {binary} - {""}
                yield config

    def entrants(self) -> list[Config]:
        """Return the first of those who may be in it."""
        return [config for config, _ in zip(self._ranked(), range(FINALISTS + 1), strict=False)]

    def place(self, config: Config, time_ms: float, ratio: tuple[float, float, float]) -> Place:
        """Return a config with its figures."""
        built = self.trials.built.get(self.table.code(config))
        return Place(config, time_ms, *ratio, facts=dict(built.facts) if built else {})

    def grid_of(self, config: Config) -> list[int] | None:
        """Return how many programs a kernel of the user's was checked with, where its measure tells."""
        grids = getattr(self.problem.measure, "grids", None)
        found = grids.get(tuple(sorted(config.items()))) if grids else None
        return list(found) if found else None

    def _binary(self, config: Config) -> str:
        found = self.trials.built.get(self.table.code(config))
        return found.binary if found else ""

    def _stored_winner(self) -> int | None:
        store, key = self.trials.store, self.problem.key
        if store is None or self.problem.measure.estimate:
            return None
        for entry in lookup.entries(store.folder / lookup.FILE):
            if all(entry.get(name) == key[name] for name in key):
                return self.table.find(entry["config"])
        return None

    def _wrong_elsewhere(self, entrants: list[Config]) -> tuple[list[tuple[Config, Failed]], list[Config]]:
        """Return what another measure finds wrong, and what there was no time to look at."""
        assert self.problem.check is not None
        wrong, left = [], list(entrants)
        with Worker(self.problem.check, stopping=self.trials.stopping, clock=self.trials.clock) as worker:
            for config in entrants:
                try:
                    worker.call("check", config, 0, False, limit_s=120.0)
                except Failed as failure:
                    wrong.append((config, failure))
                except Late:
                    self._over(f"{len(left)} of {len(entrants)} finalists were not run in Triton's interpreter, and "
                               "are left out")  # fmt: skip
                    break
                left.remove(config)
        shape = "x".join(map(str, getattr(self.problem.check, "shape", ())))
        right = f"{len(entrants) - len(wrong) - len(left)} of {len(entrants)} finalists"
        where = f"at {shape}" if shape else "at this shape"
        self.notes.append(f"{right} give the right answer in Triton's interpreter, {where}")
        return wrong, left

    # -- what came of it -----------------------------------------------------------------------------------------------

    def _rank(self, entrants: list[Config]) -> None:
        """The order of times that do not scatter."""
        default_ms = self.trials.default_ms
        timed = sorted((float(self.trials.strategy.values[self.table.row(c)]), i) for i, c in enumerate(entrants))
        self.places = [self.place(entrants[i], v, (v / default_ms,) * 3) for v, i in timed]
        self.verdict = "faster" if self.places[0].ratio < 1.0 else "default"
        if self.problem.measure.estimate:
            self.verdict = "estimate"
            self.ties = [p.config for p in self.places[1:] if p.time_ms < APART * self.places[0].time_ms]
        self.ran = True

    def _vendor_is_right(self, worker: Any) -> bool:
        """Return whether a vendor's library is there, and what it gives is right; else a note says why not."""
        if not worker.facts.get("vendor"):
            return False
        try:
            worker.call("check", VENDOR, 0, False, limit_s=60.0)
        except Failed as failure:
            self.notes.append(f"{worker.facts['vendor']} was not compared with: {failure.reason}")
            return False
        return True

    def _rounds(self, entrants: list[Config], worker: Any) -> Generator[Event, None, None]:
        """Time all in turn, in one process after another, and check each once all have run there."""
        times: dict[str, list[float]] = {}
        parts: list[int] = []
        now: Standing | None = None
        began, vendor = time.monotonic(), False
        try:
            vendor = self._vendor_is_right(worker)
            while len(parts) < _MOST_PROCESSES:
                if parts:
                    worker.renew()
                asked = [*entrants, VENDOR] if vendor else list(entrants)
                try:
                    new = self._in_one_process(asked, worker, len(parts))
                except Failed as failure:
                    if fallen := self._who_fails(entrants, worker):
                        yield from self._leave(entrants, fallen, worker)
                        times, parts, now = {}, [], None
                        continue
                    self.notes.append(f"the final was cut short: {failure.reason}")
                    break
                if fallen := self._wrong_now(entrants, worker, len(parts)):
                    yield from self._leave(entrants, fallen, worker)
                    times, parts, now = {}, [], None
                    continue
                for config, more in zip(asked, new, strict=True):
                    times.setdefault(_name(config), []).extend(more)
                parts.append(len(new[0]))
                now = standing([times[_name(c)] for c in entrants], parts)
                patience = _NOISY_TIMES if now.verdict == "noisy" else 1.0
                enough = now.width < _WIDTH or time.monotonic() - began > patience * self.limit_s
                if enough and len(parts) >= LEAST_PROCESSES:
                    break
        except Late:
            if len(parts) < LEAST_PROCESSES:
                self._over(f"the final was held in {len(parts)} of at least {LEAST_PROCESSES} processes")
        if now is not None:
            self._conclude(entrants, times, parts, now, worker if vendor else None)

    def _in_one_process(self, asked: list[Config], worker: Any, k: int) -> list[list[float]]:
        """Times of all in turn, for a part of the final's time."""
        times: list[list[float]] = [[] for _ in asked]
        began = time.monotonic()
        while len(times[0]) < _MOST_ROUNDS:
            count = _LEAST_ROUNDS
            limit = 10.0 + timing_limit(count * len(asked), 2.0 * self.trials.default_ms)
            new = worker.call("rounds", asked, count, self.seed + 100 * k + len(times[0]), limit_s=limit)
            for row, more in zip(times, new, strict=True):
                row += more
            if time.monotonic() - began > self.limit_s / _MOST_PROCESSES:
                break
        return times

    def _who_fails(self, entrants: list[Config], worker: Any) -> list[tuple[Config, Failed]]:
        """Those at whose calls a process ends."""
        fallen = []
        for config in entrants[1:]:
            try:
                limit = timing_limit(2 * _LEAST_ROUNDS + 4, self.trials.default_ms)
                worker.call("pairs", config, None, 2 * _LEAST_ROUNDS, limit_s=limit)
            except Failed as failure:
                fallen.append((config, failure))
        return fallen

    def _wrong_now(self, entrants: list[Config], worker: Any, k: int) -> list[tuple[Config, Failed]]:
        """Those who are no more right, all others having run in their process."""
        fallen = []
        for config in entrants[1:]:
            try:
                for seed in (0, 1) if self._seeds and k == 0 else (0,):
                    self.trials.check(config, worker, seed)
            except Failed as failure:
                fallen.append((config, once_more(failure)))
        return fallen

    def _leave(
        self, entrants: list[Config], fallen: list[tuple[Config, Failed]], worker: Any
    ) -> Generator[Event, None, None]:
        """Take out who has failed, and let the next best in."""
        for config, failure in fallen:
            entrants.remove(config)
            yield from self.trials.reject(self.table.row(config), {"config": config}, failure)
        yield from self._fill(entrants, worker)

    def _conclude(
        self, entrants: list[Config], times: dict[str, list[float]], parts: list[int], now: Standing, worker: Any
    ) -> None:
        """What the times say."""
        self.ran = True
        columns = [times[_name(c)] for c in entrants]
        spreads = []
        for part in np.split(np.asarray(columns[0]), np.cumsum(parts)[:-1]):
            low, median, high = np.quantile(part, (0.25, 0.5, 0.75))
            spreads.append((high - low) / median)
        if np.median(spreads) > _BUSY:
            self.notes.append(f"the machine is busy: the middle half of the default's own times spreads by "
                              f"{np.median(spreads):.0%}; run again when it is quiet")  # fmt: skip
        if now.width >= 2.0 * _WIDTH:
            self.notes.append(f"the final's time was over before its intervals were narrow: what is nearer than "
                              f"{now.width:.1%} cannot be told apart")  # fmt: skip
        winner, verdict = now.winner, now.verdict
        if len(parts) == 1 and verdict == "faster":  # what another process would give, nobody knows
            winner, verdict = 0, "noisy"
        order = sorted(range(len(entrants)), key=lambda i: (i != winner, now.ratios[i][0]))
        self.places = [self.place(entrants[i], now.times_ms[i], now.ratios[i]) for i in order]
        self.default = self.places[order.index(0)]
        self.ties = [entrants[i] for i in now.ties] if winner == now.winner else []
        self.verdict = verdict
        if worker is not None:
            theirs = np.asarray(times[_name(VENDOR)])
            ratio = interval_over(theirs / columns[0], parts)
            best = interval_over(np.asarray(columns[winner]) / theirs, parts)
            self.vendor = Vendor(worker.facts["vendor"], float(np.median(theirs)), *ratio, best, float(theirs.min()))


def look_anew(problem: Problem, config: Config) -> None:
    """Check a config as those of a final are, without timing it. *Raises*: Failed."""
    worker = worker_for(problem.measure, threading.Event())
    try:
        worker.call("build", config, limit_s=BUILD_LIMIT_S)
        for seed, odd in _CHECKS:
            worker.call("check", config, seed, odd, limit_s=120.0)
    finally:
        worker.close()


def _name(config: Config) -> str:
    return repr(sorted(config.items()))
