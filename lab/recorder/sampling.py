"""Where a cell's time goes between its ops: every few milliseconds the cell's stack is sampled.

Ops are timed by themselves. What runs between them (a data loader, a file, a loop in Python) tells nobody, and timing
every line would cost more than it shows.

The samples are taken by a thread of C (core/native/sampler), which needs no GIL: a sample falls on every line as often
as time passes there. Where Python's frames are not known to it (another system than Linux, another version of Python,
no C extension), a thread of Python's takes them: it gets the GIL where the cell gives it up, so that lines which keep
it are seen too rarely. On a busy machine a thread also stands in the queue for a processor. That is no wait of the
cell's, so Linux is asked how long it was (`schedstat`); elsewhere nobody tells, and it counts as the line's.
"""

from __future__ import annotations

import dis
import os
import sys
import threading
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

from core import native
from core.events import observe

from .cell_trace import Trace
from .loaded_states import Loads
from .loader_waits import Fetches
from .places import Places

FIRST, LATER, SHARE = 0.002, 0.01, 0.03  # seconds between samples: at first, at last; between, of the time so far
SOON = 0.0005  # a sample that comes so soon found the cell waiting; a late one made it give way
STALE = 1_000_000  # ns for which the cell or the sampling thread got no processor
IDLE = 0.2  # share of the time between two samples: a cell that ran for less of it waited
C_FIRST, C_LATER = 0.002, 0.003  # the same of C's: in the first second, then; each costs some 50 µs of a processor
C_SELDOM = 0.02  # where the recording is to cost hardly anything
TAKES, TAKES_LATER = 0.05, 0.1  # seconds after which its samples are noted: the cell waits for the GIL meanwhile
TAKES_SELDOM = 0.5  # of those that are seldom
DEEP = 512  # code and instruction of 256 frames
_NEXT = {dis.opmap[name] for name in ("FOR_ITER", "SEND") if name in dis.opmap}


class Queue:
    """How long the thread that made it ran, and stood in the queue for a processor, in ns; 0 where nobody tells."""

    def __init__(self) -> None:
        self._file, self._before = -1, (0, 0)
        try:
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return
        self.since()

    def since(self) -> tuple[int, int]:
        """Both, since the last time it was asked."""
        if self._file < 0:
            return 0, 0
        try:
            ran, stood, _ = map(int, os.pread(self._file, 99, 0).split())
        except (OSError, ValueError):
            return 0, 0
        before, self._before = self._before, (ran, stood)
        return max(ran - before[0], 0), max(stood - before[1], 0)

    def close(self) -> None:
        """Ask no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Sampler:
    """Samples one thread, the one that made it, and notes in `trace.samples` where it was and for how long."""

    def __init__(self, trace: Trace, boundary: CodeType | None = None, seldom: bool = False) -> None:
        self.trace, self._places = trace, Places(trace, boundary)
        self._later, self._takes = (C_SELDOM, TAKES_SELDOM) if seldom else (C_LATER, TAKES_LATER)
        self._stack_sampler: Any = None
        self._who, self._queue = threading.get_ident(), Queue()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._fetches: Fetches | None = None
        self._loads: Loads | None = None
        self.error: Exception | None = None  # what ended the sampling before its time

    def start(self) -> None:
        """Begin to sample."""
        recorder = next((o for o in observe.observers if getattr(o, "trace", None) is self.trace), None)
        if recorder is not None:
            clock, total = Queue(), [0]

            def starved() -> int:
                total[0] += clock.since()[1]
                return total[0]

            self._fetches = Fetches(recorder, starved, clock.close)
            self._fetches.start()
            self._loads = Loads(recorder)
            self._loads.start()
        self._stack_sampler = _stack_sampler(self._later)
        self.trace.steps.told = self._stack_sampler
        self._thread = threading.Thread(target=self._watch, name="gradlab sampler", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # where no thread can be had, there are no samples
            self._thread = None

    def stop(self) -> None:
        """End the sampling; when this returns, the thread has gone."""
        try:
            if self._loads is not None:
                self._loads.stop()
                self._loads = None
            if self._fetches is not None:
                self._fetches.stop()
                self._fetches = None
        finally:
            self.trace.steps.told = None
            rows = self._stack_sampler.stop() if self._stack_sampler is not None else []
            self._end.set()
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()
                self._thread = None
            self._queue.close()
            self._noted(rows)

    def _noted(self, rows: list[tuple[Any, ...]]) -> None:
        """Add the samples of C's thread to the trace."""
        if self.error is None:
            try:
                for took, starved, beat, *frames in rows:
                    self._places.note(frames, took, starved, beat)
                    self.trace.sampled_ns += took + starved
            except Exception as error:
                self.error = error

    def _watch(self) -> None:
        try:
            if self._stack_sampler is None:
                self._run()
                return
            begin = perf_counter_ns()
            while not self._end.wait(TAKES if perf_counter_ns() - begin < 1e9 else self._takes):
                self._noted(self._stack_sampler.take())
        except Exception as error:  # told with the record: a thread's error is printed into the cell's output
            self.error = error

    def _run(self) -> None:
        own, queue = Queue(), self._queue
        own.since(), queue.since()
        before = begin = perf_counter_ns()
        while not self._end.wait(period := min(max(FIRST, SHARE * (before - begin) / 1e9), LATER)):
            now = perf_counter_ns()
            (ran, starved), behind = queue.since(), own.since()[1]
            self.trace.starved_ns += starved
            took = max(now - before - starved, 0)
            late = (now - before) / 1e9 - period
            if late > SOON and (behind > STALE or starved > STALE) and ran > IDLE * took:
                if late - (starved + behind) / 1e9 < 0.9 * sys.getswitchinterval():
                    self.trace.blind_ns += took  # other programs made it late: where the cell is now tells nothing
                    before = now
                    continue
            elif SOON < late < 0.9 * sys.getswitchinterval():
                before = now  # the cell gave way at a place of its choice, which says nothing of where its time goes
                continue
            frame = sys._current_frames().get(self._who)
            if frame is not None:
                self._note(frame, took)
            del frame
            before = now
        own.close()

    def _note(self, frame: FrameType | None, took: int) -> None:
        frames: list[Any] = []
        while frame is not None and len(frames) < DEEP:
            frames += frame.f_code, frame.f_lasti
            frame = frame.f_back
        self._places.note(frames, took, 0, self.trace.steps.beats)


def _stack_sampler(later: float) -> Any:
    """Return C's sampler of this thread; None where it cannot be had."""
    made = getattr(native.module, "StackSampler", None)
    try:
        return None if made is None else made(C_FIRST, later)
    except OSError:  # a system that does not let a thread be sampled: seccomp, too many recordings at once
        return None


def asks_for_next(place: tuple[CodeType, int]) -> bool:
    """Return whether a frame stands at a loop that asks its iterator for the next value."""
    code, lasti = place
    return 0 <= lasti < len(code.co_code) and code.co_code[lasti] in _NEXT


def loop_of(sample: Any) -> int:
    """Return which of a sample's places waits for an iterator or a data loader; -1 if none does."""
    if sample.waits >= 0:
        return int(sample.waits) if sample.waits < len(sample.places) else -1
    return next((k for k in range(len(sample.places) - 1, -1, -1) if asks_for_next(sample.places[k])), -1)
