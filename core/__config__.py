"""How core was built, by PyTorch's path ``torch.__config__``."""

from __future__ import annotations

import platform

from . import native
from .ops.queries import get_num_threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return in lines what the kernels are.

    >>> import core
    >>> core.__config__.show().splitlines()[0]
    'core built with:'
    """
    kernels = "C" if native.module is not None else "none: NumPy computes"
    return f"core built with:\n  - kernels: {kernels}\n  - machine: {platform.machine()}\n"


def parallel_info() -> str:
    """Return in a line how many threads the kernels use."""
    return f"core's threads: {get_num_threads()}\n"
