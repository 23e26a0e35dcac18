"""Checks that run on ranks: `outcomes` starts one job of mpiexec for all of a module's ``check_*`` functions.

A check that fails ends the job, since its ranks are no longer at the same place: those after it do not run.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")
needs_mpi = pytest.mark.skipif(MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
                               reason="needs mpi4py and mpiexec: pip install mpi4py mpich")  # fmt: skip


def checks(module: str) -> list[str]:
    """The checks of a module, in the order of its text."""
    return [name for name in vars(importlib.import_module(module)) if name.startswith("check_")]


@functools.cache
def outcomes(module: str, n: int, limit_s: float = 120) -> dict[str, list[Any]]:
    """What each check gave on each rank. *Raises*: AssertionError with the ranks' output where a check failed."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        job = subprocess.Popen([str(MPIEXEC), "-n", str(n), sys.executable, "-m", __name__, module, folder], cwd=ROOT,
                               env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)  # fmt: skip
        try:
            told, _ = job.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            told = f"not done after {limit_s} s\n" + job.communicate()[0]
        found: dict[str, list[Any]] = {}
        for rank in range(n):
            path = Path(folder) / f"{rank}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else ():
                name, result = json.loads(line)
                found.setdefault(name, []).append(result)
    found = {name: results for name, results in found.items() if len(results) == n}
    found[""] = [told]
    return found


def outcome(module: str, n: int, name: str, limit_s: float = 120) -> list[Any]:
    """What a check gave on each rank. *Raises*: AssertionError where it failed, or was not reached."""
    found = outcomes(module, n, limit_s)
    assert name in found, f"{name} failed on {n} ranks, or one before it:\n{found[''][0][-6000:]}"
    return found[name]


def main(module: str, folder: str) -> None:
    import core

    core.set_num_threads(1)
    core.distributed.init_process_group("gloo")
    rank = core.distributed.get_rank()
    loaded = importlib.import_module(module)
    with open(Path(folder) / f"{rank}.jsonl", "w") as file:
        for name in checks(module):
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
