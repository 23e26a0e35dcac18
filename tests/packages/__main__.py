"""``python -m tests.packages [name ...]``: run the programs of this folder on PyTorch and on core, and print a table.

A package that is not installed is skipped and named. ``--path FOLDER`` looks for packages there too, ``--json FILE``
writes the table, ``--core`` runs on core alone. 1 where a program that is expected to run does not, or differs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LARGEST = 1e-4  # a difference of two numbers, over 1 or the larger of them
SECONDS = 600


def distribution(path: Path) -> str:
    """Return the name of the package on PyPI: the first word of the program's docstring."""
    return path.read_text().split('"""', 2)[1].partition(":")[0]


def programs(chosen: list[str]) -> list[Path]:
    """Return the programs, all of them or those of some packages."""
    return [p for p in sorted(HERE.glob("with_*.py")) if not chosen or p.stem.removeprefix("with_") in chosen]


def version(package: str, folders: list[str]) -> str | None:
    """Return the version of a package; None where it is not installed."""
    path = [*folders, *sys.path]
    return next((d.version for d in importlib.metadata.distributions(name=package, path=path)), None)


def told(command: list[str], folders: list[str]) -> tuple[dict[str, list[float]] | None, str]:
    """Run a program; return what it told, or None, and the last line of its errors."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *folders]), "OMP_NUM_THREADS": "1",
           "PYTHONWARNINGS": "ignore"}  # fmt: skip
    try:
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=env, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"longer than {SECONDS} s"
    line = next((x for x in reversed(done.stdout.splitlines()) if x.startswith("told ")), None)
    if done.returncode or line is None:
        said = [x for x in done.stderr.splitlines() if x.strip() and not x.startswith(" ")]
        return None, said[-1][:160] if said else f"exit status {done.returncode}"
    return json.loads(line.removeprefix("told ")), ""


def difference(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> float:
    """Return the largest difference of two runs' numbers, each over 1 or the larger of the two."""
    if ours.keys() != theirs.keys() or any(len(ours[k]) != len(theirs[k]) for k in ours):
        return float("inf")
    pairs = [(a, b) for k in ours for a, b in zip(ours[k], theirs[k], strict=True)]
    return max((abs(a - b) / max(1.0, abs(a), abs(b)) for a, b in pairs if not (a != a and b != b)), default=0.0)


def row(path: Path, folders: list[str], alone: bool) -> dict[str, Any]:
    """Return a program's line of the table."""
    package = distribution(path)
    found = version(package, folders)
    line: dict[str, Any] = {
        "package": package,
        "version": found or "not installed",
        "runs": "skipped",
        "difference": None,
    }
    if found is None:
        return line
    ours, why = told(["-m", "core", "run", str(path)], folders)
    if ours is None:
        return {**line, "runs": f"no: {why}"}
    if alone:
        return {**line, "runs": "yes"}
    theirs, why = told([str(path)], folders)
    if theirs is None:
        return {**line, "runs": f"yes; PyTorch: {why}"}
    return {**line, "runs": "yes", "difference": difference(ours, theirs)}


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("--core", action="store_true")
    given = parser.parse_args(argv)
    rows = []
    for path in programs(given.names):
        line = row(path, given.path, given.core)
        off = "" if line["difference"] is None else f"{line['difference']:.1e}"
        print(f"{line['package']:<20} {line['version']:<14} {off:>8}  {line['runs']}", flush=True)
        rows.append(line)
    ran = [r for r in rows if r["runs"].startswith("yes")]
    skipped = [r["package"] for r in rows if r["runs"] == "skipped"]
    print(
        f"{len(ran)} of {len(rows) - len(skipped)} run" + (f"; not installed: {', '.join(skipped)}" if skipped else "")
    )
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1))
    bad = [r for r in rows if r["runs"].startswith("no") or (r["difference"] or 0) > LARGEST]
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
