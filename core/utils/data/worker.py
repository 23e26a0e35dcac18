"""A worker process of a `DataLoader`: what it is told, what it does, what it answers.

It is a fresh interpreter that imports `core` and then reads its orders from a socket that only its parent holds the
other end of; the user's main module is not run again. It ends when the socket ends. When the parent is gone, however
that came, the system kills it, for which `pool` has the lines that it begins with.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import pickle
import random
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops import queries
from ...rng.generator import manual_seed
from . import info
from .channel import Channel, Message
from .fetching import COLLATING, IDLE, SINGLE, STARTING, WHOLE_BATCH, MapFetcher, StreamFetcher
from .packing import home, parts
from .segments import Mapping, Outbox, offsets

# The board, a page that both processes see: the pass that is wanted, the batch in work, the place in it.
PASS, TASK, PLACE = range(3)
ENDED = -1  # instead of a pass: the loader is done
BOARD_SIZE = 4096  # behind it the text of a crash
_INLINE = 1 << 14  # bytes; less goes through the socket, which is cheaper than the page faults of a segment


class _Stale(Exception):
    """Nobody waits for this batch any more."""


def numpy_seed(base: int, worker: int) -> Any:
    """Return what `numpy.random` is seeded with in a worker: PyTorch's numbers."""
    return np.random.SeedSequence([worker, base & 0xFFFFFFFF, base >> 32, 0]).generate_state(4)


def main(socket_fd: int, life_fd: int, board_fd: int) -> None:
    """Be a worker, until the other end of the socket is closed."""
    # Ctrl-C in a terminal reaches all its processes; what is to be done about it is the parent's to say. It came
    # blocked, so that it could not hit the start either.
    signal.signal(signal.SIGINT, lambda *ignored: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for file in (socket_fd, life_fd, board_fd):
        os.set_inheritable(file, False)
    os.lseek(board_fd, BOARD_SIZE, os.SEEK_SET)
    faulthandler.enable(board_fd)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _Worker(Channel(socket.socket(fileno=socket_fd)), board_fd).run()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)  # taking modules apart takes 30 ms, for which the parent would wait


_generate_state = numpy_seed  # PyTorch's name


class _Worker:
    def __init__(self, channel: Channel, board_fd: int) -> None:
        self.channel, self.outbox = channel, Outbox()
        self.board = np.asarray(Mapping(board_fd, BOARD_SIZE)).view(np.int64)
        self.serial = 0  # of the pass it works for
        self.fetcher: Any = None
        self.new_fetcher: Callable[[], Any]

    def at(self, place: int) -> None:
        """Note on the board which sample is being made; stop where nobody waits for it."""
        self.board[PLACE] = place
        if self.board[PASS] != self.serial:
            raise _Stale

    def run(self) -> None:
        """Follow orders until the socket ends."""
        message = self._message()
        try:
            self._set_up(message, **pickle.loads(message.body))
        except Exception as error:
            self._failed(-1, error, None)
        while True:
            order, serial, number, wanted, free, dropped = pickle.loads(self._message().body)
            self.outbox.released(free, dropped)
            if self.board[PASS] != serial:
                continue
            try:
                if order == "pass":
                    self.serial = serial
                    self.fetcher = self.new_fetcher()
                elif self.fetcher is not None:
                    self.board[TASK] = number
                    self._answer(number, wanted)
            except _Stale:
                pass
            except Exception as error:
                self._failed(number, error, wanted)
            self.board[PLACE] = IDLE

    def _message(self) -> Message:
        message = self.channel.receive()
        assert message is not None  # this socket blocks
        return message

    def _set_up(self, message: Message, serial: int, sizes: list[int], base_seed: int, id: int, num_workers: int,
                kind: str, argv: list[str], iterable: bool, batched: bool, drop_last: bool) -> None:  # fmt: skip
        self.serial = serial
        sys.argv = argv
        queries.set_num_threads(1)
        random.seed(base_seed + id)
        manual_seed(base_seed + id, kind=kind)
        np.random.seed(numpy_seed(base_seed, id))  # noqa: NPY002 - data sets draw from it
        data = message.data
        if message.files:  # one memory for all workers; what one of them writes is its own
            size = os.fstat(message.files[0]).st_size
            data = np.asarray(Mapping(message.files[0], size, private=True))
            os.close(message.files[0])
        body, *buffers = parts(data, sizes)
        try:
            given = pickle.loads(body, buffers=buffers)
        except Exception as error:
            error.add_note("DataLoader: the worker process could not load the data set, collate_fn or worker_init_fn "
                           f"that it was sent\n  sys.path: {sys.path}\n  remedy: keep what they need where it can be "
                           "imported from there; or num_workers=0")  # fmt: skip
            raise
        dataset, collate, init = given["dataset"], given["collate_fn"], given["worker_init_fn"]
        info.current = info.WorkerInfo(id, num_workers, base_seed + id, dataset)
        if init is not None:
            init(id)
        self.new_fetcher = (
            (lambda: StreamFetcher(dataset, batched, collate, drop_last, self.at)) if iterable
            else (lambda: MapFetcher(dataset, batched, collate, self.at))
        )  # fmt: skip
        self.fetcher = self.new_fetcher()

    def _answer(self, number: int, wanted: Any) -> None:
        try:
            batch = self.fetcher.fetch(wanted)
        except StopIteration as error:
            if not isinstance(self.fetcher, StreamFetcher):  # it would end the parent's loop without a word
                raise RuntimeError("the data set raised StopIteration for a sample") from error
            self._send("end", number)
            return
        body, buffers = home(batch)
        sizes = [memoryview(b).nbytes for b in buffers]
        _, size = offsets(sizes)
        if size < _INLINE:
            self._send("batch", number, body, sizes, None, "", buffers=buffers)
            return
        try:
            slot, room, file = self.outbox.put(buffers, size)
        except OSError as error:
            self._send("batch", number, body, sizes, None, str(error), buffers=buffers)
            return
        self._send("batch", number, body, sizes, (slot, room), "", files=() if file is None else (file,))

    def _send(self, kind: str, number: int, *more: Any, buffers: Any = (), files: Any = ()) -> None:
        self.channel.send(pickle.dumps((kind, self.serial, number, more)), buffers, files)

    def _failed(self, number: int, error: Exception, wanted: Any) -> None:
        here = os.path.dirname(__file__)
        inner = error.__traceback__
        while inner is not None and os.path.dirname(inner.tb_frame.f_code.co_filename) == here:
            inner = inner.tb_next
        told = "".join(traceback.format_exception(type(error), error, inner or error.__traceback__))
        try:
            kind = home(type(error))[0]
        except Exception:
            kind = b""
        where = described(int(self.board[PLACE]), wanted)
        self._send("error", number, kind, type(error).__name__, told, where)


def described(place: int, wanted: Any) -> str:
    """Return the sample that a place on the board means, for the text of an error."""
    if place == STARTING:
        return "while it started"
    if place == IDLE:
        return "between two batches"
    if place == SINGLE:
        return f"at the sample with index {_short(wanted)}"
    stream = wanted is None or (isinstance(wanted, list) and wanted[:1] == [None])
    if stream:
        return "while collating" if place == COLLATING else f"at sample number {place} of its stream"
    if place == COLLATING:
        return f"while collating the samples with indices {_short(wanted)}"
    if place == WHOLE_BATCH:
        return f"at the samples with indices {_short(wanted)}"
    try:
        return f"at the sample with index {_short(list(wanted)[place])}, number {place} of its batch"
    except (TypeError, IndexError):
        return f"at sample number {place} of its batch"


def _short(wanted: Any) -> str:
    told = repr(wanted)
    return told if len(told) < 200 else f"{told[:100]} ... {told[-60:]}"
