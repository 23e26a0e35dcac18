"""Coordinate line search: walk along one tunable at a time, move to the best of each line; where all lines end, begin
anew elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .strategy import Strategy
from .table import Table


class Line(Strategy):
    """From the best config, all others of a line, in a random order of lines, until no line improves."""

    name = "line"

    def __init__(self, table: Table, seed: int = 0, first: Sequence[int] = ()) -> None:
        super().__init__(table, seed, first)
        self._steps = self._walk()

    def choose(self) -> int:
        return next(self._steps)

    def _walk(self) -> Iterator[int]:
        at = self.best
        while True:
            while at is None or not np.isfinite(self.values[at]):  # of failures one learns nothing but to go on
                at = self.anywhere()
                yield at
            moved = True
            while moved:
                moved = False
                for axis in self.rng.permutation(len(self.table.space.names)).tolist():
                    line = along(self.table, at, axis)
                    for row in line:
                        if not self.asked[row]:
                            yield row
                    values = np.where(np.isnan(self.values[line]), np.inf, self.values[line])
                    if values.size and values.min() < self.values[at]:
                        at, moved = int(line[values.argmin()]), True
            at = None


def along(table: Table, row: int, axis: int) -> np.ndarray:
    """Return the rows that differ from `row` in this tunable alone, the nearest first."""
    codes = table.codes
    others = [k for k in range(codes.shape[1]) if k != axis]
    line = np.flatnonzero((codes[:, others] == codes[row, others]).all(1))
    line = line[line != row]
    return line[np.argsort(np.abs(codes[line, axis] - codes[row, axis]), kind="stable")]
