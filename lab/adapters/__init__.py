"""Adapters: what other libraries do, told to the recorder as core's own events; the user's code stays as it is."""

from __future__ import annotations

import sys
from typing import Any

from core.base.pytorch import pytorch


def watches(recorder: Any) -> list[Any]:
    """Return an adapter for every library that the session has imported, not yet started."""
    library = _torch()
    if library is None:
        return []
    from .torch import Watch

    return [Watch(recorder, library)]


def marks(told: Any) -> list[Any]:
    """Return, for every library that the session has imported, what tells how a loop goes on while nobody listens; not
    yet started."""
    library = _torch()
    if library is None:
        return []
    from .torch_marks import TorchMarks

    return [TorchMarks(told, library)]


def followers(course: Any) -> list[Any]:
    """Return what tells a course of a library's steps, for every one that the session has imported, not yet started."""
    library = _torch()
    if library is None or "torch.optim.optimizer" not in sys.modules:
        return []
    from .torch_course import Ear

    return [Ear(course, library)]


def _torch() -> Any:
    """Return PyTorch where it is imported, and all of it."""
    library = pytorch()
    return library if hasattr(library, "overrides") and hasattr(library, "autograd") else None
