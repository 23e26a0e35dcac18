"""``python -m lab bench tuning-replay PATH``: how many evaluations search needs, on recorded spaces of real kernels.

PATH is a cache file of Kernel Tuner, or a folder of them. Each strategy runs from nothing with many seeds; what is
counted are evaluations until a config within 5 % and within 1 % of the space's optimum, by geometric mean, a miss as
twice the budget (5 % of the space, between 200 and 600 evaluations).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path

from triton_kernels.tune import strategy as strategies
from triton_kernels.tune.replay import Found, bench, read_cache

HEADING = (
    f"{'space':34} {'configs':>7} {'strategy':>11} {'to 5 %':>7} {'there':>6} {'to 1 %':>7} {'there':>6} {'ms/ask':>7}"
)


def main(argv: list[str]) -> int:
    """The command line; 1 where no file could be read."""
    parser = argparse.ArgumentParser(prog="python -m lab bench tuning-replay", description=__doc__)
    parser.add_argument("path", type=Path, help="a cache file (.json, .json.gz) or a folder of them")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--strategies", default="portfolio,random,line", help=", ".join(strategies.names()))
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(argv)
    chosen = [name for name in options.strategies.split(",") if name]
    if unknown := [name for name in chosen if name not in strategies.names()]:
        parser.error(f"no strategy is named {', '.join(unknown)}; there are {', '.join(strategies.names())}")
    if options.seeds < 1 or not chosen:
        parser.error("needs at least one seed and one strategy")
    path: Path = options.path
    if not path.exists():
        parser.error(f"no such file or folder: {path}")
    files = sorted(p for p in path.iterdir() if p.name.endswith((".json", ".json.gz"))) if path.is_dir() else [path]
    found: list[Found] = []
    print(HEADING)
    for file in files:
        try:
            problem = read_cache(file)
        except ValueError as error:
            print(f"lab: {error}", file=sys.stderr)
            continue
        for name in chosen:
            found.append(bench(problem, name, options.seeds))
            print(line(found[-1]), flush=True)
    if not found:
        print("lab: nothing to replay", file=sys.stderr)
        return 1
    print()
    for name in chosen:
        print(line(_mean([f for f in found if f.strategy == name])))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(f) for f in found], indent=1))
    return 0


def line(found: Found) -> str:
    """A row of the table."""
    return (
        f"{found.space[:34]:34} {found.size:7,} {found.strategy:>11} {found.to_5:7.1f} {found.there_5:6.0%} "
        f"{found.to_1:7.1f} {found.there_1:6.0%} {found.ask_ms:7.2f}"
    )


def _mean(found: list[Found]) -> Found:
    """Over all spaces: geometric means of the counts, means of the rest."""

    def geometric(values: list[float]) -> float:
        return math.exp(sum(map(math.log, values)) / len(values))

    n = len(found)
    return Found(
        f"geometric mean of {n}", sum(f.size for f in found) // n, sum(f.budget for f in found) // n, found[0].strategy,
        geometric([f.to_5 for f in found]), geometric([f.to_1 for f in found]), sum(f.there_5 for f in found) / n,
        sum(f.there_1 for f in found) / n, sum(f.ask_ms for f in found) / n,
    )  # fmt: skip
