"""``python -m lab bench c-kernels``: four C kernels tuned in 40 evaluations, beside all of their configs.

Each session of ours is ``tune.run`` on the text, from nothing: an empty store, an empty cache of compiled C, another
seed. So is each of Kernel Tuner's, by its strategy adaptive_tabu_greywolf (pip install 'gradlab[compare]'), with the
same text, flags and number of evaluations. All configs are timed too, in turn; what the sessions chose and the best of
all configs are then timed beside one another in several processes, and a session counts as there if its config takes at
most 3 % longer than the best of them. Seconds are of a whole session, from the text to the result.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from triton_kernels import tune
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.space import Config

from .c_kernel_tuner import by_kernel_tuner
from .c_programs import PROGRAMS, Program
from .c_times import beside_best, exhaustive

NEAR = 0.03
_LOOKED_AT = 12  # of the best of all configs, beside those that were chosen
HEADING = f"{'kernel':10} {'by':>13} {'there':>7} {'median':>7} {'worst':>7} {'seconds':>8}   default  configs right"


@dataclass(frozen=True)
class Session:
    """What a session chose, and how long it took. behind : how much longer its config takes than the best of all."""

    kernel: str
    by: str
    seed: int
    config: Config
    seconds: float
    behind: float = float("nan")


def main(argv: list[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m lab bench c-kernels", description=__doc__)
    parser.add_argument("--only", default="", help=f"one of {', '.join(p.name for p in PROGRAMS)}")
    parser.add_argument("--sessions", type=int, default=10, help="of each, with as many seeds (10)")
    parser.add_argument("--evaluations", type=int, default=40, help="configs that a session tries (40)")
    parser.add_argument("--rounds", type=int, default=5, help="in which all configs are timed (5)")
    parser.add_argument("--processes", type=int, default=5, help="in which the best are timed anew (5)")
    parser.add_argument("--record", type=Path, help="write all configs' times to a folder, for tuning-replay")
    parser.add_argument("--json", type=Path, help="write the sessions to this file")
    options = parser.parse_args(argv)
    chosen = [p for p in PROGRAMS if options.only in ("", p.name)]
    if not chosen:
        parser.error(f"no kernel is named {options.only}; there are {', '.join(p.name for p in PROGRAMS)}")
    searches: dict[str, Callable[[Program, int, int], Config]] = {"ours": ours}
    if importlib.util.find_spec("kernel_tuner") is None:
        print("absent: Kernel Tuner. Remedy: pip install 'gradlab[compare]'")
    else:
        searches["Kernel Tuner"] = by_kernel_tuner
    print(HEADING, flush=True)
    found: list[Session] = []
    for program in chosen:
        sessions = [
            timed(program, by, search, seed, options.evaluations)
            for seed in range(options.sessions)
            for by, search in searches.items()
        ]
        problem = program.problem()
        right, times = exhaustive(problem, options.rounds)
        if options.record:
            record(options.record, problem, right, times)
        judged = judge(problem, sessions, right, times, options.processes)
        found += judged
        for by in searches:
            print(line_of([s for s in judged if s.by == by], problem, right, times), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(s) for s in found], indent=1))
    return 0


@contextlib.contextmanager
def emptied() -> Iterator[Path]:
    """Begin as on a machine that has never tuned: yield a folder for results, and compile into another."""
    before = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        try:
            yield Path(folder) / "results"
        finally:
            os.environ.pop("XDG_CACHE_HOME")
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before


def ours(program: Program, seed: int, evaluations: int) -> Config:
    """Return the config that ``tune.run`` chooses."""
    arguments = program.arguments(program.shape, np.random.default_rng(0))
    with emptied() as folder, tune.Store(folder) as store:
        result = tune.run(program.text, arguments, reference=program.reference, budget=None, evaluations=evaluations,
                          seed=seed, store=store)  # fmt: skip
    return result.config or program.problem().space.default


def timed(program: Program, by: str, search: Callable[..., Config], seed: int, evaluations: int) -> Session:
    """Return a session of a search."""
    began = time.perf_counter()
    config = search(program, seed, evaluations)
    return Session(program.name, by, seed, config, time.perf_counter() - began)


def judge(
    problem: Problem, sessions: Sequence[Session], right: Sequence[Config], times: np.ndarray, processes: int
) -> list[Session]:
    """Return the sessions with how far their configs are behind the best of all."""
    best = [right[k] for k in np.argsort(times)[:_LOOKED_AT]]
    asked = [*best, *(s.config for s in sessions)]
    asked = [c for k, c in enumerate(asked) if c not in asked[:k]]
    behind = beside_best(problem, asked, processes, 9)
    return [Session(s.kernel, s.by, s.seed, s.config, s.seconds, float(behind[asked.index(s.config)]))
            for s in sessions]  # fmt: skip


def line_of(sessions: Sequence[Session], problem: Problem, right: Sequence[Config], times: np.ndarray) -> str:
    """Return a row of the table; at its end the default's time over the best's, and how many configs are right."""
    behind, default = np.array([s.behind for s in sessions]), problem.space.default
    slower = times[right.index(default)] / times.min() if default in right else float("nan")
    seconds = np.median([s.seconds for s in sessions])
    return (
        f"{sessions[0].kernel:10} {sessions[0].by:>13} {(behind <= NEAR).sum():>4}/{len(behind)} "
        f"{np.median(behind):7.1%} {behind.max():7.1%} {seconds:8.1f}   {slower:6.2f}x  {len(right)} of "
        f"{len(list(problem.space.configs()))}"
    )


def record(folder: Path, problem: Problem, right: Sequence[Config], times: np.ndarray) -> None:
    """Write all configs' times as Kernel Tuner does its cache, which ``tuning-replay`` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {tuple(c.values()): float(t) for c, t in zip(right, times, strict=True)}
    cache = {",".join(map(str, c.values())): {**c, "time": known.get(tuple(c.values()), "RuntimeFailedConfig")}
             for c in problem.space.configs()}  # fmt: skip
    content = {"device_name": problem.device, "kernel_name": problem.kernel, "cache": cache,
               "tune_params_keys": list(problem.space.names)}  # fmt: skip
    (folder / f"{problem.kernel}.json").write_text(json.dumps(content))
