"""Which GPU is the current one, and doing a piece of work on another; with one GPU all of it costs a test."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np

from ... import backends
from ...base.device import device as Device
from .shared import array_library, availability

_STAY: AbstractContextManager[Any] = nullcontext()
when_several: list[Callable[[], None]] = []  # called once where there is more than one GPU


@cache
def count() -> int:
    """Return how many devices there are; one under the interpreter."""
    if not availability()[0]:
        return 0
    xp = array_library()
    found = 1 if xp is np else int(xp.cuda.runtime.getDeviceCount())
    if found > 1:
        backends.many = True
        for prepare in when_several:
            prepare()
    return found


def current() -> int:
    """Return the index of the current device, where new arrays are made."""
    xp = array_library()
    return 0 if xp is np else int(xp.cuda.runtime.getDevice())


def make_current(index: int) -> None:
    """Make arrays and streams on this device from now on."""
    xp = array_library()
    if xp is not np:
        xp.cuda.runtime.setDevice(index)


class _On:
    """The current device is another one in the block."""

    __slots__ = ("before", "index")

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None:
        self.before = current()
        make_current(self.index)

    def __exit__(self, *error: object) -> None:
        make_current(self.before)


def on(where: Device) -> AbstractContextManager[Any]:
    """Return a block whose arrays and kernels are on `where`; nothing to do for the CPU, and where there is but one
    GPU."""
    if where.index is None or count() < 2 or current() == where.index:
        return _STAY
    return _On(where.index)


def guarded(run: Any, where: Device) -> Any:
    """`run` with `where` the current device; `run` itself where there is but one GPU."""
    if count() < 2:
        return run

    def there(*args: Any, **kwargs: Any) -> Any:
        with on(where):
            return run(*args, **kwargs)

    return there
