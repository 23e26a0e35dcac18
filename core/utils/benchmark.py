"""Timing of a statement, as ``torch.utils.benchmark`` has it: `Timer`."""

from __future__ import annotations

import statistics
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

from .. import cuda
from ..ops.queries import get_num_threads, set_num_threads

__all__ = ["Measurement", "Timer"]


class Measurement:
    """How long runs of a statement took, in seconds each."""

    def __init__(self, number_per_run: int, raw_times: list[float], label: str | None = None) -> None:
        self.number_per_run, self.raw_times, self.label = number_per_run, raw_times, label

    @property
    def times(self) -> list[float]:
        """The seconds of one run of the statement, measurement by measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """Their median."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance of their quartiles; 0 of fewer than two."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        return (f"<Measurement {self.label or ''}: median {self.median * 1e6:.2f} us, IQR {self.iqr * 1e6:.2f} us, "
                f"{len(self.times)} measurements of {self.number_per_run} runs>")  # fmt: skip


class Timer:
    """A statement to time, with names that it knows, on so many threads. What a GPU was given is waited for.

    >>> import core
    >>> from core.utils.benchmark import Timer
    >>> found = Timer("x + x", globals={"x": core.ones(8)}).timeit(10)
    >>> found.number_per_run, found.median > 0
    (10, True)
    """

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
                 timer: Callable[[], float] = time.perf_counter, globals: dict[str, Any] | None = None,
                 label: str | None = None, sub_label: str | None = None, description: str | None = None,
                 env: str | None = None, num_threads: int = 1, language: str = "python") -> None:  # fmt: skip
        core = sys.modules[__name__.partition(".")[0]]
        names = {"torch": core, "core": core, **(globals or {})}
        self.label, self.num_threads = label or stmt, num_threads
        self._timer = timeit.Timer(stmt, setup, timer=lambda: _waited(timer), globals=names)

    def _runs(self, number: int) -> float:
        before = get_num_threads()
        set_num_threads(self.num_threads)
        try:
            return self._timer.timeit(number)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Run the statement `number` times, after a hundredth of that to warm up."""
        self._runs(max(number // 100, 2))
        return Measurement(number, [self._runs(number)], self.label)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Run it in blocks of which each is long beside the clock, until they took `min_run_time` seconds together."""
        number = 1
        while (taken := self._runs(number)) < min_run_time / 100 and number < 10**9:
            number *= 10
        times = [taken]
        while sum(times) < min_run_time:
            times.append(self._runs(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self.label)

    adaptive_autorange = blocked_autorange


def _waited(timer: Callable[[], float]) -> float:
    if cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()
    return timer()
