"""``python -m lab bench distributed``: sums over processes, core's on MPI beside PyTorch's gloo.

Each rank holds both libraries, which sum the same array in turn after a barrier: so neither waits busily while the
other is timed. A figure is the time of rank 0, the median over rounds.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import core
from core import distributed

from ..console.options import Parser
from .cpu import torch_or_none
from .timing import Ratio, ratio

SIZES = {"4 KB": 4_000, "1 MB": 1_000_000, "10 MB": 10_000_000, "100 MB": 100_000_000}
TARGET = 1.0


def _timed(op: Callable[[], Any]) -> float:
    distributed.barrier()
    start = perf_counter()
    op()
    return perf_counter() - start


def rank(meet: str, rounds: int) -> None:
    """Be one rank: time both libraries; rank 0 prints the pairs of times of each size."""
    core.set_num_threads(1)
    distributed.init_process_group("gloo")
    number, size = distributed.get_rank(), distributed.get_world_size()
    torch: Any = torch_or_none()
    theirs = None if torch is None else importlib.import_module("torch.distributed")
    if theirs is not None:
        torch.set_num_threads(1)
        theirs.init_process_group("gloo", init_method=f"file://{meet}", rank=number, world_size=size)
    found: dict[str, list[tuple[float, float]]] = {}
    for name, size_bytes in SIZES.items():
        mine = core.zeros(size_bytes // 4)
        other = None if torch is None else torch.zeros(size_bytes // 4)
        pairs = []
        for k in range(rounds * (10 if size_bytes < 10**6 else 1) + 2):
            b = 0.0
            if theirs is not None and k % 2:
                b = _timed(lambda t=other: theirs.all_reduce(t))  # type: ignore[misc]
            a = _timed(lambda t=mine: distributed.all_reduce(t))  # type: ignore[misc]
            if theirs is not None and not k % 2:
                b = _timed(lambda t=other: theirs.all_reduce(t))  # type: ignore[misc]
            pairs.append((a, b))
        found[name] = pairs[2:]
    if number == 0:
        print(json.dumps(found), flush=True)
    if theirs is not None:
        theirs.destroy_process_group()
    distributed.destroy_process_group()


def measure(ranks: int, rounds: int, limit_s: float = 300) -> list[Ratio]:
    """Return the ratios of both libraries' times, a row for each size; without PyTorch the ratio is 0.

    *Raises*: RuntimeError where there is no mpiexec, or the ranks fail.
    """
    own = Path(sys.executable).with_name("mpiexec")
    launcher = str(own) if own.exists() else shutil.which("mpiexec")
    if launcher is None:
        raise RuntimeError("the ranks are started by mpiexec, which is not here: pip install mpi4py mpich")
    with tempfile.TemporaryDirectory() as folder:
        command = [launcher, "-n", str(ranks), sys.executable, "-m", __spec__.name, f"{folder}/meet", str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the ranks failed\n{done.stderr.strip()[-1000:]}")
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    rows = []
    for name, pairs in found.items():
        row = ratio(f"all_reduce of {name}, {ranks} ranks", [(a, b or float("inf")) for a, b in pairs])
        rows.append(row)
    return rows


def main(argv: list[str]) -> int:
    """Run the command line; 0 where core is not slower at any size."""
    parser = Parser(prog="python -m lab bench distributed", description=__doc__,
                    example="python -m lab bench distributed -n 4")  # fmt: skip
    parser.add_argument("-n", type=int, default=2, help="ranks (2)")
    parser.add_argument("--rounds", type=int, default=15, help="timings of each size (15)")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(argv)
    rows = measure(options.n, options.rounds)
    print(f"{'core / PyTorch with gloo':44} {'ratio':>7}   middle half        median times")
    for row in rows:
        print(row, "✓" if row.median <= TARGET else "✗", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps([row._asdict() for row in rows], indent=1))
    return int(any(row.median > TARGET for row in rows))


if __name__ == "__main__":
    rank(sys.argv[1], int(sys.argv[2]))
