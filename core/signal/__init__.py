"""Signal processing by `torch.signal`'s names.

>>> import core
>>> core.signal.windows.bartlett(3)
tensor([0., 1., 0.])
"""

from __future__ import annotations

from . import windows

__all__ = ["windows"]
