"""The course of a training loop as plain data: what it computed step by step, beside the last runs of its cell."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Curve:
    """One number over the steps of a loop, thinned out: a point may stand for several steps."""

    name: str
    kind: str = "loss"
    """"loss", "validation", "metric", "rate" (a learning rate) or "memory" (bytes)."""
    line: int | None = None
    """Of this cell, where it was computed."""
    at: list[int] = field(default_factory=list)
    """The step at which each point begins, counted from 1."""
    values: list[float] = field(default_factory=list)
    """The mean of a point's finite values; NaN where it has none."""
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    """The least and the largest of them; empty where every point is one value."""
    last: float = math.nan
    count: int = 0
    """How many values there were."""
    lost: int | None = None
    """The first step at which it was not finite."""

    def finite(self) -> tuple[list[int], list[float]]:
        """Return steps and values of the points that have a finite one.

        >>> Curve("loss", at=[1, 2, 3], values=[2.0, math.nan, 1.0]).finite()
        ([1, 3], [2.0, 1.0])
        """
        pairs = [(a, v) for a, v in zip(self.at, self.values, strict=True) if math.isfinite(v)]
        return [a for a, _ in pairs], [v for _, v in pairs]


@dataclass
class LayerCurve:
    """One layer's gradient norm, and how far its weights moved beside their size, at the steps of `layers_at`."""

    name: str
    norms: list[float | None] = field(default_factory=list)
    ratios: list[float | None] = field(default_factory=list)


@dataclass
class PastRun:
    """An earlier run of the same cell, as far as it is drawn and compared."""

    title: str = ""
    seconds: float = 0.0
    steps: int = 0
    memory_bytes: int = 0
    source: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)


@dataclass
class RunCurves:
    """The course of a loop, from its first step to its last."""

    steps: int = 0
    unit: str = "step"
    """What is counted: "step" of an optimizer, or "backward pass" where there is none."""
    seconds: float = 0.0
    """From the first of what was seen to the last."""
    rate: float = 0.0
    """Steps a second, of late."""
    expected: int | None = None
    """How many there will be, as far as the loops around them say."""
    curves: list[Curve] = field(default_factory=list)
    layers: list[LayerCurve] = field(default_factory=list)
    layers_at: list[int] = field(default_factory=list)
    memory_bytes: int = 0
    """The most that the process, and what it holds on GPUs, took."""
    said: list[str] = field(default_factory=list)
    """What was said when it happened: a loss that diverges, a model that overfits."""
    note: str = ""
    """What ended the watching before its time."""
    inputs: dict[str, str] = field(default_factory=dict)
    """What the cell read and did not make: settings, data, functions, each in words."""
    before: list[PastRun] = field(default_factory=list)
    """The last runs of the same cell, the latest first."""
    changes: list[str] = field(default_factory=list)
    """What is different beside the last run, in sentences."""

    def main(self) -> Curve | None:
        """Return the loss that the loop brings down: of several, the one that was computed most often.

        >>> RunCurves(curves=[Curve("accuracy", "metric"), Curve("loss", count=3)]).main().name
        'loss'
        """
        return max((c for c in self.curves if c.kind == "loss"), key=lambda c: c.count, default=None)

    def check(self) -> Curve | None:
        """Return the validation's loss, where the loop computes one."""
        return next((c for c in self.curves if c.kind == "validation"), None)
