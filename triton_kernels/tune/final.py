"""The end of a session: the best, the default, an earlier session's winner and the vendor's library, in turn.

Whoever is in it has been right on other data and on an odd shape.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import numpy as np

from . import lookup
from .events import Event, Place, Vendor
from .measure import VENDOR, Failed
from .race import interval, standing
from .space import Config
from .trials import Trials
from .worker import Worker

FINALISTS = 5
_WIDTH = 0.005  # the interval's half-width at which nothing more is asked
_MOST_ROUNDS = 400  # the time for the final ends before, where a kernel is slow
_MOST_BATCHES = 12  # of finalists that another measure looks at
_BUSY = 0.25  # where nothing else runs, the middle half of a kernel's times spreads by some per cent


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

    def run(self, worker: Any) -> Generator[Event, None, None]:
        """Hold the final; the events are of those that fall at the last hurdle."""
        entrants = [self.problem.space.default, *self.entrants()]
        if not self.steady:
            for config in entrants[1:]:
                try:
                    self.trials.build(config, worker)
                    self.trials.check(config, worker, 1)  # other data
                    self.trials.check(config, worker, 0, True)  # a shape that fits no tile
                except Failed as failure:
                    entrants.remove(config)
                    yield from self.trials.reject(self.table.row(config), {"config": config}, failure)
        if self.problem.check is not None:
            yield from self._look_elsewhere(entrants)
            if self.problem.space.default not in entrants:
                self.places, self.verdict = [], "failed"
                return
        self._rank(entrants) if self.steady else self._rounds(entrants, worker)

    def _look_elsewhere(self, entrants: list[Config]) -> Generator[Event, None, None]:
        """Leave in what another measure finds right; where all but the default are wrong, the next best follow."""
        asked = entrants
        for _ in range(_MOST_BATCHES):
            for config, wrong in self._wrong_elsewhere(asked):
                entrants.remove(config)
                yield from self.trials.reject(self.table.row(config), {"config": config}, wrong)
            default = self.problem.space.default
            asked = [] if entrants != [default] else [c for c in self.entrants() if c != default]
            if not asked:
                return
            entrants += asked

    def entrants(self) -> list[Config]:
        """The best by what the races said, one of each binary, and the winner of an earlier session."""
        values = self.trials.strategy.values
        rows = [r for r in np.argsort(values, kind="stable").tolist()[: 4 * FINALISTS] if np.isfinite(values[r])]
        if (before := self._stored_winner()) is not None:
            rows.insert(0, before)
        found: list[Config] = []
        seen = {self._binary(self.problem.space.default)} - {""}
        for row in dict.fromkeys(rows):
            config = self.table.config(row)
            binary = self._binary(config)
            if row != self.table.default and binary not in seen:
                seen |= {binary} - {""}
                found.append(config)
        return found[: FINALISTS + 1]

    def place(self, config: Config, time_ms: float, ratio: tuple[float, float, float]) -> Place:
        """A config with its figures."""
        built = self.trials.built.get(self.table.code(config))
        return Place(config, time_ms, *ratio, facts=dict(built.facts) if built else {})

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

    def _wrong_elsewhere(self, entrants: list[Config]) -> list[tuple[Config, Failed]]:
        """What another measure finds wrong."""
        assert self.problem.check is not None
        wrong = []
        with Worker(self.problem.check, stopping=self.trials.stopping) as worker:
            for config in entrants:
                try:
                    worker.call("check", config, 0, False, limit_s=120.0)
                except Failed as failure:
                    wrong.append((config, failure))
        shape = "x".join(map(str, getattr(self.problem.check, "shape", ())))
        right = f"{len(entrants) - len(wrong)} of {len(entrants)} finalists"
        where = f"at {shape}" if shape else "at this shape"
        self.notes.append(f"{right} give the right answer in Triton's interpreter, {where}")
        return wrong

    def _rank(self, entrants: list[Config]) -> None:
        """The order of times that do not scatter."""
        default_ms = self.trials.default_ms
        timed = sorted((float(self.trials.strategy.values[self.table.row(c)]), i) for i, c in enumerate(entrants))
        self.places = [self.place(entrants[i], v, (v / default_ms,) * 3) for v, i in timed]
        self.verdict = "faster" if self.places[0].ratio < 1.0 else "default"
        if self.problem.measure.estimate:
            self.verdict = "estimate"
        self.ran = True

    def _vendor_is_right(self, worker: Any) -> bool:
        """Whether a vendor's library is there, and what it gives is right; else a note says why not."""
        if not worker.facts.get("vendor"):
            return False
        try:
            worker.call("check", VENDOR, 0, False, limit_s=60.0)
        except Failed as failure:
            self.notes.append(f"{worker.facts['vendor']} was not compared with: {failure.reason}")
            return False
        return True

    def _rounds(self, entrants: list[Config], worker: Any) -> None:
        asked = [*entrants, VENDOR] if self._vendor_is_right(worker) else entrants
        times: list[list[float]] = [[] for _ in asked]
        began, now = time.monotonic(), None
        while len(times[0]) < _MOST_ROUNDS:
            count = 4 if now is None else 6
            longest = 10.0 + count * len(asked) * max(self.trials.default_ms, 0.2) * 20.0 / 1e3
            try:
                new = worker.call("rounds", asked, count, self.seed + len(times[0]), limit_s=longest)
            except Failed as failure:
                self.notes.append(f"the final was cut short: {failure.reason}")
                break
            for row, more in zip(times, new, strict=True):
                row += more
            now = standing(times[: len(entrants)])
            if time.monotonic() - began > self.limit_s or (len(times[0]) >= 16 and now.width < _WIDTH):
                break
        if now is None:
            return
        self.ran = True
        low, median, high = np.quantile(times[0], (0.25, 0.5, 0.75))
        if high - low > _BUSY * median:
            self.notes.append(f"the machine is busy: the middle half of the default's own times spreads by "
                              f"{(high - low) / median:.0%}; run again when it is quiet")  # fmt: skip
        if now.width >= 2.0 * _WIDTH:
            self.notes.append(f"the final's time was over before its intervals were narrow: what is nearer than "
                              f"{now.width:.1%} cannot be told apart")  # fmt: skip
        order = sorted(range(len(entrants)), key=lambda i: (i != now.winner, now.ratios[i][0]))
        self.places = [self.place(entrants[i], now.times_ms[i], now.ratios[i]) for i in order]
        self.default = self.places[order.index(0)]
        self.ties, self.verdict = [entrants[i] for i in now.ties], now.verdict
        if asked is not entrants:
            theirs = np.asarray(times[-1])
            ratio, best = interval(theirs / times[0]), interval(np.asarray(times[now.winner]) / theirs)
            self.vendor = Vendor(worker.facts["vendor"], float(np.median(theirs)), *ratio, best, float(theirs.min()))
