"""``python -m lab bench overhead``, ``ops``, ``layers``, ``steps`` ...: core beside NumPy and PyTorch, eager and
compiled.

All contestants of a case run in turn in one process, on equally many threads. Before a contestant's time counts, its
results, the gradients among them, are held to the same text in float64. What is right is right to the rounding of the
type: at most `LOOSE`, of the largest result, and no more than eight times as far off as PyTorch eager. With one thread
the time is the processor's, so that other work on the machine does not count.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import core

from .cases import SECTIONS as CASES
from .cases import Case
from .networks import networks
from .steps import steps
from .timing import Spread, Work, in_turn

_CASES = CASES | {"short-steps": steps, "steps": networks}
SECTIONS = tuple(_CASES)
LOOSE = 3e-5
_OTHERS = ("numpy", "eager", "compiled")
HEADING = (
    f"{'':33} {'':34} {'core':>10} {'/ NumPy':>8} {'/ eager':>8} {'middle half':>15} {'/ compiled':>10} {'wanted':>7}"
)


def cases(section: str) -> list[Case]:
    """Return the cases of a section: ``overhead``, ``ops``, ``layers``, ``short-steps`` or ``steps``."""
    return _CASES[section]()


@dataclass
class Found:
    """What was measured of a case: medians in µs, the ratio of core to each other with its middle half, the errors."""

    section: str
    name: str
    size: str
    target: float | None = None
    us: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, Spread] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    failed: str = ""
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the ratio that was wanted is there; None where none was, or nothing to compare with."""
        if self.target is None or "eager" not in self.ratios:
            return None
        return self.ratios["eager"].median <= self.target

    def __str__(self) -> str:
        start = f"{self.name:33} {self.size:34}"
        if self.failed:
            return f"{start} not timed: {self.failed}"
        numpy, eager, compiled = (self.ratios.get(k) for k in _OTHERS)
        cells = [_duration(self.us["core"]), f"{numpy.median:.3f}" if numpy else "",
                 f"{eager.median:.3f}" if eager else "", f"[{eager.low:.3f} … {eager.high:.3f}]" if eager else "",
                 f"{compiled.median:.3f}" if compiled else ""]  # fmt: skip
        wanted = "" if self.target is None else f"{self.target:5.2f} {'✓' if self.met else '✗' if eager else ' '}"
        row = f"{start} {cells[0]:>10} {cells[1]:>8} {cells[2]:>8} {cells[3]:>15} {cells[4]:>10} {wanted:>7}"
        return row + "".join(f"\n    without {name}: {reason}" for name, reason in self.absent.items())


def _duration(us: float) -> str:
    return f"{us:.2f} µs" if us < 1000 else f"{us / 1000:.2f} ms"


# -- who takes part ----------------------------------------------------------------------------------------------------


def torch_or_none() -> Any:
    """PyTorch, with as many threads as core; None where it is not installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(core.get_num_threads())
    return torch


def contestants(case: Case, torch: Any, compiled: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Those that can run the case, by name, and why the others cannot."""
    runs: dict[str, Any] = {"core": case.make(core, "float32")}
    absent: dict[str, str] = {}
    if case.numpy is not None:
        arrays = [x.detach().numpy() for x in runs["core"].inputs]
        runs["numpy"] = _of_arrays(case.numpy, arrays)
    if torch is not None:
        runs["eager"] = case.make(torch, "float32")
        if compiled and case.compiles:
            dynamo = importlib.import_module("torch._dynamo")
            dynamo.reset()  # or shapes of earlier cases would make this one's dynamic
            again = case.make(torch, "float32")
            again.compile(lambda f: torch.compile(f, dynamic=False))
            try:
                _results(again)
                runs["compiled"] = again
            except Exception as error:  # a compiler that is missing, or a graph that it does not take
                absent["compiled"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
    return runs, absent


def _of_arrays(function: Callable[..., Any], arrays: Sequence[Any]) -> Work:
    return lambda: (function(*arrays),)


# -- whether they are right --------------------------------------------------------------------------------------------


def _plain(found: Sequence[Any]) -> list[Any]:
    """Results as float64 arrays, in memory of their own."""
    arrays = [x.detach().numpy() if hasattr(x, "detach") else x for x in found]
    return [np.array(a, np.float64) for a in arrays]


def error_of(found: Sequence[Any], right: Sequence[Any]) -> float:
    """Return the largest difference of any result, as a share of that result's largest, or of a hundredth of the
    largest of all where that is more: some gradients are 0 but for rounding. Infinite where a shape differs.

    >>> error_of([np.array([1.0, 4.0])], [np.array([1.0, 5.0])])
    0.2
    """
    worst, least = 0.0, max(float(np.abs(b).max(initial=0.0)) for b in right) / 100
    for a, b in zip(found, right, strict=True):
        if a.shape != b.shape:
            return float("inf")
        if b.size:
            off = float(np.abs(a - b).max()) / max(float(np.abs(b).max()), least, 1e-30)
            worst = off if off > worst or off != off else worst
    return worst if worst == worst else float("inf")


def _results(run: Any) -> list[Any]:
    return _plain(getattr(run, "results", run)())


def errors(case: Case, runs: dict[str, Any], torch: Any) -> dict[str, float]:
    """How far each contestant is off from float64, PyTorch's where it is there, else core's."""
    right = _results(case.make(torch if torch is not None else core, "float64"))
    return {name: error_of(_results(run), right) for name, run in runs.items()}


def wrong(found: dict[str, float]) -> str:
    """Return what to say of a core that is too far off; "" where it is not."""
    mine, eager = found["core"], found.get("eager")
    limit = LOOSE if eager is None else max(8 * eager, 5e-7)
    limit = min(limit, LOOSE) if eager is None or eager < LOOSE else limit
    return "" if mine <= limit else f"off by {mine:.2g} of the largest (PyTorch {eager or 0:.2g}, allowed {limit:.2g})"


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(case: Case, torch: Any, compiled: bool = True, rounds: int = 15, block_s: float = 0.01) -> Found:
    """Check a case, then time it."""
    found = Found(case.section, case.name, case.size, case.target)
    runs, found.absent = contestants(case, torch, compiled)
    found.errors = errors(case, runs, torch)
    found.failed = wrong(found.errors)
    for name in ("numpy", "compiled"):
        if not found.errors.get(name, 0.0) <= 1e-2:  # NumPy's own sum may be what float32 gives, not more
            found.absent[name] = f"off by {found.errors[name]:.2g}"
            del runs[name]
    if found.failed:
        return found
    # one thread does the work: what other processes take of the processor is left out
    clock = time.process_time if core.get_num_threads() == 1 else time.perf_counter
    times = in_turn(runs, rounds, block_s, clock=clock)
    found.us = {name: Spread.of(row).median * 1e6 for name, row in times.items()}
    found.ratios = {name: Spread.of([a / b for a, b in zip(times["core"], times[name], strict=True)])
                    for name in runs if name != "core"}  # fmt: skip
    return found


def machine(torch: Any) -> dict[str, Any]:
    """Return what a results file must say of where it comes from."""
    return {
        "processor": processor(), "processors": len(core_affinity()), "threads": core.get_num_threads(),
        "python": platform.python_version(), "numpy": np.__version__,
        "torch": None if torch is None else str(torch.__version__), "system": platform.system(),
    }  # fmt: skip


def processor() -> str:
    """Return the processor's name."""
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def core_affinity() -> set[int]:
    """Return the processors that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def run(sections: Sequence[str], only: str = "", compiled: bool = True, rounds: int = 15) -> dict[str, Any]:
    """Measure the sections, showing each case as it is done; gives what a results file holds."""
    torch = torch_or_none()
    if torch is None:
        print("PyTorch is not installed here: core beside NumPy alone; pip install torch", file=sys.stderr)
    else:
        core.manual_seed(0, kind="torch")
        torch.manual_seed(0)
    about = machine(torch)
    print(f"{about['processor']}, {about['threads']} threads, PyTorch {about['torch']}, NumPy {about['numpy']}")
    results: list[Found] = []
    for section in sections:
        todo = [c for c in cases(section) if only in f"{c.name} {c.size}"]
        print(f"\n{section}\n{HEADING}")
        for k, case in enumerate(todo):
            if sys.stderr.isatty():
                print(f"\r{k + 1} of {len(todo)}: {case.name} {case.size} …\033[K", end="", file=sys.stderr, flush=True)
            try:
                found = measure(case, torch, compiled, rounds)
            except Exception as error:  # the others are measured all the same
                reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
                found = Found(section, case.name, case.size, case.target, failed=reason)
            if sys.stderr.isatty():
                print("\r\033[K", end="", file=sys.stderr, flush=True)
            print(found, flush=True)
            results.append(found)
        if summary := summary_of([r for r in results if r.section == section]):
            print(summary)
    return {"machine": about, "results": [asdict(r) for r in results]}


def text_of(content: dict[str, Any]) -> str:
    """Return a results file: four digits of a figure, a line a result, so that two files can be compared line by
    line."""

    def short(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.4g}")
        if isinstance(value, dict):
            return {k: short(v) for k, v in value.items()}
        return [short(v) for v in value] if isinstance(value, list | tuple) else value

    def lines(value: Any) -> str:
        if not isinstance(value, list) or not value:
            return json.dumps(short(value), ensure_ascii=False)
        return "[\n  " + ",\n  ".join(json.dumps(short(row), ensure_ascii=False) for row in value) + "\n ]"

    parts = [f" {json.dumps(k)}: {lines(v)}" for k, v in content.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def summary_of(results: Sequence[Found]) -> str:
    """Return how many of the ratios that were wanted are there."""
    judged = [r for r in results if r.met is not None]
    if not judged:
        return ""
    middle = float(np.exp(np.mean([np.log(r.ratios["eager"].median) for r in judged])))
    return (f"{sum(bool(r.met) for r in judged)} of {len(judged)} ratios are as wanted; "
            f"core / PyTorch eager by geometric mean: {middle:.3f}")  # fmt: skip
