"""``python -m tests.lab.prove.hollow [core|torch] [--trials SET [--kind slow]] [--elsewhere]``: are placebos accepted?

Patches that mend nothing, or only hide, of planted cells or of the broken cases of a blind set that is sealed no more.
None may be accepted, on a busy machine neither. `--sample`, `--kept` and `--most` are those of `figures`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from lab.prove.cell import Patch
from lab.prove.elsewhere import further, place_of
from lab.prove.proving import Prover, alone_s
from lab.prove.snapshot import Scene, Snapshot
from tests.lab.diagnose.planted import CELLS
from tests.trials import __main__ as trials
from widgets.record import Record

from .cells import in_two, planted, planted_in_two, recorded, text_of
from .figures import OPEN, broken, drawn, patient
from .placebos import elsewhere, placebos

Tried = list[list[str]]  # of each patch the finding's kind, what it does, the level and what is said
ACCEPTED = ("proved", "consistent")
_LAST = f"""{trials.BEFORE}
from tests.lab.prove.hollow import of_case
Path(out).write_text(json.dumps(of_case(cells[-1].read_text(), vars(module))))
"""


def tried(record: Record, snapshot: Snapshot, text: str, patches: Iterable[Patch] | None = None) -> Tried:
    """Try placebos for the first finding of a cell, its own or those that are given."""
    if not record.findings:
        return []
    first, prover = record.findings[0], Prover(snapshot, text, alone_s(record))
    out = []
    for patch in placebos(text, first.kind, first.line) if patches is None else patches:
        prover.begin()
        verdict = prover.one(first.kind, patch)
        out.append([first.kind, patch.said, verdict.level, verdict.said])
    return out


def of_case(text: str, space: dict[str, Any]) -> dict[str, Any]:
    """The last cell of a case."""
    patient(float(os.environ["GRADLAB_PATIENCE"]))
    snapshot = Snapshot(Scene(space))
    told = tried(recorded(text, space), snapshot, text)
    snapshot.close()
    return {"tried": told}


def of_cell(name: str, library: str) -> Tried:
    """A planted cell."""
    text = text_of(name)
    with planted(text, library) as (record, snapshot):
        return tried(record, snapshot, text)


def of_earlier(name: str, library: str) -> Tried:
    """What made the model of a planted cell, where the finding names a line of it."""
    text = text_of(name)
    if in_two(text) is None:
        return []
    with planted_in_two(text, library) as (record, snapshot, cell):
        if not record.findings:
            return []
        first = record.findings[0]
        place = next((place for place in (place_of(first), *further(first)) if place is not None), None)
        if place is None:
            return []
        found = elsewhere(place.text, first.kind, place.line)
        there = (replace(patch, file=place.file, name=place.name, was=place.text) for patch in found)
        return tried(record, snapshot, cell, there)


def rows(options: argparse.Namespace, of: str, done: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """What came of the placebos of each cell that is not done."""
    if options.trials:
        answers = json.loads((trials.HERE / f"{of.replace(' ', '')}.json").read_text(encoding="utf-8"))
        kinds = {name: answers[name]["kind"] for name in broken(options.trials)}
    else:
        kinds = {name: cell.kind for name, cell in CELLS.items()}
    names = [name for name, kind in kinds.items() if options.kind in (None, kind)]
    for name in drawn(names, options.trials or 0, options.sample):
        if (of, name) not in done:
            if options.trials:
                told = trials.run(trials.cases(options.trials)[name], options.library, _LAST).get("tried", [])
            else:
                told = (of_earlier if options.elsewhere else of_cell)(name, options.library)
            yield {"library": options.library, "of": of, "name": name, "tried": told}


def main() -> None:
    """Try them, print what is accepted, and how many were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", default="core", choices=("core", "torch"))
    parser.add_argument("--trials", type=int, choices=OPEN, metavar="SET", help="a blind set's broken cases instead")
    parser.add_argument("--kind", help="of findings; of a blind set slow, numerical or mistake")
    parser.add_argument("--elsewhere", action="store_true", help="patches of an earlier cell instead of the cell's own")
    parser.add_argument("--sample", type=int, metavar="N", help="so many cells, drawn by chance")
    parser.add_argument("--patience", type=float, default=1.0, help="times the limits of time: the machine is busy")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="lines of JSON that this run reads and goes on with")
    parser.add_argument("--most", type=int, metavar="N", help="stop after so many cells; 0: sum up what is kept")
    options = parser.parse_args()
    patient(options.patience)
    kept = options.kept.read_text(encoding="utf-8").splitlines() if options.kept and options.kept.exists() else []
    told = [row for row in map(json.loads, kept) if row["library"] == options.library]
    of = f"set {options.trials}" if options.trials else "elsewhere" if options.elsewhere else "planted"
    for row in islice(rows(options, of, {(row["of"], row["name"]) for row in told}), options.most):
        told.append(row)
        print(f"{of} {row['name']}: {dict(Counter(level for _, _, level, _ in row['tried']))}", flush=True)
        if options.kept:
            with options.kept.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)
    counts = Counter(level for row in told for _, _, level, _ in row["tried"])
    for row in told:
        for kind, patch, level, said in row["tried"]:
            if level in ACCEPTED:
                print(f"ACCEPTED {kind} | {row['of']} {row['name']} | {patch}: {level}, {said}")
    total, wrong = counts.total() - counts["untried"], sum(counts[level] for level in ACCEPTED)
    print(f"{options.library}: {total} patches that mend nothing were tried, {wrong} of them accepted: {dict(counts)}")


if __name__ == "__main__":
    main()
