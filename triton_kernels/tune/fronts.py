"""What a session weighs time against: accuracy, memory or energy; the configs that no other beats in both.

The search goes for time, as it always does. Of all that it has measured stay those for which none is as quick and as
good, and better in one (a Pareto front).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .energy import why_not
from .space import Config

OBJECTIVES = {
    "time": "time alone",
    "accuracy": "the largest error, as a share of what is allowed",
    "memory": "bytes of shared memory a program",
    "energy": "mJ a launch, the whole device's",
}
"""By name what stands beside a config's time."""

_FACTS = {"memory": "shared_bytes", "energy": "energy_mj"}


@dataclass(frozen=True)
class Weighed:
    """A config with its time over the default's, and what stands beside it."""

    config: Config
    ratio: float
    figure: float


def refuse(objective: str, kind: str) -> None:
    """Look whether a session can weigh this on what measures, by its kind. *Raises*: ValueError, with what it can."""
    known = ", ".join(OBJECTIVES)
    if objective not in OBJECTIVES:
        raise ValueError(f"objective {objective!r} is none that is known: there are {known}")
    if objective == "accuracy" and kind not in ("cpu", "cuda"):
        raise ValueError(f"objective 'accuracy': errors are measured where kernels run, on a processor or a GPU; here "
                         f"configs are measured by {kind!r}. Remedy: objective='time'")  # fmt: skip
    if objective == "memory" and kind not in ("static", "cuda"):
        raise ValueError("objective 'memory': shared memory is a GPU's, and this kernel is measured on "
                         f"{kind!r}. Remedy: objective='time' or 'accuracy'")  # fmt: skip
    if objective == "energy" and (why := why_not(kind)):
        raise ValueError(f"objective 'energy': {why}; objective='time' needs none")


def figure_of(objective: str, max_error: float | None, facts: Mapping[str, Any]) -> float:
    """Return what stands beside a config's time; NaN where it is not known."""
    found = max_error if objective == "accuracy" else facts.get(_FACTS.get(objective, ""))
    return math.nan if found is None else float(found)


def front(weighed: Iterable[Weighed]) -> tuple[Weighed, ...]:
    """Return those that no other one beats, the quickest first.

    >>> found = front([Weighed({"B": 1}, 1.0, 8.0), Weighed({"B": 2}, 0.5, 9.0), Weighed({"B": 4}, 0.7, 9.0)])
    >>> [each.config for each in found]
    [{'B': 2}, {'B': 1}]
    """
    kept: list[Weighed] = []
    for each in sorted(weighed, key=lambda w: (w.ratio, w.figure)):
        if math.isfinite(each.ratio) and each.figure < min((w.figure for w in kept), default=math.inf):
            kept.append(each)
    return tuple(kept)
