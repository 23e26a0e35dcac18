"""Print the table of layers, losses, optimizers and schedules beside PyTorch's, and what is missing."""

from __future__ import annotations

import argparse
import sys

import core

from . import rows
from .compare import CHECKS, differences


def there(kind: str, name: str) -> bool:
    """Whether `core` has a class."""
    schedules = [core.optim.lr_scheduler, getattr(core.optim, "swa_utils", None)]
    homes = {"layers": [core.nn], "optimizers": [core.optim], "schedulers": schedules}
    return any(hasattr(home, name) for home in homes[kind])


def table(kind: str, names: list[str]) -> tuple[int, int, list[str]]:
    """Print one kind's table; the rows that agree, all rows, and the differences in words."""
    chosen = [r for r in rows.rows(kind) if not names or any(n.lower() in r.text.lower() for n in names)]
    if not chosen:
        return 0, 0, []
    checks = list(CHECKS[kind])
    print(f"\n{kind:58}" + "".join(f"{c:>20}" for c in checks))
    right, said = 0, []
    for row in chosen:
        if not there(kind, row.name):
            print(f"  {row.text[:56]:56}" + f"{'missing':>20}")
            said.append(f"{row.text}: missing")
            continue
        found = differences(row)
        right += not any(found.values())
        said += [f"{row.text}: {check}: {what}" for check, what in found.items() if what]
        print(f"  {row.text[:56]:56}" + "".join(f"{'DIFFERS' if found[c] else 'same':>20}" for c in checks), flush=True)
    return right, len(chosen), said


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.blocks", description=__doc__)
    parser.add_argument("names", nargs="*", help="only the rows that contain one of these")
    options = parser.parse_args()
    right = total = 0
    said: list[str] = []
    for kind in rows.KINDS:
        found = table(kind, options.names)
        right, total, said = right + found[0], total + found[1], said + found[2]
    covered = {r.name for kind in rows.KINDS for r in rows.rows(kind)}
    bare = [n for kind in rows.KINDS for n in rows.public(kind) if n not in covered and n not in rows.left_out()]
    missing = [n for kind in rows.KINDS for n in rows.public(kind) if not there(kind, n)]
    print("\n" + "\n".join(said) if said else "")
    print(f"missing in core: {', '.join(missing) or 'nothing'}")
    print(f"without a row: {', '.join(bare) or 'nothing'}; left out with a reason: {', '.join(rows.left_out())}")
    print(f"{right} of {total} rows agree with PyTorch in every check")
    return int(right < total or bool(bare))


if __name__ == "__main__":
    sys.exit(main())
