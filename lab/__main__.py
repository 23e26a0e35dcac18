"""The command line: ``python -m lab COMMAND``; lab/console/commands.py has the commands."""

from __future__ import annotations

import sys

from core.base import shadowing

from .console.commands import COMMANDS
from .console.options import meant

USAGE = "usage: python -m lab COMMAND [options]\n\n" + "\n".join(
    f"  {name:8} {command.what}" for name, command in COMMANDS.items()
)


def main(argv: list[str]) -> int:
    """Run a command; 2 for one that does not exist."""
    if argv[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if not argv or argv[0] not in COMMANDS:
        came = f"unknown command {argv[0]!r}{meant(argv[0], COMMANDS)}" if argv else "a command is needed"
        print(f"python -m lab: {came}\n\n{USAGE}", file=sys.stderr)
        return 2
    if argv[0] == "tune" and (said := shadowing.hidden("triton_kernels")):
        print(f"python -m lab tune: {said}", file=sys.stderr)
        return 2
    try:
        found = COMMANDS[argv[0]].load()
    except ImportError as error:
        if not COMMANDS[argv[0]].optional:
            raise
        print(f"python -m lab {argv[0]}: {error}", file=sys.stderr)  # which says which extra is missing
        return 2
    return int(found.main(argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
