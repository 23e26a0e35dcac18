"""Bayesian optimisation: a Gaussian process over all legal configs, the next one by expected improvement."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import numpy as np

from .blas import one_thread
from .gaussian import Process
from .strategy import History, Strategy
from .table import Table

# Few: the process learns more from its own mistakes than from a spread-out beginning. On nine recorded spaces,
# evaluations to 1 % by geometric mean: with 5 39, with 3 42, with 9 42, with 14 47.
BEGIN = 5
_HIGH = 0.9
_RECALLED = 300  # of a history's values are learned
_REFIT = 1.25  # the lengths are fitted again when there are a quarter more observations
# Of fitting, so many microseconds of one processor are spent for each value that is told: at 20,000 configs a fit takes
# 40 ms, and one suggestion in ten would wait for it. On five recorded spaces, evaluations to 1 % (80 seeds): 38.3 with
# whole fits, 39.1 with these pieces, 40.7 with 4 ms.
_AT_ONCE_US = 6000.0


class Gaussian(Strategy):
    """A spread-out beginning, then the largest expected improvement of log time."""

    name = "gaussian"

    def __init__(self, table: Table, seed: int = 0, first: Sequence[int] = ()) -> None:
        super().__init__(table, seed, first)
        self.process = Process(table.codes[:, table.varied], table.coordinates)
        self._fit_at = self.begin = BEGIN
        self.prior: np.ndarray | None = None  # log of the values expected, up to an addend
        self._fitting: Generator[float, None, None] | None = None
        self._scale = 1.0  # of what is learned against log values
        self._spread = 1.0

    @one_thread()
    def recall(self, histories: Sequence[History]) -> None:
        """Begin with what was measured elsewhere: the process learns how this place differs from there.

        What was expected stays, however far off it seems: giving it up where the values are likelier without it took
        12.9 evaluations to 1 % instead of 9.6, by geometric mean of seventeen recorded spaces.

        Each history's logarithms, completed by a process of their own where rows are missing, are the mean that is
        expected. What comes first is what was best there.
        """
        told = [found for h in histories if (found := expected(self.table, h)) is not None]
        if told:
            self.prior = np.mean(told, 0)
            self._spread = max(float(np.std(self.prior[self.prior <= np.median(self.prior)])), 0.02)

    @one_thread()
    def choose(self) -> int:
        if self.prior is not None and self.best is None:
            return int(np.argmin(np.where(self.asked, math.inf, self.prior)))
        if (self.prior is None and len(self.process.rows) < self.begin) or self.best is None:
            return self.far()
        score = self.improvement()
        kept = self.process.kept
        if not len(kept) or not np.isfinite(score).any():
            return self.anywhere()  # whatever was kept has been asked for
        return int(kept[np.argmax(score)])

    @one_thread()
    def learn(self, row: int) -> None:
        process = self.process
        if row not in process.rows:
            process.observe(row)
        if self.best is None:
            return
        due = self._fitting is None and len(process.rows) >= self._fit_at
        if not self.table.complete and (due or row == self.best):
            self.widen()
        if due:
            self._fit_at = max(int(len(process.rows) * _REFIT), len(process.rows) + 4)
            self._fitting = self._fit()
            self._due_us = next(self._fitting)
        if self._fitting is not None:
            self._go_on(self._fitting)

    def _go_on(self, fitting: Generator[float, None, None]) -> None:
        spent_us = 0.0
        while spent_us == 0.0 or spent_us + self._due_us <= _AT_ONCE_US:
            spent_us += self._due_us
            try:
                self._due_us = next(fitting)
            except StopIteration:
                self._fitting = None
                return

    def _fit(self) -> Generator[float, None, None]:
        """Yield a process with new lengths takes this one's place; what is observed meanwhile, it observes at last."""
        y = self.targets()
        known = None if self.prior is None else (self.prior / self._scale).astype(np.float32)
        assert self.best is not None
        new = yield from self.process.fitted(y, known, np.flatnonzero(self.table.differences(self.best) <= 1))
        before = len(new.codes)
        while len(new.rows) < len(self.process.rows):
            yield 50.0 + (0.02 + 2e-4 * len(new.rows)) * len(new.kept)
            new.codes = self.process.codes  # in a space that was drawn from, others have joined
            new.observe(self.process.rows[len(new.rows)])
        new.codes = self.process.codes
        new.keep(np.arange(before, len(new.codes)))
        self.process = new

    def widen(self) -> None:
        """Of a space that was drawn from, let the configs around the best join."""
        assert self.best is not None
        space, best = self.table.space, self.table.config(self.best)
        rows = self.table.add([*space.around(best), *space.beyond(best, self.rng, 200)])
        self.extend()
        if self.prior is not None:
            more = len(self.table) - len(self.prior)
            self.prior = np.append(self.prior, np.full(more, self.prior[self.best]))
        self.process.codes = self.table.codes[:, self.table.varied]
        self.process.keep(rows)

    def targets(self) -> np.ndarray:
        """Return what the process learns, of mean 0 and deviation 1: log of the values, the slowest tenth and
        failures as the slowest of the others, less what was expected."""
        y = np.log(self.values[self.process.rows])
        good = np.isfinite(y)
        high = float(np.quantile(y[good], _HIGH))
        if self.prior is None:
            y = np.minimum(np.where(good, y, high), high)
            self._scale = max(float(y.std()), 1e-9)
            return (y - y.mean()) / self._scale
        high = max(high, float(y[good].min()) + math.log(1.5))
        y = np.minimum(np.where(good, y, high), high)
        self._lowest = float(y.min())
        y -= self.prior[self.process.rows]
        self._shift = float(np.median(y))
        y -= self._shift
        # from few values one cannot tell how far the expectation is off: as if three had been seen before
        self._scale = math.sqrt((3.0 * (0.5 * self._spread) ** 2 + float(y @ y)) / (3.0 + len(y)))
        return y / self._scale

    def predicted(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean and deviation for the rows that the process keeps, and the lowest value, all in one unit."""
        y = self.targets()
        mean, deviation = self.process.predict(y)
        if self.prior is None:
            return mean, deviation, float(y.min())
        mean += (self.prior[self.process.kept] / self._scale).astype(np.float32)
        return mean, deviation, (self._lowest - self._shift) / self._scale

    def improvement(self) -> np.ndarray:
        """Log of the expected improvement on the best of what is known, for the rows that the process keeps; -inf where
        one was asked for."""
        mean, deviation, lowest = self.predicted()
        score = log_improvement((lowest - mean) / deviation) + np.log(deviation)
        score[self.asked[self.process.kept]] = -math.inf
        return score

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


def expected(table: Table, history: History) -> np.ndarray | None:
    """Log of a history's values at every row, 0 for its best; None where it says nothing.

    Where it knows less than all, a process is fitted to it, to its best and others at random if it is long.
    """
    y = np.log(history.values)
    good = np.isfinite(y)
    if good.sum() < 2:
        return None
    high = float(np.quantile(y[good], _HIGH))
    y = np.minimum(np.where(good, y, high), high)
    y -= y.min()
    if len(y) >= 0.9 * len(table):
        told = np.full(len(table), y.max())
    else:
        some = np.argsort(y)
        if len(some) > _RECALLED:
            rest = np.random.default_rng(0).permutation(some[_RECALLED // 2 :])
            some = np.concatenate([some[: _RECALLED // 2], rest[: _RECALLED // 2]])
        mean, deviation = float(y[some].mean()), max(float(y[some].std()), 1e-9)
        told = Process.of(table.codes[:, table.varied], table.coordinates, history.rows[some],
                          (y[some] - mean) / deviation) * deviation + mean  # fmt: skip
    told[history.rows] = y
    return told


def log_improvement(z: np.ndarray) -> np.ndarray:
    """log(z Phi(z) + phi(z)) without NumPy's missing erf: to 1 % for all z.

    For z < -3 by the asymptote phi(z) / z^2 (1 - 3 / z^2), else with Phi by a fit of erfc (Abramowitz and Stegun,
    7.1.26).
    """
    z = z.astype(np.float64)
    x = np.abs(z) / math.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * x)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    tail = 0.5 * poly * np.exp(-x * x)
    near = z * np.where(z > 0, 1.0 - tail, tail) + density
    safe = np.minimum(z, -3.0)
    far = -0.5 * safe * safe - 0.5 * math.log(2.0 * math.pi) - 2.0 * np.log(-safe) + np.log1p(-3.0 / safe**2)
    return np.where(z < -3.0, far, np.log(np.maximum(near, 1e-300)))
