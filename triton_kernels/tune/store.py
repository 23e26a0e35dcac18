"""Where trials and winners are kept: one SQLite file, and beside it ``best.json`` for lookups. Nothing here raises.

Every trial is written before the next is taken. Where the database cannot be written, the store says so once and goes
on in another way:

======================================  ================================================================
garbage, or a malformed file            set aside under another name, and a new one is begun
locked for longer than the timeout      a journal of this process, read by the next store that can write
made by a newer gradlab, network disk   a journal; the database is left alone
read-only, or full                      memory, and a snapshot in the folder for temporary files
======================================  ================================================================
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from . import database, lookup, places

DATABASE = "tuning.db"
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "lustre", "gpfs", "beegfs"}
Record = dict[str, Any]


class StoreWarning(UserWarning):
    """Results are kept in another way than usual; the message says how and why."""


class Store:
    """Trials and winners on disk; `state` is "database", "journal" or "memory", `why` says why it is not the first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "tuning") as store:
    ...     key = {"kernel": "k", "source": "", "device": "d", "shape": [8], "dtype": "float32", "mode": ""}
    ...     session = store.begin(key, {}, "random")
    ...     store.add(key, session, {"config": {"BLOCK": 8}, "status": "correct", "median_ms": 1.0})
    ...     [t["config"] for t in store.trials(key)], store.state
    ([{'BLOCK': 8}], 'database')
    """

    def __init__(self, folder: Path | None = None, timeout_s: float = 5.0) -> None:
        self.folder = folder or places.data_folder()
        self.timeout_s = timeout_s
        self.state, self.why = "database", ""
        self._base: sqlite3.Connection | None = None
        self._journal: IO[str] | None = None
        self._mine: list[Record] = []  # everything written through this store
        self._snapshot: Path | None = None
        try:
            places.private(self.folder)
        except (OSError, RuntimeError) as error:
            self._fall_back("memory", f"the folder {self.folder} cannot be used: {error}")
            return
        if (system := file_system(self.folder)) in _NETWORK:
            self._fall_back("journal", f"{self.folder} lies on a network disk ({system}), which locks badly")
            return
        self._attempt(lambda: None)
        if self._base is not None:
            self._merge_journals()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        return self.folder / DATABASE

    @property
    def where(self) -> str:
        """Where results go, in words."""
        if self.state == "database":
            return str(self.path)
        if self._journal is not None:
            return f"{self._journal.name} ({self.why})"
        return f"{self._snapshot or 'memory alone'} ({self.why})"

    def begin(self, key: Record, environment: dict[str, str], strategy: str) -> str:
        """Note that a session begins; its name."""
        session = uuid.uuid4().hex
        self._write({**key, "kind": "session", "session": session, "environment": environment, "strategy": strategy})
        return session

    def add(self, key: Record, session: str, trial: Record) -> None:
        """Write a trial."""
        self._write({**key, "kind": "trial", "session": session, "id": uuid.uuid4().hex, **trial})

    def win(self, key: Record, session: str, winner: Record) -> None:
        """Write a problem's winner, and let lookups know."""
        record = {**key, "kind": "winner", "session": session, **winner}
        self._write(record)
        self._publish(record)

    def trials(self, key: Record) -> list[Record]:
        """All trials of a problem that can be read, of earlier sessions too, the oldest first."""
        found: dict[str, Record] = {}
        with contextlib.suppress(sqlite3.Error):
            if self._base is not None:
                found |= {t["id"]: t for t in database.trials(self._base, key)}
        for record in [*self._journalled(), *self._mine]:
            if record["kind"] == "trial" and all(record.get(name) == key[name] for name in database.KEY):
                found.setdefault(record["id"], record)
        return sorted(found.values(), key=lambda t: t["at"])

    def problems(self) -> list[Record]:
        """Every problem with its `trials` and its `winner`, or None where nothing was chosen."""
        found: dict[str, Record] = {}
        records: list[Record] = []
        with contextlib.suppress(sqlite3.Error):
            if self._base is not None:
                records += [*database.everything(self._base), *database.winners(self._base)]
        seen = {r["id"] for r in records if r["kind"] == "trial"}
        records += [r for r in (*self._journalled(), *self._mine) if r["kind"] != "session" and r.get("id") not in seen]
        for record in sorted(records, key=lambda r: r["at"]):
            key = {name: record[name] for name in database.KEY}
            problem = found.setdefault(json.dumps(key), {**key, "trials": [], "winner": None})
            rest = {n: v for n, v in record.items() if n not in (*database.KEY, "kind", "session", "id", "detail")}
            if record["kind"] == "trial":
                problem["trials"].append(rest)
            else:
                problem["winner"] = rest
        return list(found.values())

    def close(self) -> None:
        """Close the files; what is in memory alone goes into a snapshot."""
        if self.state == "memory" and self._mine:
            self._save_snapshot()
        for file in (self._base, self._journal):
            if file is not None:
                with contextlib.suppress(sqlite3.Error, OSError):
                    file.close()
        self._base = self._journal = None

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write(self, record: Record) -> None:
        record.setdefault("at", time.time())
        self._mine.append(record)
        if self.state == "database":
            self._attempt(lambda: database.apply(self._base, [record]) if self._base else None)
        elif self.state == "journal":
            self._to_journal([record])

    def _attempt(self, work: Any) -> None:
        """Open the database if need be and work on it; on failure go on in another way, nothing of this store lost."""
        for once_more in (True, False):
            try:
                if self._base is None:
                    self._base = database.open_database(self.path, self.timeout_s)
                    if self._mine:
                        database.apply(self._base, self._mine)
                        return
                work()
                return
            except (sqlite3.Error, OSError) as error:
                if self._base is not None:
                    with contextlib.suppress(sqlite3.Error):
                        self._base.close()
                    self._base = None
                said = str(error)
                if isinstance(error, database.NewerVersion) or "locked" in said or "busy" in said:
                    self._fall_back("journal", said)
                    return
                broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
                broken = broken or "malformed" in said or "not a database" in said or "no such table" in said
                if not (broken and once_more and self._set_aside(said)):
                    self._fall_back("memory", said)
                    return

    def _set_aside(self, why: str) -> bool:
        kept = self.path.with_name(f"{DATABASE}.broken-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
        try:
            os.replace(self.path, kept)
            for tail in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{tail}", f"{kept}{tail}")
        except OSError:
            return False
        self._warn(f"{self.path} cannot be read ({why}); it is kept as {kept.name}, and a new one is begun")
        return True

    def _fall_back(self, state: str, why: str) -> None:
        self.state, self.why = state, why
        if state == "journal":
            self._to_journal(self._mine)
        if self.state == "journal" and self._journal is not None:
            self._warn(f"tuning results go to the journal {self._journal.name}: {why}")
        else:
            self._warn(f"tuning results are kept in memory and in a snapshot: {self.why}")

    def _warn(self, text: str) -> None:
        warnings.warn(text, StoreWarning, stacklevel=2)

    # -- journals ------------------------------------------------------------------------------------------------------

    def _to_journal(self, records: list[Record]) -> None:
        try:
            if self._journal is None:
                path = self.folder / f"journal-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
                self._journal = open(path, "a")  # noqa: SIM115  kept open, and locked, as long as the store
                fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._journal.write("".join(json.dumps(r) + "\n" for r in records))
            self._journal.flush()
        except OSError as error:
            self.state, self.why = "memory", f"{self.why}; and no journal can be written: {error}"

    def _journals(self) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            yield from sorted(self.folder.glob("journal-*.jsonl"))

    def _journalled(self) -> list[Record]:
        return [record for path in self._journals() for record in _records(path)]

    def _merge_journals(self) -> None:
        """Take over the journals whose processes are gone."""
        for path in self._journals():
            try:
                with open(path) as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held by its process as long as that lives
                    records = _records(path)
                    if self._base is not None:
                        database.apply(self._base, records)
                        path.unlink()
            except (OSError, sqlite3.Error, KeyError, TypeError):  # in use, or written by another gradlab
                continue

    # -- lookups -------------------------------------------------------------------------------------------------------

    def _publish(self, record: Record) -> None:
        """Put a winner into ``best.json``, which is replaced as a whole."""
        try:
            with open(os.open(self.folder / "best.lock", os.O_RDWR | os.O_CREAT, 0o600)) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                path = self.folder / lookup.FILE
                kept = lookup.entries(path)
                if not kept and self._base is not None:  # lost or broken: make it anew
                    with contextlib.suppress(sqlite3.Error):
                        kept = [entry_of(w) for w in database.winners(self._base)]
                entry = entry_of(record)
                same = ("kernel", "dtype", "device", "shape", "mode")
                kept = [e for e in kept if any(e.get(name) != entry[name] for name in same)]
                write_whole(path, json.dumps({"version": lookup.VERSION, "entries": [*kept, entry]}, indent=1))
        except OSError as error:
            self._warn(f"the choice is not stored for other processes: {error}")
        lookup.forget()

    def _save_snapshot(self) -> None:
        try:
            handle, path = tempfile.mkstemp(prefix="gradlab-tuning-", suffix=".jsonl")
            with open(handle, "w") as file:
                file.write("".join(json.dumps(r) + "\n" for r in self._mine))
            self._snapshot = Path(path)
        except OSError:
            return
        self._warn(f"this session's trials are in {path}: move it to {self.folder} as journal-*.jsonl to keep them")


def _records(path: Path) -> list[Record]:
    """A journal's records; a last line that was cut off by a crash is left out."""
    found = []
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict) and record.get("kind") in ("session", "trial", "winner"):
                    found.append(record)
    return found


def entry_of(winner: Record) -> Record:
    """A winner as ``best.json`` has it."""
    names = ("kernel", "source", "device", "shape", "dtype", "mode", "config", "ratio", "at")
    return {name: winner[name] for name in names}


def write_whole(path: Path, text: str) -> None:
    """Replace a file: a reader sees the old one or the new one. *Raises*: OSError."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on, "" where that is not known."""
    try:
        real, found = os.path.realpath(folder), ("", "")
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            for line in file:
                _, place, kind, *_ = line.split(" ")
                place = place.replace("\\040", " ")
                inside = real == place or real.startswith(place.rstrip("/") + "/")
                if inside and len(place) >= len(found[0]):
                    found = (place, kind)
        return found[1]
    except (OSError, ValueError):
        return ""
