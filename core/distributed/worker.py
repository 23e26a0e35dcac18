"""One rank of a job that `core.distributed.run` started: the user's program, and a process beside it that watches it.

mpiexec starts this file, three processes of which share one interpreter's memory:

    front     what mpiexec knows: it waits for the keeper and ends with its code
    keeper    in a session of its own, where mpiexec's signals do not reach; parent of the program and what that leaves
    program   the user's, under MPI; a thread of it notes four times a second on which line it is

The program writes where it is into memory that it shares with the keeper, so that this is known whatever becomes of
it. The keeper reports on stderr, at most twice a second, in lines that begin with the job's secret mark; no other
connection is needed, from whatever host. What the program starts and leaves behind is ended with it.

This file imports the standard library alone: the keeper stays small, and is there before core is.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.pop(0)  # this file's folder, which is no place to import from

import contextlib
import ctypes
import faulthandler
import importlib
import json
import linecache
import mmap
import os
import re
import runpy
import select
import signal
import struct
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

__all__ = ["MARK", "children", "end_all", "main", "marked"]

MARK = "CORE_RUN_MARK"  # the environment variable by which a job's processes are known
NOTES_S, REPORTS_S, SILENT_S = 0.25, 0.5, 1.0  # how often a program looks, a keeper reports; reports without news
HELD_S, PATIENCE_S, ALONE_S = (
    2.0,
    1.0,
    10.0,
)  # until it asks; until it ends, of itself, with a failure; without a launcher
SAVING_S = 4.0  # how long a program that handles SIGTERM may take to end
ASKED = signal.SIGRTMIN + 9  # the keeper sends it to a program that holds Python: it answers with its line
_SIZE, _PLACE, _ERROR = 16384, 64, 8192  # of the shared memory, and where in it the two texts begin
_HERE, _CORE = os.path.abspath(__file__), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_MPI = "core.distributed.mpi"
_GROUPS = os.path.join(os.path.dirname(_HERE), "groups.py")
_BEGINNINGS = ("init_process_group", "new_group", "destroy_process_group")  # in these MPI itself waits for other ranks
_LIBRARY = tuple(
    {os.path.realpath(sysconfig.get_path(k)) + os.sep for k in ("stdlib", "platstdlib", "purelib", "platlib")}
)


_prctl = ctypes.CDLL(None).prctl
_PARENT_DEATH, _ADOPT = 1, 36  # send this process a signal when its parent ends; give it its orphaned descendants


def _proc(pid: int | str, name: str) -> bytes:
    """Return what the system says of a process, nothing where there is none."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def children(pid: int) -> list[int]:
    """Return the processes that one has started and that have not been waited for."""
    return [int(k) for k in _proc(pid, f"task/{pid}/children").split()]


def _state(pid: int | str) -> tuple[str, int]:
    """Return the state of a process: R, S, D, T, Z, or "" for none; and its memory in MB."""
    fields = _proc(pid, "stat").rpartition(b")")[2].split()
    return (fields[0].decode(), int(fields[21]) * mmap.PAGESIZE >> 20) if len(fields) > 21 else ("", 0)


def _answers(pid: int) -> bool:
    """Return whether a process catches `ASKED`, which ends one that does not."""
    caught = re.search(rb"^SigCgt:\s*([0-9a-f]+)", _proc(pid, "status"), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (ASKED - 1) & 1)


def marked(mark: str) -> list[int]:
    """Return the processes of this host, but this one, whose environment has a job's mark."""
    wanted, own = f"{MARK}={mark}".encode(), str(os.getpid())
    found = [k for k in os.listdir("/proc") if k.isdigit() and k != own and wanted in _proc(k, "environ").split(b"\0")]
    return [int(k) for k in found if _state(k)[0] not in ("Z", "")]


def end_all() -> list[str]:
    """End every descendant of this process; return what those were that were its children."""
    told: dict[int, str] = {}
    deadline = time.monotonic() + 5.0
    while (mine := children(os.getpid())) and time.monotonic() < deadline:
        for pid in mine:
            command = _proc(pid, "cmdline")[:80].replace(b"\0", b" ").decode(errors="replace").strip()
            told.setdefault(pid, f"pid {pid}: {command}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in mine:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return list(told.values())


class Shared:
    """Memory of the program that the keeper reads: how far it is, on which line, with what error it ends."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self.trace = os.memfd_create("core.distributed.run")  # where faulthandler writes

    def stepped(self, step: int) -> None:
        """Write the number of optimizer steps."""
        struct.pack_into("q", self._memory, 0, step)

    def looked(self, done: int, beat: float, looks: int) -> None:
        """Write how many collectives are done, the time, and how often the program has looked at itself."""
        struct.pack_into("qdq", self._memory, 8, done, beat, looks)

    def numbers(self) -> tuple[int, int, float, int]:
        """Return the numbers."""
        step, done, beat, looks = struct.unpack_from("qqdq", self._memory, 0)
        return step, done, beat, looks

    def write(self, at: int, told: dict[str, Any]) -> None:
        """Write a text of what is told."""
        data = json.dumps(told).encode()
        struct.pack_into("q", self._memory, at, 0)
        self._memory[at + 8 : at + 8 + len(data)] = data
        struct.pack_into("q", self._memory, at, len(data))

    def read(self, at: int) -> dict[str, Any]:
        """Return what was told, an empty dict while it is being written."""
        size = struct.unpack_from("q", self._memory, at)[0]
        try:
            return dict(json.loads(self._memory[at + 8 : at + 8 + size])) if size else {}
        except ValueError:
            return {}

    def traced(self) -> str:
        """Return what faulthandler has written."""
        return os.pread(self.trace, 65536, 0).decode(errors="replace")


# -- the program -------------------------------------------------------------------------------------------------------


def _short(path: str) -> str:
    here = os.path.relpath(path) if os.path.isabs(path) else path
    return path if here.startswith("..") else here


def _users(path: str) -> int:
    """Return 2 for the user's files, 1 for installed packages, 0 for core, Python's library and this file."""
    if path.startswith("<") and not path.startswith("<ipython"):
        return 0
    full = os.path.realpath(path)
    if full == os.path.realpath(_HERE) or full.startswith(os.path.realpath(_CORE) + os.sep):
        return 0
    if "site-packages" in full or "dist-packages" in full:
        return 1
    return 0 if full.startswith(_LIBRARY) else 2


def _line(path: str, number: int, name: str) -> dict[str, Any]:
    return {"file": _short(path)[-200:], "line": number, "name": name[:80],
            "text": linecache.getline(path, number).strip()[:120]}  # fmt: skip


def _innermost(frames: Iterable[tuple[str, int, str]]) -> dict[str, Any]:
    """Return the user's line among calls, the outermost first; and whether a group begins or ends there."""
    best: dict[int, tuple[str, int, str]] = {}
    begins = {}
    for path, number, name in frames:
        best[_users(path)] = (path, number, name)
        if path == _GROUPS and name in _BEGINNINGS:
            begins = {"op": name}
    for kind in (2, 1):
        if kind in best:
            return _line(*best[kind]) | begins
    return begins


def _calls(frame: FrameType | None) -> Iterable[tuple[str, int, str]]:
    found = traceback.walk_stack(frame) if frame is not None else ()
    return reversed([(f.f_code.co_filename, number, f.f_code.co_name) for f, number in found])


def _raised(trace: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    return ((f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(trace))


def _print(error: BaseException) -> None:
    """Print a traceback from the user's first line on."""
    mpi = sys.modules.get(_MPI)  # its hook would end all ranks before this one has reported
    hook = mpi._End.hook if mpi and sys.excepthook is mpi._raised else sys.excepthook
    trace = error.__traceback__
    while trace is not None and not _users(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    hook(type(error), error.with_traceback(trace or error.__traceback__), error.__traceback__)


class Program:
    """The user's program, and the notes it takes of itself."""

    def __init__(self, shared: Shared) -> None:
        self.shared, self.pid, self.steps, self.main = shared, os.getpid(), 0, threading.get_ident()
        self.ended, self.looks = False, 0

    def stepped(self, *_: Any) -> None:
        """Count an optimizer's step."""
        self.steps += 1
        self.shared.stepped(self.steps)

    def look(self) -> None:
        """Note the line on which the program is, and the collective in which it waits."""
        frame = sys._current_frames().get(self.main)
        now = getattr(sys.modules.get("core.distributed.work"), "Now", None)
        waits = now.waits_for[-1:] if now else []  # a copy: the program goes on
        place = _innermost(_calls(frame))
        if self.ended:
            place["ended"] = True
        elif waits:
            ranks = list(getattr(waits[0].group, "ranks", ()))[:64]
            place |= {"op": waits[0].op.partition(" (at ")[0], "bytes": waits[0].size_bytes, "ranks": ranks}
        self.shared.write(_PLACE, place)
        self.looks += 1
        self.shared.looked(now.ended if now else 0, time.monotonic(), self.looks)

    def watch(self) -> None:
        """Look again and again."""
        while True:
            self.look()
            time.sleep(NOTES_S)

    def run(self, args: list[str]) -> None:
        """Run a program, as `python` would have; end this process where it fails, whatever other ranks do."""
        faulthandler.enable(self.shared.trace)
        faulthandler.register(ASKED, self.shared.trace, all_threads=False)
        try:
            self._begin(args)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if error.code is not None and not isinstance(error.code, int):
                print(error.code, file=sys.stderr)
            if code:
                self._failed(f"sys.exit({code})", error, code)
        except KeyboardInterrupt as error:
            self._failed("KeyboardInterrupt", error, 130)
        except BaseException as error:
            _print(error)
            said = next(iter(str(error).splitlines()), "")
            self._failed(f"{type(error).__name__}: {said}" if said else type(error).__name__, error, 1)
        if os.getpid() == self.pid:
            self.ended = True
            self.look()
            if (mpi := sys.modules.get(_MPI)) and mpi._End.failed:  # all ranks are ended, then
                self._failed("a collective failed, and the program went on to its end", None, mpi._End.code)

    def _begin(self, args: list[str]) -> None:
        root = os.path.dirname(_CORE)
        sys.path.insert(0, root)
        optimizer = importlib.import_module("core.optim.optimizer")
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        optimizer.register_optimizer_step_post_hook(self.stepped)
        sys.path.pop(0)
        threading.Thread(target=self.watch, name="core.distributed.worker", daemon=True).start()
        if root not in sys.path:
            sys.path.insert(0, root)
        if args[0] == "--no-python":
            os.execvp(args[1], args[1:])
        if args[0] == "-m":
            sys.argv = args[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(args[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = args
            sys.path.insert(0, os.path.dirname(os.path.abspath(args[0])))
            runpy.run_path(args[0], run_name="__main__")

    def _failed(self, error: str, raised: BaseException | None, code: int) -> None:
        """Say with what the program ends, and end it at once: MPI's own end would wait for the other ranks."""
        if os.getpid() != self.pid:  # a fork of the program
            os._exit(code)
        seen = _innermost(_raised(raised.__traceback__)) if raised else {}
        if isinstance(raised, SyntaxError) and raised.filename:
            seen = _line(raised.filename, raised.lineno or 0, "<module>")
        self.shared.write(_ERROR, {"error": error[:600], **({"place": seen} if seen else {})})
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


# -- the keeper --------------------------------------------------------------------------------------------------------


def _oom_kills() -> int:
    """Return how many processes of this control group the system has ended for want of memory."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path, encoding="ascii") as file:
                found = re.search(r"oom_kill (\d+)", file.read())
            return int(found[1]) if found else 0
        except OSError:
            continue
    return 0


def tell(mark: str, told: dict[str, Any]) -> None:
    """Report: one line, in one write, which nothing divides as it is shorter than PIPE_BUF (4096 bytes)."""
    with contextlib.suppress(OSError):  # the launcher has gone
        os.write(2, f"{mark} {json.dumps(told, ensure_ascii=False)}\n".encode(errors="replace"))


class Keeper:
    """Watches a program: reports where it is, and how it ended; ends what it leaves behind."""

    def __init__(self, rank: int, mark: str, shared: Shared, program: int) -> None:
        self.rank, self.mark, self.shared, self.program = rank, mark, shared, program
        self.host, self.ending, self.oom = os.environ.get("PMI_HOSTNAME") or os.uname().nodename, 0.0, _oom_kills()
        self.sent: dict[str, Any] = {}
        self.sent_s, self.moved_s, self.moved, self.asked_s, self.memory_mb = 0.0, time.monotonic(), (0, 0), 0.0, 0
        self.moved_looks = 0
        self.limit_s = 2 * float(os.environ.get("CORE_RUN_TIMEOUT", "0")) + ALONE_S

    def tell(self, **more: Any) -> None:
        """Report."""
        tell(self.mark, {"rank": self.rank, **more})

    def place(self) -> dict[str, Any]:
        """Return the program's line, from its own notes, or from what it answers where it holds Python."""
        step, done, beat, _ = self.shared.numbers()
        place = self.shared.read(_PLACE)
        if beat and time.monotonic() - beat > HELD_S:
            place = _from_fault(self.shared.traced()) or place
        return {"step": step, "done": done, "place": place}

    def look(self) -> None:
        """Report what has changed; once a second, that nothing has."""
        now = time.monotonic()
        step, done, beat, looks = self.shared.numbers()
        if (step, done) != self.moved or not beat:  # it has not begun: core is being imported
            self.moved, self.moved_s, self.moved_looks = (step, done), now, looks
        state, memory_mb = _state(self.program)
        self.memory_mb = memory_mb or self.memory_mb
        if self.limit_s > ALONE_S and now - self.moved_s > self.limit_s:  # the launcher cannot be reached
            self.end()
        if beat and now - max(beat, self.asked_s) > HELD_S and state not in ("T", "t", "Z") and _answers(self.program):
            self.asked_s = now
            os.ftruncate(self.shared.trace, 0)
            os.lseek(self.shared.trace, 0, os.SEEK_SET)
            os.kill(self.program, ASKED)
        told = {**self.place(), "stopped": state == "T"}
        if told != self.sent or now - self.sent_s > SILENT_S:
            self.sent, self.sent_s = told, now
            self.tell(**told, still_s=round(now - self.moved_s, 1), looks=looks - self.moved_looks,
                      memory_mb=self.memory_mb)  # fmt: skip

    def watch(self) -> int:
        """Report until the program has ended, or is to be ended; return its code."""
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.end)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        self.tell(pid=self.program, front=os.getppid(), host=self.host)
        while (status := self._reaped()) is None:
            if self.ending and time.monotonic() > self.ending:
                os.kill(self.program, signal.SIGKILL)
            if not self.ending:
                self.look()
            if select.select([wake], [], [], 0.1 if self.ending else REPORTS_S)[0]:
                os.read(wake, 512)
        return self.ended(status)

    def _reaped(self) -> int | None:
        """Wait for processes that have ended; return the program's status, None while it runs."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == self.program:
                return status
            if not pid:
                return None

    def end(self, *_: Any) -> None:
        """End the program: it has some seconds to do so by itself."""
        if not self.ending:
            self.ending = time.monotonic() + SAVING_S
            for number in (signal.SIGTERM, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.program, number)

    def ended(self, status: int) -> int:
        """Report how the program ended, and end what it left behind."""
        code = os.waitstatus_to_exitcode(status)
        told: dict[str, Any] = {"code": code, **self.place(), **self.shared.read(_ERROR)}
        if code < 0:
            told["oom"] = _oom_kills() > self.oom
            if "Fatal Python error" in (trace := self.shared.traced()):
                told["place"] = _from_fault(trace) or told["place"]
                os.write(2, trace.encode()[:8192])
        self.tell(**told, ordered=bool(self.ending))
        left = end_all()
        if left and not self.ending:
            self.tell(left=left[:8])
        if code and not self.ending:  # the launcher looks at the other ranks first, then ends them
            signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
            time.sleep(PATIENCE_S)
        return code if code >= 0 else 128 - code


def _from_fault(trace: str) -> dict[str, Any]:
    """Return the user's line of what faulthandler wrote, whose innermost call comes first."""
    parts = re.split(r"^((?:Current thread|Thread|Stack) .*)$", trace, flags=re.MULTILINE)
    best: dict[str, Any] = {}
    for title, part in zip(parts[1::2], parts[2::2], strict=True):
        found = re.findall(r'^  File "(.*)", line (\d+) in (.*)$', part, re.MULTILINE)
        place = _innermost((path, int(number), name) for path, number, name in reversed(found))
        if place and (not best or not title.startswith("Thread")):
            best = place
    return best


# -- the front ---------------------------------------------------------------------------------------------------------


def environment(rank: int) -> dict[str, str]:
    """Return torchrun's variables of a rank, from those of the launcher: the numbers of ranks on each host."""
    hosts = [int(k) for k in os.environ.get("CORE_RUN_HOSTS", "1").split(",")]
    node, local = 0, rank
    while local >= hosts[node] and node < len(hosts) - 1:
        local, node = local - hosts[node], node + 1
    told = {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": sum(hosts), "LOCAL_WORLD_SIZE": hosts[node],
            "NODE_RANK": node, "GROUP_RANK": node, "GROUP_WORLD_SIZE": len(hosts), "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": sum(hosts), "ROLE_NAME": "default"}  # fmt: skip
    return {k: str(v) for k, v in told.items()}


def main() -> None:
    """Run ``worker.py program.py args`` or ``worker.py -m module args`` as a rank."""
    rank = int(os.environ.get("PMI_RANK", "0"))
    mark = os.environ[MARK]
    os.environ.update(environment(rank))
    keeper = os.fork()
    if keeper:  # the front

        def passed(*_: Any) -> None:
            os.kill(keeper, signal.SIGTERM)

        signal.signal(signal.SIGTERM, passed)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _prctl(_PARENT_DEATH, signal.SIGTERM)
        code = os.waitstatus_to_exitcode(os.waitpid(keeper, 0)[1])
        if code < 0:  # somebody ended the keeper, and the system the program with it
            tell(mark, {"rank": rank, "code": code})
            time.sleep(PATIENCE_S)
        os._exit(code & 255)
    front = os.getppid()
    os.setsid()
    _prctl(_ADOPT, 1)
    shared = Shared()
    keeper = os.getpid()
    program = os.fork()
    if program:
        _prctl(_PARENT_DEATH, signal.SIGTERM)
        watcher = Keeper(rank, mark, shared, program)
        if os.getppid() != front:
            watcher.end()
        os._exit(watcher.watch())
    _prctl(_PARENT_DEATH, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
    Program(shared).run(sys.argv[1:])


if __name__ == "__main__":
    main()
