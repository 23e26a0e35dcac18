"""PyTorch's mark of what it keeps from version to version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compatibility"]


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """Return a decorator that leaves what it is given as it is."""
    return lambda fn: fn
