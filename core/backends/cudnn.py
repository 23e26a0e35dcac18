"""PyTorch's settings of cuDNN, for programs that make them. There is no cuDNN here: they are kept and change nothing.

The kernels of `cuda` are Triton's, and one seed gives one result with any of these.

>>> import core
>>> core.backends.cudnn.benchmark = True
>>> core.backends.cudnn.is_available()
False
"""

from __future__ import annotations

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return whether cuDNN is there: never."""
    return False


def version() -> int | None:
    """Return the version of cuDNN: None, as there is none."""
    return None
