"""The default: what is known of like problems first, then a Gaussian process and steps from the best, in turn.

Every fifth config differs from the best in one tunable alone, the most promising of these. That costs little where the
process understands the space, and finds the way down where it does not.
"""

from __future__ import annotations

import math

import numpy as np

from .blas import one_thread
from .strategy_gaussian import BEGIN, Gaussian

_STEP_EVERY = 5


class Portfolio(Gaussian):
    """A Gaussian process with coordinate steps."""

    name = "portfolio"
    _turn = 0

    @one_thread()
    def choose(self) -> int:
        self._turn += 1
        process = self.surrogate.process
        if self._turn % _STEP_EVERY == 0 and self.best is not None and len(process.rows) >= BEGIN:
            kept = process.kept
            near = (self.table.differences(self.best)[kept] == 1) & ~self.asked[kept]
            if near.any():
                mean, deviation, _ = self.surrogate.predicted(self.values)
                return int(kept[np.argmax(np.where(near, deviation - mean, -math.inf))])
        return super().choose()
