"""Trying one config: compile, check, race against the best so far. Runs beside the session, or where an executor is.

Nothing here knows the session: a `Task` says what is to be tried and against what, an `Attempt` what became of it, and
both are plain data that pickles.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from .measure import Built, Failed
from .race import Race, interval, race
from .space import Config

BUILD_LIMIT_S = 90.0
LIMIT_S = 1.0  # besides ten times the best's time: what takes longer cannot win
_SHORTEST_MS = 0.2  # a sample of a shorter kernel is several calls
_CONFIRMING = 6


@dataclass(frozen=True)
class Task:
    """A config to be tried against `anchor`, the best so far, whose value is `value`; the first has none before it.

    check_s : how long the default's check took, with the reference that it is compared with. known : binaries that
    need no second time. device : where it is to be measured, "" for wherever it is.
    """

    config: Config
    default: Config
    anchor: Config | None = None
    value: float = float("nan")
    default_ms: float = float("nan")
    check_s: float = 0.0
    steady: bool = False
    known: frozenset[str] = frozenset()
    device: str = ""


@dataclass
class Attempt:
    """What became of a config: `failure`, or its `value`; neither where its binary is known.

    value : in the default's time at the session's beginning. between : the 95 % interval of its ratio to the default,
    where the two were taken in turn. launches : samples taken of it and of others beside it.
    device : where.
    """

    config: Config
    built: Built | None = None
    failure: Failed | None = None
    max_error: float | None = None
    race: Race | None = None
    value: float | None = None
    time_ms: float = float("nan")
    between: tuple[float, ...] = ()
    launches: int = 0
    check_s: float = 0.0
    device: str = ""


def check_limit(task: Task) -> float:
    """How long a check may take; how long the default takes is not known beforehand."""
    return 60.0 if task.anchor is None else LIMIT_S + 10.0 * task.value / 1e3 + 2.0 * task.check_s


def timing_limit(samples: int, value: float) -> float:
    """How long so many samples may take, of a config ten times as slow as the best."""
    return LIMIT_S + samples * 10.0 * max(value, _SHORTEST_MS) / 1e3


def attempt(worker: Any, task: Task, built: Built | Failed | None = None) -> Attempt:
    """Try a config with a worker; `built` is what came of compiling it, if it was. *Raises*: worker.Stopped."""
    done = Attempt(task.config, device=worker.facts.get("device", ""))
    try:
        if built is None:
            built = worker.call("build", task.config, limit_s=BUILD_LIMIT_S)
        if isinstance(built, Failed):
            raise built
        done.built, done.device = built, worker.facts.get("device", "")
        if built.binary and built.binary in task.known:
            return done
        began = time.monotonic()
        done.max_error = worker.call("check", task.config, 0, False, limit_s=check_limit(task))
        done.check_s = time.monotonic() - began
        _time(worker, task, done)
    except Failed as failure:
        done.failure, done.value = failure, None
    return done


def _time(worker: Any, task: Task, done: Attempt) -> None:
    """Race a config whose answer is right."""

    def pairs(count: int) -> tuple[list[float], list[float]]:
        done.launches += 2 * count
        limit = timing_limit(2 * count + 4, task.value)
        mine, other = worker.call("pairs", task.config, task.anchor, count, limit_s=limit)
        return mine, other

    if task.steady:
        mine, _ = worker.call("pairs", task.config, None, 1, limit_s=BUILD_LIMIT_S)
        done.race, done.value, done.time_ms = Race(1.0, 1, False, tuple(mine)), mine[0], mine[0]
        return
    if task.anchor is None:
        done.launches += _CONFIRMING
        mine, _ = worker.call("pairs", task.config, None, _CONFIRMING, limit_s=60.0)
        _again(worker, task)
        done.race = Race(1.0, _CONFIRMING, False, tuple(mine))
        done.value = done.time_ms = float(np.median(mine))
        return
    done.race = race(pairs)
    done.value, done.time_ms = done.race.ratio * task.value, float(np.median(done.race.samples))
    if done.value < task.value:
        _confirm(worker, task, done)
        _again(worker, task)


def _again(worker: Any, task: Task) -> None:
    """Check what has been called many times: one that does its work at the first call only would lead the search, and
    all others would be raced against it. *Raises*: Failed."""
    try:
        worker.call("check", task.config, 0, False, limit_s=check_limit(task))
    except Failed as failure:
        raise once_more(failure) from None


def once_more(failure: Failed) -> Failed:
    """Return the failure of a config that was right when it was first called."""
    return Failed(
        failure.status, f"right at first, and no more when it is called again: {failure.reason}", failure.detail
    )


def _confirm(worker: Any, task: Task, done: Attempt) -> None:
    """Take a config that has just won a race anew, in turn with the best so far and the default.

    What wins by luck in one race would carry its luck into all that is raced against it: after ten such winners the
    product of ratios was a tenth of the truth. A ratio to the default alone is no better where the default's own time
    jumps, as threads' do on a busy machine. So the worse of the two counts.
    """
    assert task.anchor is not None
    asked = [task.config, task.default, *([task.anchor] if task.anchor != task.default else [])]
    samples = _CONFIRMING * len(asked)
    limit = timing_limit(samples + 2 * len(asked), task.default_ms)
    done.launches += samples
    times = np.array(worker.call("rounds", asked, _CONFIRMING, len(task.known), limit_s=limit))
    ratio, *between = interval(times[0] / times[1])
    done.value = max(ratio * task.default_ms, float(np.median(times[0] / times[-1])) * task.value)
    done.time_ms, done.between = float(np.median(times[0])), tuple(between)
