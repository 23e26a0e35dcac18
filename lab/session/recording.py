"""One recording from start to record, for scripts and for the cells of a notebook."""

from __future__ import annotations

import gc
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from inspect import CO_NEWLOCALS, unwrap
from time import perf_counter_ns
from types import CodeType, TracebackType
from typing import Any, Self

import widgets
from core.backends.cuda.memory import reporters
from core.events import observe
from widgets.record import ErrorRow, Finding, Record
from widgets.run_curves import RunCurves

from .. import adapters
from ..diagnose.graph.gradient_check import Checker
from ..diagnose.values.precision import Precision
from ..recorder import stopped_op
from ..recorder.observer import Recorder
from ..recorder.run_course import RunCourse
from ..recorder.sampled_steps import SampledSteps
from ..recorder.sampling import Sampler
from ..recorder.step_marks import Marks
from ..recorder.user_files import shown_name
from ..report import export, peaks
from ..report.build_record import build, settle
from ..report.memory_now import holders
from ..report.run_said import watched
from ..report.tables import table

DETAIL = 4000  # characters of an error's text that are kept
COLLECTS = 10  # so many times as many objects are made before the garbage collector looks at them
_last: list[Record] = []


class Recording:
    """Records the ops that run while it is on; `record` is the outcome, `print()` of it the card as text.

    Made by `lab.recording` and `lab.record`.
    """

    def __init__(
        self, title: str = "", check: bool = False, precision: bool = False, sampled: bool | dict[str, Any] = False
    ) -> None:
        self.title, self._checks, self._compares = title, check, precision
        self._samples = sampled if not (check or precision) else False  # what is checked is each op
        self.steps: SampledSteps | None = None
        """Where steps are sampled: which of them are recorded."""
        self._checker: Checker | None = None
        self._precision: Precision | None = None
        self.value: Any = None
        self.recorder: Recorder | None = None
        self.error: Exception | None = None
        """What ended the recording before its time: an error of the recorder's own."""
        self._record: Record | None = None
        self._watches: list[Any] = []
        self._sampler: Sampler | None = None
        self.course: RunCourse | None = None
        self._ears: list[Any] = []
        self.ended_ns = 0  # where that is known better than by when `stop` is called
        self._undo = ExitStack()  # what takes back all that `start` did
        self._outer: list[Recorder] = []  # what waits meanwhile, for which this one's own time is no time of the cell's

    @property
    def record(self) -> Record:
        """The record.

        *Raises*: RuntimeError while the recording is still on.
        """
        if self._record is None:
            raise RuntimeError("the recording is still on; its record is there when the `with` block has ended")
        return self._record

    def start(
        self, files: Mapping[str, int], boundary: CodeType | None = None, block: int | None = None
    ) -> Recorder | None:
        """Begin to listen; `files` are the code's file names, with what to add to their line numbers, `block` is the
        line of the `with` statement where only that is recorded (0: of none).

        A recording inside another one has its ops to itself: both would mark the same tensors. Where it fails nothing
        is recorded, `error` says why, and what was to be recorded runs as without.
        """
        begin = perf_counter_ns()
        self._outer = [o for o in observe.observers if isinstance(o, Recorder)]
        try:
            self._begin(files, boundary, block)
        except Exception as error:
            self.error = error
            self.drop()
        except BaseException:
            self.drop()
            raise
        finally:
            self._took(begin)
        return self.recorder

    def _begin(self, files: Mapping[str, int], boundary: CodeType | None, block: int | None) -> None:
        later = self._undo.callback
        for outer in self._outer:
            observe.remove(outer)
            later(_again, outer)
        # for every object of the cell the recorder makes several that stay: the collector runs as often as without it
        collecting = gc.get_threshold()
        seldom = (COLLECTS * collecting[0], *collecting[1:])
        gc.set_threshold(*seldom)
        later(_collect, collecting)
        self.recorder = recorder = Recorder(files, boundary)
        recorder.trace.block = block
        later(recorder.memory.close)
        observe.add(recorder)
        later(observe.remove, recorder)
        telling = partial(holders, recorder.trace)
        reporters.append(telling)  # so that running out of a GPU's memory is told by lines
        later(reporters.remove, telling)
        if self._checks:
            self._checker = Checker(recorder)
            observe.add(self._checker)
            later(observe.remove, self._checker)
        if self._compares:
            self._precision = Precision(recorder)
            observe.add(self._precision)
            later(observe.remove, self._precision)
        self._watches = adapters.watches(recorder)
        for watch in self._watches:
            watch.checker, watch.precision = self._checker, self._precision
            later(watch.stop)
            watch.start()
        self.course = RunCourse(files, recorder.trace.place)
        later(self.course.stop)
        self.course.start()
        self._ears = adapters.followers(self.course)
        for ear in self._ears:
            later(ear.stop)
            ear.start()
        self._sampler = Sampler(recorder.trace, boundary, seldom=self._samples is True)
        later(self._sampler.stop)
        self._sampler.start()
        if self._samples is not False:
            options = self._samples if isinstance(self._samples, dict) else {}
            self.steps = steps = SampledSteps(recorder, self._watches, (seldom, collecting), **options)
            for marks in (Marks(steps), *adapters.marks(steps)):
                later(marks.stop)
                marks.start()
            later(steps.stop)
        recorder.started_ns = recorder.trace.started_ns = perf_counter_ns()  # the cell's own clock

    def stop(
        self, space: Mapping[str, Any], text: str, error: ErrorRow | None = None, raised: BaseException | None = None
    ) -> Record:
        """End it: `space` holds the user's variables, `text` is the source that line numbers count in, `raised` what
        ended it.

        Where the recorder failed, `error` says why, and the record does in a line and holds nothing else.
        """
        recorder = self.recorder
        if recorder is None and self.error is None:
            raise RuntimeError("the recording has not begun")
        begin = perf_counter_ns()
        wall_ns = 0 if recorder is None else (self.ended_ns or begin) - recorder.started_ns
        try:
            self._end()
            if recorder is not None:
                self.error = self.error or recorder.error
                if self.error is None:
                    recorder.trace.wall_ns = wall_ns
                    self._record = self._built(recorder, space, text, error, raised)
        except Exception as failure:
            self.error = failure
        finally:
            with suppress(Exception):  # what `_end` could not begin to take back; twice does nothing more
                self._undo.close()
            self._forget()
            self._took(begin)
        if self.error is not None:
            self._record = Record(title=self.title, source=text, wall_ms=wall_ns / 1e6)
            if isinstance(raised, KeyboardInterrupt):
                self._record.stopped = "Stopped by you."
            else:
                self._record.error = error
            message = f"{self.failure()}. There is nothing else on this card; the code itself ran as always."
            self._record.findings.append(Finding("recorder", "note", message=message))
        assert self._record is not None
        _last[:] = [self._record]
        return self._record

    def _took(self, begin: int) -> None:
        """Tell the recordings around this one what it took itself since then."""
        for outer in self._outer:
            outer.own_ns += perf_counter_ns() - begin

    def _built(self, recorder: Recorder, space: Mapping[str, Any], text: str, error: ErrorRow | None,
               raised: BaseException | None) -> Record:  # fmt: skip
        recorder.trace.error = error
        if isinstance(raised, KeyboardInterrupt):
            stopped_op.by_user(recorder.trace)
        if self.course is not None:
            recorder.around_ns += self.course.own_ns
        collecting = gc.isenabled()
        gc.disable()  # many small rows and no cycles, beside a graph that takes a quarter of a second to look through
        try:
            with ExitStack() as around:
                for watch in self._watches:  # questions to the user's tensors reach no code of the user's
                    around.enter_context(watch.still())
                stopped_op.note(recorder, raised)
                checks = [c for c in (self._precision, self._checker) if c is not None]
                record = build(settle(recorder, space, text), self.title, error, checks)
        finally:
            if collecting:
                gc.enable()
        if self.course is not None and self.course:
            try:
                record.course = watched(self.course)
            except Exception as failure:  # the rest of the card does not need it
                note = f"The course cannot be shown: {type(failure).__name__}: {failure}"
                record.course = RunCurves(self.course.steps, note=note)
        if self._sampler is not None and self._sampler.error is not None:
            record.environment["time between ops"] = f"not known: {type(self._sampler.error).__name__}"
        if self.steps is not None and (said := self.steps.sentence()):
            record.checked = said
        if recorder.elsewhere:
            record.environment["other threads"] = f"{recorder.elsewhere:,} ops, which are not shown"
        return record

    def failure(self) -> str:
        """Why there is nothing to show, in one line; "" where all is well."""
        if self.error is None:
            return ""
        said = (_said(self.error).splitlines() or [""])[0]
        return f"the recorder failed: {type(self.error).__name__}: {said}"

    def drop(self) -> None:
        """Stop listening, without a record."""
        self._end()
        self._forget()

    def _forget(self) -> None:
        """Let go of another library's tensors, which the record was made of: the next recording has its own.

        What fails is tried once more: nothing of ours may stay in another library.
        """
        for let_go in [*(watch.close for watch in self._watches), *(ear.stop for ear in self._ears)]:
            try:
                let_go()
            except Exception:
                with suppress(Exception):
                    let_go()

    def _end(self) -> None:
        """Stop listening; an error of one thing that is taken back keeps none from the others."""
        self.recorder = None
        try:
            self._undo.close()
        except Exception as error:
            self.error = self.error or error

    # -- a with block in a script --------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        frame = sys._getframe(1)
        code = frame.f_code
        self.title = self.title or shown_name(code.co_filename)
        self.start({code.co_filename: 0}, code if code.co_flags & CO_NEWLOCALS else None, frame.f_lineno)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        frame = sys._getframe(1)
        file = frame.f_code.co_filename
        space = {**frame.f_globals, **frame.f_locals} if frame.f_code.co_flags & CO_NEWLOCALS else frame.f_globals
        self.stop(space, "".join(linecache.getlines(file)), error_row(error, {file: 0}), error)

    # -- what is seen of it --------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return (
            widgets.text(self.record) if self._record is not None else f"<recording of {self.title or 'nothing yet'}>"
        )

    __repr__ = __str__

    def html(self) -> str:
        """Return the card as one self-contained piece of HTML, to be written to a file."""
        peaks.add(self.record)
        return widgets.html(self.record)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record to a file: `.html` is the card as a page, `.json` the rows, `.txt` the text.

        *Raises*: ValueError for another suffix.
        """
        peaks.add(self.record)
        export.save(self.record, path)

    def to_chrome_trace(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Return the timeline in the format that Perfetto and chrome://tracing open; written to `path` where it is
        given."""
        return export.to_chrome_trace(self.record, path)

    def table(self, what: str = "ops") -> str:
        """One part of the record as a table: "ops", "lines", "gradients", "kernels", "memory" or "tensors"."""
        return table(self.record, what)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        plain = str(self)
        return {"text/plain": plain} if self._record is None else {"text/html": self.html(), "text/plain": plain}


def recording(title: str = "", *, check: bool = False, precision: bool = False, sampled: bool = False) -> Recording:
    """Record a block: ``with lab.recording() as rec: ...``, then ``print(rec)``.

    check : compare every op's gradient with finite differences; a wrong one is a finding.
    precision : run every op once more in float64; the first that loses half its digits is a finding.
    sampled : of a training loop record the first steps and then some now and then, so that it takes hardly longer.

    >>> import core, lab
    >>> W = core.ones(2, 2, requires_grad=True)
    >>> with lab.recording() as rec:
    ...     (W * W).sum().backward()
    >>> [op.op for op in rec.record.ops], rec.record.gradients[0].name, rec.record.gradients[0].norm
    (['mul', 'sum'], 'W', 4.0)
    """
    return Recording(title, check, precision, sampled)


def record(function: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Recording:
    """Record one call of a function, whose result is `.value` of the recording; without one, as `recording`.

    >>> import core, lab
    >>> rec = lab.record(lambda: core.ones(3).exp().sum())
    >>> [op.op for op in rec.record.ops], round(rec.value.item(), 2)
    (['exp', 'sum'], 8.15)
    >>> with lab.record() as rec:
    ...     y = core.ones(3).exp()
    >>> len(rec.to_chrome_trace()["traceEvents"]) > 4
    True
    """
    if function is None:
        return recording(**kwargs)
    if not callable(function):
        came = type(function).__name__
        raise TypeError(f"record: got {came}, needs a function; remedy: `with lab.record() as rec:` around the code")
    inner = unwrap(function)
    code = getattr(inner, "__code__", None) or getattr(getattr(inner, "__func__", None), "__code__", None)
    rec = Recording(getattr(function, "__name__", type(function).__name__))
    file = code.co_filename if code is not None else ""
    space = dict(getattr(inner, "__globals__", {}))
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(inner, "__closure__", None) or (), strict=False):
        space[name] = cell.cell_contents
    rec.start({file: 0} if file else {}, code, block=0)
    try:
        rec.value = function(*args, **kwargs)
    except BaseException:
        rec.drop()
        raise
    rec.stop(space, "".join(linecache.getlines(file)) if file else "")
    return rec


def last() -> Record:
    """Return the record made last, by a cell or a script.

    *Raises*: RuntimeError when nothing has been recorded yet.
    """
    if not _last:
        raise RuntimeError("nothing has been recorded yet; use %%autograd, lab.record or lab.recording")
    return _last[0]


def error_row(error: BaseException | None, files: Mapping[str, int]) -> ErrorRow | None:
    """Return an exception as the card tells it, with the line of this cell that it passed through last."""
    if error is None:
        return None
    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        offset = files.get(frame.f_code.co_filename)
        if offset is not None:
            line = number + offset
    if line is None and isinstance(error, SyntaxError) and error.lineno is not None:
        line = error.lineno
    text = _said(error).strip()
    return ErrorRow(type(error).__name__, text.splitlines()[0] if text else "", line, text[:DETAIL])


def _again(outer: Recorder) -> None:
    """Let a recording go on that another one had taken the place of."""
    if outer.error is None:
        observe.add(outer)


def _collect(thresholds: tuple[int, ...]) -> None:
    """Let the garbage collector run as often as before, unless the cell has said how often itself."""
    if gc.get_threshold()[0] == COLLECTS * thresholds[0]:
        gc.set_threshold(thresholds[0], *gc.get_threshold()[1:])


def _said(error: BaseException) -> str:
    """Return an error's text, also of one that cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""
