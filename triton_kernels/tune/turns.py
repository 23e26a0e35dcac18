"""Timings alone on their device: tuners of this user's take turns, in however many processes and notebooks they run.

Whoever times holds a file's lock alone; whoever compiles or checks shares it. The kernel of the system gives a lock
back when its process dies. One that cannot be had in time is done without: configs are timed in turn with others, and
what disturbs one disturbs all.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from . import places

PATIENCE_S = 3.0
_LOOK_S = 0.003
_ALONE = ("pairs", "rounds")


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
    with contextlib.ExitStack() as stack:
        held = False
        if kind in ("cpu", "cuda"):
            with contextlib.suppress(OSError, RuntimeError):
                file = stack.enter_context(open(os.open(lock_file(kind), os.O_RDWR | os.O_CREAT, 0o600)))
                held = _locked(file.fileno(), method in _ALONE, stopping)
        yield held


def _locked(descriptor: int, alone: bool, stopping: threading.Event | None) -> bool:
    """Wait for a lock, as long as there is patience and nobody stops it."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until or (stopping is not None and stopping.is_set()):
                return False
            time.sleep(_LOOK_S)


def lock_file(kind: str) -> Path:
    """The file that stands for a device of this machine: the processor, or the GPU that this process sees first."""
    name = "cpu" if kind == "cpu" else f"gpu-{os.environ.get('CUDA_VISIBLE_DEVICES', '0').split(',')[0] or '0'}"
    return places.private(Path(tempfile.gettempdir()) / f"gradlab-{os.getuid()}") / f"{name.replace('/', '_')}.lock"
