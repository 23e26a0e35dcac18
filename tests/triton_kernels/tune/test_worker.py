"""How long a worker is waited for, and what its end says."""

from __future__ import annotations

import math
import signal
import subprocess
import threading
from types import SimpleNamespace

import pytest

from triton_kernels.tune import worker
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.worker import Clock, Late, Stopped, Worker

# -- what a worker's end says ------------------------------------------------------------------------------------------


class Ended:
    def __init__(self, code):
        self.code, self.pid = code, 999_999_999

    def wait(self, limit=None):
        if self.code is None and limit is not None:
            raise subprocess.TimeoutExpired("worker", limit)
        return self.code


@pytest.mark.parametrize(("code", "said", "reason"), [
    (-signal.SIGKILL, "", "the process was killed while timing, as when memory runs out"),
    (None, "", "the process was killed while timing, as when memory runs out"),
    (-signal.SIGSEGV, "first\nlast\n", "SIGSEGV (a forbidden address) while timing: last"),
    (-signal.SIGBUS, "", "SIGBUS (a forbidden address) while timing"),
    (-signal.SIGABRT, "", "SIGABRT (abort()) while timing"),
    (-signal.SIGFPE, "", "SIGFPE (a forbidden operation) while timing"),
    (-signal.SIGILL, "", "SIGILL (an instruction that this processor lacks) while timing"),
    (-signal.SIGTERM, "", "SIGTERM while timing"), (-33, "", "signal 33 while timing"),
    (3, "x" * 300, "the process ended with 3 while timing: " + "x" * 200),
])  # fmt: skip
def test_why_a_worker_is_gone(tmp_path, code, said, reason):
    dead = Worker(SimpleNamespace(kind="cpu"))
    dead._process = Ended(code)
    with open(tmp_path / "said", "w+b") as file:
        file.write(b"of another config\n" + said.encode())
        dead._said, dead._said_before = file, len(b"of another config\n")
        found = dead._death("timing")
    assert (found.status, found.reason, found.detail) == ("runtime", reason, said.strip())


class Pipe:
    """What a worker answers, one after the other; a number is a silence of so many seconds."""

    def __init__(self, now, *answers):
        self.now, self.answers, self.sent, self.closed = now, list(answers), [], False

    def send(self, message):
        self.sent.append(message)

    def poll(self, seconds):
        if isinstance(self.answers[0], float):
            self.now[0] += self.answers.pop(0)
            return False
        return True

    def recv_bytes(self):
        return worker.pickle.dumps(self.answers.pop(0))

    def close(self):
        self.closed = True


@pytest.fixture
def asked(monkeypatch):
    """Asks a worker for pairs, within 5 s, that answers so."""
    now = [100.0]
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def ask(*answers, until=math.inf, stopping=False):
        busy = Worker(SimpleNamespace(kind="cpu"))
        now[0], busy.clock.until = 100.0, until
        if stopping:
            busy.stopping.set()
        busy._pipe = pipe = Pipe(now, *answers)
        try:
            return busy._ask(("pairs", ()), 5.0), pipe.closed
        finally:
            ask.closed = pipe.closed

    return ask


BEAT = ("beat", None)


def test_a_worker_is_waited_for_as_long_as_it_may_take(asked):
    assert asked(("done", 7)) == (7, False)
    assert asked(3.0, BEAT, 2.0, BEAT, ("done", 7)) == (7, False)  # at just 5 s
    with pytest.raises(Failed, match=r"timeout: timing had no result after 5.1 s"):
        asked(3.0, BEAT, 2.1, BEAT)
    assert asked.closed
    with pytest.raises(Failed, match=r"timeout: timing had no result after 5.5 s"):
        asked(2.5, 3.0)
    failed = Failed("correctness", "wrong")
    with pytest.raises(Failed, match="correctness: wrong"):
        asked(("failed", failed))
    assert not asked.closed


def test_a_worker_that_is_silent_or_no_more_wanted_is_ended(asked, monkeypatch):
    monkeypatch.setattr(worker, "SILENCE_S", 3.0)
    with pytest.raises(Failed, match=r"timeout: timing gave no sign of life for 3.5 s"):
        asked(1.0, BEAT, 3.5)
    assert asked(1.0, BEAT, 3.0, ("done", 7)) == (7, False)
    for answers in ((1.0,), (1.0, BEAT)):
        with pytest.raises(Late):
            asked(*answers, until=100.5)
        assert asked.closed
        with pytest.raises(Stopped) as info:
            asked(*answers, until=100.5, stopping=True)
        assert info.type is Stopped
    assert asked(1.0, ("done", 7), until=101.0) == (7, False)


def test_a_clock_and_who_calls_a_measure(monkeypatch):
    clock = Clock()
    assert clock.left_s == math.inf
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: 10.0))
    clock.until = 12.5
    assert clock.left_s == 2.5
    monkeypatch.setattr(worker, "memory_for_a_worker", lambda: 77)
    stopping = threading.Event()
    for kind, memory in (("cpu", 77), ("cuda", None)):
        made = worker.worker_for(SimpleNamespace(kind=kind, apart=True), stopping, clock)
        assert (made.memory_bytes, made.stopping, made.clock) == (memory, stopping, clock)
