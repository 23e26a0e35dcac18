"""The worker processes of a loader, seen from their parent: started, listened to, mourned, ended."""

from __future__ import annotations

import _thread
import contextlib
import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import native
from ...base.errors import text
from ...rng import generator
from .channel import Channel, TooManyFiles
from .fetching import STARTING
from .packing import order as packed
from .packing import outward
from .segments import Inbox, Mapping, create, fill, offsets
from .worker import BOARD_SIZE, ENDED, PASS, PLACE, TASK

_PATIENCE = 2.0  # seconds a worker has to come to the end of its sample before it is told to stop
_ONE_THREAD = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "VECLIB_MAXIMUM")
# What a worker does first, before it imports anything that takes time: let the system kill it when the pipe `life`
# closes, whose other end only the parent has, however that ends. Where it was closed before, it goes at once.
_START = """\
import fcntl, os, select, sys
try:
    fcntl.fcntl({life}, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl({life}, getattr(fcntl, "F_SETSIG", 10), {kill})
    fcntl.fcntl({life}, fcntl.F_SETFL, fcntl.fcntl({life}, fcntl.F_GETFL) | os.O_ASYNC)
except OSError:  # a sandbox without them: the end of the socket ends it, after its sample
    pass
watch = select.poll()
watch.register({life}, 0)
if not watch.poll(0):
    sys.path[:] = {path!r}
    from {package}.worker import main
    main({its}, {life}, {board})
"""
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _board() -> int:
    try:
        return create("board")
    except OSError:
        import tempfile

        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


class Died(Exception):
    """A worker process is gone: which, how, and what it was at."""

    def __init__(self, worker: int, how: str, remedy: str, board: Any, last_words: str) -> None:
        super().__init__(how)
        self.worker, self.how, self.remedy, self.last_words = worker, how, remedy, last_words
        self.task, self.place = int(board[TASK]), int(board[PLACE])


@contextlib.contextmanager
def _ctrl_c_afterwards() -> Iterator[None]:
    """Let Ctrl-C be heard at the end of the block, not in it.

    A mask of signals does not do: another thread, such as those of the kernels, may take the signal, and Python then
    raises KeyboardInterrupt here all the same, perhaps between the start of a process and the note of its number.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # elsewhere nothing is raised
        return
    came: list[Any] = []
    try:
        signal.signal(signal.SIGINT, lambda *given: came.append(given))
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])


class _Worker:
    """One of them."""

    def __init__(self, id: int, keep: int, among: list[_Worker]) -> None:
        """Start it. It is `among` the pool's before it has anything that must be ended: Ctrl-C may come anywhere."""
        self.id, self.inbox = id, Inbox(keep)
        self.process: subprocess.Popen[bytes] | None = None
        self._files: list[int] = []
        self.channel: Any = None
        among.append(self)
        mine, its = socket.socketpair()
        mine.setblocking(False)
        self.channel = Channel(mine)
        self.pid_file = -1
        with its:
            try:
                life_read, life = os.pipe()
                self._files += [life_read, life]
                self.board_file = _board()
                self._files.append(self.board_file)
                os.ftruncate(self.board_file, 4 * BOARD_SIZE)
                self.board = np.asarray(Mapping(self.board_file, BOARD_SIZE)).view(np.int64)
                self._start(its.fileno(), life_read)
                self._files.remove(life_read)
                os.close(life_read)
            except BaseException:
                self.bury()
                raise

    def _start(self, its: int, life: int) -> None:
        path = [p or os.getcwd() for p in sys.path if isinstance(p, str)]
        code = _START.format(life=life, kill=int(signal.SIGKILL), path=path, package=__package__, its=its,
                             board=self.board_file)  # fmt: skip
        flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
        flags += [] if "-P" in flags else ["-P"]  # nothing of the working directory passes for the standard library
        env = {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in _ONE_THREAD}}
        if not native.available:
            env["GRADLAB_NATIVE"] = "0"  # the parent has already said so
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.process = process = subprocess.Popen.__new__(subprocess.Popen)  # known before it runs
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
            with _ctrl_c_afterwards():
                process.__init__([sys.executable, *flags, "-c", code], stdin=subprocess.DEVNULL,  # type: ignore[misc]
                                 pass_fds=(its, life, self.board_file), env=env)  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        with contextlib.suppress(AttributeError, OSError):  # Linux before 5.3 has none: the end of the socket tells
            self.pid_file = os.pidfd_open(process.pid)
            self._files.append(self.pid_file)

    def send(self, *message: Any) -> None:
        """Send a message, after what waits. Where the worker is gone, `Pool.receive` says so."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if message:
                self.channel.send(*message)
            else:
                self.channel.flush()
            return
        self.channel.drop()

    def bury(self) -> None:
        """Kill the process if it runs, and release; nothing where that was done."""
        if self.process is not None and self.running():
            self.process.kill()
            self.process.wait()
        self.release()

    def running(self) -> bool:
        """Return whether it has a process that has not ended."""
        return getattr(self.process, "pid", None) is not None and self.process.poll() is None  # type: ignore[union-attr]

    def release(self) -> None:
        """Close everything that this process holds of it."""
        if self.channel is not None:
            self.channel.close()
        self.inbox.close()
        while self._files:  # one of them is the pipe that keeps the worker alive
            os.close(self._files.pop())

    def crash_text(self) -> str:
        """Return the traceback that the process wrote as it crashed, if it did."""
        return os.pread(self.board_file, 3 * BOARD_SIZE, BOARD_SIZE).rstrip(b"\0").decode(errors="replace").rstrip()


class Pool:
    """The workers of one pass, or of all passes where they persist.

    *Raises*: TypeError, `pickle.PicklingError` where the data set cannot be sent; OSError where no process starts.
    """

    def __init__(self, loader: Any, base_seed: int, serial: int) -> None:
        self.owner, self.closed, self.workers = os.getpid(), False, []  # type: tuple[int, bool, list[_Worker]]
        if not sys.executable:
            raise RuntimeError(text("DataLoader: sys.executable is not set, so no worker process can be started",
                                    op="DataLoader", remedy="num_workers=0"))  # fmt: skip
        body, buffers = outward({"dataset": loader.dataset, "collate_fn": loader.collate_fn,
                                 "worker_init_fn": loader.worker_init_fn})  # fmt: skip
        data: list[Any] = [body, *buffers]
        sizes = [memoryview(b).nbytes for b in data]
        order = {
            "serial": serial, "sizes": sizes, "base_seed": base_seed, "num_workers": loader.num_workers,
            "kind": generator.default_generator.kind, "argv": list(sys.argv), "iterable": loader._iterable,
            "batched": loader.batch_sampler is not None, "drop_last": loader.drop_last,
        }  # fmt: skip
        files: list[int] = []
        if offsets(sizes)[1] > 1 << 16:
            try:
                files = [create("dataset")]
                fill(files[0], data)
                data = []
            except OSError:  # no such memory: through the socket then
                while files:
                    os.close(files.pop())
        _pools.add(self)
        try:
            for id in range(loader.num_workers):
                worker = _Worker(id, loader.prefetch_factor + 1, self.workers)
                worker.board[PASS], worker.board[PLACE] = serial, STARTING
                worker.send(pickle.dumps({**order, "id": id}), data, files)
        except BaseException:
            self.close(0.0)
            raise
        finally:
            for file in files:
                os.close(file)

    def send(self, id: int, order: str, serial: int, number: int = -1, wanted: Any = None) -> None:
        """Give an order to a worker."""
        worker = self.workers[id]
        free, dropped = worker.inbox.released()
        worker.send(packed((order, serial, number, wanted, free, dropped)))

    def start_pass(self, serial: int) -> None:
        """Let the workers leave what they are at, and begin anew."""
        for worker in self.workers:
            worker.board[PASS] = serial
            self.send(worker.id, "pass", serial)

    def receive(self, timeout: float | None) -> Iterator[tuple[int, tuple[str, int, int, tuple[Any, ...]], Any]]:
        """Yield what workers say: (worker, (kind, pass, number, more), the bytes of a batch); nothing after `timeout`.

        *Raises*: Died where one of them is gone.
        """
        poll = select.poll()
        by_file = {}
        for worker in self.workers:
            poll.register(worker.channel, select.POLLIN | (select.POLLOUT if worker.channel.waiting else 0))
            by_file[worker.channel.fileno()] = worker
            if worker.pid_file >= 0:
                poll.register(worker.pid_file, select.POLLIN)
                by_file[worker.pid_file] = worker
        events = poll.poll(None if timeout is None else max(timeout, 0.0) * 1e3)
        for worker in dict.fromkeys(by_file[file] for file, _ in events):
            gone = any(file == worker.pid_file for file, _ in events)
            worker.send()
            try:
                while (message := worker.channel.receive()) is not None:
                    reply = pickle.loads(message.body)
                    yield worker.id, reply, self._data(worker, reply, message)
            except TooManyFiles as error:
                raise RuntimeError(text(
                    "Too many open files. Communication with the workers is no longer possible", op="DataLoader",
                    came=f"the limit of {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} open files is reached",
                    remedy="ulimit -n with a larger number in the shell; or close some")) from error  # fmt: skip
            except (EOFError, ConnectionResetError):
                gone = True
            if gone:
                raise self._death(worker)

    def _data(self, worker: _Worker, reply: Any, message: Any) -> Any:
        kind, _, _, more = reply
        if kind != "batch" or more[2] is None:
            return message.data
        slot, room = more[2]
        file = message.files[0] if message.files else None
        try:
            return worker.inbox.take(slot, room, file)
        finally:
            if file is not None:
                os.close(file)

    def _death(self, worker: _Worker) -> Died:
        assert worker.process is not None
        try:
            code = worker.process.wait(1.0)
        except subprocess.TimeoutExpired:  # it closed its socket and lives on
            worker.process.kill()
            code = worker.process.wait()
        pid = worker.process.pid
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            how = f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-code)}. ({name})"
        else:
            how = f"DataLoader worker (pid(s) {pid}) exited unexpectedly with exit code {code}"
        if code == -signal.SIGKILL:
            remedy = "the system sends SIGKILL where memory runs out: fewer workers, smaller batches"
        elif code < 0:
            remedy = "num_workers=0 shows the same sample in this process"
        else:
            remedy = "see what it wrote to standard error; num_workers=0 shows the same sample in this process"
        return Died(worker.id, how, remedy, worker.board, worker.crash_text())

    def close(self, patience: float = _PATIENCE) -> None:
        """End the workers: those that are not done with their sample in time are stopped, then killed.

        Where Ctrl-C comes meanwhile, those that are left are killed at once, and it is raised."""
        if self.closed or os.getpid() != self.owner:
            return
        try:
            for worker in self.workers:
                if worker.process is not None:  # else Ctrl-C came before it was started
                    worker.board[PASS] = ENDED
                    worker.channel.close()
            self._wait(patience)
            for act in ("terminate", "kill"):
                for worker in self._alive():
                    getattr(worker.process, act)()
                self._wait(0.5)
            self._bury()
        except BaseException:
            self._bury()
            raise

    def _bury(self) -> None:
        for worker in self.workers:
            worker.bury()
        self.closed = True  # at the very end: what was interrupted is done again

    def finish(self, patience: float = _PATIENCE) -> None:
        """Close from where nothing can be raised, as nobody needs the pool any more: Ctrl-C that comes meanwhile is
        raised in what runs afterwards, and not lost with a line on standard error."""
        try:
            self.close(patience)
        except KeyboardInterrupt:
            self.close(0.0)
            # by another thread, which cannot run before this function has returned to what called it
            _thread.start_new_thread(_thread.interrupt_main, ())

    def __del__(self) -> None:
        if not getattr(self, "closed", True):
            self.finish(0.0)

    def _alive(self) -> list[_Worker]:
        return [w for w in self.workers if w.running()]

    def _wait(self, patience: float) -> None:
        until = time.monotonic() + patience
        while (alive := self._alive()) and (left := until - time.monotonic()) > 0:
            if all(w.pid_file >= 0 for w in alive):
                poll = select.poll()
                for worker in alive:
                    poll.register(worker.pid_file, select.POLLIN)
                poll.poll(left * 1e3)
            else:
                time.sleep(min(left, 0.01))

    def forget(self) -> None:
        """In a forked child: the workers are the parent's, and only he may keep them alive."""
        self.closed = True
        for worker in self.workers:
            worker.release()
            if worker.process is not None:
                worker.process.returncode = 0  # not this process's to wait for


def _before_fork() -> None:
    for pool in list(_pools):
        for worker in pool.workers:
            worker.inbox.forked()


def _after_fork() -> None:
    for pool in list(_pools):
        if not pool.closed:
            pool.forget()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
