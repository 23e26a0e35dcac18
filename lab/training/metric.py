"""Metrics as `lab.fit` takes them: functions of a batch, or objects that gather an epoch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any


class Metric:
    """One metric: the mean of a function over the samples, or what an object with `update` and `compute` gives.

    >>> metric = Metric("error", lambda output, target: abs(output - target))
    >>> metric.update(3.0, 1.0, 1); metric.update(2.0, 2.0, 3)
    >>> metric.name, metric.value()
    ('error', 0.5)
    """

    def __init__(self, name: str, work: Any) -> None:
        self.name, self.work = name, work
        self.gathers = hasattr(work, "update") and hasattr(work, "compute")
        if not self.gathers and not callable(work):
            raise ValueError(f"lab.fit: the metric {name!r} is a {type(work).__name__}; needed: a function of (output, "
                             "target), or an object with update, compute and reset")  # fmt: skip
        self.reset()

    def reset(self) -> None:
        """Begin an epoch."""
        self.total, self.seen = 0.0, 0
        if self.gathers and hasattr(self.work, "reset"):
            self.work.reset()

    def update(self, output: Any, target: Any, n: int) -> None:
        """Take in a batch of `n` samples."""
        if self.gathers:
            self.work.update(output, target)
        else:
            self.total += self.number(self.work(output, target)) * n
        self.seen += n

    def value(self) -> float:
        """Return what the epoch comes to."""
        if not self.gathers:
            return self.total / max(self.seen, 1)
        return self.number(self.work.compute())

    def number(self, value: Any) -> float:
        """One number; of a tensor it is read without an event that a recording would hear."""
        array = getattr(value, "_a", value)
        if getattr(array, "size", 1) != 1:
            raise ValueError(f"lab.fit: the metric {self.name!r} gave {tuple(array.shape)} values; needed: one number")
        return float(array.reshape(()) if hasattr(array, "reshape") else array)


def metrics_of(given: Any) -> list[Metric]:
    """Metrics from one, a list, or a dict of names.

    >>> def accuracy(output, target): ...
    >>> [m.name for m in metrics_of([accuracy])], [m.name for m in metrics_of({"error": accuracy})], metrics_of(None)
    (['accuracy'], ['error'], [])
    """
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [Metric(str(name), work) for name, work in given.items()]
    if isinstance(given, str):
        raise ValueError(f"lab.fit: metrics={given!r} is a name; needed: the metric itself\n  remedy: "
                         "core.metrics.Accuracy(...), or a function of (output, target)")  # fmt: skip
    several = isinstance(given, Iterable) and not hasattr(given, "update") and not callable(given)
    found = [Metric(_name(work), work) for work in (given if several else [given])]
    names = [m.name for m in found]
    if again := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"lab.fit: two metrics are called {again!r}; remedy: a dict that names them")
    return found


def _name(work: Any) -> str:
    name = getattr(work, "__name__", None) or type(work).__name__
    if name == "<lambda>":
        raise ValueError('lab.fit: a metric without a name; remedy: metrics={"name": lambda output, target: ...}')
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name).strip().lower()
