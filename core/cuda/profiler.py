"""NVIDIA's profiler switched on and off by the program, through CuPy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..base.errors import text
from .devices import library

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Let NVIDIA's profiler record. *Raises*: RuntimeError where there is no GPU."""
    cupy = library()
    if cupy is None:
        raise RuntimeError(text("there is no GPU here", op="cuda.profiler.start", remedy="core.profiler.profile()"))
    cupy.cuda.runtime.profilerStart()


def stop() -> None:
    """Let it record no more. *Raises*: RuntimeError where there is no GPU."""
    cupy = library()
    if cupy is None:
        raise RuntimeError(text("there is no GPU here", op="cuda.profiler.stop", remedy="core.profiler.profile()"))
    cupy.cuda.runtime.profilerStop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A block that NVIDIA's profiler records. *Raises*: RuntimeError where there is no GPU."""
    start()
    try:
        yield
    finally:
        stop()
