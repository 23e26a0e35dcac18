"""Keys and values that the processes of a group share, by PyTorch's names: in a process, a file, or over a network.

Values are bytes, and are never run or unpickled. A `TCPStore` answers whoever reaches its address, as PyTorch's does,
and listens on the address that it is given alone: give it this machine's own or that of a closed network.
"""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from ..base.errors import text
from .dist_errors import DistNetworkError, DistStoreError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

_TIMEOUT = timedelta(minutes=5)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def connection(host: str, port: int, timeout: timedelta) -> socket.socket:
    """Return a connection to an address once somebody listens there. *Raises*: DistNetworkError after the timeout."""
    begin, pause = time.monotonic(), 0.005
    while True:
        try:
            made = socket.create_connection((host, port), timeout=10)
        except OSError as error:
            if time.monotonic() - begin > timeout.total_seconds():
                raise DistNetworkError(text(f"The client socket has failed to connect to any network address of "
                                            f"({host}, {port}): {error}", op="distributed.TCPStore",
                                            needed="rank 0, which listens there", remedy="look whether rank 0 has "
                                            "started, and what its MASTER_ADDR and MASTER_PORT are"),
                                       ) from error  # fmt: skip
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        else:
            made.settimeout(None)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made


class Store:
    """Keys and values that are shared. A subclass says where they are."""

    def __init__(self, timeout: timedelta = _TIMEOUT) -> None:
        self.timeout = timeout

    def found(self, key: str) -> bytes | None:
        """Return a value as it is now, None where there is none."""
        raise NotImplementedError

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait."""
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        """Return a value, waiting for it. *Raises*: DistStoreError after the timeout."""
        self.wait([key])
        return self.found(key) or b""

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins at 0, and return it."""
        raise NotImplementedError

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value, which begins empty."""
        raise NotImplementedError

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a value where it is the expected one (or missing, where nothing is expected); return what it is then."""
        raise NotImplementedError

    def delete_key(self, key: str) -> bool:
        """Forget a key; return whether it was set."""
        raise NotImplementedError

    def num_keys(self) -> int:
        """Return how many keys are set."""
        raise NotImplementedError

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all of the keys are set."""
        return all(self.found(k) is not None for k in keys)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return several values, waiting for them."""
        return [self.get(k) for k in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Keep several values."""
        for k, v in zip(keys, values, strict=True):
            self.set(k, v)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are set. *Raises*: DistStoreError after the timeout."""
        limit, begin, pause = (timeout or self.timeout).total_seconds(), time.monotonic(), 0.001
        while not self.check(keys):
            if time.monotonic() - begin > limit:
                missing = [k for k in keys if not self.check([k])]
                raise DistStoreError(text(f"wait timeout after {limit * 1000:.0f}ms, keys: {missing}",
                                          op="distributed.Store.wait", needed="keys that another process sets",
                                          remedy="look whether all processes have started"))  # fmt: skip
            time.sleep(pause)
            pause = min(2 * pause, 0.05)


class _ByChanges(Store):
    """A store that lets one change of a key's value follow the other."""

    def _change(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Let a function make a key's value (None: there is none) from what it was, with nobody between; return it."""
        raise NotImplementedError

    def found(self, key: str) -> bytes | None:
        """Return a value as it is now, None where there is none."""
        return self._change(key, lambda v: v)

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        self._change(key, lambda _: _bytes(value))

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins at 0, and return it."""
        return int(self._change(key, lambda v: str(int(v or b"0") + amount).encode()) or 0)

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value, which begins empty."""
        self._change(key, lambda v: (v or b"") + _bytes(value))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a value where it is the expected one (or missing, where nothing is expected); return what it is then."""
        expected = _bytes(expected_value)
        found = self._change(key, lambda v: _bytes(desired_value) if (v or b"") == expected else v)
        return expected if found is None else found

    def delete_key(self, key: str) -> bool:
        """Forget a key; return whether it was set."""
        had: list[bytes | None] = []
        self._change(key, had.append)
        return had[0] is not None


class HashStore(_ByChanges):
    """A store of this process, whose threads share it.

    >>> import core
    >>> store = core.distributed.HashStore()
    >>> store.set("key", "value")
    >>> store.get("key"), store.add("n", 2)
    (b'value', 2)
    """

    def __init__(self, *ignored: Any, **more: Any) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def _change(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        with self._lock:
            value = change(self._values.get(key))
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
            return value

    def num_keys(self) -> int:
        """Return how many keys are set."""
        return len(self._values)


class PrefixStore(Store):
    """A part of another store: the keys that begin with a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(store.timeout)
        self.prefix, self.underlying_store = prefix, store

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def found(self, key: str) -> bytes | None:
        """Return a value as it is now, None where there is none."""
        return self.underlying_store.found(self._key(key))

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        self.underlying_store.set(self._key(key), value)

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins at 0, and return it."""
        return self.underlying_store.add(self._key(key), amount)

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value, which begins empty."""
        self.underlying_store.append(self._key(key), value)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a value where it is the expected one (or missing, where nothing is expected); return what it is then."""
        return self.underlying_store.compare_set(self._key(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        """Forget a key; return whether it was set."""
        return self.underlying_store.delete_key(self._key(key))

    def num_keys(self) -> int:
        """Return how many keys the whole store has."""
        return self.underlying_store.num_keys()


class FileStore(_ByChanges):
    """A store in a file, which processes of one machine (or with a shared disk that locks files) share.

    Each line is a key and its value at that time, in hexadecimal digits; the last one counts.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name
        Path(file_name).touch()

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with open(self.path, "r+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    @staticmethod
    def _read(file: Any) -> dict[str, str]:
        found = dict(line.rstrip("\n").split(" ", 1) for line in file)
        return {k: v for k, v in found.items() if v != "-"}

    def _change(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        name = key.encode().hex()
        with self._open() as file:
            found = self._read(file).get(name)
            before = None if found is None else bytes.fromhex(found)
            value = change(before)
            if value != before:
                file.write(f"{name} {'-' if value is None else value.hex()}\n")
            return value

    def num_keys(self) -> int:
        """Return how many keys are set."""
        with self._open() as file:
            return len(self._read(file))


class TCPStore(Store):
    """A store at an address, which a process of its own keeps. The master starts that process; all others reach it.

    host_name, port : where it listens; port 0 is a free one, which `port` then says.
    world_size, wait_for_workers : the master waits until so many processes (with itself) have come.

    Raises
    ------
    DistNetworkError
        Where the address is taken, or nobody listens within the timeout.
    """

    _kept: ClassVar[dict[tuple[str, int], subprocess.Popen[bytes]]] = {}  # what this process has started

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None, is_master: bool = False,
                 timeout: timedelta = timedelta(minutes=5), wait_for_workers: bool = True,
                 multi_tenant: bool = False, master_listen_fd: int | None = None,
                 use_libuv: bool = True) -> None:  # fmt: skip
        super().__init__(timeout)
        self.host, self.port, self.is_master = host_name, port, is_master
        self._lock, self._unread = threading.Lock(), b""
        if is_master and (host_name, port) not in self._kept:
            self._start(master_listen_fd)
        self._socket = connection(self.host, self.port, timeout)
        if world_size and wait_for_workers:
            begin = time.monotonic()
            self.add("core/came", 1)
            while is_master and self.add("core/came", 0) < world_size:
                if time.monotonic() - begin > timeout.total_seconds():
                    raise DistStoreError(text("Timed out waiting for clients", op="distributed.TCPStore",
                                              came=f"{self.add('core/came', 0)} of {world_size}",
                                              remedy="look whether all processes have started"))  # fmt: skip
                time.sleep(0.01)

    def _start(self, listen_fd: int | None) -> None:
        try:
            listener = (socket.socket(fileno=listen_fd) if listen_fd is not None else
                        socket.create_server((self.host, self.port), backlog=1024))  # fmt: skip
        except OSError as error:
            raise DistNetworkError(text("The server socket has failed to listen on any local network address. "
                                        f"port: {self.port}: {error}", op="distributed.TCPStore", came=self.host,
                                        remedy="another MASTER_PORT, or end the program that has it"),
                                   ) from error  # fmt: skip
        with listener:
            self.port = listener.getsockname()[1]
            program = Path(__file__).with_name("store_server.py")
            self._kept[self.host, self.port] = subprocess.Popen(
                [sys.executable, "-S", "-E", str(program), str(listener.fileno())], pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE, start_new_session=True)  # fmt: skip

    @classmethod
    def end_servers(cls) -> None:
        """End the stores whose master this process is, at once instead of with this process."""
        for kept in cls._kept.values():
            kept.terminate()
            kept.communicate()
        cls._kept.clear()

    def ask(self, **fields: Any) -> dict[str, str]:
        """Send a request and return the answer's fields. *Raises*: DistNetworkError where the store has gone."""
        with self._lock:
            try:
                self._socket.sendall((" ".join(f"{k}={v}" for k, v in fields.items()) + "\n").encode())
                while b"\n" not in self._unread:
                    came = self._socket.recv(1 << 16)
                    if not came:
                        raise ConnectionError("Connection was closed by the store's process")
                    self._unread += came
            except OSError as error:
                raise DistNetworkError(text(f"{error}", op="distributed.TCPStore", came=f"{self.host}:{self.port}",
                                            needed="the store's master, which has ended")) from error  # fmt: skip
            line, self._unread = self._unread.split(b"\n", 1)
        return dict(f.split("=", 1) for f in line.decode().split(" ") if "=" in f)

    def _asked(self, asked: str, key: str, **fields: Any) -> bytes | None:
        found = self.ask(cmd=asked, key=key.encode().hex(), **fields).get("value")
        return None if found is None else bytes.fromhex(found)

    def found(self, key: str) -> bytes | None:
        """Return a value as it is now, None where there is none."""
        return self._asked("get", key)

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        self._asked("set", key, value=_bytes(value).hex())

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins at 0, and return it."""
        return int(self._asked("add", key, value=amount) or 0)

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value, which begins empty."""
        self._asked("append", key, value=_bytes(value).hex())

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a value where it is the expected one (or missing, where nothing is expected); return what it is then."""
        expected = _bytes(expected_value)
        found = self._asked("swap", key, expected=expected.hex(), value=_bytes(desired_value).hex())
        return expected if found is None else found

    def delete_key(self, key: str) -> bool:
        """Forget a key; return whether it was set."""
        return self.ask(cmd="delete", key=key.encode().hex())["value"] == "1"

    def num_keys(self) -> int:
        """Return how many keys are set."""
        return int(self.ask(cmd="count")["value"])
