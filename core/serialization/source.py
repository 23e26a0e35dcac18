"""`Source`: the bytes of a file, read at any place and never past its end."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from ..base.errors import LoadError, text


class Source:
    """A path, opened here, or a binary file from where it stands to its end."""

    def __init__(self, f: Any) -> None:
        self.own = isinstance(f, str | bytes | os.PathLike)
        if not self.own and not all(hasattr(f, name) for name in ("read", "seek", "tell")):
            raise AttributeError(
                text(
                    "You can only load from a file that is seekable",
                    op="load",
                    came=type(f).__name__,
                    needed="a path, or a binary file with read, seek and tell",
                    remedy="io.BytesIO(f.read())",
                )
            )
        self.name = os.fsdecode(f) if self.own else str(getattr(f, "name", type(f).__name__))
        self.file: Any = open(f, "rb") if self.own else f  # noqa: SIM115 - closed by __exit__
        try:
            self.start = self.file.tell()
            self.size = self.file.seek(0, os.SEEK_END) - self.start
            self.file.seek(self.start)
        except BaseException:  # a pipe
            self.__exit__()
            raise
        if not isinstance(self.file.read(0), bytes):
            raise TypeError(text("expected a binary file", op="load", came="a text file", remedy='open(path, "rb")'))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.own:
            self.file.close()

    def _check(self, offset: int, n: int) -> None:
        if offset < 0 or n < 0 or offset + n > self.size:
            raise broken(f"{n:,} bytes are said to be at {offset:,}, and the file has {self.size:,}")

    def read(self, offset: int, n: int) -> bytes:
        """Return the n bytes at `offset`."""
        self._check(offset, n)
        self.file.seek(self.start + offset)
        parts = []
        while n:
            part = self.file.read(n)
            if not part:
                raise broken("the file ended while it was read")
            parts.append(part)
            n -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def into(self, offset: int, memory: np.ndarray[Any, Any]) -> None:
        """Fill an array of bytes from `offset`."""
        n = memory.nbytes
        self._check(offset, n)
        if not hasattr(self.file, "readinto"):
            memory[:] = np.frombuffer(self.read(offset, n), np.uint8)
            return
        self.file.seek(self.start + offset)
        view, done = memoryview(memory.data), 0
        while done < n:
            got = self.file.readinto(view[done:])
            if not got:
                raise broken("the file ended while it was read")
            done += got

    def mapped(self) -> np.ndarray[Any, Any]:
        """Return the whole file as memory that is read when it is touched; what is written to it stays in this
        process."""
        import mmap

        if not self.own:
            raise ValueError(text("f must be a file path in order to use the mmap argument", op="load",
                                  came=type(self.file).__name__))  # fmt: skip
        if not self.size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


def short(x: Any, deep: bool = True) -> str:
    """Return a few characters for a value from a file. Its repr might not end: parts that share parts are cheap to
    save."""
    if isinstance(x, str | bytes):
        return repr(x[:60])
    if isinstance(x, int):
        return str(x) if abs(x) < 2**64 else "a large number"
    if isinstance(x, tuple | list) and deep:
        return f"({', '.join(short(v, False) for v in x[:8])}{', ...' if len(x) > 8 else ''})"
    return str(x)[:60] if isinstance(x, type | float | None) else f"a {type(x).__name__}"


def broken(what: str, remedy: str = "take the file from where it was made anew") -> LoadError:
    """Return the error for a file that is not what it should be."""
    return LoadError(text(f"the file is broken: {what}", op="load", remedy=remedy))
