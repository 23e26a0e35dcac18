"""``python -m tests.lab.prove.figures [core|torch] [--kind KIND | --placebos N]``: how many remedies hold.

For each cell with one planted mistake: whether there is a patch for its first finding, and what its trial says.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict

from lab.prove.proving import Prover
from tests.lab.diagnose.planted import CELLS

from .cells import planted, text_of
from .placebos import placebos

LEVELS = ("proved", "consistent", "refuted", "untried", "no patch")


def outcome(name: str, library: str) -> tuple[str, str, str, str]:
    """The kind of a cell's first finding, the level of its remedy, what the verdict says, and what was changed."""
    text = text_of(name)
    with planted(text, library) as (record, snapshot):
        if not record.findings:
            return CELLS[name].kind, "no patch", "nothing was found", ""
        finding = record.findings[0]
        result = Prover(snapshot, text, record.wall_ms / 1e3).finding(finding)
    if result is None:
        return finding.kind, "no patch", finding.remedy, ""
    verdict, patch = result
    return finding.kind, verdict.level, verdict.said, patch.said


def accepted(name: str, library: str) -> tuple[int, list[str]]:
    """How many placebos of a cell were tried, and what is said of those that were accepted."""
    text, wrong, count = text_of(name), [], 0
    with planted(text, library) as (record, snapshot):
        prover = Prover(snapshot, text, record.wall_ms / 1e3)
        for finding in record.findings[:1]:
            for patch in placebos(text, finding.kind, finding.line):
                verdict = prover.one(finding.kind, patch)
                count += verdict.level != "untried"
                if verdict.level in ("proved", "consistent"):
                    wrong.append(f"{finding.kind} | {name} | {patch.said}: {verdict.level}, {verdict.said}")
    return count, wrong


def hollow(library: str, every: int) -> None:
    """Try placebos on every so many-th cell, and print those that are accepted."""
    total, wrong = 0, []
    for name in list(CELLS)[::every]:
        count, more = accepted(name, library)
        total, wrong = total + count, wrong + more
        print("".join(f"ACCEPTED {line}\n" for line in more), end="", flush=True)
    print(f"{library}: {total} patches that mend nothing were tried, {len(wrong)} of them accepted")


def main() -> None:
    """Try all, print each and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", default="core", choices=("core", "torch"))
    parser.add_argument("--kind")
    parser.add_argument("--placebos", type=int, metavar="N", help="patches that mend nothing, on every N-th cell")
    options = parser.parse_args()
    if options.placebos:
        hollow(options.library, options.placebos)
        return
    table: dict[str, Counter[str]] = defaultdict(Counter)
    times = []
    for name, cell in CELLS.items():
        if options.kind and cell.kind != options.kind:
            continue
        begin = time.perf_counter()
        kind, level, said, change = outcome(name, options.library)
        if level != "no patch":
            times.append(time.perf_counter() - begin)
        table[kind][level] += 1
        print(f"{level:10} {kind:14} {name}: {change} | {said}", flush=True)
    print(f"\n{'kind':16}{''.join(f'{level:>12}' for level in LEVELS)}")
    for kind in sorted(table):
        print(f"{kind:16}{''.join(f'{table[kind][level]:12}' for level in LEVELS)}")
    whole = sum(table.values(), Counter())
    print(f"{'all':16}{''.join(f'{whole[level]:12}' for level in LEVELS)}")
    tried = whole.total() - whole["no patch"]
    held = whole["proved"] + whole["consistent"]
    median = sorted(times)[len(times) // 2] if times else 0.0
    share = held / max(tried, 1)
    print(f"{options.library}: {tried} of {whole.total()} have a patch; {held} of them hold, {share:.1%}")
    print(f"{median:.2f} s for a cell and the trials of its first finding (median)")


if __name__ == "__main__":
    main()
