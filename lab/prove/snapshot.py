"""A process as it was before a cell: a child that sleeps until it is asked to run the cell's text, as it is or patched.

The child reads orders from a pipe; for each it forks a worker, so that one snapshot serves any number of runs, each
from the same state: names, arrays, random numbers. A worker is fenced, runs the text and answers in JSON. Nothing is
pickled, and the pipes are private to the three processes.
"""

from __future__ import annotations

import gc
import glob
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from core.base.pytorch import pytorch

from . import descriptors, fence, worker

FOLDER = "gradlab-try-"  # a worker's, with the process that made it and a random name
LOOKS_S = 0.02  # between two looks at a worker's memory
LEAST_PAUSE_S, MOST_SHARE = 0.5, 0.01  # between the sleeping process's looks at its own memory; of a processor's time
LARGE_BYTES = 1 << 30  # of the process of which a copy is made in any case
EASY_BYTES = 1 << 30  # of the process of which a copy is made unasked
HELD_BYTES = 512 << 20  # that the sleeping process may come to hold alone, while the cell writes what both had
DISK_BYTES = 512 << 20  # that a worker may write to its folder
PATIENCE_S = 30.0  # beyond the time of a run: before the first one packages load what they load at a first step
GONE = "the copy of the process from before the cell has gone"
TOO_LONG = "it took longer than"
TOO_MUCH = f"that copy was given up: the cell changed more than {HELD_BYTES >> 20} MB of memory"
_CHUNK = 1 << 20
_HELD_TOO_MUCH = 3  # exit status of a sleeping process


def _as_it_is(text: str) -> str:
    return text


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Scene:
    """Where a cell's text runs: its names, how it becomes Python, and what keeps a copy from being seen or heard."""

    space: dict[str, Any]
    transform: Callable[[str], str] = _as_it_is
    quiet: Callable[[], None] = _nothing


@dataclass(frozen=True)
class Order:
    """One run of a text: `what` is "measure" or "record"; after `steps` backward passes it ends (0: never).

    `others` are other sources with a changed text, `again` what runs again before it, each (file, text).
    """

    text: str
    what: str = "measure"
    steps: int = 0
    seconds: float = 20.0
    megabytes: int = 2048
    others: tuple[tuple[str, str], ...] = ()
    again: tuple[tuple[str, str], ...] = ()


def missing(*, asked: bool = True) -> str:
    """Return why nothing can be tried in this process; "" where it can. What nobody asked for has to cost little."""
    reason = fence.missing()
    torch, core = pytorch(), sys.modules.get("core")
    for library in (torch, core):
        cuda = getattr(library, "cuda", None)
        if cuda is None or not getattr(cuda, "is_initialized", bool)():
            continue
        if cuda.get_device_capability() != (0, 0):  # Triton's interpreter is no GPU
            reason = reason or "the GPU is in use, and a copy of this process could not use it"
    return reason or _too_large(asked)


def _too_large(asked: bool) -> str:
    """Each page that the cell writes is copied once: a large process waits for that, and may fill the memory."""
    mine = _resident(os.getpid())
    with open("/proc/meminfo") as lines:
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    most = max(LARGE_BYTES, free // 4)
    if not asked and min(EASY_BYTES, free // 4) < mine <= most:
        return f"this process holds {mine >> 20:,} MB, of which `%%autograd --try` alone makes a copy"
    return f"this process holds {mine >> 20:,} MB, too much for a copy" if mine > most else ""


class Snapshot:
    """The state before a cell, until `close`. *Raises*: OSError where no process can be made."""

    def __init__(self, scene: Scene) -> None:
        order_read, self._orders = os.pipe()
        self._answers, answer_write = os.pipe()
        state, parent = random.getstate(), os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: what it forks knows
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._orders)
                os.close(self._answers)
                fence.die_with_parent(parent)
                # else who reads from a pipe that the parent closes would wait on, and its ports would stay taken
                descriptors.own_descriptors({order_read, answer_write})
                _sleep(scene, order_read, answer_write, state)
            finally:
                os._exit(0)  # no exit handlers, and no buffers that were the parent's
        os.close(order_read)
        os.close(answer_write)
        self.gone = ""  # why, once it has
        self._rest = b""
        self._ending = threading.Lock()

    def run(self, order: Order) -> dict[str, Any]:
        """Run a text in the state before the cell. Whatever becomes of it, the answer is there within its seconds."""
        if not self.pid:
            return {"error": self.gone}
        poll, end = select.poll(), time.monotonic() + order.seconds + PATIENCE_S
        poll.register(self._answers, select.POLLIN)
        try:
            _write(self._orders, json.dumps(order.__dict__).encode() + b"\n")
            while b"\n" not in self._rest:
                left = end - time.monotonic()
                got = os.read(self._answers, _CHUNK) if left > 0 and poll.poll(left * 1000) else b""
                if not got:
                    self.close()
                    return {"error": self.gone}
                self._rest += got
        except OSError:
            self.close()
            return {"error": self.gone}
        except BaseException:  # an interrupt: the answer would be taken for the next order's
            self.close()
            raise
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """End the sleeping process; who waits in `run`, in another thread, is answered at once. `close` must follow."""
        with self._ending, suppress(ProcessLookupError):
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the sleeping process, and the worker that it may have. Twice does nothing more."""
        with self._ending:
            pid, self.pid = self.pid, 0
        if pid:
            os.close(self._orders)
            os.close(self._answers)
            self.gone = GONE
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                _, status = os.waitpid(pid, 0)
                if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _HELD_TOO_MUCH:
                    self.gone = TOO_MUCH
            for folder in glob.glob(os.path.join(tempfile.gettempdir(), f"{FOLDER}{pid}-*")):
                shutil.rmtree(folder, ignore_errors=True)  # of a worker that was running still


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _sleep(scene: Scene, orders: int, answers: int, state: Any) -> None:
    """The child: wait for orders, and give each to a worker."""
    os.setsid()  # an interrupt of the kernel goes to its whole group
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    gc.disable()
    gc.freeze()  # a collection would write to every object's header, and copy its page
    random.setstate(state)  # Python seeds its generator anew in a forked process
    rest, poll, pause, warm = b"", select.poll(), LEAST_PAUSE_S, False
    poll.register(orders, select.POLLIN)
    while True:
        while b"\n" not in rest:
            if not poll.poll(1000 * pause):
                begin = time.process_time()
                if _alone() > HELD_BYTES:
                    os._exit(_HELD_TOO_MUCH)
                pause = max(LEAST_PAUSE_S, (time.process_time() - begin) / MOST_SHARE)
                continue
            got = os.read(orders, _CHUNK)
            if not got:
                return
            rest += got
        line, _, rest = rest.partition(b"\n")
        if not warm:  # not before: what is never asked costs nothing
            worker.warm()
            warm = True
        _write(answers, _serve(scene, Order(**json.loads(line)), state) + b"\n")


def _serve(scene: Scene, order: Order, state: Any) -> bytes:
    """Let a worker run an order; return its answer, or why there is none."""
    read, write = os.pipe()
    folder = tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-")
    try:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read)
                random.setstate(state)
                fence.die_with_parent(parent)
                answer = worker.work(scene, order, {write}, folder)
                _write(write, json.dumps(answer).encode())
            finally:
                os._exit(0)
        os.close(write)
        got, why = _watch(pid, read, order, folder)
        os.close(read)
        _, status = os.waitpid(pid, 0)
        if why or not got:
            sort = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
            return json.dumps({"error": why or f"the trial's process ended with {sort}"}).encode()
        return got
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _watch(pid: int, read: int, order: Order, folder: str) -> tuple[bytes, str]:
    """Read a worker's answer; kill it where it takes too long or too much, and say why."""
    poll, got, end = select.poll(), b"", time.monotonic() + order.seconds
    poll.register(read, select.POLLIN)
    most = _resident(pid) + (order.megabytes << 20)
    while True:
        if poll.poll(LOOKS_S * 1000):
            part = os.read(read, _CHUNK)
            if not part:
                return got, ""
            got += part
        why = ""
        if time.monotonic() > end:
            why = f"{TOO_LONG} {order.seconds:.0f} s"
        elif _resident(pid) > most:
            why = f"it took more than {order.megabytes:,} MB of memory"
        elif _on_disk(folder) > DISK_BYTES:
            why = f"it wrote more than {DISK_BYTES >> 20} MB of files"
        if why:
            os.kill(pid, signal.SIGKILL)
            return b"", why


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0


def _alone() -> int:
    """The bytes that this process alone holds."""
    try:
        with open("/proc/self/smaps_rollup") as lines:
            return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))
    except OSError:
        return 0


def _on_disk(folder: str) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
    return total
