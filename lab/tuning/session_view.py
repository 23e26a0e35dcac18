"""From a tuning session's events to what is shown of it: `widgets.tuner.Tuning`, and the result in sentences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from triton_kernels.tune import events as ev
from triton_kernels.tune import lookup, past, triton_problems
from triton_kernels.tune.c_kernels import FAMILIES
from triton_kernels.tune.devices import DEVICES
from triton_kernels.tune.fronts import OBJECTIVES
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.session import Session
from triton_kernels.tune.space import Config, Space
from triton_kernels.tune.triton_problems import dtype_of
from widgets.figures import time_text
from widgets.tuner import Tuning

from ..report import peaks
from . import history
from .config_text import as_python, code, words

_MOST_VALUES = 64
_NOTHING = 0.02  # a gain that nobody tunes for
_SPARE = (
    "estimate_ms",
    "asked",
    "bytes",
    "flops",
    "idle_lanes",
    "multiplied",
    "work",
)  # facts that say nothing to a person
_MOST_ASKED = 2000  # configs, for the bound
_MOST_SESSIONS = 20

Work = Callable[[Config], tuple[float, float]]
"""Of a config: floating-point operations, and bytes that it moves."""


def begin(session: Session) -> Tuning:
    """Return the view of a session that has not begun."""
    problem = session.problem
    space = problem.space
    tunables = [(t.name, [str(v) for v in t.values], t.values.index(t.default)) for t in space.tunables]
    shape = "x".join(map(str, problem.shape))
    title = " ".join(part for part in (problem.kernel, shape, problem.dtype) if part)
    most = machine(problem)
    return Tuning(title, problem.device, budget_s=session.budget_s, size=len(session.table), tunables=tunables,
                  estimate=problem.measure.estimate, never=never(space, session), bound=bound(problem, most),
                  roof=roof(problem, most), previous=previous(session))  # fmt: skip


def never(space: Space, session: Session) -> dict[str, list[tuple[int, int, str]]]:
    """For each two tunables the pairs of values that no config has, with the limit that forbids them."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    codes, tunables = session.table.codes, space.tunables
    if not session.table.complete or max(len(t.values) for t in tunables) > _MOST_VALUES:
        return found
    default = space.default
    for i in range(len(tunables)):
        for j in range(i + 1, len(tunables)):
            there = set(zip(codes[:, i].tolist(), codes[:, j].tolist(), strict=True))
            missing = []
            for a, first in enumerate(tunables[i].values):
                for b, second in enumerate(tunables[j].values):
                    if (a, b) not in there:
                        config = {**default, tunables[i].name: first, tunables[j].name: second}
                        missing.append((a, b, space.rejected(config) or "not in the list of configs"))
            if missing:
                found[f"{i},{j}"] = missing
    return found


def previous(session: Session) -> tuple[str, float] | None:
    """Return what an earlier run of the same problem chose, and its ratio to the default then."""
    store, key = session.store, session.problem.key
    if store is None or session.problem.measure.estimate:
        return None
    for entry in lookup.entries(store.folder / lookup.FILE):
        if all(entry.get(name) == key[name] for name in key) and isinstance(entry.get("ratio"), int | float):
            return words(entry["config"]), float(entry["ratio"])
    return None


# -- what could be reached ---------------------------------------------------------------------------------------------


def work_of(problem: Problem) -> Work | None:
    """Return what a problem's configs compute and move; None where nobody has counted it."""
    measure: Any = problem.measure
    if measure.kind == "cpu":
        own = problem.kernel == "core_matmul"
        family = FAMILIES.get("matmul" if own else problem.kernel.rpartition("_")[0])
        if family is None or not (own or getattr(measure, "family", "") == family.name):
            return None
        flops, items = family.work(problem.shape)
        size = dtype_of(problem.dtype).itemsize
        return lambda config: (flops, items * size)
    if not hasattr(measure, "printed"):  # a kernel of the user's own
        return None
    try:
        kernel = triton_problems.find(problem.kernel, measure.printed)
    except KeyError:  # one that somebody has registered
        return None
    return lambda config: kernel.work(problem.shape, dtype_of(problem.dtype).itemsize, config)


def machine(problem: Problem) -> tuple[float, float, str] | None:
    """Operations and bytes a second at most, and whose figures these are: of a data sheet, or measured here."""
    measure = problem.measure
    if measure.kind == "static":
        device = DEVICES.get(getattr(measure, "target", ""))
        return None if device is None else (device.flops[problem.dtype], device.bytes_per_s, f"{device.product}'s")
    if measure.kind not in ("cpu", "cuda"):
        return None
    try:
        here = peaks.measured(measure.kind)
    except Exception:  # the panel is worth more than its scale
        return None
    reached = here.flops_per_s.get(problem.dtype) if here else None
    return (reached, here.bytes_per_s, "this machine's measured") if here and reached else None


def bound(problem: Problem, most: tuple[float, float, str] | None) -> tuple[float, str, str] | None:
    """Return a time to compare with, where there is one: the device's limit; why, and its name."""
    work = work_of(problem)
    if most is None or work is None:
        return None
    peak, bandwidth, whose = most
    if problem.measure.kind == "cpu" and not problem.kernel.startswith(("matmul", "core_matmul")):
        return None  # what lies in the cache passes the memory's speed, and the peak is one of products
    configs = itertools.islice(problem.space.configs(), _MOST_ASKED)
    flops, moved = min((work(c) for c in configs), key=lambda w: max(w[0] / peak, w[1] / bandwidth))
    if problem.measure.kind == "cpu" or flops / peak > moved / bandwidth:
        return flops / peak * 1e3, f"{big(flops)} operations at {whose} {big(peak)} a second", "peak"
    return moved / bandwidth * 1e3, f"{big(moved)} bytes at {whose} {big(bandwidth)} a second", "peak"


def raise_limits(view: Tuning, problem: Problem, reached_ms: float) -> None:
    """Raise what this machine can do to what a config has reached: the figures were measured at a busier time."""
    if view.bound is None or problem.measure.estimate or not reached_ms < view.bound[0]:
        return
    most = machine(problem)
    first = bound(problem, most)
    if most is None or first is None:
        return
    factor = max(first[0] / reached_ms, 1.0)
    most = most[0] * factor, most[1] * factor, most[2]
    view.bound, view.roof = bound(problem, most), roof(problem, most)


def roof(problem: Problem, most: tuple[float, float, str] | None) -> tuple[float, float, str, float, float] | None:
    """Return the device's roofline and where the default stands: peak, bandwidth, whose, operations, bytes."""
    work = work_of(problem)
    if most is None or work is None:
        return None
    flops, moved = work(problem.space.default)
    return (*most, flops, moved) if flops > 0 and moved > 0 else None


def big(x: float) -> str:
    """Return a large figure.

    >>> big(2.484e11), big(1.4e7), big(512.0)
    ('248 G', '14 M', '512')
    """
    for unit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= unit:
            return f"{x / unit:.3g} {sign}"
    return f"{x:.3g}"


# -- while it runs, and at its end -------------------------------------------------------------------------------------


def take(view: Tuning, session: Session, event: ev.Event) -> None:
    """Take an event into the view."""
    table = session.table
    if isinstance(event, ev.Started):
        view.resumed, view.device = event.resumed, event.device
        look_back(view, session)
        if event.resumed:
            earlier(view, session)
    elif isinstance(event, ev.Measured):
        if view.default_ms is None:
            view.default_ms = event.time_ms
        raise_limits(view, session.problem, event.time_ms)
        default = session.trials.default_ms
        row = table.row(event.config)
        value = float(session.trials.strategy.values[row]) / default if default == default else 1.0
        facts = _facts(session, event.config)
        if view.roof is not None and (work := work_of(session.problem)) is not None:
            flops, moved = work(event.config)
            if (flops, moved) != view.roof[3:]:
                facts["work"] = [flops, moved]
        if view.known:
            drop(view, list(table.code(event.config)))
        status, twin = ("same", words(event.same_as)) if event.same_as else ("right", "")
        view.trials.append((list(table.code(event.config)), status, value, event.time_ms, twin, facts))
    elif isinstance(event, ev.Improved):
        view.between = (event.low, event.high) if event.low is not None and event.high is not None else None
    elif isinstance(event, ev.Rejected):
        if table.find(event.config) is not None:
            codes = list(table.code(event.config))
            drop(view, codes)  # it may have been right until the final
            view.trials.append((codes, event.status, None, None, event.reason, {}))
        view.reasons = list(ev.reasons_of(session.trials.rejected))
    elif isinstance(event, ev.Stopped):
        view.doing = "final"
    elif isinstance(event, ev.Finished):
        conclude(view, session, event.result)
        look_back(view, session)


def earlier(view: Tuning, session: Session) -> None:
    """Put the trials of earlier runs, which are not taken again, before those of this one."""
    assert session.store is not None
    default, found = session.problem.space.default, {}
    for trial in session.store.trials(session.problem.key):
        right, config = trial["status"] == "correct", trial["config"]
        if config == default or session.table.find(config) is None or (right and not trial.get("ratio")):
            continue
        codes = session.table.code(config)
        facts = {k: v for k, v in (trial.get("facts") or {}).items() if isinstance(v, int | float | str)}
        figures = (trial["ratio"], trial.get("median_ms")) if right else (None, None)
        status, reason = ("right", "") if right else (trial["status"], trial.get("reason") or "")
        found[codes] = (list(codes), status, *figures, reason, {k: v for k, v in facts.items() if k not in _SPARE})
    view.trials, view.known = list(found.values()), len(found)


def look_back(view: Tuning, session: Session) -> None:
    """Put the problem's sessions that have ended into the view, and the last two of them compared."""
    if session.store is None or session.problem.measure.estimate:
        return
    kept = session.store.sessions(session.problem.kernel, session.problem.key)
    ended = [s for s in kept if s["outcome"]]
    view.history = [history.row(number, s) for number, s in enumerate(ended, 1)][-_MOST_SESSIONS:]
    if len(ended) > 1:
        view.beside = history.sentences(past.compare(*ended[-2:]))


def drop(view: Tuning, codes: list[int]) -> None:
    """Forget a trial."""
    for k, trial in enumerate(view.trials):
        if trial[0] == codes:
            view.known -= k < view.known
            view.trials = [t for t in view.trials if t is not trial]
            return


def _facts(session: Session, config: Config) -> dict[str, Any]:
    built = session.trials.built.get(session.table.code(config))
    facts = built.facts if built else {}
    return {k: v for k, v in facts.items() if isinstance(v, int | float | str) and k not in _SPARE}


def conclude(view: Tuning, session: Session, result: ev.Result) -> None:
    """The end: the final's places, the verdict in words, the choice as code."""
    default = result.default.config if result.default else None
    times = [p.time_ms for p in (*result.top, result.vendor) if p is not None]
    raise_limits(view, session.problem, min(times, default=math.inf))
    before = view.previous[0] if view.previous else None
    view.places = [
        (words(p.config), p.ratio, p.low, p.high, taken_ms(result, p),
         ", ".join(["default"] * (p.config == default) + ["tied with the first"] * (p.config in result.ties)
                   + ["the choice until now"] * (words(p.config) == before)),
         ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in p.facts.items() if k not in _SPARE))
        for p in result.top
    ]  # fmt: skip
    if result.default is not None:
        view.final_ms = result.default.time_ms
    said = {words(p.config): (p.ratio, taken_ms(result, p)) for p in result.top}
    for k, trial in enumerate(view.trials):  # a finalist's time is the final's, and no more what its search believed
        codes, status, ratio, ms, reason, facts = trial
        if ratio is not None:
            view.trials[k] = (codes, status, *said.get(view.words(trial), (ratio, ms)), reason, facts)
    view.doing, view.between = "", None
    view.headline = headline(result)
    view.verdict = [" · ".join(line.strip() for line in _verdict(result))]
    if result.vendor is not None:
        v = result.vendor
        view.verdict.append(v.in_words())
        view.vendor = (v.name, v.ratio, v.low, v.high, taken_ms(result, v))
    view.verdict += front(result)
    view.notes = list(result.notes)
    view.reasons = list(result.reasons)
    view.spent_s = result.seconds
    view.state = {"failed": "failed"}.get(result.verdict, "stopped" if result.ended == "stopped" else "done")
    if result.best is not None and default is not None:
        view.chosen = words(result.best.config)
        if result.stored and result.verdict != "noisy":
            view.command = f"%tune {view.title}"
        view.code = code(default, result.best.config)
        if result.best.config != default:
            view.change = f"- {as_python(default)}\n+ {as_python(result.best.config)}"


def taken_ms(result: ev.Result, place: ev.Place | ev.Vendor) -> float:
    """Return how long one of a final takes where the default takes its median: so times and ratios say the same. The
    medians of two that were taken in turn on a busy machine need not."""
    return place.ratio * result.default.time_ms if result.default is not None else place.time_ms


def headline(result: ev.Result) -> str:
    """Return the verdict in a few words, with the figure that its sentence has."""
    best, source = result.best, ", by the estimate" if result.estimate else ""
    if best is None or result.default is None:
        return "stopped before the default had a time" if result.verdict == "stopped" else "the default fails"
    if result.verdict == "noisy":
        return "the default stays: " + ("too noisy to tell" if len(result.top) > 1 else "there was no final")
    if result.verdict == "default" or best.config == result.default.config:
        return f"nothing is faster than the default{source}"
    return f"{1 / best.ratio:.2f} times as fast as the default{source}"


def verdict(result: ev.Result) -> list[str]:
    """Return the best against the default, and against the vendor's library where that was timed, in sentences."""
    return _verdict(result) + ([f"  {result.vendor.in_words()}"] if result.vendor is not None else [])


def front(result: ev.Result) -> list[str]:
    """Return the configs that none beats in time and in the objective, a line each; nothing where time is all."""
    if result.objective == "time":
        return []
    what = OBJECTIVES[result.objective]
    count = len(result.front)
    of = "1 config that none beats" if count == 1 else f"{count} configs that none beats"
    lines = [f"{result.objective.capitalize()} ({what}) against time: {of} in both"]
    for each in result.front:
        figure = f"{each.figure:,.0f}" if result.objective == "memory" else f"{each.figure:.3g}"
        lines.append(f"  {figure} at {each.ratio:.3f} of the default's time: {words(each.config)}")
    return lines


def _verdict(result: ev.Result) -> list[str]:
    best, default = result.best, result.default
    if best is None or default is None:
        if result.verdict == "stopped":
            return ["Stopped before the default had a time."]
        return ["The default itself fails, so there is nothing to compare with."]
    if result.verdict == "faster":
        gain = f"{1 / best.ratio:.2f} times as fast as the default (95 %: {1 / best.high:.2f} to {1 / best.low:.2f})"
        times = f"{time_text(taken_ms(result, best))} instead of {time_text(default.time_ms)}"
        return [f"Best: {words(best.config)}", f"  {gain}: {times}"]
    if result.verdict == "estimate":
        if best.config == default.config:
            return ["The default is estimated to be the best, or as good as any."]
        return [f"Estimated best: {words(best.config)}", f"  {best.ratio:.3f} of the default's estimate"]
    if result.verdict == "noisy" and len(result.top) == 1:
        return ["The default stays: there was no final, in which another could have been shown to be faster."]
    if result.verdict == "noisy":
        return [
            "Too noisy to name a winner: the fastest by its median may as well be slower than the default, which stays."
        ]
    return [f"The default stays: nothing tried is measurably faster than {words(default.config)}.", *_nothing(result)]


def _nothing(result: ev.Result) -> list[str]:
    """Say that nothing can be won, where the final's intervals leave no config more than 2 % over the default."""
    default = result.default
    others = [p for p in result.top if default is not None and p.config != default.config]
    tried = result.evaluations + result.resumed
    gain = max((1.0 / p.low - 1.0 for p in others if p.low > 0), default=math.inf)
    if gain > _NOTHING or tried < result.space_size:
        return []
    won = max(1, math.ceil(gain * 100.0 - 1e-9))
    return [f"Nothing can be won here: of {result.space_size:,} configs none is more than {won} % faster."]
