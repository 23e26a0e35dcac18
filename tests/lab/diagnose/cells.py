"""The cells of the files cells_*.py, which the shared tests run: a finding's mistakes and what comes close to them.

Such a file has `PLANTED`, by name the cells in which the finding must come first (test_planted.py, test_sentences.py),
and `HEALTHY`, by name those in which nothing is found (test_healthy.py); either may be missing.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any


def gathered(kind: str) -> dict[str, Any]:
    """The cells that the files have under this name, `PLANTED` or `HEALTHY`. No two may bear one name."""
    found: dict[str, Any] = {}
    for path in sorted(Path(__file__).parent.glob("cells_*.py")):
        cells = getattr(importlib.import_module(f".{path.stem}", __package__), kind, {})
        assert not found.keys() & cells.keys(), f"{path.name} has a cell of a name that another file's has"
        found |= cells
    return found
