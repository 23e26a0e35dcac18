"""Timings alone on their device: tuners of this user's take turns, in however many processes and notebooks they run.

Whoever times holds a file's lock alone; whoever compiles or checks shares it. One that cannot be had in time is done
without: configs are timed in turn with others, and what disturbs one disturbs all.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from . import places

PATIENCE_S = 3.0
_ALONE = ("pairs", "rounds", "energy")


@contextlib.contextmanager
def turn(kind: str, method: str, stopping: threading.Event | None = None) -> Iterator[bool]:
    """Hold the device of a kind of measure for one of its methods; whether the lock was had.

    >>> with turn("cpu", "pairs") as first:
    ...     first
    True
    >>> with turn("replay", "pairs") as needless:
    ...     needless
    False
    """
    path = None
    if kind in ("cpu", "cuda"):
        with contextlib.suppress(OSError, RuntimeError):
            path = lock_file(kind)
    if path is None:
        yield False
        return
    with places.locked(path, PATIENCE_S, method in _ALONE, stopping) as held:
        yield held


def lock_file(kind: str) -> Path:
    """Return the file that stands for a device of this machine: the processor, or the GPU that this process sees
    first."""
    name = "cpu" if kind == "cpu" else f"gpu-{os.environ.get('CUDA_VISIBLE_DEVICES', '0').split(',')[0] or '0'}"
    return places.temporary_folder() / f"{name.replace('/', '_')}.lock"
