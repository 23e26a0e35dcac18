"""`python -m lab rows`: the 70 things that gradlab is to do, with the command that shows each; `--run` runs them."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from time import perf_counter

from .console.options import Parser

FILE = Path(__file__).with_name("rows.toml")
ROOT = FILE.parents[1]
MARKS = {"built": "✓", "in part": "▲", "not yet": "–"}
NEEDS = {"tests/parity": "torch"}
"""What commands need besides the packages of the tests, by a word in them."""


@dataclass
class Row:
    """One of the things: what it is, what shows it, and what is left with the issue that builds it."""

    number: int
    capability: str
    what: str
    shows: list[str] = field(default_factory=list)
    left: str = ""
    issue: int | None = None

    @property
    def state(self) -> str:
        """ "built", "in part" or "not yet"."""
        return "not yet" if not self.shows else "built" if self.issue is None else "in part"


def rows() -> list[Row]:
    """Return all rows, in their order.

    >>> [row.capability for row in rows()[:2]]
    ['Define-by-run graph', 'Nodes and edges']
    """
    with open(FILE, "rb") as file:
        return [Row(number, **row) for number, row in enumerate(tomllib.load(file)["row"], 1)]


def described(row: Row) -> str:
    """Return a row as it is printed.

    >>> print(described(Row(7, "Towers", "bricks one on another", ["pytest -q tests"], "roofs", 3)))
     7 ▲ Towers: bricks one on another
           $ pytest -q tests
           left: roofs (issue 3)
    """
    lines = [f"{row.number:2} {MARKS[row.state]} {row.capability}: {row.what}"]
    lines += [f"       $ {command}" for command in row.shows]
    if row.issue is not None:
        lines.append(f"       left: {row.left} (issue {row.issue})")
    return "\n".join(lines)


def words_of(command: str) -> list[str]:
    """Return a command as a process is started with it: this Python, and its pytest.

    >>> words_of("pytest -q tests/x.py")[1:]
    ['-m', 'pytest', '-q', 'tests/x.py']
    """
    first, *rest = shlex.split(command)
    return [sys.executable, *{"python": [], "pytest": ["-m", "pytest"]}[first], *rest]


@dataclass
class Ran:
    """One command that was run: ok, failed, or why it was not run."""

    said: str
    seconds: float = 0.0
    output: str = ""


def run(command: str, seconds: float) -> Ran:
    """Run a command in the repository's folder, for so many seconds at most."""
    missing = [package for word, package in NEEDS.items() if word in command and util.find_spec(package) is None]
    if missing:
        return Ran(f"not run: {missing[0]} is not installed")
    begin = perf_counter()
    try:
        done = subprocess.run(words_of(command), cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Ran("failed", perf_counter() - begin, f"it took longer than {seconds:g} s")
    said = "ok" if done.returncode == 0 else "failed"
    return Ran(said, perf_counter() - begin, (done.stdout + done.stderr).strip())


def run_rows(chosen: Sequence[Row], seconds: float) -> int:
    """Run what shows these rows and say how each went; the number of those that failed."""
    counts: Counter[str] = Counter()
    for row in chosen:
        if not row.shows:
            print(f"{row.number:2} {row.capability}: not yet, issue {row.issue}", flush=True)
            continue
        results = [(command, run(command, seconds)) for command in row.shows]
        failed = [(command, ran) for command, ran in results if ran.said == "failed"]
        skipped = next((ran.said for _, ran in results if ran.said.startswith("not run")), "")
        word = "failed" if failed else "ok" if any(ran.said == "ok" for _, ran in results) else skipped
        counts[word.partition(":")[0]] += 1
        beside = f" ({skipped.replace('not run', 'a part was not run')})" if skipped and word == "ok" else ""
        print(
            f"{row.number:2} {row.capability}: {word}, {sum(ran.seconds for _, ran in results):.1f} s{beside}",
            flush=True,
        )
        for command, ran in failed:
            print(f"       $ {command}\n       " + "\n       ".join(ran.output.splitlines()[-8:]), flush=True)
    print(", ".join(f"{n} {word}" for word, n in counts.items()) or "nothing to run")
    return counts["failed"]


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 1 where a row that was run failed."""
    parser = Parser(prog="python -m lab rows", description=__doc__, example="python -m lab rows --run 6 20 47",
                    formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--run", nargs="*", type=int, metavar="N", help="run the commands of these rows, or of all")
    parser.add_argument("--seconds", type=float, default=900.0, help="for a command, at most (900)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(argv)
    known = rows()
    if options.run is None:
        if options.json:
            print(json.dumps([vars(row) | {"state": row.state} for row in known], indent=1, ensure_ascii=False))
            return 0
        counts = Counter(row.state for row in known)
        print("\n".join(map(described, known)))
        print(f"{len(known)} rows: {', '.join(f'{counts[state]} {state}' for state in MARKS)}")
        return 0
    unknown = [n for n in options.run if not 1 <= n <= len(known)]
    if unknown:
        parser.error(f"there is no row {unknown[0]}: they are 1 to {len(known)}")
    if not (ROOT / "tests").is_dir():
        parser.error(
            f"the commands run the tests of the repository, which are not in {ROOT}. Remedy: run it in a clone"
        )
    chosen = [row for row in known if row.number in options.run] if options.run else known
    return 1 if run_rows(chosen, options.seconds) else 0
