"""Apple's GPU, as programs ask for it: there is no such device here.

>>> import core
>>> "mps" if core.backends.mps.is_available() else "cpu"
'cpu'
"""

from __future__ import annotations


def is_available() -> bool:
    """Return whether tensors can live on `mps`: never."""
    return False


def is_built() -> bool:
    """Return whether this was built with `mps`: no."""
    return False
