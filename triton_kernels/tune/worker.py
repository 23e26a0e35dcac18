"""A worker process that its owner can afford to lose, and the owner's side of it.

The worker is a fresh interpreter that opens a measure and calls its methods. Its owner waits with a time limit, hears
a heartbeat meanwhile, and when the worker crashes, hangs or falls silent says which (`Failed`), and starts another for
the next call. What a kernel prints is kept for the config that it was printed for. A worker whose owner is gone ends by
itself within a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, cast

from .energy import Launching, measured
from .measure import Failed, Measure
from .places import PlaceWarning
from .turns import turn

BEAT_S = 0.4
SILENCE_S = 30.0  # without a heartbeat for so long, a worker is frozen: stopped, or swapping
START_LIMIT_S = 120.0  # an import of triton on a loaded machine
_LOOK_S = 0.05
_PHASES = {"build": "compiling", "check": "checking", "count": "running", "dry": "running", "energy": "running",
           "fit": "checking",
           "pairs": "timing", "rounds": "timing"}  # fmt: skip
_BEGIN = "import sys; sys.path[:] = {path!r}; from triton_kernels.tune.worker import main; main({fd})"


class Stopped(Exception):
    """The session was stopped while a worker was busy; its config is to be tried again."""


class Late(Stopped):
    """The session's time was over while a worker was busy."""


class Clock:
    """When a session's time, or that of its search, is over: `until`, by `time.monotonic`."""

    def __init__(self) -> None:
        self.until = math.inf

    @property
    def left_s(self) -> float:
        """Seconds that are left; negative when it is over."""
        return self.until - time.monotonic()


class Worker:
    """One process that measures. Calls come one at a time; `stopping`, once set, ends them with `Stopped`."""

    def __init__(
        self,
        measure: Measure,
        *,
        memory_bytes: int | None = None,
        stopping: threading.Event | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.measure = measure
        self.memory_bytes = memory_bytes
        self.stopping, self.clock = stopping or threading.Event(), clock or Clock()
        self.facts: dict[str, str] = {}
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._said: Any = None
        self._about: Any = None  # what the last call was about: a config, or several
        self._said_before = 0  # how long what it prints was, before that

    def call(self, method: str, *arguments: Any, limit_s: float) -> Any:
        """Return what ``measure.method(*arguments)`` gives in the worker, timings alone on their device. *Raises*:
        Failed, Stopped, Late where the session's time is over; nothing else of a config's own doing."""
        self.begin()
        if arguments[:1] != self._about:
            self._about, self._said_before = arguments[:1], os.fstat(self._said.fileno()).st_size
        with turn(self.measure.kind, method, self.stopping):
            return self._ask((method, arguments), limit_s)

    def begin(self) -> None:
        """Start the process, if it does not run. *Raises*: Failed, Stopped."""
        if self._process is None or self._process.poll() is not None:
            self._start()

    def renew(self) -> None:
        """Have the next call go to another process."""
        self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # its compilers too
            process.wait()
        if self._said is not None:
            self._said.close()
            self._said = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _start(self) -> None:
        self.close()
        ours, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        self._about, self._said_before = None, 0
        path = [os.path.abspath(p) if p else os.getcwd() for p in sys.path]
        environment = {**os.environ, **self.measure.environment}
        environment.pop("PYTHONFAULTHANDLER", None)  # its pages of text would hide what a kernel says before it dies
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BEGIN.format(path=path, fd=theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, pass_fds=(theirs.fileno(),),
                env=environment, start_new_session=True,
            )  # fmt: skip
        self._pipe = Connection(ours.detach())
        self.starts += 1
        self.facts = self._ask((self.measure, self.memory_bytes), START_LIMIT_S)

    def _ask(self, message: Any, limit_s: float) -> Any:
        pipe, began = self._pipe, time.monotonic()
        assert pipe is not None
        heard, phase = began, _PHASES.get(message[0], "starting") if isinstance(message[0], str) else "starting"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # why it died is told below
            pipe.send(message)
        while True:
            try:
                if not pipe.poll(_LOOK_S):
                    now = time.monotonic()
                    self._look_whether_to_go_on()
                    if now - began > limit_s or now - heard > SILENCE_S:
                        frozen = now - heard > SILENCE_S
                        self.close()
                        what = "gave no sign of life for" if frozen else "had no result after"
                        raise Failed("timeout", f"{phase} {what} {now - (heard if frozen else began):.1f} s")
                    continue
                kind, content = pickle.loads(pipe.recv_bytes())
            except (EOFError, ConnectionResetError, OSError):
                raise self._death(phase) from None
            heard = time.monotonic()
            if kind == "beat":
                if heard - began > limit_s:
                    self.close()
                    raise Failed("timeout", f"{phase} had no result after {heard - began:.1f} s")
                self._look_whether_to_go_on()
            elif kind == "failed":
                if content.fatal:
                    self.close()
                raise content
            else:
                return content

    def _look_whether_to_go_on(self) -> None:
        """*Raises*: Stopped, Late; the process is ended then."""
        why = Stopped if self.stopping.is_set() else Late if self.clock.left_s < 0 else None
        if why is not None:
            self.close()
            raise why

    def _death(self, phase: str) -> Failed:
        """Why the worker is gone."""
        process = self._process
        assert process is not None
        try:
            code = process.wait(5.0)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        self._said.seek(self._said_before)
        said = self._said.read().decode(errors="replace")[-4000:].strip()
        self.close()
        last = f": {said.splitlines()[-1][:200]}" if said else ""
        if code == -signal.SIGKILL:
            return Failed("runtime", f"the process was killed while {phase}, as when memory runs out{last}", said)
        if code < 0:
            name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else f"signal {-code}"
            what = {"SIGSEGV": "a forbidden address", "SIGABRT": "abort()", "SIGFPE": "a forbidden operation",
                    "SIGILL": "an instruction that this processor lacks", "SIGBUS": "a forbidden address"}  # fmt: skip
            why = f" ({what[name]})" if name in what else ""
            return Failed("runtime", f"{name}{why} while {phase}{last}", said)
        return Failed("runtime", f"the process ended with {code} while {phase}{last}", said)


class Here:
    """A measure that needs no process of its own."""

    def __init__(self, measure: Measure) -> None:
        self.measure, self.facts = measure, measure.open()

    def begin(self) -> None:
        """It has begun."""

    def renew(self) -> None:
        """There is no other."""

    def call(self, method: str, *arguments: Any, limit_s: float) -> Any:
        """Return what the measure says."""
        return _asked(self.measure, method)(*arguments)

    def close(self) -> None:
        """There is nothing to end."""


def worker_for(measure: Measure, stopping: threading.Event, clock: Clock | None = None) -> Worker | Here:
    """Whoever calls a measure as it wants to be called."""
    if not measure.apart:
        return Here(measure)
    memory = memory_for_a_worker() if measure.kind == "cpu" else None
    return Worker(measure, memory_bytes=memory, stopping=stopping, clock=clock)


_inside = False  # whether this process is a worker


def tell(words: str) -> None:
    """Print what is to be known of a config where its process ends now; nothing where this is no worker."""
    if _inside and words:
        print(words, file=sys.stderr, flush=True)


def _flush() -> None:
    """Write out what a kernel has printed, which would else appear when a later one is run."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def main(descriptor: int) -> None:
    """The worker's side: the measure first, then calls until the owner hangs up."""
    global _inside
    _inside = True
    warnings.simplefilter("ignore", PlaceWarning)  # the owner has said so, and what is printed here is a kernel's
    pipe = Connection(descriptor)
    lock = threading.Lock()
    phase = "starting"

    def send(kind: str, content: Any) -> None:
        message = pickle.dumps((kind, content))
        with lock:
            pipe.send_bytes(message)

    def beat() -> None:
        while True:
            time.sleep(BEAT_S)
            try:
                send("beat", None)
            except OSError:  # the owner is gone, and a kernel that hangs would run forever
                os.killpg(0, signal.SIGKILL)

    threading.Thread(target=beat, daemon=True).start()
    measure: Measure | None = None
    while True:
        try:
            message = pipe.recv()
            if measure is None:
                measure, memory = message
                _limit(memory)
                result: Any = measure.open()  # type: ignore[union-attr]
            else:
                phase = _PHASES[message[0]]
                try:
                    result = _asked(measure, message[0])(*message[1])
                finally:
                    _flush()
            send("done", result)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            os.killpg(0, signal.SIGKILL)
        except Failed as failure:
            send("failed", failure)
        except MemoryError as error:
            send("failed", Failed("runtime", f"out of memory while {phase}", str(error)))
        except BaseException as error:
            last = (str(error).strip().splitlines() or [""])[0]
            status = "compile" if phase == "compiling" else "runtime"
            send("failed", Failed(status, f"{type(error).__name__}: {last}"[:500], traceback.format_exc()[-4000:]))


def _asked(measure: Measure, method: str) -> Callable[..., Any]:
    """Return what answers a call: the measure, or whoever measures energy while it runs."""
    if method == "energy":
        return functools.partial(measured, cast(Launching, measure))
    return getattr(measure, method)  # type: ignore[no-any-return]


def _limit(memory_bytes: int | None) -> None:
    """No core files; at most so much memory, that a config which asks for too much fails by itself."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None and sys.platform == "linux":
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))


def memory_for_a_worker() -> int | None:
    """Three quarters of the memory that is free now, in bytes; None where that is not known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            facts: Mapping[str, str] = dict(line.split(":", 1) for line in file)
        return max(int(facts["MemAvailable"].split()[0]) * 768, 1 << 29)
    except (OSError, KeyError, ValueError):
        return None
