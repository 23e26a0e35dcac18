"""A rank that stays: it runs pieces of a program that it is sent, one after the other, in one world of processes.

``mpiexec -n 4 python rank_cells.py SOCKET`` starts four. Each connects to a Unix socket of whoever started them: once
for orders and answers (lines of JSON, never pickle), once each for what it prints on stdout and stderr and for what
faulthandler writes. A keeper, forked before all else, tells how the rank has ended, and ends it when the other side has
gone.
"""

from __future__ import annotations

import importlib
import os
import sys

if __name__ == "__main__":  # by its path, for the folder that it is started in may have a `core` of its own
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    importlib.import_module("core.distributed.rank_cells").main()

import ast
import ctypes
import faulthandler
import io
import json
import linecache
import queue
import select
import signal
import socket
import threading
import time
import traceback
import types
import zlib
from typing import Any

import numpy as np

from ..alias import as_torch
from ..base import source
from ..ops.queries import set_num_threads
from . import groups, work
from .rank_log import RankLog

ASKED = signal.SIGRTMIN + 9  # a rank that holds Python answers it with its line, by faulthandler
FIRST_S, REPORTS_S, SILENT_S, ROUNDS = 0.02, 0.1, 1.0, 9
__all__ = ["ASKED", "Rank", "compiled", "main"]


def connect(path: str, **told: Any) -> socket.socket:
    """Return a connection, which begins with who one is."""
    found = socket.socket(socket.AF_UNIX)
    found.connect(path)
    found.sendall(json.dumps(told).encode() + b"\n")
    return found


def compiled(text: str, name: str) -> tuple[Any, Any]:
    """Return a cell as code, and its last line as an expression, whose value is shown, or None.

    *Raises*: SyntaxError.

    >>> run, last = compiled("x = 1\\nx + 1", "In [1]")
    >>> exec(run, space := {})
    >>> eval(last, space), compiled("x = 1;", "In [1]")[1]
    (2, None)
    """
    tree = ast.parse(text, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not text.rstrip().endswith(";"):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval")  # type: ignore[attr-defined]
    return compile(tree, name, "exec"), last


def described(error: BaseException, name: str) -> dict[str, Any]:
    """Return an error as plain data: its line in the cell, and a traceback of the user's own frames."""
    shown = traceback.TracebackException.from_exception(error)
    frames = list(shown.stack)
    kept = [f for f in frames if not source.is_ours(f.filename)] or frames[-1:]
    if isinstance(error, SyntaxError):
        kept = [f for f in kept if not f.filename.endswith("ast.py")]
    shown.stack = traceback.StackSummary.from_list(kept)
    own = [f for f in kept if f.filename == name]
    line = own[-1].lineno if own else error.lineno if isinstance(error, SyntaxError) else None
    said = next(iter(str(error).splitlines()), "")
    return {"type": type(error).__name__, "said": said[:2000], "line": line,
            "traceback": "".join(shown.format())[:20_000],
            "name": getattr(error, "name", None) if isinstance(error, NameError) else None}  # fmt: skip


class Rank:
    """The program's side of a rank: its variables, its world, and the cell that runs."""

    def __init__(self, path: str, rank: int, size: int) -> None:
        self.path, self.rank, self.size, self.running = path, rank, size, False
        self.orders: queue.Queue[dict[str, Any]] = queue.Queue()
        self.control = connect(path, rank=rank, kind="control", pid=os.getpid())
        self._sending = threading.Lock()
        for fd, kind in ((1, "stdout"), (2, "stderr")):
            with connect(path, rank=rank, kind=kind) as to:
                os.dup2(to.fileno(), fd)
        self.fault = connect(path, rank=rank, kind="fault")
        faulthandler.enable(self.fault.fileno())
        faulthandler.register(ASKED, self.fault.fileno(), all_threads=True)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(fd, "w", closefd=False), "utf-8", "replace", None, True, True) for fd in (1, 2)
        )
        self.space: dict[str, Any] = {}
        self.alias: Any = None  # while `torch` is core
        signal.signal(signal.SIGINT, self._interrupted)

    def send(self, **told: Any) -> None:
        """Send an answer."""
        with self._sending:
            self.control.sendall(json.dumps(told).encode() + b"\n")

    def _interrupted(self, *_: Any) -> None:
        if self.running:
            raise KeyboardInterrupt

    def _listen(self) -> None:
        for line in self.control.makefile("r", encoding="utf-8"):
            self.orders.put(json.loads(line))
        os._exit(0)  # nobody is left who could send a cell

    # -- the world -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Join the other ranks, and make the module in which cells run."""
        from . import mpi

        self.mpi = mpi
        self.aside = mpi.world(self.rank, self.size)  # for what is no cell's
        self._given = True
        distributed: Any = sys.modules[__package__]
        self._inits, distributed.init_process_group = groups.init_process_group, self._init
        set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self._world()
        main = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = __builtins__
        self.space = main.__dict__
        sys.modules["__main__"] = main
        sys.path[0], sys.argv = "", [""]
        threading.Thread(target=self._listen, daemon=True).start()

    def _init(self, *args: Any, **kwargs: Any) -> None:
        """Begin the group of all processes, as scripts do: here it is there already."""
        if self._given and groups.is_initialized():
            self._given = False
            timeout = kwargs.get("timeout") or (args[2] if len(args) > 2 else None)
            if timeout is not None:
                groups.group.WORLD.timeout_s = timeout.total_seconds()  # type: ignore[union-attr]
            return
        self._inits(*args, **kwargs)

    def _world(self) -> None:
        if not groups.is_initialized():
            self._inits("gloo", rank=self.rank, world_size=self.size)
        self._given = True

    def renew(self) -> None:
        """Give every group a new communicator: what an ended cell has left on its way stays with the old one."""
        _abandoned.extend(work._open.values())  # MPI may still write into their arrays
        work._open.clear()
        for g in groups._World.groups:
            if len(g.ranks) == self.size:
                g.comm = self.mpi.world(self.rank, self.size)
            elif self.rank in g.ranks:
                g.comm = self.aside.part(g.ranks, 16384 + zlib.crc32(g.group_name.encode()) % 16384)

    def align(self) -> float:
        """Return how far rank 0's clock is ahead of this one's, in seconds: by messages to and fro.

        What is no more than half the time of the quickest message and its answer counts as nothing.
        """
        clock, best = np.zeros(1), (float("inf"), 0.0)

        def done(requests: list[Any]) -> None:
            while not all(r.Test() for r in requests):
                os.sched_yield()

        done(self.aside.barrier())
        if self.rank == 0:
            for other in range(1, self.size):
                for _ in range(ROUNDS):
                    done(self.aside.receive(clock, other, 1))
                    clock[0] = time.perf_counter()
                    done(self.aside.send(clock, other, 2))
            done(self.aside.barrier())
            return 0.0
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            done(self.aside.send(clock, 0, 1))
            done(self.aside.receive(clock, 0, 2))
            end = time.perf_counter()
            best = min(best, (end - begin, float(clock[0]) - (begin + end) / 2))
        done(self.aside.barrier())
        return best[1] if abs(best[1]) > best[0] / 2 else 0.0

    # -- cells ---------------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Run cells until nobody sends any."""
        self.send(ready=True)
        while True:
            try:
                order = self.orders.get(timeout=0.05 if work._open else None)
            except queue.Empty:
                work.progress()
                continue
            if order.get("renew"):
                self.renew()
            if "cell" in order:
                self.cell(order)

    def cell(self, order: dict[str, Any]) -> None:
        """Run a cell, and tell what it did."""
        name, text = order["name"], order["cell"]
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        self._world()
        limit = order["timeout"] or groups.default_pg_timeout.total_seconds()
        groups.group.WORLD.timeout_s = limit  # type: ignore[union-attr]
        if order.get("torch") and self.alias is None:
            self.alias = as_torch()
        elif self.alias is not None and not order.get("torch"):
            self.alias.__exit__(None, None, None)
            self.alias = None
        ahead = self.align()
        log = RankLog(self.space)
        ended = threading.Event()
        reports = threading.Thread(target=self._report, args=(log, ahead, ended), daemon=True)
        error, state = None, "done"
        log.start()
        reports.start()
        try:
            self.running = True
            try:
                self._run(text, name)
            finally:
                self.running = False
        except KeyboardInterrupt as stop:
            state, error = "stopped", described(stop, name)
        except SystemExit as stop:
            if stop.code:
                state, error = "failed", described(stop, name)
        except BaseException as raised:
            state, error = "failed", described(raised, name)
        log.stop()
        ended.set()
        reports.join()
        sys.stdout.flush()
        self.send(**log.changed(), ended=state, error=error, ahead=ahead, log=log.told())

    def _run(self, text: str, name: str) -> None:
        code, last = compiled(text, name)
        exec(code, self.space)
        if last is not None:
            value = eval(last, self.space)
            if value is not None:
                self.space["_"] = value
                print(repr(value))

    def _report(self, log: Any, ahead: float, ended: threading.Event) -> None:
        told, at = None, 0.0
        while not ended.wait(REPORTS_S if at else FIRST_S):
            found = log.changed()
            if found["rows"] or found["place"] != told or time.perf_counter() - at > SILENT_S:
                told, at = found["place"], time.perf_counter()
                self.send(**found, ahead=ahead)


_abandoned: list[Any] = []


# -- the keeper --------------------------------------------------------------------------------------------------------


def _with_parent(number: int) -> None:
    ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG


def keep(path: str, rank: int, program: int) -> None:
    """Wait for the program's end and tell it; end the program when the other side has gone."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with connect(path, rank=rank, kind="keeper") as other:
        child = os.pidfd_open(program)
        while child not in (found := select.select([child, other.fileno()], [], [])[0]):
            if found and not other.recv(1):
                os.kill(program, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        try:
            other.sendall(json.dumps({"code": code}).encode() + b"\n")
            while other.recv(64):  # stay: mpiexec ends all ranks when one has ended, before they can say where they are
                pass
        except OSError:
            code = 0
    os._exit(code if code >= 0 else 128 - code)


def main() -> None:
    """Run ``rank_cells.py SOCKET`` as a rank."""
    path, rank, size = sys.argv[1], int(os.environ.get("PMI_RANK", "0")), int(os.environ.get("PMI_SIZE", "1"))
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "NODE_RANK": 0,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}  # fmt: skip
    os.environ.update({k: str(v) for k, v in told.items()})
    keeper = os.getpid()
    program = os.fork()
    if program:
        keep(path, rank, program)
    _with_parent(signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
    found = Rank(path, rank, size)
    found.begin()
    found.serve()
