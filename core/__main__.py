"""``python -m core``: where gradlab's packages are, and what hides them; 1 where something does."""

from __future__ import annotations

import sys

from .base.shadowing import PACKAGES, found, hidden


def main() -> int:
    """Print a line for each package."""
    told = [(name, hidden(name)) for name in PACKAGES]
    for name, said in told:
        print(f"✕ {name}: {said}" if said else f"✓ {name}  {found(name) or 'is not installed'}")
    return int(any(said for _, said in told))


if __name__ == "__main__":
    sys.exit(main())
