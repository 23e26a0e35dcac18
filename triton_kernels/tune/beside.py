"""Sessions that tune the same problem at the same moment, in two notebooks: each tries what no other is trying.

A config is claimed in the store before it is tried; one that another session has claimed is put off until that session
tells of it, or is gone. What others find is told to the strategy as if it had been measured here: as a ratio to the
default, which each session measures for itself.
"""

from __future__ import annotations

import time
from typing import Any

from .space import Config
from .trials import Trials

_AGAIN_S = 0.3


class Beside:
    """What a session knows of others. `waiting` are the rows that others are trying, `heard` how many they told of."""

    def __init__(self, trials: Trials, store: Any) -> None:
        self.trials, self.table, self.store = trials, trials.table, store
        self.waiting: dict[int, float] = {}  # a row, and when its claim is asked for again
        self.heard = 0

    def choose(self, room: int) -> list[Config]:
        """Configs to try next, as many as there is room for, of which no other session is trying any."""
        self.hear()
        rows: list[int] = []
        for late in [r for r, when in self.waiting.items() if when <= time.monotonic()]:
            if len(rows) < room and self._claimed(late):
                del self.waiting[late]
                rows.append(late)
        while len(rows) < room and (row := self.trials.strategy.ask()) is not None:
            if self._claimed(row):
                rows.append(row)
        return [self.table.config(row) for row in rows]

    def _claimed(self, row: int) -> bool:
        trials = self.trials
        if self.store is None or self.store.claim(trials.problem.key, trials.session, self.table.config(row)):
            return True
        self.waiting[row] = time.monotonic() + _AGAIN_S
        return False

    def hear(self) -> None:
        """Tell the strategy what others have found; what ran out of time there may not here."""
        trials = self.trials
        for trial in self.store.news(trials.problem.key, trials.session) if self.store is not None else ():
            row = self.table.find(trial["config"])
            if row is None or row == self.table.default or trial["status"] == "timeout":
                continue
            self.waiting.pop(row, None)
            self.heard += 1
            value = trial["ratio"] * trials.default_ms if trial["status"] == "correct" and trial["ratio"] else None
            trials.know(trial, value)
            trials.strategy.tell(row, value)
