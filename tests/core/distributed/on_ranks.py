"""Checks of training on ranks: `outcome` is what a module's ``check_*`` function gave on each rank.

All checks of a module run in one job (`jobs.ranks`). One that fails ends the job, since its ranks are no longer at the
same place: those after it do not run.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.core.distributed import jobs

RANKS = (1, 2, 4)


@functools.cache
def outcomes(module: str, n: int, limit_s: float = 300) -> dict[str, list[Any]]:
    """What each check gave on each rank, as far as the job came; by the name "" what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _, *told = jobs.ranks(n, "-m", __name__, module, folder, limit_s=limit_s)
        except AssertionError as late:
            told = [str(late)]
        found: dict[str, list[Any]] = {}
        for rank in range(n):
            path = Path(folder) / f"{rank}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else ():
                name, result = json.loads(line)
                found.setdefault(name, []).append(result)
    return {name: results for name, results in found.items() if len(results) == n} | {"": told}


def outcome(module: str, n: int, name: str) -> list[Any]:
    """What a check gave on each rank. *Raises*: AssertionError where it failed, or was not reached."""
    found = outcomes(module, n)
    assert name in found, f"{name} failed on {n} ranks, or one before it:\n" + "\n".join(found[""])[-6000:]
    return found[name]


def main(module: str, folder: str) -> None:
    """Run a module's checks on this rank, and write down what they give."""
    import core

    core.set_num_threads(1)
    core.distributed.init_process_group("gloo")
    rank = core.distributed.get_rank()
    loaded = importlib.import_module(module)
    with open(Path(folder) / f"{rank}.jsonl", "w") as file:
        for name in jobs.checks(module):
            try:
                result = getattr(loaded, name)()
            except BaseException:
                print(f"rank {rank}, {name}:\n{traceback.format_exc()}", flush=True)
                raise
            core.distributed.barrier()
            file.write(json.dumps([name, result]) + "\n")
            file.flush()
    core.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
