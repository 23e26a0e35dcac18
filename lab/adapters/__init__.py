"""Adapters: what other libraries do, told to the recorder as core's own events; the user's code stays as it is."""

from __future__ import annotations

import sys
from typing import Any


def watches(recorder: Any) -> list[Any]:
    """Return an adapter for every library that the session has imported, not yet started."""
    found = []
    library = sys.modules.get("torch")
    if library is not None and hasattr(library, "overrides") and hasattr(library, "autograd"):
        from .torch import Watch

        found.append(Watch(recorder, library))
    return found


def followers(course: Any) -> list[Any]:
    """Return what tells a course of a library's steps, for every one that the session has imported, not yet started."""
    library = sys.modules.get("torch")
    if library is None or not hasattr(library, "autograd") or "torch.optim.optimizer" not in sys.modules:
        return []
    from .torch_course import Ear

    return [Ear(course, library)]
