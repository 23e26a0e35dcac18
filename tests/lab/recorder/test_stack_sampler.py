"""The C stack sampler: what it says of a thread, and that nobody notices it. No test here asks how fast anything is."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

from core import native
from lab.recorder.cell_trace import Trace
from lab.recorder.places import Places
from lab.report.line_times import line_times
from lab.session.recording import Recording
from widgets.graph import build
from widgets.payload import payload

StackSampler = getattr(native.module, "StackSampler", None)
known = pytest.mark.skipif(
    StackSampler is None, reason="needs the C extension, Linux, and a version of Python it knows"
)


def until(ready: Any, seconds: float = 60.0) -> None:
    """Wait until something is so; fail where it never is."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


def busy(rows: list[Any], sampler: Any, least: int) -> None:
    """Compute until there are so many samples in which this function was met computing."""
    end = time.monotonic() + 60
    while sum(row[3] is busy.__code__ for row in rows) < least:
        assert time.monotonic() < end, "it was never met"
        for _ in range(20_000):
            pass
        rows += sampler.take()


@pytest.fixture
def sampler() -> Iterator[Any]:
    made = StackSampler(0.001, 0.001)
    yield made
    made.stop()


@known
def test_a_look_has_the_frames_that_python_tells_of(sampler: Any) -> None:
    rows: list[Any] = []
    busy(rows, sampler, 3)
    frame, codes = sys._getframe(), []
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back  # type: ignore[assignment]
    met = next(row for row in rows if row[3] is busy.__code__)
    assert list(met[5::2]) == codes[: len(met[5::2])]
    assert len(met[3::2]) == min(len(codes) + 1, 96)
    lines = {line for start, stop, line in busy.__code__.co_lines() if start <= met[4] < stop}
    assert lines <= set(range(busy.__code__.co_firstlineno, busy.__code__.co_firstlineno + 9))
    assert all(len(row) % 2 == 1 for row in rows)


@known
def test_the_time_of_all_samples_is_the_time_that_passed(sampler: Any) -> None:
    begin = time.perf_counter_ns()
    rows: list[Any] = []
    busy(rows, sampler, 30)
    time.sleep(0.05)
    rows += sampler.take()
    passed = time.perf_counter_ns() - begin
    ran, starved = sampler.owed
    seen = sum(row[0] + row[1] for row in rows)
    assert seen <= 1.02 * passed + 20_000_000
    assert all(row[0] >= 0 for row in rows)
    # what no sample bears yet, and what has passed since the last one, are the rest
    assert seen + abs(ran) + abs(starved) > 0.5 * passed


@known
def test_a_thread_that_waits_is_seen_and_left_to_wait(sampler: Any) -> None:
    """A library's sleep, which is not begun again after a signal, lasts as long as it was asked to."""
    libc = ctypes.CDLL(None)
    begin = time.monotonic()
    assert libc.usleep(300_000) == 0  # -1 where a signal cut it short
    assert time.monotonic() - begin >= 0.3
    rows = sampler.take()
    here = sys._getframe().f_code
    assert sum(row[0] for row in rows if row[3] is here) > 150_000_000


@known
def test_system_calls_are_not_cut_short(sampler: Any) -> None:
    reading, writing = os.pipe()
    later = threading.Timer(0.2, os.write, (writing, b"x"))
    later.start()
    assert os.read(reading, 1) == b"x"
    later.join()
    os.close(reading), os.close(writing)


@known
def test_code_that_is_gone_before_it_is_taken() -> None:
    """A sample holds nothing: code that is freed meanwhile is kept until it has been taken, and no longer."""
    sampler = StackSampler(0.0002, 0.0002)
    names: set[str] = set()
    end = time.monotonic() + 60
    k = 0
    while len(names) < 20:
        assert time.monotonic() < end
        for _ in range(50):
            k += 1
            space: dict[str, Any] = {}
            exec(compile(f"def f{k}():\n    for i in range(3000): pass\n", "<gone>", "exec"), space)
            space[f"f{k}"]()
            space.clear()
        if k % 200 == 0:
            rows = sampler.take()
            for row in rows:
                assert all(type(code) is CodeType for code in row[3::2])
                names |= {code.co_name for code in row[3::2] if code.co_filename == "<gone>"}
            del rows
    sampler.stop()
    gc.collect()
    assert [o for o in gc.get_objects() if type(o) is CodeType and o.co_filename == "<gone>"] == []


@known
def test_generators_callbacks_and_errors_on_the_way(sampler: Any) -> None:
    """Frames come and go in every way that there is, as fast as they can; every sample is one of them."""

    def numbers(n: int) -> Iterator[int]:
        yield from (i for i in range(n))

    class Key:
        def __init__(self, k: int) -> None:
            self.k = k

        def __lt__(self, other: Key) -> bool:
            return self.k < other.k

    def deep(n: int) -> int:
        if n == 0:
            raise ValueError
        return deep(n - 1)

    rows: list[Any] = []
    end = time.monotonic() + 60
    while len(rows) < 300:
        assert time.monotonic() < end
        sorted(map(Key, numbers(100)), key=lambda key: key)
        with pytest.raises(ValueError, match=r"^$"):
            deep(200)
        rows += sampler.take()
    assert all(type(code) is CodeType and type(at) is int for row in rows for code, at in zip(row[3::2], row[4::2]))  # noqa: B905
    assert sampler.lost <= len(rows)


@known
def test_a_beat_is_borne_by_the_samples_after_it(sampler: Any) -> None:
    rows: list[Any] = []
    busy(rows, sampler, 2)
    sampler.beat = 7
    sampler.take()
    later: list[Any] = []
    busy(later, sampler, 3)
    assert {row[2] for row in later[1:]} == {7}
    assert {row[2] for row in rows} == {0}


@known
def test_several_at_once_and_in_other_threads() -> None:
    met: dict[str, bool] = {}

    def other() -> None:
        own, rows = StackSampler(0.001, 0.001), []
        busy(rows, own, 3)
        met["other"] = any(code.co_name == "other" for row in rows for code in row[3::2])
        met["alone"] = all(code.co_name != here for row in rows for code in row[3::2])
        own.stop()

    here = sys._getframe().f_code.co_name
    outer, inner = StackSampler(0.001, 0.001), StackSampler(0.001, 0.001)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    rows: list[Any] = []
    busy(rows, inner, 2)
    inner.stop()
    assert any(code.co_name == here for row in outer.stop() for code in row[3::2])
    assert met == {"other": True, "alone": True}


@known
def test_a_thread_that_ends_before_its_samples() -> None:
    held: list[Any] = []
    thread = threading.Thread(target=lambda: held.append(StackSampler(0.001, 0.001)))
    thread.start()
    thread.join()
    time.sleep(0.02)
    assert isinstance(held[0].stop(), list)
    assert held[0].stop() == []


@known
def test_a_child_is_not_watched(sampler: Any) -> None:
    busy([], sampler, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for _ in range(200_000):
                pass
            code = 0 if sampler.take() == [] and sampler.stop() == [] and eval("1 + 1") == 2 else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    busy([], sampler, 1)  # and here it goes on


@known
def test_where_signals_are_held_back_nobody_samples() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with pytest.raises(OSError, match="does not let a thread be sampled"):
            StackSampler(0.001, 0.001)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@known
def test_what_is_no_period_is_refused() -> None:
    for bad in ((0.0, 0.001), (0.001, 5.0), (float("nan"), 0.001)):
        with pytest.raises(ValueError, match="seconds between samples"):
            StackSampler(*bad)
    with pytest.raises(TypeError):
        StackSampler(first=0.001, later=0.001)


# -- what is made of them ----------------------------------------------------------------------------------------------

CELL = "total = 0\nfor k in range(3):\n    total += helper(k)\n"


def frames_of(text: str, name: str) -> CodeType:
    """Return the code of a text, under a file's name."""
    return compile(text, name, "exec")


def test_a_look_is_its_cells_line_whatever_runs_there() -> None:
    import importlib._bootstrap as bootstrap

    import lab.recorder.tensor_stats as recorder
    from core.utils.data import passes

    cell = frames_of(CELL, "<cell of samples>")
    at = 10
    trace = Trace(files={"<cell of samples>": 0})
    places = Places(trace)
    user = (cell, at)

    def note(code: CodeType, ns: int, *more: Any) -> None:
        places.note([code, 0, *more, *user], ns, 1, 0)

    note(passes.Pass.__init__.__code__, 100)
    note(recorder.finite.__code__, 20)
    note(bootstrap._find_spec.__code__, 5)
    places.note([*user], 7, 1, 0)
    (spent,) = trace.spent.values()
    assert (spent.ns, spent.recorder_ns, spent.starved_ns) == (112, 20, 4)
    assert trace.starved_ns == 4
    kinds = {sample.kind: sample.ns for sample in trace.samples.values()}
    assert kinds["import"] == 5
    assert kinds["python"] == 7
    assert sum(kinds.values()) == 112


def test_lines_share_all_of_a_cells_time() -> None:
    cell = frames_of(CELL, "<cell of lines>")
    trace = Trace(files={"<cell of lines>": 0})
    places = Places(trace)
    starts = {line: start for start, _, line in cell.co_lines() if line}
    for line, ns in ((1, 10), (2, 30), (3, 60)):
        places.note([cell, starts[line]], ns, 0, 0)
    trace.wall_ns, trace.own_ns, trace.around_ns, trace.starved_ns = 1600, 300, 100, 267
    assert line_times(trace) == {}  # a thread's samples are no shares
    trace.sampled_ns = 100
    assert line_times(trace) == {1: 100, 2: 300, 3: 600}


@known
def test_a_record_tells_of_lines_without_an_op(cell: Any) -> None:
    text = "import time\nend = time.perf_counter() + 0.2\nwhile time.perf_counter() < end:\n    k = sum(range(1000))\n"
    record = cell(text)
    assert {row.line for row in record.lines if row.total_ms} >= {4}
    assert sum(row.total_ms for row in record.lines) <= record.wall_ms
    assert "share" in str(record)
    waited = next(row for row in record.lines if row.line == 4)
    assert not waited.count
    assert waited.other_ms == pytest.approx(waited.total_ms)
    shown = {line: other for line, _, _, other, _ in payload(record, build(record))["lines"]}  # on the page too
    assert shown[4] == pytest.approx(waited.other_ms, rel=0.01)


def test_without_the_extension_a_thread_of_pythons_samples(cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.recorder.sampling._stack_sampler", lambda later: None)
    recording = Recording()
    recorder = recording.start({__file__: 0})
    assert recorder is not None
    until(lambda: any(sample.kind == "python" for sample in list(recorder.trace.samples.values())))
    record = recording.stop({}, "")
    assert recorder.trace.sampled_ns == 0
    assert all(row.total_ms == 0 for row in record.lines)


@known
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
def test_it_leaves_no_file_open() -> None:
    StackSampler(0.001, 0.001).stop()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        StackSampler(0.001, 0.001).stop()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
