"""A number over time in bounded room: neighbouring points become one when there are too many."""

from __future__ import annotations

import math
from typing import Any

from widgets.run_curves import Curve

LIMIT = 400


class Series:
    """Values with the step that they belong to. A point is [first step, sum, how many, least, largest].

    >>> series = Series()
    >>> for step, loss in enumerate([4.0, 2.0, 1.0], 1):
    ...     series.add(step, loss)
    >>> series.add(3, 3.0)
    >>> curve = series.curve("loss", "loss")
    >>> curve.at, curve.values, curve.high
    ([1, 2, 3], [4.0, 2.0, 2.0], [4.0, 2.0, 3.0])
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.points: list[list[Any]] = []
        self.width = 1  # steps that one point stands for
        self.count = 0
        self.last = math.nan
        self.lost: int | None = None  # the first step at which the value was not finite
        self._limit = limit

    def add(self, step: int, value: float) -> None:
        """Note a value; steps do not go back."""
        self.count += 1
        self.last = value
        points = self.points
        if value - value != 0.0:
            if self.lost is None:
                self.lost = step
            if not points or step >= points[-1][0] + self.width:
                points.append([step, 0.0, 0, math.inf, -math.inf])
            return
        if points and step < points[-1][0] + self.width:
            point = points[-1]
            point[1] += value
            point[2] += 1
            if value < point[3]:
                point[3] = value
            if value > point[4]:
                point[4] = value
            return
        points.append([step, value, 1, value, value])
        if len(points) > self._limit:
            self._thin()

    def at_once(self) -> None:
        """All that has been noted belongs to the first step: it has not been made yet."""
        for point in self.points:
            point[0] = 1
        self._merge()

    def _thin(self) -> None:
        while len(self.points) > self._limit:
            self.width *= 2
            self._merge()

    def _merge(self) -> None:
        merged: list[list[Any]] = []
        for point in self.points:
            if merged and point[0] < merged[-1][0] + self.width:
                before = merged[-1]
                merged[-1] = [before[0], before[1] + point[1], before[2] + point[2],
                              min(before[3], point[3]), max(before[4], point[4])]  # fmt: skip
            else:
                merged.append(point)
        self.points = merged

    def curve(self, name: str, kind: str, line: int | None = None) -> Curve:
        """Return it as plain data; another thread may add to it meanwhile."""
        points = [tuple(point) for point in self.points]
        values = [total / n if n else math.nan for _, total, n, _, _ in points]
        spread = any(n > 1 for _, _, n, _, _ in points)
        low = [p[3] if p[2] else math.nan for p in points] if spread else []
        high = [p[4] if p[2] else math.nan for p in points] if spread else []
        return Curve(name, kind, line, [p[0] for p in points], values, low, high, self.last, self.count, self.lost)
