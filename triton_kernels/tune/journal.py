"""Files of records, one JSON object a line: where results go that the database cannot take, and how they come back."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Journal:
    """A file that is written to at once, and locked as long as its process lives: others read it and leave it alone.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal.beside(Path(folder))
    ...     journal.write([{"kind": "trial", "id": "a"}])
    ...     records(journal.path)
    [{'kind': 'trial', 'id': 'a'}]
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        with contextlib.suppress(OSError):  # a network disk may know no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def beside(cls, folder: Path) -> Journal:
        """Return a new one in the store's folder, which the next store that can write takes over. *Raises*: OSError."""
        path = folder / f"journal-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
        return cls(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600))

    @classmethod
    def temporary(cls) -> Journal:
        """Return a new one in the folder for temporary files. *Raises*: OSError."""
        descriptor, path = tempfile.mkstemp(prefix="gradlab-tuning-", suffix=".jsonl")
        return cls(Path(path), descriptor)

    def write(self, some: list[Record]) -> None:
        """Add records. *Raises*: OSError, where the disk is full."""
        rest = memoryview("".join(json.dumps(r) + "\n" for r in some).encode())
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        """Close the file, and so give the lock back."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = -1


def journals(folder: Path) -> Iterator[Path]:
    """Yield the journals in a folder."""
    with contextlib.suppress(OSError):
        yield from sorted(folder.glob("journal-*.jsonl"))


def records(path: Path) -> list[Record]:
    """Return a journal's records; a last line that was cut off by a crash is left out."""
    found = []
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict) and record.get("kind") in ("session", "trial", "winner", "outcome"):
                    found.append(record)
    return found
