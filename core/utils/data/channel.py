"""Messages between two processes over a socket: a pickle, the buffers that belong to it, and open files."""

from __future__ import annotations

import os
import socket
import struct
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .segments import aligned

_HEAD = struct.Struct("<QQI")  # bytes of the pickle, bytes of the buffers, number of descriptors
_MOST_FILES = 4
_MOST_BUFFERS = 512
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Message(NamedTuple):
    """What came: `data` holds the buffers, each beginning on a cache line."""

    body: bytes
    data: Any
    files: list[int]


class _Waiting:
    """What is still to be sent of a message."""

    def __init__(self, pieces: list[memoryview], files: list[int]) -> None:
        self.pieces, self.files, self.mine = pieces, files, False

    def forget_files(self) -> None:
        """Close those that were duplicated for this message."""
        while self.files:
            file = self.files.pop()
            if self.mine:
                os.close(file)


class TooManyFiles(OSError):
    """A descriptor was sent, and this process had no room for it."""


class Channel:
    """One end of a socket. Where it does not block, `send` keeps what does not fit, and `flush` sends it later."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.waiting: deque[_Waiting] = deque()
        self._clear()

    def _clear(self) -> None:
        self._head, self._got = bytearray(_HEAD.size), 0
        self._files: list[int] = []
        self._body: Any = None
        self._data: Any = None

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        """Close this end: the other one reads an end of file."""
        while self._files:
            os.close(self._files.pop())
        self.drop()
        self.socket.close()

    def drop(self) -> None:
        """Send nothing of what waits."""
        while self.waiting:
            self.waiting.popleft().forget_files()

    def send(self, body: bytes, buffers: Sequence[Any] = (), files: Sequence[int] = ()) -> None:
        """Send a message. The caller may close his files at once."""
        pieces, size = [memoryview(body)], 0
        for b in buffers:
            view = memoryview(b).cast("B")
            pieces.append(view)
            if gap := aligned(len(view)) - len(view):
                pieces.append(memoryview(bytes(gap)))
            size += aligned(len(view))
        head = memoryview(_HEAD.pack(len(body), size, len(files)))
        message = _Waiting([head, *pieces], list(files))
        self.waiting.append(message)
        if not self.flush() and message.files:
            message.files, message.mine = [os.dup(f) for f in files], True

    def flush(self) -> bool:
        """Send what waits, as far as it goes; whether all is sent. *Raises*: OSError where nobody is there."""
        while self.waiting:
            message = self.waiting[0]
            pieces, files = message.pieces, array("i", message.files)
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)] if files else []
            try:
                sent = self.socket.sendmsg(pieces[:_MOST_BUFFERS], passed, getattr(socket, "MSG_NOSIGNAL", 0))
            except BlockingIOError:
                return False
            message.forget_files()  # they went with the first byte
            while pieces and sent >= len(pieces[0]):
                sent -= len(pieces.pop(0))
            if pieces:
                pieces[0] = pieces[0][sent:]
            else:
                self.waiting.popleft()
        return True

    def receive(self) -> Message | None:
        """Return the next message; None where it is not yet there as a whole.

        *Raises*: EOFError where the other end is closed, TooManyFiles where a descriptor did not fit.
        """
        try:
            while self._got < _HEAD.size:
                self._take_head()
            if self._body is None:
                body, data, _ = _HEAD.unpack(self._head)
                self._body, self._data = bytearray(body), np.empty(data, np.uint8)
            for part, size in ((self._body, len(self._body)), (self._data, self._data.size)):
                begin = _HEAD.size + (len(self._body) if part is self._data else 0)
                view = memoryview(part)
                while self._got < begin + size:
                    self._more(self.socket.recv_into(view[self._got - begin :]))
        except BlockingIOError:
            return None
        message, count = Message(self._body, self._data, self._files), _HEAD.unpack(self._head)[2]
        self._clear()
        if len(message.files) != count:
            for file in message.files:
                os.close(file)
            raise TooManyFiles("Too many open files")
        return message

    def _take_head(self) -> None:
        view = memoryview(self._head)[self._got :]
        room = socket.CMSG_SPACE(_MOST_FILES * array("i").itemsize)
        count, passed, _, _ = self.socket.recvmsg_into([view], room, _FLAGS)
        for level, kind, data in passed:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files = array("i")
                files.frombytes(data[: len(data) - len(data) % files.itemsize])
                self._files.extend(files)
        self._more(count)

    def _more(self, count: int) -> None:
        if not count:
            raise EOFError("the other end is closed")
        self._got += count
