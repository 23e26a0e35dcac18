"""``python -m tests.lab.prove.figures [core|torch] [--kind KIND]``: how many remedies of the planted cells hold.

For each cell with one planted mistake: whether there is a patch for its first finding, and what its trial says.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict

from lab.prove.proving import Prover
from tests.lab.diagnose.planted import CELLS

from .cells import planted, text_of

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


def main() -> None:
    """Try all, print each and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", default="core", choices=("core", "torch"))
    parser.add_argument("--kind")
    options = parser.parse_args()
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
    print(f"{options.library}: {tried} of {whole.total()} have a patch; {held} of them hold, {held / max(tried, 1):.1%}; "
          f"median {sorted(times)[len(times) // 2] if times else 0:.2f} s a cell")  # fmt: skip


if __name__ == "__main__":
    main()
