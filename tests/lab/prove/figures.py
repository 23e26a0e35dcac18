"""``python -m tests.lab.prove.figures [core|torch] [--kind KIND | --trials SET]``: how many remedies hold.

For each cell with one planted mistake, or each broken case of a blind set that is sealed no more: whether there is a
patch for its first finding, and what its trial says. All of them take hours: `--sample N` takes N of them, drawn with
the set's number as seed, `--kept FILE` writes each outcome as a line of JSON and goes on where the file ends, `--most
N` stops after N cells, and `--most 0` sums up what the file has.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lab.prove import proving
from lab.prove.choices import choice
from lab.prove.proving import Prover, alone_s
from lab.prove.snapshot import Scene, Snapshot
from tests.lab.diagnose.planted import CELLS
from tests.trials import __main__ as trials
from widgets.record import Record

from .cells import planted, recorded, text_of

LEVELS = ("proved", "consistent", "unknown", "refuted", "untried", "no patch")


# Runs in the folder of a case of a blind set, after the cells before its last.
_LAST = f"""{trials.BEFORE}
from tests.lab.prove.figures import of_case
Path(out).write_text(json.dumps(of_case(cells[-1].read_text(), vars(module))))
"""
OPEN = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)  # blind sets that were scored, so that anybody may read them


def patient(times: float) -> None:
    """Give each trial so many times its time, here and in the processes that run cases."""
    os.environ["GRADLAB_PATIENCE"] = str(times)
    proving.LEAST_S, proving.MOST_S, proving.BUDGET_S = (
        times * s for s in (proving.LEAST_S, proving.MOST_S, proving.BUDGET_S)
    )
    trials.LIMIT *= times


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


def cells(library: str, kind: str | None, done: set[str], sample: int | None) -> Iterator[Row]:
    """Each planted cell that is not done, with what came of its remedy."""
    for name in drawn([name for name, cell in CELLS.items() if kind in (None, cell.kind)], 0, sample):
        if name not in done:
            text, begin = text_of(name), time.perf_counter()
            with planted(text, library) as (record, snapshot):
                found = first_remedy(record, snapshot, text)
            yield Row(library, "planted", name, *found, seconds=time.perf_counter() - begin)


def drawn(names: list[str], seed: int, sample: int | None) -> list[str]:
    """Draw so many names by a seed, the first of which a larger sample has too; without one, all as they are."""
    return names if sample is None else random.Random(seed).sample(names, len(names))[:sample]


def broken(number: int, sample: int | None = None) -> list[str]:
    """Return the names of the broken cases of a blind set, or of a sample of them."""
    answers = json.loads((trials.HERE / f"set{number}.json").read_text(encoding="utf-8"))
    return drawn([case for case in trials.cases(number) if answers[case]["kind"] != "healthy"], number, sample)


def cases(number: int, library: str, done: set[str], sample: int | None) -> Iterator[Row]:
    """Broken cases of a blind set that are open and not done, with where the first finding points."""
    answers = json.loads((trials.HERE / f"set{number}.json").read_text(encoding="utf-8"))
    found = trials.cases(number)
    for case in broken(number, sample):
        if case not in done:
            answer, files, begin = answers[case], found[case], time.perf_counter()
            told = trials.run(files, library, _LAST)
            watched = max((file for file in files if file.startswith("cell")), key=lambda file: int(file[4:-3]))
            points = "failed" if "failed" in told else trials.judged(answer, told["findings"], watched)
            kind, level, said, change = told.get("remedy", ("-", "untried", told.get("failed", ""), ""))
            note, seconds = f"{answer['kind']}, {points}", time.perf_counter() - begin
            yield Row(library, f"set {number}", case, kind, level, said, change, note, seconds)


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
    kind               proved consistent   unknown   refuted   untried  no patch  a choice of tried   of all but choices
    -                       0          0         0         0         0         0         0     0.0%     0.0%        0.0%
    nan                     1          0         0         0         0         0         0   100.0%   100.0%      100.0%
    all                     1          0         0         0         0         0         0   100.0%   100.0%      100.0%
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        chosen = row.level == "no patch" and choice(row.said)
        counts[getattr(row, by)]["a choice" if chosen else row.level if row.kind != "-" else ""] += 1
    named = {**dict(sorted(counts.items())), "all": sum(counts.values(), Counter())}
    heads = {head: max(10, len(head) + 1) for head in (*LEVELS, "a choice")}
    lines = [f"{by:15}{''.join(f'{head:>{wide}}' for head, wide in heads.items())} of tried   of all but choices"]
    for name, count in named.items():
        held, all_of_them = count["proved"] + count["consistent"], count.total() - count[""]
        outs = count["no patch"] + count["a choice"], 0, count["a choice"]
        shares = [f"{held / max(all_of_them - out, 1):.1%}" for out in outs]
        figures = [f"{count[head]:{wide}}" for head, wide in heads.items()]
        lines.append(f"{name:15}{''.join(figures)}{shares[0]:>9}{shares[1]:>9}{shares[2]:>12}")
    return "\n".join(lines)


def main() -> None:
    """Try all, print each and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", default="core", choices=("core", "torch"))
    parser.add_argument("--kind")
    parser.add_argument("--trials", type=int, choices=OPEN, metavar="SET", help="a blind set's broken cases instead")
    parser.add_argument("--patience", type=float, default=1.0, help="times the limits of time: the machine is busy")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, drawn by chance")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="lines of JSON that this run reads and goes on with")
    parser.add_argument("--most", type=int, metavar="N", help="stop after so many cells; 0: sum up what is kept")
    options = parser.parse_args()
    patient(options.patience)
    kept = kept_in(options.kept)
    of = f"set {options.trials}" if options.trials else "planted"
    done = {row.name for row in kept if (row.library, row.of) == (options.library, of)}
    if options.trials:
        source = cases(options.trials, options.library, done, options.sample)
    else:
        source = cells(options.library, options.kind, done, options.sample)
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
