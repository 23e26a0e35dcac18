"""The op that a cell stopped at, where it raised before it was dispatched, found in the traceback.

Dispatch tells of ops that fail in it. A function that refuses its arguments first (shapes that do not multiply, a
module's wrong input) is seen here: the innermost of its frames that is a function of ours with tensors for arguments.
"""

from __future__ import annotations

from inspect import CO_NEWLOCALS
from types import CodeType, FrameType, TracebackType
from typing import Any

from core.base.source import is_ours
from widgets.figures import count_text

from .cell_trace import Trace
from .observer import Recorder, given
from .tensor_types import TENSORS, seen
from .user_files import OURS

PASSING = {"__call__", "forward", "function", "wrapper", "inner"}
"""Names of functions that only pass a call on."""


def by_user(trace: Trace) -> None:
    """Note that the cell was stopped, where and after how much. From two steps on it is looked at as one that ended."""
    line = trace.error.line if trace.error is not None else None
    at = f" at line {line}" if line else ""
    steps, ops = trace.steps.count, sum(row.count for row in trace.rows if not row.cut)
    after = count_text(steps, "step") if steps else count_text(ops, "op") if ops else "nothing that is recorded"
    trace.stopped = f"Stopped by you{at} after {after}."
    if steps > 1:
        trace.error = None


def note(recorder: Recorder, error: BaseException | None) -> None:
    """Give the recording a row for the op that raised `error`, with what it read, unless it has one.

    An op in which the user stopped the cell did not fail.
    """
    trace = recorder.trace
    if not isinstance(error, Exception) or any(row.error for row in trace.rows):
        return
    place: tuple[CodeType, int] | None = None
    inputs: tuple[Any, ...] = ()
    frames: list[tuple[CodeType, int]] = []
    name, path = "", 0
    spaces: list[Any] = []
    tb: TracebackType | None = error.__traceback__
    while tb is not None:
        frame = tb.tb_frame
        code = frame.f_code
        if is_ours(code.co_filename):
            called = code.co_name
            if called == "__call__":
                path = recorder.fold.known_path(path, frame.f_locals.get("self"))
            public = called not in PASSING and (called.startswith("__") or called[0] not in "_<")
            found = _tensors(frame) if place is not None and public else ()
            if found:
                name, inputs = called.strip("_"), found
        elif not code.co_filename.startswith(OURS):
            place, name, inputs = (code, tb.tb_lasti), "", ()
            if not code.co_flags & CO_NEWLOCALS or code is recorder.fold.boundary:
                frames, spaces, path = [], [], 0  # what is around the cell
            frames.append(place)
            spaces.append(frame.f_locals)
        tb = tb.tb_next
    if place is None or not name:
        return
    recorder.fold.where = spaces
    try:
        row = recorder.fold.stopped(name, inputs, frames[::-1], path)
    finally:
        recorder.fold.where = []
    row.count, row.given = 1, given(inputs)
    row.error = f"{type(error).__name__}: {error}".splitlines()[0]


def _tensors(frame: FrameType) -> tuple[Any, ...]:
    """Return the tensors among a function's arguments."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
    found: list[Any] = []
    for argument in code.co_varnames[:count]:
        value = frame.f_locals.get(argument)
        for one in value[:16] if isinstance(value, list | tuple) else (value,):
            t = seen(one)
            if t is not None and isinstance(t, TENSORS):
                found.append(t)
    return tuple(found)
