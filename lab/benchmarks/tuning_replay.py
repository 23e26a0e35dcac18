"""``python -m lab bench tuning-replay PATH``: how many evaluations search needs, on recorded spaces of real kernels.

PATH is a cache file of Kernel Tuner, or a folder of them; of several folders each has its own means, as of the spaces
that constants were chosen on and of those that are looked at once. Each search runs from nothing with many seeds;
counted are evaluations until a config within 5 % and within 1 % of the space's optimum, by geometric mean, a miss as
twice the budget (5 % of the space, between 200 and 600 evaluations); and the share of runs that get there within it.
Beside our strategies stand Kernel Tuner's best (or another, as kernel-tuner:pso) and Optuna's TPE, where they are
installed (pip install 'gradlab[compare]').

--warm begins each search with what two other devices of the same vendor have recorded of the same kernel, in the same
folder: once all of it, once the 150 evaluations of a search from nothing. --time measures a suggestion at 20,000
configs and 200 observations, and how long spaces take to enumerate.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from triton_kernels.tune import strategy as strategies
from triton_kernels.tune.replay import Found, Search, asking, bench, read_cache, recorded

from .replay_anchors import ANCHORS, anchor
from .replay_measures import Recorded, suggestion_times, warm_searches

HEADING = (
    f"{'space':34} {'configs':>7} {'strategy':>15} {'to 5 %':>7} {'there':>6} {'to 1 %':>7} {'there':>6} {'ms/ask':>7}"
)
_MAKER = re.compile(r"NVIDIA |GeForce |AMD |Radeon |Instinct | Laptop GPU")  # what the table has no room for
DEFAULT = "portfolio,random,line,kernel-tuner,optuna-tpe"


def main(argv: list[str]) -> int:
    """Run the command line; 1 where no file could be read."""
    parser = argparse.ArgumentParser(prog="python -m lab bench tuning-replay", description=__doc__)
    parser.add_argument(
        "paths", metavar="path", type=Path, nargs="*", help="a cache file (.json, .json.gz), or a folder"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--strategies", help=f"{', '.join([*strategies.names(), *ANCHORS])} ({DEFAULT})")
    parser.add_argument("--warm", action="store_true", help="also begin with other devices' results")
    parser.add_argument("--time", action="store_true", help="also measure suggestions and enumeration")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(argv)
    if options.seeds < 1:
        parser.error("needs at least one seed")
    searches, absent = _searches(parser, options.strategies)
    if not options.paths and not options.time:
        parser.error("needs a cache file of Kernel Tuner, or a folder of them")
    read = [(path, _read(parser, path)) for path in options.paths]
    if read and not any(problems for _, problems in read):
        print("lab: nothing to replay", file=sys.stderr)
        return 1
    for line in absent if read else ():
        print(line)
    everything = {}
    for path, problems in read:
        print(f"{path}\n{HEADING}" if len(read) > 1 else HEADING)
        everything[str(path)] = found = _replayed(problems, searches, options.seeds, options.warm)
        print()
        for name in dict.fromkeys(f.strategy for f in found):
            print(line_of(mean_of([f for f in found if f.strategy == name])))
    if options.time:
        print("\n".join(suggestion_times()))
    if options.json:
        figures = [{"path": path, **asdict(f)} for path, found in everything.items() for f in found]
        Path(options.json).write_text(json.dumps(figures, indent=1))
    return 0


def _replayed(problems: Sequence[Recorded], searches: dict[str, Search], seeds: int, warm: bool) -> list[Found]:
    """Return what each search finds in each space, shown as it comes; in addition begun with others' results."""
    found = []
    for problem in problems:
        begun = warm_searches(problem, problems) if warm else {}
        found += [_shown(problem, name, search, seeds) for name, search in {**searches, **begun}.items()]
        if warm and not begun:
            print(f"{problem.name[:34]:34} no other device of its vendor is recorded: not begun warm")
    return found


def _searches(parser: argparse.ArgumentParser, asked: str | None) -> tuple[dict[str, Search], list[str]]:
    """Return the searches by name, and lines on those that cannot be had. One asked for by name must be there."""
    chosen: dict[str, Search] = {}
    absent = []
    for name in [name for name in (asked or DEFAULT).split(",") if name]:
        if name in strategies.names():
            chosen[name] = asking(name)
            continue
        try:
            search = anchor(name)
        except ImportError as error:
            if asked:
                parser.error(f"{name}: {error}")
            absent.append(f"absent: {name}, because {error}")
            continue
        if search is None:
            known = ", ".join([*strategies.names(), *ANCHORS])
            parser.error(f"no strategy is named {name}; there are {known}")
        chosen[name] = search
    if not chosen:
        parser.error("needs at least one strategy")
    return chosen, absent


def _read(parser: argparse.ArgumentParser, path: Path) -> list[Recorded]:
    if not path.exists():
        parser.error(f"no such file or folder: {path}")
    files = sorted(p for p in path.iterdir() if p.name.endswith((".json", ".json.gz"))) if path.is_dir() else [path]
    read = []
    for file in files:
        try:
            problem = read_cache(file)
        except ValueError as error:
            print(f"lab: {error}", file=sys.stderr)
            continue
        device = problem.device.strip()
        name = f"{problem.kernel}, {_MAKER.sub('', device)}" if device else file.name.partition(".")[0]
        read.append(Recorded(name, problem.kernel, device or name, problem, *recorded(problem)))
    return read


def _shown(problem: Recorded, name: str, search: Search, seeds: int) -> Found:
    found = bench(problem.problem, name, seeds, search, problem.name, (problem.table, problem.values))
    print(line_of(found), flush=True)
    return found


def line_of(found: Found) -> str:
    """Return a row of the table."""
    return (
        f"{found.space[:34]:34} {found.size:7,} {found.strategy:>15} {found.to_5:7.1f} {found.there_5:6.0%} "
        f"{found.to_1:7.1f} {found.there_1:6.0%} {found.ask_ms:7.2f}"
    )


def mean_of(found: Sequence[Found]) -> Found:
    """Over all spaces: geometric means of the counts, means of the rest."""

    def geometric(values: list[float]) -> float:
        return math.exp(sum(map(math.log, values)) / len(values))

    n = len(found)
    return Found(
        f"geometric mean of {n}", sum(f.size for f in found) // n, sum(f.budget for f in found) // n, found[0].strategy,
        geometric([f.to_5 for f in found]), geometric([f.to_1 for f in found]), sum(f.there_5 for f in found) / n,
        sum(f.there_1 for f in found) / n, sum(f.ask_ms for f in found) / n,
    )  # fmt: skip
