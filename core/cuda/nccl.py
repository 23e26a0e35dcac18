"""NVIDIA's library of collectives: one process on one GPU needs none, and its version is asked all the same."""

from __future__ import annotations

from typing import Any

from ..base.errors import text
from .devices import library

__all__ = ["is_available", "version"]


def is_available(tensors: Any = ()) -> bool:
    """Return whether tensors could be sent through it: no, there is one process."""
    return False


def version() -> tuple[int, int, int]:
    """Return the version of the library that CuPy has. *Raises*: RuntimeError where there is no GPU."""
    cupy = library()
    found = None if cupy is None else getattr(cupy.cuda, "nccl", None)
    if found is None:
        raise RuntimeError(text("NCCL is not here", op="cuda.nccl.version", needed="a GPU and CuPy with NCCL"))
    n = int(found.get_version())
    return n // 10000, n // 100 % 100, n % 100
