"""``python -m tests.parity.opinfo [--drop] [NAME ...]``: what differs, in full, and which lines of tables are stale.

``--drop`` takes the stale lines out of the tables. NAME is an OpInfo's, or a pattern such as ``linalg.*``.
"""

from __future__ import annotations

import fnmatch
import sys
import warnings

import numpy as np
import torch

from . import checks, errors


def _drop(name: str, stale: set[str]) -> None:
    path = checks.HERE / name
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line.partition(": ")[0] not in stale))


def main(arguments: list[str]) -> None:
    names = [a for a in arguments if not a.startswith("-")] or ["*"]
    torch.set_num_threads(1)
    chosen = [i for i in checks.COUNTED if any(fnmatch.fnmatchcase(i.full_name, n) for n in names)]
    stale: set[str] = set()
    for info in chosen:
        found = checks.differences(info)
        for check, said in found.items():
            print("known" if f"{info.full_name} {check}" in checks.exceptions() else "NEW", info.full_name, check, said)
        stale |= {k for c in checks.CHECKS if (k := f"{info.full_name} {c}") in checks.exceptions() and c not in found}
    stale_errors: set[str] = set()
    for info in (i for i in chosen if i.error_inputs_func is not None):
        for key, sample, theirs in errors.examples(info):
            said = errors.difference(info, sample, theirs) or ""
            known = key in checks.error_exceptions()
            if said:
                print("known" if known else "NEW", "error", key, said)
            elif known:
                stale_errors.add(key)
    print(*(f"stale: {key}" for key in sorted(stale | stale_errors)), sep="\n")
    if "--drop" in arguments:
        _drop("exceptions.txt", stale)
        _drop("errors.txt", stale_errors)


if __name__ == "__main__":
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        main(sys.argv[1:])
