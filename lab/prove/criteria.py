"""What must be better, kind by kind, for a patch to be proved: figures of the two runs, apart from the recorder's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .timing import Comparison

RTOL, ATOL = 1e-4, 1e-6  # within which values are the same
GROWN = 50  # times that, at most, of what many steps of training have made of rounding
LEAST_MS = 2.0  # that a patch for speed spares
IN_VAIN = ("takes none", "nobody takes them", "gradients that nobody uses")
REMADE = ("models made one step each", "the network is bent to it")
WEAK = 1e-3  # a gradient so much smaller than the largest one hardly teaches


@dataclass(frozen=True)
class Runs:
    """What was measured before and with a patch, and the findings of each."""

    before: dict[str, Any]
    after: dict[str, Any]
    found_before: dict[str, Any]
    found_after: dict[str, Any]
    compared: Comparison | None = None  # many runs of each, where time is the criterion

    @staticmethod
    def graded(run: dict[str, Any]) -> Counter[tuple[int, ...]]:
        """Count the leaves that get a gradient other than 0, by shape: names and places may change."""
        return Counter(tuple(leaf["shape"]) for leaf in run["leaves"] if leaf["graded"])

    @staticmethod
    def held(run: dict[str, Any]) -> Counter[tuple[int, ...]]:
        """Count the leaves that get a gradient and that a module or an optimizer holds, or something changes."""
        return Counter(tuple(x["shape"]) for x in run["leaves"] if x["graded"] and (x["held"] or x["moved"]))

    @staticmethod
    def moved(run: dict[str, Any]) -> Counter[tuple[int, ...]]:
        """Count the leaves that get a gradient and change."""
        return Counter(tuple(leaf["shape"]) for leaf in run["leaves"] if leaf["graded"] and leaf["moved"])

    @staticmethod
    def optimized(run: dict[str, Any]) -> Counter[tuple[int, ...]]:
        """Count the leaves that get a gradient and that an optimizer changes."""
        rows = [leaf for leaf in run["leaves"] if leaf["graded"] and leaf["moved"] and leaf["optimized"]]
        return Counter(tuple(leaf["shape"]) for leaf in rows)

    def cancelled(self) -> Counter[tuple[int, ...]]:
        """Count the leaves of one value that backward() reaches and gives 0, as differences do with an offset."""
        rows = [leaf for leaf in self.after["leaves"] if leaf["reached"] and not leaf["graded"]]
        return Counter(tuple(leaf["shape"]) for leaf in rows if math.prod(leaf["shape"]) == 1)

    def gone(self, kind: str) -> bool:
        """Whether there is a finding of this kind less than before."""
        if freezing(self):  # what is frozen now is told by a note of the same kind
            return not any("freezes nothing" in f["message"] for f in self.found_after["found"])
        if remade(self):  # a model that is meant to stay as it is may be told of
            return not any(words in f["message"] for f in self.found_after["found"] for words in REMADE)
        count = [sum(f["kind"] == kind for f in found["found"]) for found in (self.found_before, self.found_after)]
        return count[1] < count[0]

    def new_findings(self, severities: tuple[str, ...], but: tuple[str, ...] = ()) -> str:
        """Return the kind of a finding that was not there before, of other kinds than some; "" where none came."""
        counts = [Counter(f["kind"] for f in found["found"] if f["severity"] in severities or f.get("reads"))
                  for found in (self.found_before, self.found_after)]  # fmt: skip
        return next((kind for kind in counts[1] - counts[0] if kind not in but), "")

    def tolerance(self) -> float:
        """Return within what share of them all losses and values are as they were, 0 where they are others.

        In a cell that trains, another order of summation differs more with each step.
        """
        if not self.same_values():
            return RTOL
        times = min(len(self.before["losses"]), GROWN)
        return times * RTOL if times > 1 and not self.same_values(times) else 0.0

    def same_values(self, times: int = 1) -> str:
        """Return "" where every loss and every name has the value it had, else what differs.

        times : RTOL that what comes after so many losses may differ by, and the k-th loss by k of them
        """
        a, b = self.before["losses"], self.after["losses"]
        if len(a) != len(b) or not all(
            _near(x, y, min(k, times)) for k, (x, y) in enumerate(zip(a, b, strict=True), 1)
        ):
            return "the losses are others"
        told = a or (self.before["printed"] and self.before["output"] == self.after["output"])
        for name, (kind, shape, _, _, values) in self.before["values"].items():
            now = self.after["values"].get(name)
            if told and now is not None and kind == now[0] == "tensor" and shape != now[1]:
                continue  # all rows for one, or no parts that nobody reads: losses, or what is printed, are the same
            if now is not None and kind in ("tensor", "number", "module") and now[0] in ("tensor", "number", "module"):
                known = len(values) == len(now[4]) or kind != now[0]
                size = max(
                    (abs(v) for v in values if times > 1 and not isinstance(v, str) and math.isfinite(v)), default=0.0
                )
                if known and not all(_near(v, w, times, size) for v, w in zip(values, now[4], strict=False)):
                    return f"{name} has another value"
                if kind == now[0] == "tensor" and shape != now[1]:
                    return f"{name} has another shape"
        return ""


def _near(a: float | str, b: float | str, times: int = 1, size: float = 0.0) -> bool:
    """Whether two values are the same, by so many RTOL of them or of the `size` of others beside them.

    >>> _near(1.0, 1.0002), _near(1.0, 1.0002, 4), _near(0.001, 0.0012, 4, 1.0)
    (False, True, True)
    """
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    least = times * (RTOL * max(abs(a), abs(b), size) + ATOL)
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= least


def _never(runs: Runs) -> str:
    return ""


def _always(runs: Runs) -> bool:
    return True


@dataclass(frozen=True)
class Criterion:
    """`measure` says what is better, "" where nothing is; what is `needed` is refused without, where it `applies`."""

    measure: Callable[[Runs], str] = _never
    needed: bool = False
    applies: Callable[[Runs], bool] = _always
    fails: str = "what was found is no better"
    hides: tuple[str, ...] = ()
    may_lose: bool = False
    loose: bool = False  # leaves that nothing holds or moves may go: constants that were made anew
    may_cut: bool = False
    may_do_less: bool = False

    def enough(self, level: str) -> bool:
        """Whether no other patch could come to more than this level: it is proved, or there is nothing to measure."""
        return level == "proved" or (level == "consistent" and self.measure is _never)

    def proof(self, runs: Runs) -> str:
        """Return what is better, in words; "" where nothing is."""
        return ended_before(runs) or self.measure(runs)

    def must_prove(self, runs: Runs) -> bool:
        """Whether the finding's being gone is not enough."""
        return self.needed and self.applies(runs)

    def otherwise(self, runs: Runs) -> str:
        """Return why a patch is refused that proves nothing."""
        return self.fails

    def may_hide(self, how: str) -> bool:
        """Whether this kind's remedy may do what would hide others."""
        return any(how == f"it adds {name}" or how == f"it takes {name}() away" for name in self.hides)


def ended_before(runs: Runs) -> str:
    """The cell failed, and now it runs to its end, or on from where it failed as far as the trial went."""
    if not runs.before["error"] or runs.after["error"]:
        return ""
    return "the cell runs on past where it failed" if runs.after.get("stopped") else "the cell runs to its end"


def _more_gradients(runs: Runs) -> str:
    more = runs.graded(runs.after) - runs.graded(runs.before)
    n = more.total()
    return f"{n} {'parameter gets a gradient' if n == 1 else 'parameters get gradients'} now" if n else ""


def freezing(runs: Runs) -> bool:
    """Whether what was found is that parameters train which were to be frozen."""
    return any("freezes nothing" in f["message"] for f in runs.found_before["found"])


def in_vain(runs: Runs) -> bool:
    """Whether what was found is that gradients are computed for parameters that nothing trains."""
    return any(words in f["message"] for f in runs.found_before["found"] for words in IN_VAIN)


def remade(runs: Runs) -> bool:
    """Whether a model is made again and again, or trains in place of what should: it may have fewer parameters that
    train."""
    return any(words in f["message"] for f in runs.found_before["found"] for words in REMADE)


def _connected(runs: Runs) -> str:
    if freezing(runs):
        n = (runs.graded(runs.before) - runs.graded(runs.after)).total()
        return (
            f"{n} {'parameter is' if n == 1 else 'parameters are'} frozen now" if n and runs.graded(runs.after) else ""
        )
    return _trained(runs)


def _more_moves(runs: Runs) -> str:
    n = (runs.moved(runs.after) - runs.moved(runs.before)).total()
    return f"{n} more {'parameter is' if n == 1 else 'parameters are'} trained" if n else ""


def _trained(runs: Runs) -> str:
    return _more_moves(runs) or _more_gradients(runs) or _clean_steps(runs)


def _clean_steps(runs: Runs) -> str:
    before, after = runs.before, runs.after
    for what, said in (
        ("stale", "backward passes added to gradients of earlier steps: {} before, {} now"),
        ("empty", "steps without any gradient: {} before, {} now"),
        ("wasted", "backward passes that no step used: {} before, {} now"),
    ):
        others = [other for other in ("stale", "empty", "wasted") if other != what]
        if after[what] < before[what] and not any(after[o] > before[o] for o in others) and after["passes"]:
            return said.format(before[what], after[what])
    if before["passes"] and not before["steps"] and after["steps"] and _more_moves(runs):
        return _more_moves(runs)
    return ""


def _faster(runs: Runs) -> str:
    if runs.compared is None or not runs.compared.faster():
        return ""
    a, b = runs.compared.medians()
    within = runs.tolerance()
    if a - b < LEAST_MS or not within:
        return ""
    return f"{a:,.0f} → {b:,.0f} ms, same values to {within:g}"


def _light(runs: Runs) -> str:
    a, b = runs.before["history"], runs.after["history"]
    if b < 0.5 * a and not runs.same_values():
        return f"the same values, and {a - b:,} of {a:,} nodes of graphs are no longer kept"
    return ""


def _finite(runs: Runs) -> str:
    before, after = runs.before, runs.after
    bad = [sum(not math.isfinite(v) for v in run["losses"]) + sum(not leaf["finite"] for leaf in run["leaves"])
           for run in (before, after)]  # fmt: skip
    if bad[0] and not bad[1]:
        none = [leaf["name"] for leaf in after["leaves"] if not leaf["graded"]]
        tail = f", but {none[0]} gets a gradient of 0" if none else ""
        return f"all losses and gradients are finite{tail}"
    values = [_nonfinite(run) for run in (before, after)]
    return "all values are finite" if values[0] and not values[1] else ""


def _nonfinite(run: dict[str, Any]) -> int:
    seen = [v for value in run["values"].values() for v in value[4] if isinstance(v, float)]
    return sum(not math.isfinite(v) for v in seen)


def _course(run: dict[str, Any]) -> tuple[float, float]:
    """The first loss, and the last or the mean of the last quarter, whichever is higher."""
    losses = run["losses"]
    part = losses[-max(len(losses) // 4, 1) :]
    return losses[0], max(losses[-1], sum(part) / len(part))


def _learns(runs: Runs) -> str:
    """From the same start the loss goes down, where it rose, blew up or stood still before."""
    if min(len(runs.before["losses"]), len(runs.after["losses"])) < 2:
        return ""
    (start, end), (first, last) = _course(runs.before), _course(runs.after)
    if not math.isfinite(first) or not math.isfinite(last) or not last < first:
        return ""
    rose = not math.isfinite(end) or end > start or max(runs.before["losses"]) > 1.5 * abs(start) + abs(end)
    calm = max(runs.after["losses"]) <= 1.2 * first + 1e-6
    if rose and calm:
        return f"the loss goes from {first:.4g} to {last:.4g}; before, it went from {start:.4g} to {end:.4g}"
    stood = abs(start - end) < 0.02 * abs(start)
    if stood and first - last > max(10 * (start - end), 0.02 * abs(first)):
        return f"the loss goes from {first:.4g} to {last:.4g}; before, it stayed at {end:.4g}"
    return ""


def _spread(run: dict[str, Any]) -> tuple[float, float]:
    """The smallest and the largest gradient of the leaves, root mean square."""
    rms = [leaf["rms"] for leaf in run["leaves"] if math.isfinite(leaf["rms"])]
    return (min(rms), max(rms)) if rms else (0.0, 0.0)


def _stronger(runs: Runs) -> str:
    (low, high), (new_low, new_high) = _spread(runs.before), _spread(runs.after)
    if new_high <= 0 or new_low <= 0:
        return _more_gradients(runs)
    before, after = (low / high if high > 0 else 0.0), new_low / new_high
    if after > 10 * before and (after > WEAK or before == 0):
        was = f"1/{1 / before:.2g}" if before > 0 else "nothing"
        return f"the smallest gradient is 1/{1 / after:.2g} of the largest; before, {was}"
    if low > 0 and new_low > 10 * low and new_high > 0.1 * high:
        return f"the smallest gradient is {new_low:.2g} rms; before, {low:.2g}"
    return ""


def _weak(runs: Runs) -> bool:
    """Whether a gradient is much smaller than another before: else the finding is of values, not of gradients."""
    low, high = _spread(runs.before)
    return low < WEAK * high or any(not leaf["graded"] for leaf in runs.before["leaves"])


def _weaker(runs: Runs) -> str:
    (_, high), (_, new_high) = _spread(runs.before), _spread(runs.after)
    if high > 10 * new_high > 0:
        return f"the largest gradient is {new_high:.2g} rms; before, {high:.2g}"
    return _learns(runs) or _finite(runs)


def _in_training(runs: Runs) -> str:
    a, b = runs.before["in_eval"], runs.after["in_eval"]
    return f"backward passes in evaluation mode: {a} before, {b} now" if b < a else ""


def _deeper(runs: Runs) -> str:
    """More parameters get gradients; or, of the same loss, other ones: a term counts in them that did not."""
    more = _more_gradients(runs)
    if more or not runs.before["losses"] or not runs.after["losses"]:
        return more
    if not _near(runs.before["losses"][0], runs.after["losses"][0]):
        return ""
    rms = [
        {leaf["name"]: leaf["rms"] for leaf in run["leaves"] if leaf["held"] or leaf["moved"]}
        for run in (runs.before, runs.after)
    ]
    other = [n for n, value in rms[0].items() if n in rms[1] and not _near(value, rms[1][n]) and rms[1][n] > 0]
    return f"of the same loss, {len(other)} gradients are others: the term counts in them" if other else ""


SPEED = ("overhead", "cost", "slow", "data-loader")
NO_FASTER = "it is not faster with the same values"
_FAST = Criterion(_faster, True, fails=NO_FASTER, hides=("detach",), may_cut=True, may_do_less=True)
CRITERIA: dict[str, Criterion] = {
    **dict.fromkeys(SPEED, _FAST),
    "zero-grad": Criterion(_clean_steps, True, fails="the gradients of a step are no cleaner"),
    "optimizer": Criterion(_trained, hides=("step",), loose=True),
    "no-gradient": Criterion(_connected, hides=("requires_grad_", "no_grad"), loose=True),
    "cut": Criterion(
        _deeper, True, fails="no more parameters get gradients", hides=("detach", "requires_grad_"), loose=True
    ),
    "error": Criterion(hides=("detach", "no_grad", "requires_grad_", "backward"), may_cut=True),
    "memory": Criterion(_light, hides=("detach", "no_grad"), may_cut=True),
    "nan": Criterion(_finite, True, fails="values are no more finite than before", may_lose=True),
    "learning-rate": Criterion(_learns, hides=("no_grad",)),
    "vanishing": Criterion(
        _stronger, True, _weak, "the gradients are as small as before", ("detach", "requires_grad_"), loose=True
    ),
    "exploding": Criterion(_weaker, hides=("requires_grad_",), loose=True),
    "mode": Criterion(_in_training),
    "loss": Criterion(hides=("detach",), loose=True, may_cut=True),
    "initialisation": Criterion(_stronger),
    "evaluation": Criterion(hides=("no_grad",), may_cut=True),
    "alias": Criterion(hides=("no_grad", "detach"), may_cut=True),
    "rebound": Criterion(_trained, hides=("no_grad",), loose=True, may_cut=True),
}
