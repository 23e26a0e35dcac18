"""``python -m tests.packages [name ...]``: run the programs of this folder on PyTorch and on core, and print a table.

Two run at a time: one on core, and one on PyTorch, in forks of a process that imports it once (forked.py). Without
names those run that are not in LATER; ``--all`` runs these too. A package that is not installed is skipped and named.
``--path FOLDER`` looks for packages there too (requirements.txt has them, pinned), ``--json FILE`` writes the table,
``--core`` runs on core alone. 1 where a program that is expected to run does not, or differs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LARGEST = 1e-4  # a difference of two numbers, over 1 or the larger of them
SECONDS = 600
# by name, or with --all: what takes longest, brings much, or needs older tools
LATER = ("diffusers", "lightning", "rsl_rl", "stable_baselines3", "timm", "torch_dftd", "torchio", "wavelets")


def distribution(path: Path) -> str:
    """Return the name of the package on PyPI: the first word of the program's docstring."""
    return path.read_text().split('"""', 2)[1].partition(":")[0]


def programs(chosen: list[str]) -> list[Path]:
    """Return the programs, all of them or those of some packages."""
    return [p for p in sorted(HERE.glob("with_*.py")) if not chosen or named(p) in chosen]


def named(path: Path) -> str:
    """Return the name by which a program is asked for."""
    return path.stem.removeprefix("with_")


def version(package: str, folders: list[str]) -> str | None:
    """Return the version of a package; None where it is not installed."""
    path = [*folders, *sys.path]
    return next((d.version for d in importlib.metadata.distributions(name=package, path=path)), None)


def environment(folders: list[str]) -> dict[str, str]:
    """Return the environment of a program's process."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *folders]), "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore"}  # fmt: skip


def read(status: int, out: str, err: str) -> tuple[dict[str, list[float]] | None, str]:
    """Return what a program told, or None, and the last line of its errors."""
    line = next((x for x in reversed(out.splitlines()) if x.startswith("told ")), None)
    if status or line is None:
        said = [x for x in err.splitlines() if x.strip() and not x.startswith(" ")]
        return None, said[-1][:160] if said else f"exit status {status}"
    return json.loads(line.removeprefix("told ")), ""


def told(command: list[str], folders: list[str]) -> tuple[dict[str, list[float]] | None, str]:
    """Run a program on core; return what it told, or None, and the last line of its errors."""
    try:
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment(folders),
                              timeout=SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"longer than {SECONDS} s"
    return read(done.returncode, done.stdout, done.stderr)


class Beside:
    """The same programs on PyTorch, meanwhile."""

    def __init__(self, paths: list[Path], folders: list[str]) -> None:
        command = [sys.executable, str(HERE / "forked.py"), str(SECONDS), *map(str, paths)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         env=environment(folders))  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        for line in out:
            self._lines.put(line)
        self._lines.put(json.dumps({"status": self._process.wait(), "out": "", "err": err.read()}))

    def told(self) -> tuple[dict[str, list[float]] | None, str]:
        """Return what the next program told, or None, and the last line of its errors."""
        line = self._lines.get()
        found = json.loads(line)
        if "path" not in found:  # it has ended, and tells no more of any program
            self._lines.put(line)
        return read(found["status"], found["out"], found["err"])


def difference(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> float:
    """Return the largest difference of two runs' numbers, each over 1 or the larger of the two."""
    if ours.keys() != theirs.keys() or any(len(ours[k]) != len(theirs[k]) for k in ours):
        return float("inf")
    pairs = [(a, b) for k in ours for a, b in zip(ours[k], theirs[k], strict=True)]
    return max((abs(a - b) / max(1.0, abs(a), abs(b)) for a, b in pairs if not (a != a and b != b)), default=0.0)


def row(path: Path, folders: list[str], beside: Beside | None) -> dict[str, Any]:
    """Return a program's line of the table."""
    start = time.perf_counter()
    ours, why = told(["-m", "core", "run", str(path)], folders)
    line: dict[str, Any] = {"runs": "yes" if ours is not None else f"no: {why}", "difference": None,
                            "seconds": time.perf_counter() - start}  # fmt: skip
    if beside is None:
        return line
    theirs, why = beside.told()
    if ours is None:
        return line
    if theirs is None:
        return {**line, "runs": f"yes; PyTorch: {why}"}
    return {**line, "difference": difference(ours, theirs)}


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    paths = [p for p in programs(given.names) if given.names or given.all or named(p) not in LATER]
    packages = {p: distribution(p) for p in paths}
    versions = {p: version(packages[p], given.path) for p in paths}
    installed = [p for p in paths if versions[p] is not None]
    beside = None if given.core or not installed else Beside(installed, given.path)
    for path in paths:
        line: dict[str, Any] = {"package": packages[path], "version": versions[path] or "not installed"}
        line |= row(path, given.path, beside) if path in installed else {"runs": "skipped", "difference": None}
        off = "" if line["difference"] is None else f"{line['difference']:.1e}"
        took = f"{line['seconds']:4.1f} s" if "seconds" in line else ""
        print(f"{line['package']:<20} {line['version']:<14} {off:>8} {took:>7}  {line['runs']}", flush=True)
        rows.append(line)
    ran = [r for r in rows if r["runs"].startswith("yes")]
    skipped = [r["package"] for r in rows if r["runs"] == "skipped"]
    later = [n for n in LATER if not (given.names or given.all)]
    absent = f"; not installed: {', '.join(skipped)}" if skipped else ""
    print(
        f"{len(ran)} of {len(rows) - len(skipped)} run{absent}" + (f"; left out: {', '.join(later)}" if later else "")
    )
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1))
    bad = [r for r in rows if r["runs"].startswith("no") or (r["difference"] or 0) > LARGEST]
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
