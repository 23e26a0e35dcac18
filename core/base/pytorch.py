"""PyTorch beside core, in a session that has imported both."""

from __future__ import annotations

import sys
from typing import Any


def pytorch() -> Any:
    """Return PyTorch's module; None where nobody has imported it, or where that name is core's (`core.as_torch`)."""
    found = sys.modules.get("torch")
    return None if found is None or "__stands_for__" in vars(found) else found


def libraries() -> list[Any]:
    """Return PyTorch's module and core's, those of them that are imported."""
    return [library for library in (pytorch(), sys.modules.get("core")) if library is not None]
