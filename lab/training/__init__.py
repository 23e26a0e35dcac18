"""The training helper: `lab.fit` and the history it returns."""

from __future__ import annotations

from .call import fit
from .history import Epoch, History, Plot

__all__ = ["Epoch", "History", "Plot", "fit"]
