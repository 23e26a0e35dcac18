"""How it was built, in words: what programs that print their surroundings ask for."""

from __future__ import annotations

import platform

import numpy as np

from . import native
from .ops.queries import get_num_threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return what it was built with. There is no MKL and no cuDNN: the kernels are its own."""
    made = "with" if native.module is not None else "without"
    lines = [f"gradlab, {made} its C kernels", f"  - Python {platform.python_version()}, NumPy {np.__version__}"]
    return "\n".join([*lines, "  - USE_MKL=OFF"])


def parallel_info() -> str:
    """Return how many threads the kernels use."""
    return f"core.get_num_threads() : {get_num_threads()}"
