"""``python -m tests.lab.prove.figures [core|torch] [--kind KIND | --placebos N | --trials 1]``: how many remedies hold.

For each cell with one planted mistake, or each broken case of a blind set that is sealed no more: whether there is a
patch for its first finding, and what its trial says.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lab.prove import proving
from lab.prove.elsewhere import further, place_of
from lab.prove.proving import Prover, alone_s
from lab.prove.snapshot import Scene, Snapshot
from tests.lab.diagnose.planted import CELLS
from tests.trials import __main__ as trials
from widgets.record import Record

from .cells import in_two, planted, planted_in_two, recorded, text_of
from .placebos import elsewhere, placebos

LEVELS = ("proved", "consistent", "refuted", "untried", "no patch")


# Runs in the folder of a case of a blind set, after the cells before its last.
_LAST = f"""{trials.BEFORE}
from tests.lab.prove.figures import of_case
Path(out).write_text(json.dumps(of_case(cells[-1].read_text(), vars(module))))
"""
OPEN = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)  # blind sets that were scored, so that anybody may read them


def patient(times: float) -> None:
    """Give each trial so many times its time, here and in the processes that run cases."""
    os.environ["GRADLAB_PATIENCE"] = str(times)
    proving.LEAST_S, proving.MOST_S, proving.BUDGET_S = (
        times * s for s in (proving.LEAST_S, proving.MOST_S, proving.BUDGET_S)
    )


def first_remedy(record: Record, snapshot: Snapshot, text: str) -> tuple[str, str, str, str]:
    """The kind of a cell's first finding, the level of its remedy, what the verdict says, and what was changed."""
    if not record.findings:
        return "-", "no patch", "nothing was found", ""
    finding = record.findings[0]
    result = Prover(snapshot, text, alone_s(record)).finding(finding)
    if result is None:
        return finding.kind, "no patch", finding.remedy, ""
    verdict, patch = result
    return finding.kind, verdict.level, verdict.said, patch.said


def of_case(text: str, space: dict[str, Any]) -> dict[str, Any]:
    """The last cell of a case: what its first finding says, and what came of the remedy."""
    patient(float(os.environ["GRADLAB_PATIENCE"]))
    snapshot = Snapshot(Scene(space))
    record = recorded(text, space)
    found = [[f.kind, f.severity, f.line, f.message, f.remedy] for f in record.findings]
    remedy = first_remedy(record, snapshot, text)
    snapshot.close()
    return {"findings": found, "remedy": remedy}


def cells(library: str, kind: str | None) -> Iterator[tuple[str, tuple[str, str, str, str]]]:
    """Each planted cell with what came of its remedy."""
    for name, cell in CELLS.items():
        if kind is None or cell.kind == kind:
            text = text_of(name)
            with planted(text, library) as (record, snapshot):
                yield name, first_remedy(record, snapshot, text)


def cases(number: int, library: str) -> Iterator[tuple[str, tuple[str, str, str, str]]]:
    """Each broken case of a blind set that is open, with where its first finding points."""
    answers = json.loads((trials.HERE / f"set{number}.json").read_text(encoding="utf-8"))
    for case, files in trials.cases(number).items():
        answer = answers[case]
        if answer["kind"] != "healthy":
            told = trials.run(files, library, _LAST)
            watched = max((file for file in files if file.startswith("cell")), key=lambda file: int(file[4:-3]))
            points = "failed" if "failed" in told else trials.judged(answer, told["findings"], watched)
            failed = ("-", "untried", told.get("failed", ""), "")
            yield f"set {number} case {case} ({answer['kind']}, {points})", tuple(told.get("remedy", failed))


def accepted(name: str, library: str) -> tuple[int, list[str]]:
    """How many placebos of a cell were tried, and what is said of those that were accepted."""
    text, count = text_of(name), 0
    wrong: list[str] = []
    with planted(text, library) as (record, snapshot):
        prover = Prover(snapshot, text, alone_s(record))
        for finding in record.findings[:1]:
            for patch in placebos(text, finding.kind, finding.line):
                verdict = prover.one(finding.kind, patch)
                count += verdict.level != "untried"
                if verdict.level in ("proved", "consistent"):
                    wrong.append(f"{finding.kind} | {name} | {patch.said}: {verdict.level}, {verdict.said}")
    return count, wrong


def accepted_elsewhere(name: str, library: str) -> tuple[int, list[str]]:
    """As `accepted`, of the cell that makes the model and of those whose finding names a line of that one."""
    text, count = text_of(name), 0
    wrong: list[str] = []
    if in_two(text) is None:
        return 0, []
    with planted_in_two(text, library) as (record, snapshot, cell):
        prover = Prover(snapshot, cell, alone_s(record))
        for finding in record.findings[:1]:
            places = [place for place in (place_of(finding), *further(finding)) if place is not None]
            for place in places[:1]:
                for patch in elsewhere(place.text, finding.kind, place.line):
                    there = replace(patch, file=place.file, name=place.name, was=place.text)
                    verdict = prover.one(finding.kind, there)
                    count += verdict.level != "untried"
                    if verdict.level in ("proved", "consistent"):
                        wrong.append(f"{finding.kind} | {name} | {patch.said}: {verdict.level}, {verdict.said}")
    return count, wrong


def hollow(library: str, every: int, other: bool, kind: str | None) -> None:
    """Try placebos on every so many-th cell, or on what made its model, and print those that are accepted."""
    total = 0
    wrong: list[str] = []
    for name in [name for name, cell in CELLS.items() if kind in (None, cell.kind)][::every]:
        count, more = (accepted_elsewhere if other else accepted)(name, library)
        total, wrong = total + count, wrong + more
        print("".join(f"ACCEPTED {line}\n" for line in more), end="", flush=True)
    print(f"{library}: {total} patches that mend nothing were tried, {len(wrong)} of them accepted")


def main() -> None:
    """Try all, print each and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", default="core", choices=("core", "torch"))
    parser.add_argument("--kind")
    parser.add_argument("--placebos", type=int, metavar="N", help="patches that mend nothing, on every N-th cell")
    parser.add_argument("--trials", type=int, choices=OPEN, metavar="SET", help="a blind set's broken cases instead")
    parser.add_argument("--patience", type=float, default=1.0, help="times the limits of time: the machine is busy")
    parser.add_argument(
        "--elsewhere", action="store_true", help="placebos of an earlier cell instead of the cell's own"
    )
    options = parser.parse_args()
    patient(options.patience)
    if options.placebos:
        hollow(options.library, options.placebos, options.elsewhere, options.kind)
        return
    table: dict[str, Counter[str]] = defaultdict(Counter)
    times, begin = [], time.perf_counter()
    tried_all = cases(options.trials, options.library) if options.trials else cells(options.library, options.kind)
    for name, (kind, level, said, change) in tried_all:
        if level != "no patch":
            times.append(time.perf_counter() - begin)
        table[kind][level] += 1
        print(f"{level:10} {kind:14} {name}: {change} | {said}", flush=True)
        begin = time.perf_counter()
    print(f"\n{'kind':16}{''.join(f'{level:>12}' for level in LEVELS)}")
    for kind in sorted(table):
        print(f"{kind:16}{''.join(f'{table[kind][level]:12}' for level in LEVELS)}")
    whole = sum(table.values(), Counter())
    print(f"{'all':16}{''.join(f'{whole[level]:12}' for level in LEVELS)}")
    tried = whole.total() - whole["no patch"]
    first = whole.total() - table["-"].total()
    held = whole["proved"] + whole["consistent"]
    median = sorted(times)[len(times) // 2] if times else 0.0
    share = held / max(tried, 1)
    print(f"{options.library}: {tried} of {first} first findings have a patch; {held} of them hold, {share:.1%}")
    print(f"{median:.2f} s for a cell and the trials of its first finding (median)")


if __name__ == "__main__":
    main()
