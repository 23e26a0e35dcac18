"""PyTorch's ``utils``: data loading and checkpointing."""

from __future__ import annotations

from . import data

__all__ = ["data"]
