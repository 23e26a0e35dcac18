"""The command: ``python -m tests.differential [--torch] [--programs FOLDER ...] [--only PATTERN] [--list]``."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from .harness import Harness
from .programs import collect


def main() -> int:
    """Run all programs; 1 if a recorded run differed from a plain one."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--torch", action="store_true", help="on PyTorch instead of core")
    parser.add_argument("--programs", type=Path, action="append", default=[], help="programs from elsewhere, not ours")
    parser.add_argument("--path", type=Path, help="a folder of packages that these programs import")
    parser.add_argument("--only", default="", help="programs whose name matches this pattern")
    parser.add_argument("--ways", default="", help="of cell, script and block, these alone")
    parser.add_argument("--list", action="store_true", help="name the programs and run none")
    parser.add_argument("--plain", action="store_true", help="run without recording alone, and say how each ends")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a run may take")
    options = parser.parse_args()
    package = "torch" if options.torch else "core"
    programs = [p for p in collect(package, options.programs) if re.search(options.only, p.name)]
    if options.list:
        print(*(program.name for program in programs), sep="\n")
        return 0
    ways = set(options.ways.split()) if options.ways else None
    with Harness(package, options.path, options.limit) as harness:
        for program in programs:
            if options.plain:
                print(f"{program.name}: {harness.alone(program)}", flush=True)
                continue
            for verdict in harness.verdicts(program, ways):
                print(verdict, flush=True)
        if not options.plain:
            print(harness.summary())
    return int(bool(harness.different))


if __name__ == "__main__":
    sys.exit(main())
