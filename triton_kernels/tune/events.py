"""What a session tells, as plain data: one event after another, the `Result` in the last."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from .fronts import Weighed
from .space import Config


@dataclass(frozen=True)
class Started:
    """The session has opened its measure. `resumed` trials of earlier sessions are known and are not taken again."""

    space_size: int
    resumed: int
    device: str


@dataclass(frozen=True)
class Compiled:
    """A config was compiled, in `compile_ms`; `facts` are registers and the like."""

    config: Config
    binary: str
    compile_ms: float
    facts: dict[str, Any]


@dataclass(frozen=True)
class Rejected:
    """A config has no time: `status` is its kind (`measure.STATUSES`), `reason` says why in a line."""

    config: Config
    status: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Measured:
    """A config that gives the right answer, and its time: a median of `repeats`, as the machine was at that moment.

    same_as : a config with the identical binary, whose time this is. raced_out : it was so clearly behind the best that
    not all repeats were spent on it.
    """

    config: Config
    time_ms: float
    repeats: int
    same_as: Config | None = None
    raced_out: bool = False


@dataclass(frozen=True)
class Improved:
    """A config is ahead of all before it; `ratio` is its time over the default's, with its 95 % interval where the two
    were taken in turn."""

    config: Config
    time_ms: float
    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Stopped:
    """The search has ended before the space did: "stopped", "budget", "evaluations", or "executor": none is left."""

    reason: str


@dataclass(frozen=True)
class Place:
    """A config of the final: its time, and its ratio to the default's with the 95 % interval."""

    config: Config
    time_ms: float
    ratio: float
    low: float
    high: float
    facts: dict[str, Any] = field(default_factory=dict)


_STARVED = 3.0  # a middle time so many times the least is no library's own


@dataclass(frozen=True)
class Vendor:
    """The vendor's library on the same arrays, in turn with the final's configs.

    ratio : of its time to the default's, with the 95 % interval. best : of the best's time to its own. least_ms : the
    shortest of its times.
    """

    name: str
    time_ms: float
    ratio: float
    low: float
    high: float
    best: tuple[float, float, float]
    least_ms: float

    def in_words(self) -> str:
        """How the best stands to it.

        >>> Vendor("BLAS", 1.0, 0.5, 0.49, 0.51, (1.2, 1.1, 1.3), 0.9).in_words()
        'Nothing tried beats BLAS: the best takes 1.20 times its time (95 %: 1.10 to 1.30)'
        """
        ratio, low, high = self.best
        if self.time_ms > _STARVED * self.least_ms:
            return (
                f"{self.name} cannot be compared with on a machine as busy: it took {self.least_ms:.3g} ms at best and "
                f"{self.time_ms:.3g} ms in the middle, since its threads wait for cores that others use"
            )
        if low > 1.0:
            return (
                f"Nothing tried beats {self.name}: the best takes {ratio:.2f} times its time (95 %: {low:.2f} to "
                f"{high:.2f})"
            )
        if high < 1.0:
            return f"{1 / ratio:.2f} times as fast as {self.name} (95 %: {1 / high:.2f} to {1 / low:.2f})"
        return f"As fast as {self.name}, as far as can be told: {ratio:.2f} of its time (95 %: {low:.2f} to {high:.2f})"


@dataclass(frozen=True)
class Result:
    """What came of a session.

    best : the winner, or the default where none is measurably faster. ties : others of the final that cannot be told
    from the winner. verdict : "faster", "default", "noisy" (faster by the median, but the interval holds 1: the default
    stays), "estimate" (nothing was timed), "failed" (not even the default gives the right answer) or "stopped" (before
    the default had a time). front : the configs that none beats in time and in what the objective is.
    """

    kernel: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    device: str
    strategy: str
    verdict: str
    default: Place | None
    best: Place | None
    top: tuple[Place, ...] = ()
    ties: tuple[Config, ...] = ()
    rejected: dict[str, int] = field(default_factory=dict)
    reasons: tuple[tuple[str, int], ...] = ()
    evaluations: int = 0
    resumed: int = 0
    merged: int = 0
    space_size: int = 0
    seconds: float = 0.0
    ended: str = ""
    stored: str = ""
    notes: tuple[str, ...] = ()
    vendor: Vendor | None = None
    objective: str = "time"
    front: tuple[Weighed, ...] = ()

    @property
    def estimate(self) -> bool:
        """Whether the times are estimates."""
        return self.kind == "static"

    @property
    def config(self) -> Config | None:
        """The config to use."""
        return self.best.config if self.best else None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Finished:
    """The last event."""

    result: Result


Event = Started | Compiled | Rejected | Measured | Improved | Stopped | Finished


def reasons_of(rejected: list[Rejected], most: int = 8, named: int = 24) -> tuple[tuple[str, int], ...]:
    """Return the commonest reasons with their numbers; figures that differ from config to config are taken as one.

    Configs that give a wrong answer come first and by themselves, `named` of them at most, with their largest error.

    >>> reasons_of([Rejected({}, "timeout", "timing had no result after 1.0 s"),
    ...             Rejected({}, "timeout", "timing had no result after 1.1 s")])
    (('timeout: timing had no result after 1.0 s', 2),)
    >>> reasons_of([Rejected({"BLOCK": 64}, "correctness", "3 of 9 results are wrong")])
    (('correctness: BLOCK=64: 3 of 9 results are wrong', 1),)
    """
    import re

    first: dict[str, str] = {}
    count: Counter[str] = Counter()
    wrong: list[tuple[str, int]] = []
    for each in rejected:
        if each.status == "correctness" and len(wrong) < named:
            config = " ".join(f"{name}={value}" for name, value in each.config.items())
            wrong.append((f"{each.status}: {config}: {each.reason}", 1))
            continue
        text = f"{each.status}: {each.reason}"
        key = re.sub(r"[\d.,]+", "#", text)
        first.setdefault(key, text)
        count[key] += 1
    return (*wrong, *((first[key], n) for key, n in count.most_common(most)))
