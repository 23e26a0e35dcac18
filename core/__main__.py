"""``python -m core``: where gradlab's packages are, and what hides them, 1 where something does; ``python -m core run
script.py`` and ``run -m package``: a program for PyTorch on core."""

from __future__ import annotations

import sys

from . import alias
from .base.shadowing import PACKAGES, found, hidden


def main(argv: list[str] | None = None) -> int:
    """Print a line for each package, or run the program that is named after ``run``."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["run"]:
        alias.run(given[1:])
        return 0
    told = [(name, hidden(name)) for name in PACKAGES]
    for name, said in told:
        print(f"✕ {name}: {said}" if said else f"✓ {name}  {found(name) or 'is not installed'}")
    return int(any(said for _, said in told))


if __name__ == "__main__":
    sys.exit(main())
