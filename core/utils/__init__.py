"""PyTorch's ``utils``: data loading, checkpoints of activations; and runs that can be killed and go on."""

from __future__ import annotations

from . import checkpoint, data
from .resumable import Resumable

__all__ = ["Resumable", "checkpoint", "data"]
