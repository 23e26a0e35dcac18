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


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return whether this is such a version of macOS with that GPU: never."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Return whether this is such a version of macOS with that GPU: never."""
    return False
