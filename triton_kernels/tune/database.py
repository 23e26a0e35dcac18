"""The SQLite file: its tables, and records written to and read from them. Failures are `store`'s affair.

A record is a plain dict with a ``kind``: "session", "trial", "winner" or "outcome", which is a session's end. What is
written twice stands there once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

VERSION = 1
_TABLES = """
CREATE TABLE kernel(id INTEGER PRIMARY KEY, name TEXT NOT NULL, source TEXT NOT NULL, UNIQUE(name, source));
CREATE TABLE device(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE env(id INTEGER PRIMARY KEY, facts TEXT NOT NULL UNIQUE);
CREATE TABLE problem(id INTEGER PRIMARY KEY, kernel INTEGER NOT NULL REFERENCES kernel, device INTEGER NOT NULL
    REFERENCES device, shape TEXT NOT NULL, dtype TEXT NOT NULL, mode TEXT NOT NULL,
    UNIQUE(kernel, device, shape, dtype, mode));
CREATE TABLE session(id TEXT PRIMARY KEY, problem INTEGER NOT NULL REFERENCES problem, env INTEGER NOT NULL REFERENCES
    env, strategy TEXT NOT NULL, started REAL NOT NULL);
CREATE TABLE config(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE trial(id TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES session, problem INTEGER NOT NULL REFERENCES
    problem, config INTEGER NOT NULL REFERENCES config, binary TEXT, status TEXT NOT NULL, reason TEXT NOT NULL,
    detail TEXT NOT NULL, compile_ms REAL, median_ms REAL, ratio REAL, n INTEGER, max_error REAL, samples TEXT,
    at REAL NOT NULL);
CREATE INDEX trial_of_problem ON trial(problem);
CREATE TABLE winner(problem INTEGER PRIMARY KEY REFERENCES problem, session TEXT NOT NULL, config INTEGER NOT NULL
    REFERENCES config, ratio REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, ties TEXT NOT NULL,
    at REAL NOT NULL);
"""
# Of no version: whoever does not know the first tries what another is trying, the second has no history.
_CLAIMS = """CREATE TABLE IF NOT EXISTS claim(problem INTEGER NOT NULL REFERENCES problem, config INTEGER NOT NULL
    REFERENCES config, session TEXT NOT NULL, owner TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY(problem, config))"""
_OUTCOMES = "CREATE TABLE IF NOT EXISTS outcome(session TEXT PRIMARY KEY REFERENCES session, facts TEXT NOT NULL)"
KEY = ("kernel", "source", "device", "shape", "dtype", "mode")
"""What names a problem in a record: texts, and the shape as a list."""


class NewerVersion(sqlite3.DatabaseError):
    """The file was made by a newer gradlab, and is left alone."""


def open_database(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Return the database, made if need be, for its owner alone. *Raises*: sqlite3.Error, OSError."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # its -wal and -shm take its permissions
    base = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    try:
        version = base.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise NewerVersion(f"{path} has version {version}, this gradlab knows {VERSION}")
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")  # what is committed survives the process, if not a power cut
        if version < VERSION:
            base.execute("BEGIN IMMEDIATE")
            if base.execute("PRAGMA user_version").fetchone()[0] < VERSION:  # another process may have been first
                for statement in _TABLES.split(";\n"):
                    if statement.strip():
                        base.execute(statement)
                base.execute(f"PRAGMA user_version={VERSION}")
            base.execute("COMMIT")
        base.execute(_CLAIMS)
        base.execute(_OUTCOMES)
    except BaseException:
        base.close()
        raise
    return base


def open_reading(path: Path) -> sqlite3.Connection:
    """Return the database, never written to. *Raises*: sqlite3.Error."""
    for mode in ("mode=ro", "immutable=1"):  # the second for a folder in which SQLite can make no files of its own
        base = sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=0.5, isolation_level=None,
                               check_same_thread=False)  # fmt: skip
        try:
            version = base.execute("PRAGMA user_version").fetchone()[0]
            base.execute("SELECT 1 FROM trial LIMIT 1").fetchall()
        except sqlite3.Error:
            base.close()
            if mode != "mode=ro" or os.access(path.parent, os.W_OK):
                raise
            continue
        if version != VERSION:
            base.close()
            raise NewerVersion(f"{path} has version {version}, this gradlab knows {VERSION}")
        return base
    raise sqlite3.OperationalError(f"{path} cannot be read")


def apply(base: sqlite3.Connection, records: list[dict[str, Any]]) -> None:
    """Write records, all or none."""
    base.execute("BEGIN IMMEDIATE")
    try:
        for record in records:
            _WRITERS[record["kind"]](base, record)
        base.execute("COMMIT")
    except BaseException:
        if base.in_transaction:
            base.execute("ROLLBACK")
        raise


def _id(base: sqlite3.Connection, table: str, **columns: Any) -> int:
    where = " AND ".join(f"{name}=?" for name in columns)
    values = tuple(columns.values())
    found = base.execute(f"SELECT id FROM {table} WHERE {where}", values).fetchone()
    if found is None:
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        return int(base.execute(f"INSERT INTO {table}({names}) VALUES({marks})", values).lastrowid or 0)
    return int(found[0])


def _problem(base: sqlite3.Connection, record: dict[str, Any]) -> int:
    kernel = _id(base, "kernel", name=record["kernel"], source=record["source"])
    device = _id(base, "device", name=record["device"])
    shape = json.dumps(record["shape"])
    return _id(base, "problem", kernel=kernel, device=device, shape=shape, dtype=record["dtype"], mode=record["mode"])


def _config(base: sqlite3.Connection, config: dict[str, Any]) -> int:
    return _id(base, "config", text=json.dumps(config, sort_keys=True))


def _write_session(base: sqlite3.Connection, r: dict[str, Any]) -> None:
    env = _id(base, "env", facts=json.dumps(r["environment"], sort_keys=True))
    base.execute("INSERT OR IGNORE INTO session VALUES(?, ?, ?, ?, ?)",
                 (r["session"], _problem(base, r), env, r["strategy"], r["at"]))  # fmt: skip


def _write_trial(base: sqlite3.Connection, r: dict[str, Any]) -> None:
    found = base.execute("SELECT problem FROM session WHERE id=?", (r["session"],)).fetchone()
    problem = found[0] if found else _problem(base, r)
    config = _config(base, r["config"])
    base.execute("DELETE FROM claim WHERE problem=? AND config=? AND session=?", (problem, config, r["session"]))
    base.execute(
        "INSERT OR IGNORE INTO trial VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (r["id"], r["session"], problem, config, r.get("binary"), r["status"], r.get("reason", ""),
         r.get("detail", ""), r.get("compile_ms"), r.get("median_ms"), r.get("ratio"), r.get("n"), r.get("max_error"),
         json.dumps(r.get("samples") or []), r["at"]),
    )  # fmt: skip


def _write_winner(base: sqlite3.Connection, r: dict[str, Any]) -> None:
    base.execute(
        "INSERT INTO winner VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(problem) DO UPDATE SET session=excluded.session,"
        " config=excluded.config, ratio=excluded.ratio, low=excluded.low, high=excluded.high, ties=excluded.ties,"
        " at=excluded.at WHERE excluded.at >= winner.at OR winner.at > ?",  # the second of a clock that was put back
        (_problem(base, r), r["session"], _config(base, r["config"]), r["ratio"], r["low"], r["high"],
         json.dumps(r.get("ties") or []), r["at"], time.time()),
    )  # fmt: skip


def _write_outcome(base: sqlite3.Connection, r: dict[str, Any]) -> None:
    base.execute("INSERT OR REPLACE INTO outcome VALUES(?, ?)", (r["session"], json.dumps(r["outcome"])))


_WRITERS = {"session": _write_session, "trial": _write_trial, "winner": _write_winner, "outcome": _write_outcome}
_FROM = (
    "FROM {0} JOIN problem ON problem.id={0}.problem JOIN kernel ON kernel.id=problem.kernel "
    "JOIN device ON device.id=problem.device JOIN config ON config.id={0}.config"
)


def trials(base: sqlite3.Connection, key: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the trials of one problem, the oldest first."""
    rows = base.execute(
        "SELECT trial.id, session, config.text, binary, status, reason, median_ms, ratio, n, at "
        + _FROM.format("trial")
        + " WHERE kernel.name=? AND kernel.source=? AND device.name=? AND shape=? AND dtype=? AND mode=? ORDER BY at",
        [json.dumps(key[name]) if name == "shape" else key[name] for name in KEY],
    )
    names = ("id", "session", "config", "binary", "status", "reason", "median_ms", "ratio", "n", "at")
    for row in rows:
        record = dict(zip(names, row, strict=True))
        yield {**record, "kind": "trial", "config": json.loads(record["config"])}


def news(base: sqlite3.Connection, key: dict[str, Any], session: str, after: int) -> tuple[int, list[dict[str, Any]]]:
    """Return the trials of one problem that other sessions have written after a place in the file, and the next
    place."""
    last = int(base.execute("SELECT coalesce(max(rowid), 0) FROM trial").fetchone()[0])
    if last <= after:
        return last, []
    rows = base.execute(
        "SELECT trial.id, config.text, binary, status, reason, ratio " + _FROM.format("trial") + " WHERE trial.rowid>? "
        "AND session<>? AND kernel.name=? AND kernel.source=? AND device.name=? AND shape=? AND dtype=? AND mode=?",
        [after, session, *(json.dumps(key[name]) if name == "shape" else key[name] for name in KEY)],
    ).fetchall()
    names = ("id", "config", "binary", "status", "reason", "ratio")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return last, [{**r, "config": json.loads(r["config"])} for r in found]


def claim(
    base: sqlite3.Connection, key: dict[str, Any], session: str, config: dict[str, Any], owner: str, at: float,
    after: int, gone: Callable[[str, float], bool],
) -> bool:  # fmt: skip
    """Say that a session is about to try a config: False where another is, or has after a place in the file.

    gone : of an owner and the time of its claim, whether that counts no more.
    """
    base.execute("BEGIN IMMEDIATE")
    try:
        problem, place = _problem(base, key), _config(base, config)
        found = base.execute("SELECT session, owner, at FROM claim WHERE problem=? AND config=?", (problem, place))
        taken = any(other != session and not gone(who, when) for other, who, when in found.fetchall())
        tried = "SELECT 1 FROM trial WHERE problem=? AND config=? AND session<>? AND rowid>? AND status<>'timeout'"
        taken = taken or base.execute(tried, (problem, place, session, after)).fetchone() is not None
        if not taken:
            base.execute("INSERT OR REPLACE INTO claim VALUES(?, ?, ?, ?, ?)", (problem, place, session, owner, at))
        base.execute("COMMIT")
        return not taken
    except BaseException:
        if base.in_transaction:
            base.execute("ROLLBACK")
        raise


def unclaim(base: sqlite3.Connection, session: str) -> None:
    """A session is about to try nothing more."""
    base.execute("DELETE FROM claim WHERE session=?", (session,))


def keys(base: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return what names each problem."""
    rows = base.execute(
        "SELECT kernel.name, source, device.name, shape, dtype, mode FROM problem "
        "JOIN kernel ON kernel.id=problem.kernel JOIN device ON device.id=problem.device"
    )
    found = [dict(zip(KEY, row, strict=True)) for row in rows]
    return [{**key, "shape": json.loads(key["shape"])} for key in found]


def sessions(base: sqlite3.Connection, kernel: str, only: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a kernel's sessions, or those of one problem: what each began as, its outcome where it had
    an end, its trials."""
    rows = base.execute(
        "SELECT kernel.name, source, device.name, shape, dtype, mode, session.id, facts, strategy, started "
        "FROM session JOIN problem ON problem.id=session.problem JOIN kernel ON kernel.id=problem.kernel "
        "JOIN device ON device.id=problem.device JOIN env ON env.id=session.env WHERE kernel.name=? "
        "ORDER BY session.rowid",
        [kernel],
    ).fetchall()  # fmt: skip
    for *key, session, facts, strategy, started in rows:
        of = dict(zip(KEY, key, strict=True))
        of = {**of, "shape": json.loads(of["shape"]), "session": session}
        if only is not None and any(of[name] != only[name] for name in KEY):
            continue
        yield {**of, "kind": "session", "environment": json.loads(facts), "strategy": strategy, "at": started}
        with contextlib.suppress(sqlite3.OperationalError):  # a file that an older gradlab made, and that is only read
            for (text,) in base.execute("SELECT facts FROM outcome WHERE session=?", [session]):
                yield {**of, "kind": "outcome", "outcome": json.loads(text), "at": started}
        tried = base.execute(
            "SELECT trial.id, config.text, status, reason, median_ms, ratio, n, samples, at FROM trial "
            "JOIN config ON config.id=trial.config WHERE session=? ORDER BY at", [session]
        )  # fmt: skip
        for row in tried:
            r = dict(zip(("id", "config", "status", "reason", "median_ms", "ratio", "n", "samples", "at"), row,
                         strict=True))  # fmt: skip
            yield {**of, **r, "kind": "trial", "config": json.loads(r["config"]), "samples": json.loads(r["samples"])}


def everything(base: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Yield the trials of all problems, the oldest first."""
    rows = base.execute(
        "SELECT kernel.name, source, device.name, shape, dtype, mode, trial.id, config.text, status, reason, "
        "compile_ms, median_ms, ratio, n, samples, at " + _FROM.format("trial") + " ORDER BY at"
    )
    names = (*KEY, "id", "config", "status", "reason", "compile_ms", "median_ms", "ratio", "n", "samples", "at")
    for row in rows:
        r = dict(zip(names, row, strict=True))
        shape, config, samples = (json.loads(r[n]) for n in ("shape", "config", "samples"))
        yield {**r, "kind": "trial", "shape": shape, "config": config, "samples": samples}


def winners(base: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Every problem's winner."""
    rows = base.execute(
        "SELECT kernel.name, source, device.name, shape, dtype, mode, session, config.text, ratio, low, high, at "
        + _FROM.format("winner")
    )
    names = (*KEY, "session", "config", "ratio", "low", "high", "at")
    for row in rows:
        record = dict(zip(names, row, strict=True))
        yield {**record, "kind": "winner", "shape": json.loads(record["shape"]), "config": json.loads(record["config"])}
