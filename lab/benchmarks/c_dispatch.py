"""``python -m lab bench c-dispatch``: one small tree of configs for twelve shapes of a C kernel.

``tune.dispatch`` tunes the product and the transpose of ``c-kernels`` at twelve shapes each, 40 evaluations a shape,
into a tree of at most six leaves. Then all configs are timed at every shape, and the best of them beside the tree's
choice in several processes. Regret is how much longer the tree's choice takes than the best of all configs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from triton_kernels import tune

from .c_kernels import emptied
from .c_programs import PROGRAMS, Program
from .c_times import beside_best, exhaustive

_LOOKED_AT = 8  # of the best of all configs at a shape


def main(argv: list[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m lab bench c-dispatch", description=__doc__)
    served = [p for p in PROGRAMS if p.shapes]
    parser.add_argument("--only", default="", help=f"one of {', '.join(p.name for p in served)}")
    parser.add_argument("--evaluations", type=int, default=40, help="configs that are tried at a shape (40)")
    parser.add_argument("--leaves", type=int, default=6)
    parser.add_argument("--shapes", type=int, default=12, help="how many of the shapes (12)")
    parser.add_argument("--rounds", type=int, default=3, help="in which all configs are timed (3)")
    parser.add_argument("--processes", type=int, default=3, help="in which the best are timed anew (3)")
    parser.add_argument("--json", type=Path, help="write trees and regrets to this file")
    options = parser.parse_args(argv)
    if options.only not in ("", *(p.name for p in served)):
        parser.error(f"no kernel is named {options.only}; there are {', '.join(p.name for p in served)}")
    found = {p.name: _one(p, options) for p in served if options.only in ("", p.name)}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def _one(program: Program, options: argparse.Namespace) -> dict[str, object]:
    shapes = program.shapes[: options.shapes]
    began = time.perf_counter()
    with emptied() as folder, tune.Store(folder) as store:
        made = tune.dispatch(program.problem, shapes, axes=program.axes, leaves=options.leaves, store=store,
                             budget="1h", evaluations=options.evaluations)  # fmt: skip
    seconds = time.perf_counter() - began
    print(made.to_python(program.name), flush=True)
    regrets = {}
    for shape in shapes:
        problem, config = program.problem(shape), made.config(*shape)
        right, times = exhaustive(problem, options.rounds)
        best = [right[k] for k in np.argsort(times)[:_LOOKED_AT]]
        behind = beside_best(problem, [config, *(c for c in best if c != config)], options.processes, 9)
        regrets["x".join(map(str, shape))] = float(behind[0])
        print(f"{'x'.join(map(str, shape)):>16}  {behind[0]:6.1%}", flush=True)
    mean = float(np.mean(list(regrets.values())))
    print(f"{program.name}: mean regret {mean:.1%}, most {max(regrets.values()):.1%}, {made.leaves} leaves for "
          f"{len(shapes)} shapes; to the configs that were tuned {made.mean_regret:.1%}, one config for all "
          f"{made.of_one():.1%}; tuned in {seconds:.0f} s\n", flush=True)  # fmt: skip
    return {"tree": made.to_json(), "regret": regrets, "mean": mean, "seconds": seconds}
