"""Bayesian optimisation: a Gaussian process over all legal configs, the next one by expected improvement."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .blas import one_thread
from .strategy import History, Strategy
from .surrogate import Surrogate
from .table import Table

# Few: the process learns more from its own mistakes than from a spread-out beginning. On nine recorded spaces,
# evaluations to 1 % by geometric mean: with 5 39, with 3 42, with 9 42, with 14 47.
BEGIN = 5


class Gaussian(Strategy):
    """A spread-out beginning, or what was best elsewhere; then the largest expected improvement of log time."""

    name = "gaussian"

    def __init__(self, table: Table, seed: int = 0, first: Sequence[int] = ()) -> None:
        super().__init__(table, seed, first)
        self.surrogate = Surrogate(table, BEGIN)

    @one_thread()
    def recall(self, histories: Sequence[History]) -> None:
        """Expect what was measured elsewhere."""
        self.surrogate.expect(histories)

    @one_thread()
    def choose(self) -> int:
        prior, process = self.surrogate.prior, self.surrogate.process
        if self.best is None and prior is not None:
            return int(np.argmin(np.where(self.asked, math.inf, prior)))
        if self.best is None or (len(process.rows) < BEGIN and prior is None):
            return self.far()
        score = np.where(self.asked[process.kept], -math.inf, self.surrogate.improvement(self.values))
        if not np.isfinite(score).any():
            return self.anywhere()  # whatever the process keeps has been asked for
        return int(process.kept[np.argmax(score)])

    @one_thread()
    def learn(self, row: int) -> None:
        self.surrogate.observe(row)
        if self.best is None:
            return
        due = self.surrogate.due
        if not self.table.complete and (due or row == self.best):
            self.widen(self.best)
        if due:
            self.surrogate.fit(self.values, self.best)
        self.surrogate.go_on()

    def widen(self, best: int) -> None:
        """Of a space that was drawn from, let the configs around the best join."""
        space, config = self.table.space, self.table.config(best)
        rows = self.table.add([*space.around(config), *space.beyond(config, self.rng, 200)])
        self.extend()
        self.surrogate.join(rows, best)

    def far(self) -> int:
        """Of a few rows at random the one that is farthest from all asked for."""
        open_ = np.flatnonzero(~self.asked)
        rows = self.rng.choice(open_, min(64, len(open_)), replace=False)
        taken = np.flatnonzero(self.asked)
        if not len(taken):
            return int(rows[0])
        points = self.table.points
        near = ((points[rows][:, None, :] - points[taken][None, :, :]) ** 2).sum(2).min(1)
        return int(rows[np.argmax(near)])
