"""The sessions of a kernel that the store knows, and two of them compared: what changed, and what is only noise.

Times of two sessions differ for three reasons: the machine was faster or slower, which shows in all configs alike; the
clock scatters, which shows in each by itself; and a config did change. So of the configs that both have timed the
median of the logarithms of the ratios is the machine's part, and one that lies farther from it than the others scatter
(their median absolute deviation, with the error that its own samples tell) has changed, at 5 % for all of them
together (Bonferroni).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from .database import KEY
from .space import Config

LEAST = 6  # configs that both have timed, from which on it can be told what scatters
_SMALL = 0.05  # of a time: no change is told that is smaller
_LEAST_SAMPLES = 4
_RIGHT = "correct"
Record = dict[str, Any]


@dataclass(frozen=True)
class Changed:
    """A config whose time has changed beside that of the others: the ratio of its times, theirs taken out."""

    config: Config
    ratio: float


@dataclass
class Comparison:
    """What is different in the second of two sessions.

    facts : name, before, now; of the problem, the machine and the search. timed : each config that both have timed,
    with its times in ms. machine : the ratio of their times, second to first, with its 95 % interval; None where they
    are too few. changed : those that went another way than the others, the largest change first. failing, mended :
    configs that were right in one alone, with the reason. chosen : both choices, each with its ratio to the default and
    the interval. better : whether the second choice's ratio is "lower", "higher", or "" where nothing tells.
    """

    facts: list[tuple[str, str, str]] = field(default_factory=list)
    only_first: int = 0
    only_second: int = 0
    timed: list[tuple[Config, float, float]] = field(default_factory=list)
    machine: tuple[float, float, float] | None = None
    changed: list[Changed] = field(default_factory=list)
    failing: list[tuple[Config, str]] = field(default_factory=list)
    mended: list[tuple[Config, str]] = field(default_factory=list)
    chosen: tuple[Record | None, Record | None] = (None, None)
    better: str = ""

    @property
    def both(self) -> int:
        """How many configs both have timed."""
        return len(self.timed)

    @property
    def slower(self) -> float:
        """How many times as long the second takes, where that is surely no noise; else 1."""
        if self.machine is None:
            return 1.0
        middle, low, high = self.machine
        return middle if (low > 1.0 or high < 1.0) and abs(math.log(middle)) > _SMALL else 1.0


def compare(first: Record, second: Record) -> Comparison:
    """Compare two of `Store.sessions`.

    >>> past = {"environment": {}, "strategy": "line", "outcome": None, "trials": [], **dict.fromkeys(KEY, "")}
    >>> compare(past, {**past, "strategy": "random", "device": "a GPU"}).facts
    [('device', '', 'a GPU'), ('strategy', 'line', 'random')]
    """
    made = Comparison(_facts(first, second), chosen=(_choice(first), _choice(second)))
    before, now = _by_config(first), _by_config(second)
    both = before.keys() & now.keys()
    made.only_first, made.only_second = len(before.keys() - both), len(now.keys() - both)
    timed = []
    for key in sorted(both):
        a, b = before[key], now[key]
        right = a["status"] == _RIGHT, b["status"] == _RIGHT
        if all(right):
            if a.get("median_ms") and b.get("median_ms"):
                timed.append((a, b))
        elif right[0] and b["status"] != "timeout":  # a time-out may be the machine's
            made.failing.append((b["config"], f"{b['status']}: {b.get('reason', '')}"))
        elif right[1] and a["status"] != "timeout":
            made.mended.append((a["config"], f"{a['status']}: {a.get('reason', '')}"))
    made.timed = [(b["config"], a["median_ms"], b["median_ms"]) for a, b in timed]
    if len(timed) >= LEAST:
        _tell(made, timed)
    made.better = _better(*made.chosen)
    return made


def _tell(made: Comparison, timed: Sequence[tuple[Record, Record]]) -> None:
    """Part the machine's change from that of single configs."""
    logs = np.log([b["median_ms"] / a["median_ms"] for a, b in timed])
    middle = float(np.median(logs))
    scatter = max(1.4826 * float(np.median(np.abs(logs - middle))), 0.005)
    error = 1.96 * 1.2533 * scatter / math.sqrt(len(timed))  # of a median
    made.machine = math.exp(middle), math.exp(middle - error), math.exp(middle + error)
    limit = NormalDist().inv_cdf(1.0 - 0.025 / len(timed))
    for (a, b), log in zip(timed, logs, strict=True):
        own = _error(a), _error(b)
        if None in own:
            continue
        away = abs(log - middle)
        if away > limit * math.hypot(scatter, *(e or 0.0 for e in own)) and away > _SMALL:
            made.changed.append(Changed(b["config"], math.exp(log - middle)))
    made.changed.sort(key=lambda c: -abs(math.log(c.ratio)))


def _error(trial: Record) -> float | None:
    """Return the error of the logarithm of a median by its own samples; None where they are too few to tell."""
    samples = trial.get("samples") or []
    if len(samples) < _LEAST_SAMPLES:
        return None
    return 1.2533 * float(np.std(np.log(samples), ddof=1)) / math.sqrt(len(samples))


def _by_config(session: Record) -> dict[str, Record]:
    """Return the last trial of each config."""
    names = (session["outcome"] or {}).get("default", {})  # in the space's order, which the database does not keep
    found = {}
    for t in session["trials"]:
        config = {n: t["config"][n] for n in dict.fromkeys([*names, *t["config"]]) if n in t["config"]}
        found[json.dumps(t["config"], sort_keys=True)] = {**t, "config": config}
    return found


def _facts(first: Record, second: Record) -> list[tuple[str, str, str]]:
    """Return what names the problem, the machine and the search, where the two differ."""
    before, now = ({**{n: s[n] for n in KEY}, "strategy": s["strategy"], **s["environment"]} for s in (first, second))
    found = []
    for name in dict.fromkeys([*before, *now]):
        a, b = before.get(name, ""), now.get(name, "")
        if a != b:
            found.append((name, as_text(a), as_text(b)))
    return found


def as_text(value: Any) -> str:
    """Return a fact as text, a shape with x between its sizes."""
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _choice(session: Record) -> Record | None:
    outcome = session["outcome"]
    return outcome if outcome and "config" in outcome else None


def _better(first: Record | None, second: Record | None) -> str:
    """Return whether the second's ratio to the default is surely another."""
    if first is None or second is None or "noisy" in (first["verdict"], second["verdict"]):
        return ""
    if second["high"] < first["low"] and second["ratio"] < (1.0 - _SMALL) * first["ratio"]:
        return "lower"
    return "higher" if second["low"] > first["high"] and second["ratio"] > (1.0 + _SMALL) * first["ratio"] else ""
