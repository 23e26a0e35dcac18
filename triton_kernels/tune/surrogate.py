"""What a strategy expects of every config: a Gaussian process over the logarithms of the values that were told.

Where the same configs were measured elsewhere, on another device or at another shape, their logarithms are the mean
that is expected (`prior`), and the process learns how this place differs from there.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import numpy as np

from .gaussian import Process
from .strategy import History
from .table import Table

_HIGH = 0.9
_RECALLED = 300  # of a history's values are learned
_REFIT = 1.25  # the lengths are fitted again when there are a quarter more observations
# Of fitting, so many microseconds of one processor are spent for each value that is told: at 20,000 configs a fit takes
# 40 ms, and one suggestion in ten would wait for it. On five recorded spaces, evaluations to 1 % (80 seeds): 38.3 with
# whole fits, 39.1 with these pieces, 40.7 with 4 ms.
_AT_ONCE_US = 6000.0


class Surrogate:
    """A process over the rows of a table that is told which of them were observed, and fitted in pieces.

    prior : log of the values expected, up to an addend; None where nothing is known. Values are given by row, inf for
    failures.
    """

    def __init__(self, table: Table, fit_at: int) -> None:
        self.table = table
        self.process = Process(table.codes[:, table.varied], table.coordinates)
        self.prior: np.ndarray | None = None
        self._fit_at = fit_at
        self._fitting: Generator[float, None, None] | None = None
        self._scale = 1.0  # of what is learned against log values
        self._spread = 1.0

    def expect(self, histories: Sequence[History]) -> None:
        """Take the mean of what histories tell for the prior.

        It stays, however far off it seems: giving it up where the values are likelier without it took 12.9 evaluations
        to 1 % instead of 9.6, by geometric mean of seventeen recorded spaces.
        """
        told = [found for h in histories if (found := expected(self.table, h)) is not None]
        if told:
            self.prior = np.mean(told, 0)
            self._spread = max(float(np.std(self.prior[self.prior <= np.median(self.prior)])), 0.02)

    def observe(self, row: int) -> None:
        """Take a row among the observed."""
        if row not in self.process.rows:
            self.process.observe(row)

    def join(self, rows: np.ndarray, like: int) -> None:
        """Predict rows that have joined the table, of which as much is expected as of the row `like`."""
        if self.prior is not None:
            more = len(self.table) - len(self.prior)
            self.prior = np.append(self.prior, np.full(more, self.prior[like]))
        self.process.codes = self.table.codes[:, self.table.varied]
        self.process.keep(rows)

    # -- fitting -------------------------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Whether the lengths should be fitted anew."""
        return self._fitting is None and len(self.process.rows) >= self._fit_at

    def fit(self, values: np.ndarray, best: int) -> None:
        """Begin to fit the lengths; what differs from the best in one tunable is predicted in any case."""
        self._fit_at = max(int(len(self.process.rows) * _REFIT), len(self.process.rows) + 4)
        self._fitting = self._fitted(values, best)
        self._due_us = next(self._fitting)

    def go_on(self) -> None:
        """Fit as much as fits into the time that a value may take."""
        spent_us = 0.0
        while self._fitting is not None and (spent_us == 0.0 or spent_us + self._due_us <= _AT_ONCE_US):
            spent_us += self._due_us
            try:
                self._due_us = next(self._fitting)
            except StopIteration:
                self._fitting = None

    def _fitted(self, values: np.ndarray, best: int) -> Generator[float, None, None]:
        """Yield a process with new lengths takes this one's place; what is observed meanwhile, it observes at last."""
        y = self.targets(values)
        known = None if self.prior is None else (self.prior / self._scale).astype(np.float32)
        new = yield from self.process.fitted(y, known, np.flatnonzero(self.table.differences(best) <= 1))
        before = len(new.codes)
        while len(new.rows) < len(self.process.rows):
            yield 50.0 + (0.02 + 2e-4 * len(new.rows)) * len(new.kept)
            new.codes = self.process.codes  # in a space that was drawn from, others have joined
            new.observe(self.process.rows[len(new.rows)])
        new.codes = self.process.codes
        new.keep(np.arange(before, len(new.codes)))
        self.process = new

    # -- predicting ----------------------------------------------------------------------------------------------------

    def targets(self, values: np.ndarray) -> np.ndarray:
        """Return what the process learns, of mean 0 and deviation 1: log of the values, the slowest tenth and
        failures as the slowest of the others, less what was expected."""
        y = np.log(values[self.process.rows])
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

    def predicted(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean and deviation for the rows that the process keeps, and the lowest value, all in one unit."""
        y = self.targets(values)
        mean, deviation = self.process.predict(y)
        if self.prior is None:
            return mean, deviation, float(y.min())
        mean += (self.prior[self.process.kept] / self._scale).astype(np.float32)
        return mean, deviation, (self._lowest - self._shift) / self._scale

    def improvement(self, values: np.ndarray) -> np.ndarray:
        """Log of the expected improvement on the best of what is known, for the rows that the process keeps."""
        mean, deviation, lowest = self.predicted(values)
        return log_improvement((lowest - mean) / deviation) + np.log(deviation)


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
