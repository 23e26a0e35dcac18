"""Jobs of several ranks, each under a time limit that ends all of its processes.

A job costs a second to start, so one runs many checks: a file of functions ``check_...(torch, dist, rank, size)``,
which all ranks call in turn. `results` says of each check what every rank made of it, and a test asks for its own.

    python -m tests.core.distributed.jobs FILE [-n 4] [--torch]     a file's checks, on core or on PyTorch's gloo
"""

from __future__ import annotations

import argparse
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
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def mpiexec() -> str | None:
    """Return MPI's launcher: this Python's own, or the one on the path."""
    own = Path(sys.executable).with_name("mpiexec")
    return str(own) if own.exists() else shutil.which("mpiexec")


MISSING = ("mpiexec is not installed (pip install mpich)" if mpiexec() is None else
           "mpi4py is not installed" if importlib.util.find_spec("mpi4py") is None else "")  # fmt: skip
needs_mpi = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def environment(**more: str) -> dict[str, str]:
    """Return what a rank's process is started with: one thread, this tree's core, no launcher's variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "MPI_", "HYDI_"))
            and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}  # fmt: skip
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more}


def run(command: list[str], limit_s: float = 60, **more: str) -> tuple[int, str, str]:
    """Run a command; return its code, output and errors. All of its processes end with it, or after `limit_s`."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(**more), cwd=ROOT, start_new_session=True)  # fmt: skip
    try:
        out, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        raise AssertionError(f"{command} has not ended within {limit_s} s\n{out}\n{errors}") from None
    return process.returncode, out, errors


def ranks(n: int, *program: str, limit_s: float = 60, **more: str) -> tuple[int, str, str]:
    """Run a Python program on `n` ranks; return the job's code, output and errors."""
    return run([str(mpiexec()), "-n", str(n), sys.executable, *program], limit_s, **more)


def checks(module: str) -> list[str]:
    """Return the names of a file's checks."""
    return [name for name in vars(importlib.import_module(module)) if name.startswith("check_")]


def results(module: str, n: int = 4, limit_s: float = 120, **more: str) -> dict[str, list[str]]:
    """Return for each check what each rank says of it: "" where it held, else why not."""
    with tempfile.TemporaryDirectory() as folder:
        code, out, errors = ranks(n, "-m", "tests.core.distributed.jobs", module, "--into", folder, limit_s=limit_s,
                                  **more)  # fmt: skip
        found: dict[str, list[str]] = {name: [] for name in checks(module)}
        for rank in range(n):
            path = Path(folder) / f"{rank}.json"
            said = json.loads(path.read_text()) if path.exists() else {}
            for name in found:
                found[name].append(said.get(name, f"did not come to it; the job ended with {code}\n{out}\n{errors}"))
        return found


def _rank(module: str, into: str | None, on_torch: bool) -> int:
    torch: Any = importlib.import_module("torch" if on_torch else "core")
    dist: Any = importlib.import_module("torch.distributed" if on_torch else "core.distributed")
    importlib.import_module(f"{dist.__name__}.nn")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank, size = dist.get_rank(), dist.get_world_size()
    said: dict[str, str] = {}
    for name in checks(module):
        try:
            getattr(importlib.import_module(module), name)(torch, dist, rank, size)
            said[name] = ""
        except Exception:
            said[name] = f"rank {rank}: {traceback.format_exc()}"
        if into:
            (Path(into) / f"{rank}.json").write_text(json.dumps(said))
        elif said[name]:
            print(name, said[name], flush=True)
    if not into:
        print(f"rank {rank}: {sum(not s for s in said.values())} of {len(said)} held", flush=True)
    dist.destroy_process_group()
    return 0


def main() -> int:
    """Run a file's checks: as a rank where a launcher started this process, else start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("-n", type=int, default=4)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--into")
    asked = parser.parse_args()
    module = asked.module.removesuffix(".py").replace("/", ".")
    if "PMI_RANK" in os.environ or "RANK" in os.environ:
        return _rank(module, asked.into, asked.torch)
    again = ["-m", "tests.core.distributed.jobs", module, *(["--torch"] if asked.torch else [])]
    if asked.torch:
        start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(asked.n), "--standalone"]
        code, out, errors = run([*start, *again], 180)
    else:
        code, out, errors = ranks(asked.n, *again)
    print(out, errors)
    return code


if __name__ == "__main__":
    sys.exit(main())
