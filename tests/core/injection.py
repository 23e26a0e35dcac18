"""An exception at every place where Python may hear a signal: as a function in Python begins, and as one in C returns.

Python looks for signals there (and at the end of a loop's turn, which lies between two such places wherever the loop
calls anything). A profiler is called at just these places, and what it raises comes out there, as Ctrl-C does.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from inspect import CO_GENERATOR
from typing import Any


def _hears(frame: Any, event: str) -> bool:
    """Whether Python looks for signals here. It does not where a generator is closed, which cannot be told from where
    it goes on: for the latter, the places around it stand."""
    return event == "c_return" or (event == "call" and not frame.f_code.co_flags & CO_GENERATOR)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C of a test's own, so that nobody takes it for the user's."""


def places(operation: Callable[[], Any]) -> int:
    """How many such places an operation passes."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += _hears(frame, event)

    gc.collect()
    gc.disable()  # finalizers of earlier tests would be places of this one
    sys.setprofile(profile)
    try:
        operation()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def interrupted_at(place: int, operation: Callable[[], Any]) -> BaseException | None:
    """What comes out of the operation when Ctrl-C comes at a place; None where nothing does."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        if _hears(frame, event):
            count += 1
            if count == place:
                raise Interrupted(f"place {place}: {event} {arg or frame.f_code.co_qualname}, in {_where(frame)}")

    gc.disable()
    sys.setprofile(profile)  # one that raised is not called again
    try:
        operation()
    except Interrupted as error:
        return error.with_traceback(None)
    finally:
        sys.setprofile(None)
        gc.enable()
    return None


def _where(frame: Any) -> str:
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
