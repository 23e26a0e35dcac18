"""PyTorch's ``utils``: data loading, checkpoints of activations."""

from __future__ import annotations

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
