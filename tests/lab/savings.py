"""`python -m tests.lab.savings 1 3 [--torch]`: what findings say that a remedy saves, beside what writers measured.

Of each slow case of a blind set whose first finding is on an accepted line, the figure of that finding's sentence
stands beside the saving in the answers, which is a part of the time of the case's last cell, or of all of it, on
another machine, and in PyTorch where the writer had that: judge with `--torch`, since what is slow there may be a tenth
of the cell in core. A share below what the sentence says may be one of the whole process, the import of PyTorch
included. A range counts as far as its nearer end is off; "at most" as
far as it says too little. `--json FILE` keeps what was said, so that it can be judged again (`--kept FILE`).

Noisy on a busy machine: a table to be read, and no test.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.trials.__main__ import HERE, cases, judged, run

POINTS = 15.0  # what a figure may be off
_RANGE = re.compile(r"(?:about )?(\d+) to (\d+) % less time")
_MOST = re.compile(r"at most (\d+) % less time")
_ABOUT = re.compile(r"about (\d+) % less time")


class Told(NamedTuple):
    """The least and the most, in percent, that a finding says its remedy saves."""

    least: int
    most: int

    def off(self, real: float) -> float:
        """Return by how many points it is too high (above 0) or too low.

        >>> Told(40, 60).off(70), Told(40, 60).off(50), Told(80, 80).off(70)
        (-10, 0.0, 10)
        """
        return self.least - real if real < self.least else self.most - real if real > self.most else 0.0

    def __str__(self) -> str:
        return f"{self.most}" if self.least == self.most else f"{self.least}..{self.most}"


def told(message: str) -> Told | None:
    """Return the saving that a finding's sentence names.

    >>> told("Without that the cell would take about 47 % less time.")
    Told(least=47, most=47)
    >>> told("Without that the cell would take 30 to 60 % less time."), told("Slow.")
    (Told(least=30, most=60), None)
    """
    if found := _RANGE.search(message):
        return Told(int(found[1]), int(found[2]))
    if found := _MOST.search(message):
        return Told(0, int(found[1]))
    found = _ABOUT.search(message)
    return None if found is None else Told(int(found[1]), int(found[1]))


def slow_cases(number: int) -> dict[str, dict[str, Any]]:
    """Return the answers to a set's slow cases of which a saving is known."""
    answers = json.loads((HERE / f"set{number}.json").read_text(encoding="utf-8"))
    return {case: a for case, a in answers.items() if a["kind"] == "slow" and a["saving"] is not None}


def last_cell(files: dict[str, str]) -> str:
    """Return the cell that is recorded."""
    return max((file for file in files if file.startswith("cell")), key=lambda file: int(file[4:-3]))


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit status is 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.savings", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sets", type=int, nargs="+", help="numbers of blind sets")
    parser.add_argument("--torch", action="store_true", help="in PyTorch instead of core")
    parser.add_argument("--case", action="append", help="this case alone (07, or 3/07); may be repeated")
    parser.add_argument("--show", action="store_true", help="with the sentences")
    parser.add_argument("--json", type=Path, help="where what was said is kept")
    parser.add_argument("--kept", type=Path, help="judge what an earlier run has kept, and run nothing")
    given = parser.parse_args(argv)
    before: dict[str, list[list[Any]]] = json.loads(given.kept.read_text()) if given.kept is not None else {}
    kept: dict[str, list[list[Any]]] = {}
    within = figures = on_line = slow = 0
    for number in given.sets:
        for case, answer in slow_cases(number).items():
            name = f"{number}/{case}"
            if given.case and case not in given.case and name not in given.case:
                continue
            files, slow = cases(number)[case], slow + 1
            findings = before[name] if before else run(files, "torch" if given.torch else "core")["findings"]
            kept[name] = findings
            outcome, real = judged(answer, findings, last_cell(files)), 100 * answer["saving"]
            figure = told(findings[0][3]) if outcome == "line" else None
            says = f"{outcome}, of {real:.0f} %" if outcome != "line" else f"no figure, of {real:.0f} %"
            on_line += outcome == "line"
            if figure is not None:
                off = figure.off(real)
                figures, within = figures + 1, within + (abs(off) <= POINTS)
                says = f"says {figure} % of {real:.0f} %: {off:+.0f}{'' if abs(off) <= POINTS else '  <- off'}"
            print(f"{name:7} {says}", flush=True)
            if given.show and findings:
                print(f"        line {findings[0][2]}: {findings[0][3]} {findings[0][4]}")
            if given.json is not None:
                given.json.write_text(json.dumps(kept))
    print(f"{slow} slow cases, {on_line} with the first finding on the line, {figures} with a figure, {within} of them "
          f"within {POINTS:.0f} points")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
