"""The portfolio with scikit-learn's extremely randomised trees, which see the walls that a smooth process rounds off.

They come with an extra: ``pip install scikit-learn``, or ``gradlab[lab]``. A suggestion of theirs takes tens of
milliseconds. Source: Geurts, Ernst and Wehenkel, Extremely randomized trees, Machine Learning 63 (2006).
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .strategy_portfolio import Portfolio
from .table import Table

_EVERY, _FROM, _TREES, _ROWS = 4, 20, 30, 4096


class Trees(Portfolio):
    """Every fourth config, once twenty are known, is the one whose trees' mean less deviation is lowest."""

    name = "trees"

    def __init__(self, table: Table, seed: int = 0, first: Sequence[int] = ()) -> None:
        try:
            self._ensemble: Any = importlib.import_module("sklearn.ensemble")
        except ImportError as error:
            raise ImportError(
                "the strategy trees needs scikit-learn, which is not installed. Remedy: pip install scikit-learn, or "
                "take the strategy portfolio"
            ) from error
        super().__init__(table, seed, first)

    def choose(self) -> int:
        process = self.surrogate.process
        rows = process.rows
        if self.best is None or len(rows) < _FROM or len(rows) % _EVERY:
            return super().choose()
        kept = process.kept[~self.asked[process.kept]]
        if not len(kept):
            return super().choose()
        if len(kept) > _ROWS:
            kept = self.rng.choice(kept, _ROWS, replace=False)
        y = np.log(self.values[rows])
        y = np.minimum(y, np.quantile(y[np.isfinite(y)], 0.9))
        forest = self._ensemble.ExtraTreesRegressor(_TREES, random_state=int(self.rng.integers(1 << 30)))
        forest.fit(self.table.points[rows], y)
        each = np.stack([tree.predict(self.table.points[kept]) for tree in forest.estimators_])
        low = each.mean(0) - each.std(0)
        return int(kept[np.argmin(np.where(np.isfinite(low), low, math.inf))])
