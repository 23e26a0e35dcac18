"""``python -m tests.trials 1 [--torch] [--case 07] [--show]``: a blind set, case by case, and where the card points.

What is told of each broken case is whether its first finding names an accepted line (`line`), another one (`other`), or
there is none (`nothing`); whether the remedy is right is for a reader to judge, who gets the sentences by `--show`. Of
a healthy case it is `quiet`, a `note`, a `look` (a note that reads like a mistake) or an `alarm` (a warning or an
error). Of the first findings that name an accepted line it is counted how sure they were. Each case runs in a process
of its own, in a folder that holds its files.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT = 300.0  # seconds of a case

# Runs in the folder of a case: all cells but the last as they are.
BEFORE = """
import io, json, linecache, sys, types
from contextlib import redirect_stdout
library, out = sys.argv[1:]
sys.path.insert(0, "")
import core, lab
if library == "core":
    core.as_torch()
import torch
from pathlib import Path
from tests.lab.conftest import run_cell
module = types.ModuleType("__main__")
sys.modules["__main__"] = module
cells = sorted(Path(".").glob("cell*.py"), key=lambda p: int(p.stem[4:]))
core.base.source.name_of_file = lambda file: file if any(path.name == file for path in cells[:-1]) else None
with redirect_stdout(io.StringIO()):
    for path in cells[:-1]:
        text = path.read_text()
        linecache.cache[path.name] = len(text), None, text.splitlines(True), path.name  # as IPython keeps its cells
        exec(compile(text, path.name, "exec"), vars(module))
"""
# The last, recorded.
_RUN = f"""{BEFORE}
with redirect_stdout(io.StringIO()):
    record = run_cell(cells[-1].read_text(), vars(module))
found = [[f.kind, "look" if f.reads else f.severity, f.line, f.message, f.remedy] for f in record.findings]
Path(out).write_text(json.dumps({{"findings": found, "wall_ms": record.wall_ms}}))
"""


def cases(number: int) -> dict[str, dict[str, str]]:
    """Return the files of each case of a set: name -> file -> text."""
    found: dict[str, dict[str, list[str]]] = {}
    lines: list[str] = []
    for line in (HERE / f"set{number}.txt").read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("=== "):
            _, case, file = line.split()
            lines = found.setdefault(case, {}).setdefault(file, [])
        else:
            lines.append(line)
    return {case: {file: "".join(text) for file, text in files.items()} for case, files in found.items()}


def run(files: dict[str, str], library: str, program: str = _RUN) -> dict[str, Any]:
    """Run a case; return its findings, or what another program writes, or under "failed" how the run ended."""
    with tempfile.TemporaryDirectory("trial") as name:
        folder = Path(name, "case")
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
        out = Path(name, "out.json")
        command = [sys.executable, "-c", program, library, str(out)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return {"failed": f"no end in {LIMIT:.0f} s", "findings": []}
        if not out.exists():
            return {"failed": done.stderr[-500:], "findings": []}
        return json.loads(out.read_text())  # type: ignore[no-any-return]


def judged(answer: dict[str, Any], findings: list[list[Any]], watched: str) -> str:
    """Return where the first finding points, or whether a healthy case was left in peace."""
    if answer["kind"] == "healthy":
        severities = {f[1] for f in findings}
        worst = next((s for s in ("error", "warning", "look", "note") if s in severities), "quiet")
        return "alarm" if worst in ("error", "warning") else worst
    if not findings:
        return "nothing"
    _, _, line, message, _ = findings[0]
    for place in (answer, *answer.get("also", ())):
        for n in place["lines"]:
            if (place["file"] == watched and line == n) or f"{place['file']} line {n}" in message:
                return "line"
    return "other"


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit status is 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.trials", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("set", type=int, choices=(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14))
    parser.add_argument("--torch", action="store_true", help="in PyTorch instead of core")
    parser.add_argument("--case", action="append", help="this case alone; may be repeated")
    parser.add_argument(
        "--show", action="store_true", help="with reasons and findings: for a set that is sealed no more"
    )
    options = parser.parse_args(argv)
    answers = json.loads((HERE / f"set{options.set}.json").read_text(encoding="utf-8"))
    library = "torch" if options.torch else "core"
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    sure: collections.Counter[str] = collections.Counter()
    for case, files in cases(options.set).items():
        if options.case and case not in options.case:
            continue
        told = run(files, library)
        watched = max((file for file in files if file.startswith("cell")), key=lambda file: int(file[4:-3]))
        answer = answers[case]
        outcome = "failed" if "failed" in told else judged(answer, told["findings"], watched)
        counts[answer["kind"], outcome] += 1
        if outcome == "line":
            sure[told["findings"][0][1]] += 1
        print(f"{case} {answer['kind']:9} {outcome}", flush=True)
        if options.show:
            print(f"    {answer['file']} {answer['lines']}: {answer['reason']} Remedy: {answer['remedy']}")
            print(f"    {told['failed']}" if "failed" in told else "", end="")
            for kind, severity, line, message, remedy in told["findings"][:3]:
                print(f"    - {severity} {kind}, line {line}: {message} {remedy}")
    for kind in ("slow", "numerical", "mistake", "healthy"):
        print(kind, {outcome: n for (k, outcome), n in sorted(counts.items()) if k == kind})
    print("told on the line as", dict(sure))
    return 0


if __name__ == "__main__":
    sys.exit(main())
