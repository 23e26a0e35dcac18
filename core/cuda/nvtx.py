"""Marks and ranges in the time lines of NVIDIA's profilers, through CuPy; RuntimeError where there is no GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..base.errors import text
from .devices import library

__all__ = ["mark", "range", "range_pop", "range_push"]


def _nvtx(op: str) -> Any:
    cupy = library()
    if cupy is None:
        raise RuntimeError(text("NVTX functions not installed. Are you sure you have a CUDA build?",
                                op=f"cuda.nvtx.{op}", needed="a GPU and CuPy",
                                remedy="core.profiler.record_function(name)"))  # fmt: skip
    return cupy.cuda.nvtx


_depth = 0


def range_push(msg: str) -> int:
    """Begin a range; return how many were begun before and not ended."""
    global _depth
    _nvtx("range_push").RangePush(msg)
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """End the range that was begun last; return how many are left."""
    global _depth
    _nvtx("range_pop").RangePop()
    _depth -= 1
    return _depth


def mark(msg: str) -> None:
    """Mark a moment."""
    _nvtx("mark").Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block that is a range, named by ``msg.format(*args, **kwargs)``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
