"""Where trials and winners are kept: one SQLite file, and beside it ``best.json`` for lookups. Nothing here raises.

Every trial is written before the next is taken. Where the database cannot be written, the store says so once and goes
on in another way:

======================================  ================================================================
garbage, or a malformed file            set aside under another name, and a new one is begun
locked for longer than the timeout      a journal of this process, read by the next store that can write
made by a newer gradlab, network disk   a journal; the database is left alone
read-only, or full                      a snapshot in the folder for temporary files, else memory alone
======================================  ================================================================

What an unwritable database holds is read all the same. Sessions that tune the same problem at the same moment tell one
another through it: `claim` before a config is tried, `news` of what others have found.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import database, lookup, places
from .journal import Journal, journals, records

DATABASE = "tuning.db"
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "lustre", "gpfs", "beegfs"}
_LOCK = "tuning.lock"  # held while the database is made, or set aside
_CLAIM_S = 600.0  # no config takes longer
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
        self._reading: sqlite3.Connection | None = None  # of a database that cannot be written
        self._seen = 0  # which file `_base` is
        self._other: Journal | None = None  # the journal, or the snapshot
        self._mine: list[Record] = []  # everything written through this store
        self._heard: dict[str, int] = {}  # by session, how far in the file it knows of others' trials
        self._lock = threading.RLock()  # two sessions of a process may share a store
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
        return f"{self._other.path if self._other else 'memory alone'} ({self.why})"

    def begin(self, key: Record, environment: dict[str, str], strategy: str) -> str:
        """Note that a session begins; its name."""
        session = uuid.uuid4().hex
        with self._lock, contextlib.suppress(sqlite3.Error):
            if self._base is not None:
                self._heard[session], _ = database.news(self._base, key, session, 1 << 62)
        self._write({**key, "kind": "session", "session": session, "environment": environment, "strategy": strategy})
        return session

    def end(self, session: str) -> None:
        """Note that a session will try nothing more."""
        self._heard.pop(session, None)
        self._quietly(lambda base: database.unclaim(base, session))

    def claim(self, key: Record, session: str, config: Record) -> bool:
        """Return whether this session may try a config: False where another one is trying it, or has since this one
        began.

        An answer that cannot be had in time is True: the config may then be tried twice.
        """
        after, owner, now = self._heard.get(session, 0), places.process_name(), time.time()

        def gone(who: str, when: float) -> bool:
            return not now - when < _CLAIM_S or not places.still_runs(who)

        work = functools.partial(database.claim, key=key, session=session, config=config, owner=owner, at=now,
                                 after=after, gone=gone)  # fmt: skip
        return self._quietly(work) is not False

    def news(self, key: Record, session: str) -> list[Record]:
        """Trials of a problem that other sessions have written since this one began, or since this was asked."""
        after = self._heard.get(session)
        if after is None:
            return []
        found = self._quietly(lambda base: database.news(base, key, session, after))
        if found is None:
            return []
        self._heard[session], trials = found
        return trials

    def _quietly(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Return what sessions tell one another is not worth a failure."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            if self._base is not None:
                return work(self._base)
        return None

    def add(self, key: Record, session: str, trial: Record) -> None:
        """Write a trial."""
        self._write({**key, "kind": "trial", "session": session, "id": uuid.uuid4().hex, **trial})

    def win(self, key: Record, session: str, winner: Record) -> None:
        """Write a problem's winner, and let lookups know."""
        record = {**key, "kind": "winner", "session": session, **winner}
        self._write(record)
        self._publish(record)

    def conclude(self, key: Record, session: str, outcome: Record) -> None:
        """Write what came of a session, for its history."""
        self._write({**key, "kind": "outcome", "session": session, "outcome": outcome})

    def sessions(self, kernel: str, key: Record | None = None) -> list[Record]:
        """All sessions of a kernel, or of one problem of it, in the order in which they were written, whatever the
        clock said: the key, `session`, `at`, `strategy`, `environment`, its `trials`, and its `outcome`, None where it
        had no end."""
        every: list[Record] = []
        with self._lock, contextlib.suppress(sqlite3.Error):
            if (base := self._readable()) is not None:
                every += database.sessions(base, kernel, key)
        every += [r for r in (*self._journalled(), *self._mine) if r.get("kernel") == kernel]
        every = [r for r in every if key is None or all(r.get(name) == key[name] for name in database.KEY)]
        found: dict[str, Record] = {}
        for r in (r for r in every if r["kind"] == "session"):
            found.setdefault(r["session"], {**r, "trials": {}, "outcome": None})
        for r in every:
            if (of := found.get(r.get("session", ""))) is not None and r["kind"] == "trial":
                of["trials"].setdefault(r["id"], r)
            elif of is not None and r["kind"] == "outcome":
                of["outcome"] = r["outcome"]
        return [{**r, "trials": list(r["trials"].values())} for r in found.values()]

    def trials(self, key: Record) -> list[Record]:
        """All trials of a problem that can be read, of earlier sessions too, the oldest first."""
        found: dict[str, Record] = {}
        with self._lock, contextlib.suppress(sqlite3.Error):
            if (base := self._readable()) is not None:
                found |= {t["id"]: t for t in database.trials(base, key)}
        for record in [*self._journalled(), *self._mine]:
            if record["kind"] == "trial" and all(record.get(name) == key[name] for name in database.KEY):
                found.setdefault(record["id"], record)
        return sorted(found.values(), key=lambda t: t["at"])

    def tuned(self) -> list[Record]:
        """Return the keys of all problems that were tuned."""
        found: list[Record] = []
        with self._lock, contextlib.suppress(sqlite3.Error):
            if (base := self._readable()) is not None:
                found += database.keys(base)
        for record in (*self._journalled(), *self._mine):
            key = {name: record[name] for name in database.KEY if name in record}
            if len(key) == len(database.KEY) and key not in found:
                found.append(key)
        return found

    def problems(self) -> list[Record]:
        """Every problem with its `trials` and its `winner`, or None where nothing was chosen."""
        found: dict[str, Record] = {}
        every: list[Record] = []
        with self._lock, contextlib.suppress(sqlite3.Error):
            if (base := self._readable()) is not None:
                every += [*database.everything(base), *database.winners(base)]
        seen = {r["id"] for r in every if r["kind"] == "trial"}
        for record in (*self._journalled(), *self._mine):
            if record["kind"] in ("trial", "winner") and record.get("id") not in seen:
                every.append(record)
                seen |= {record["id"]} if "id" in record else set()
        now = time.time()  # what is of a clock that was ahead comes no later than what is written now
        for record in sorted(every, key=lambda r: min(r["at"], now)):
            key = {name: record[name] for name in database.KEY}
            problem = found.setdefault(json.dumps(key), {**key, "trials": [], "winner": None})
            rest = {n: v for n, v in record.items() if n not in (*database.KEY, "kind", "session", "id", "detail")}
            if record["kind"] == "trial":
                problem["trials"].append(rest)
            else:
                problem["winner"] = rest
        return list(found.values())

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            for base in (self._base, self._reading):
                if base is not None:
                    with contextlib.suppress(sqlite3.Error):
                        base.close()
            if self._other is not None:
                self._other.close()
                if self.state == "memory" and self._mine:
                    self._warn(f"this session's trials are in {self._other.path}: move it to {self.folder} as "
                               "journal-*.jsonl to keep them")  # fmt: skip
            self._base = self._reading = self._other = None

    def _readable(self) -> sqlite3.Connection | None:
        """Return the database, or where it cannot be written another way to read it."""
        if self._base is None and self._reading is None and file_system(self.folder) not in _NETWORK:
            with contextlib.suppress(sqlite3.Error, OSError):
                self._reading = database.open_reading(self.path)
        return self._base or self._reading

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write(self, record: Record) -> None:
        record.setdefault("at", time.time())
        with self._lock:
            self._mine.append(record)
            if self.state == "database":
                self._attempt(lambda: database.apply(self._base, [record]) if self._base else None)
            elif self._other is not None:
                self._elsewhere([record])

    def _attempt(self, work: Any) -> None:
        """Open the database if need be and work on it; on failure go on in another way, nothing of this store lost."""
        for once_more in (True, False):
            try:
                if self._base is None:
                    with places.locked(self.folder / _LOCK, self.timeout_s):
                        self._seen = _which(self.path)
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
        """Put a broken file out of the way; whether there may be a whole one now."""
        kept = self.path.with_name(f"{DATABASE}.broken-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
        with places.locked(self.folder / _LOCK, self.timeout_s):
            if self._seen and _which(self.path) != self._seen:
                return True  # another process has, and what lies there now is whole and in use
            try:
                for tail in ("-wal", "-shm", ""):  # the file itself last: a new one must not meet these
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}{tail}", f"{kept}{tail}")
            except OSError:
                return False
        self._warn(f"{self.path} cannot be read ({why}); it is kept as {kept.name}, and a new one is begun")
        return True

    def _fall_back(self, state: str, why: str) -> None:
        """Go on without the database, with all that this store has written."""
        self.state, self.why = state, why
        make = {"journal": lambda: Journal.beside(self.folder), "memory": Journal.temporary}
        for way in dict.fromkeys((state, "memory")):
            self.state, self._other = way, None
            try:
                self._other = make[way]()
                self._other.write(self._mine)
                break
            except OSError as error:
                what = "journal" if way == "journal" else "snapshot"
                self._other, self.why = None, f"{self.why}; and no {what} can be written: {error}"
        how = {"journal": "go to the journal", "memory": "are kept in memory and in a snapshot"}[self.state]
        self._warn(f"tuning results {how} {self._other.path}: {self.why}" if self._other else
                   f"tuning results are kept in memory alone: {self.why}")  # fmt: skip

    def _elsewhere(self, some: list[Record]) -> None:
        """Write to the journal or the snapshot."""
        assert self._other is not None
        try:
            self._other.write(some)
        except OSError as error:
            self._other.close()
            said = f"{self.why}; and {self._other.path.name} cannot be written: {error}"
            if self.state == "journal":
                self._fall_back("memory", said)
            else:
                self._other, self.why = None, said
                self._warn(f"tuning results are kept in memory alone: {said}")

    def _warn(self, text: str) -> None:
        warnings.warn(text, StoreWarning, stacklevel=2)

    # -- journals ------------------------------------------------------------------------------------------------------

    def _journalled(self) -> list[Record]:
        return [record for path in journals(self.folder) for record in records(path)]

    def _merge_journals(self) -> None:
        """Take over the journals whose processes are gone."""
        for path in journals(self.folder):
            with places.locked(path, 0.0) as held:  # by its process, as long as that lives
                try:
                    if held and self._base is not None:
                        database.apply(self._base, records(path))
                        path.unlink()
                except (OSError, sqlite3.Error, KeyError, TypeError):  # written by another gradlab
                    continue

    # -- lookups -------------------------------------------------------------------------------------------------------

    def _publish(self, record: Record) -> None:
        """Put a winner into ``best.json``, which is replaced as a whole."""
        try:
            with places.locked(self.folder / "best.lock", self.timeout_s):
                path = self.folder / lookup.FILE
                kept = lookup.entries(path)
                if not kept and self._base is not None:  # lost or broken: make it anew
                    with self._lock, contextlib.suppress(sqlite3.Error):
                        kept = [entry_of(w) for w in database.winners(self._base)]
                entry = entry_of(record)
                kept = [e for e in kept if any(e.get(name) != entry[name] for name in lookup.SAME)]
                write_whole(path, json.dumps({"version": lookup.VERSION, "entries": [*kept, entry]}, indent=1))
        except OSError as error:
            lookup.hold(self.folder, entry_of(record))
            self._warn(f"the choice is not stored for other processes: {error}")
        lookup.forget()


def _which(path: Path) -> int:
    """Return which file lies at a path; 0 where none does."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def entry_of(winner: Record) -> Record:
    """Return a winner as ``best.json`` has it."""
    names = ("kernel", "source", "device", "shape", "dtype", "mode", "config", "ratio", "at")
    return {name: winner[name] for name in names} | ({"grid": winner["grid"]} if winner.get("grid") else {})


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
    """Return the kind of file system that a folder lies on, "" where that is not known."""
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
