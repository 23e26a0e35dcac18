"""``python -m tests.lab.prove.figures [core|torch] [--kind KIND | --placebos N | --trials 1]``: how many remedies hold.

For each cell with one planted mistake, or each broken case of a blind set that is sealed no more: whether there is a
patch for its first finding, and what its trial says. All of them take hours: `--kept FILE` writes each outcome as a
line of JSON and goes on where the file ends, `--most N` stops after N cells, and `--most 0` sums up what the file has.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from lab.prove import proving
from lab.prove.choices import choice
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
OPEN = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)  # blind sets that were scored, so that anybody may read them


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


@dataclass(frozen=True)
class Row:
    """What came of the first finding's remedy in one cell."""

    library: str
    of: str  # "planted", or the set
    name: str
    kind: str
    level: str
    said: str
    change: str
    note: str = ""  # where the finding points in a case
    seconds: float = 0.0


def cells(library: str, kind: str | None, done: set[str]) -> Iterator[Row]:
    """Each planted cell that is not done, with what came of its remedy."""
    for name, cell in CELLS.items():
        if kind in (None, cell.kind) and name not in done:
            text, begin = text_of(name), time.perf_counter()
            with planted(text, library) as (record, snapshot):
                found = first_remedy(record, snapshot, text)
            yield Row(library, "planted", name, *found, seconds=time.perf_counter() - begin)


def cases(number: int, library: str, done: set[str]) -> Iterator[Row]:
    """Each broken case of a blind set that is open and not done, with where its first finding points."""
    answers = json.loads((trials.HERE / f"set{number}.json").read_text(encoding="utf-8"))
    for case, files in trials.cases(number).items():
        answer = answers[case]
        if answer["kind"] != "healthy" and case not in done:
            begin = time.perf_counter()
            told = trials.run(files, library, _LAST)
            watched = max((file for file in files if file.startswith("cell")), key=lambda file: int(file[4:-3]))
            points = "failed" if "failed" in told else trials.judged(answer, told["findings"], watched)
            found = told.get("remedy", ("-", "untried", told.get("failed", ""), ""))
            note, seconds = f"{answer['kind']}, {points}", time.perf_counter() - begin
            yield Row(library, f"set {number}", case, *found, note, seconds)


def kept_in(file: Path | None) -> list[Row]:
    """Return the rows of a file that earlier runs wrote; of a cell that was run again the last."""
    lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return list({(row.library, row.of, row.name): row for row in rows}.values())


def table(rows: list[Row], by: str) -> str:
    """Return how many rows there are of each level, by a field, and the share of remedies that hold.

    The shares are of the patches that were tried, of all findings, and of those that have a remedy which is not the
    user's choice. Cases in which nothing was found count for none of them.

    >>> held, nothing = (Row("core", "planted", "a", kind, "proved", "", "") for kind in ("nan", "-"))
    >>> print(table([held, nothing], "kind"))
    kind                proved consistent    refuted    untried   no patch   a choice   of tried     of all  but choices
    -                        0          0          0          0          0          0       0.0%       0.0%         0.0%
    nan                      1          0          0          0          0          0     100.0%     100.0%       100.0%
    all                      1          0          0          0          0          0     100.0%     100.0%       100.0%
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        chosen = row.level == "no patch" and choice(row.said)
        counts[getattr(row, by)]["a choice" if chosen else row.level if row.kind != "-" else ""] += 1
    named = {**dict(sorted(counts.items())), "all": sum(counts.values(), Counter())}
    heads = [*LEVELS, "a choice", "of tried", "of all"]
    lines = [f"{by:15}{''.join(f'{head:>11}' for head in heads)}  but choices"]
    for name, count in named.items():
        held, all_of_them = count["proved"] + count["consistent"], count.total() - count[""]
        outs = count["no patch"] + count["a choice"], 0, count["a choice"]
        shares = [f"{held / max(all_of_them - out, 1):.1%}" for out in outs]
        figures = [f"{count[head]:11}" for head in heads[:-2]]
        lines.append(f"{name:15}{''.join(figures)}{shares[0]:>11}{shares[1]:>11}{shares[2]:>13}")
    return "\n".join(lines)


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
    parser.add_argument("--kept", type=Path, metavar="FILE", help="lines of JSON that this run reads and goes on with")
    parser.add_argument("--most", type=int, metavar="N", help="stop after so many cells; 0: sum up what is kept")
    options = parser.parse_args()
    patient(options.patience)
    if options.placebos:
        hollow(options.library, options.placebos, options.elsewhere, options.kind)
        return
    kept = kept_in(options.kept)
    of = f"set {options.trials}" if options.trials else "planted"
    done = {row.name for row in kept if (row.library, row.of) == (options.library, of)}
    if options.trials:
        source = cases(options.trials, options.library, done)
    else:
        source = cells(options.library, options.kind, done)
    rows = []
    for row in islice(source, options.most):
        rows.append(row)
        note = f" ({row.note})" if row.note else ""
        print(f"{row.level:10} {row.kind:14} {of} {row.name}{note}: {row.change} | {row.said}", flush=True)
        if options.kept:
            with options.kept.open("a", encoding="utf-8") as file:
                print(json.dumps(asdict(row)), file=file)
    told = [row for row in kept_in(options.kept) if row.library == options.library] if options.kept else rows
    print(f"\n{options.library}\n{table(told, 'of')}\n\n{table(told, 'kind')}")
    times = sorted(row.seconds for row in told if row.level != "no patch")
    print(f"{times[len(times) // 2] if times else 0.0:.2f} s for a cell and the trials of its first finding (median)")


if __name__ == "__main__":
    main()
