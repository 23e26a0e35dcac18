"""The ranks of a notebook: mpiexec starts them once, cells are sent to them, and what they print and do comes back.

They are reached by a Unix socket in a folder that only the user can enter; what comes back is text and JSON. A rank
that has failed, died or hangs ends the cell on all; one that does not answer Ctrl-C ends all ranks.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import re
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from core.distributed import rank_cells
from core.distributed.job import Output
from core.distributed.run import Refused, find_mpiexec
from core.distributed.worker import MARK, marked

__all__ = ["GRACE_S", "Lost", "Pool", "RankOf", "Refused"]

START_S, GRACE_S, STUCK_S = 120.0, 1.5, 3.0  # until all are there; after a failure; in calls that cannot end
AGAIN_S, GIVE_UP_S = 1.0, 4.0  # after Ctrl-C: until it is sent once more, until all ranks are ended
ANSWER_S = 1.0  # for which a rank that holds Python may say where it is
PAIRS = ("send", "recv", "isend", "irecv")
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in ', re.MULTILINE)
_libc = ctypes.CDLL(None)


class Lost(Exception):
    """The ranks have ended, and why."""


@dataclass
class RankOf:
    """What is known of one rank, and of what it did in the cell that runs or has run last."""

    number: int
    pid: int = 0
    state: str = "idle"
    """"runs", "done", "failed", "stopped", "died" (by itself), "ended" (by us)."""
    error: dict[str, Any] | None = None
    code: int | None = None
    place: dict[str, Any] = field(default_factory=dict)
    rows: dict[int, list[Any]] = field(default_factory=dict)
    sites: list[dict[str, Any]] = field(default_factory=list)
    ahead: float = 0.0
    span: tuple[float, float] | None = None
    """From when to when it was in the cell, on its own clock; None where it has not told."""
    log: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0
    """When it ended the cell."""
    fault: str = ""

    def begin(self) -> None:
        """Forget the cell before."""
        self.state, self.error, self.place, self.rows, self.sites, self.log = "runs", None, {}, {}, [], {}
        self.fault, self.span = "", None

    def take(self, told: dict[str, Any]) -> None:
        """Take what the rank has told of its cell."""
        self.rows |= {row[0]: row for row in told["rows"]}
        self.sites, self.ahead, self.span = told["sites"], told["ahead"], told["span"]
        if "ended" not in told:
            self.place = told["place"] or self.place
        else:
            self.state, self.error, self.at, self.log = told["ended"], told["error"], time.monotonic(), told["log"]

    @property
    def waits(self) -> list[Any] | None:
        """The operation in which it waits, as a row."""
        return self.rows.get(self.place.get("number", -1)) if self.state == "runs" and "op" in self.place else None


class Pool:
    """So many ranks. `run` runs a cell on them; `stop` ends them."""

    def __init__(self, size: int) -> None:
        self.size, self.ranks = size, [RankOf(k) for k in range(size)]
        self.ended = ""
        """Why they are no more."""
        self.cause = ""
        """Why the last cell was ended before its time: "you", "failed", "died", "left" or "different"."""
        self._renew = False
        self._streams = selectors.DefaultSelector()
        self._sent: dict[int, socket.socket] = {}
        self._held: dict[Any, bytes] = {}
        self._mark = secrets.token_hex(12)
        self._folder = tempfile.mkdtemp(prefix="ranks-", dir=None if len(tempfile.gettempdir()) < 60 else "/tmp")
        self._process: subprocess.Popen[bytes] | None = None
        self._output = Output(True)
        self._died: float | None = None
        self._asked = 0.0  # since when the ranks have been told to end the cell
        self._told = 0  # how often

    # -- begin and end -------------------------------------------------------------------------------------------------

    def start(self) -> float:
        """Start the ranks; return how many seconds it took. *Raises*: Refused without MPI, Lost where one fails."""
        begin = time.monotonic()
        try:
            if sys.platform != "linux":
                raise Refused("ranks of a notebook need Linux, whose processes end with the one that started them")
            mpiexec = find_mpiexec()
            path = os.path.join(self._folder, "ranks")
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(path)
            listening.listen(5 * self.size)
            threads = max(1, len(os.sched_getaffinity(0)) // self.size)
            environment = {"OMP_NUM_THREADS": str(threads), **os.environ, MARK: self._mark}
            command = [
                mpiexec,
                "-disable-auto-cleanup",
                "-n",
                str(self.size),
                sys.executable,
                rank_cells.__file__,
                path,
            ]
            with open(os.path.join(self._folder, "said"), "wb") as said:
                self._process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                                 stdout=said, stderr=said,
                                                 start_new_session=True,
                                                 preexec_fn=lambda: _libc.prctl(1, signal.SIGTERM))  # fmt: skip
            atexit.register(self.stop)
            with listening:
                self._streams.register(listening, selectors.EVENT_READ, None)
                while not all(rank.state == "ready" for rank in self.ranks):
                    self._read(0.1, listening)
                    if self._died is not None or self._process.poll() is not None:
                        raise Lost(f"the ranks did not start: {self._said()}")
                    if time.monotonic() - begin > START_S:
                        raise Lost(f"the ranks did not start in {START_S:.0f} s: {self._said()}")
                self._streams.unregister(listening)
        except BaseException:
            self.stop("they did not start")
            raise
        return time.monotonic() - begin

    def _said(self) -> str:
        self._output.close()
        with open(os.path.join(self._folder, "said"), encoding="utf-8", errors="replace") as file:
            return " ".join(file.read()[-2000:].split()) or "nothing was said"

    def stop(self, why: str = "by %ranks stop") -> None:
        """End the ranks, and whatever they have started; no process is left."""
        if self.ended:
            return
        self.ended = why
        atexit.unregister(self.stop)
        for control in self._sent.values():
            with contextlib.suppress(OSError):
                control.shutdown(socket.SHUT_RDWR)  # a rank that is between cells ends by itself
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.5)
            deadline = time.monotonic() + 5.0
            while (left := marked(self._mark)) and time.monotonic() < deadline:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)
            self._process.wait()
        for key in list(self._streams.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._streams.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def alive(self) -> bool:
        """Whether cells can be run: no rank has ended since the last one."""
        return not self.ended and self._process is not None and self._process.poll() is None

    # -- a cell --------------------------------------------------------------------------------------------------------

    def run(self, text: str, name: str, timeout_s: float = 0.0, torch: bool = False) -> None:
        """Run a cell on all ranks; `ranks` and `cause` say how it went. *Raises*: Lost where they have ended before."""
        if not self.alive:
            self.stop("they have ended between two cells")
            raise Lost(self.ended)
        self.cause, self._asked, self._told, self._died = "", 0.0, 0, None
        order = {"cell": text, "name": name, "timeout": timeout_s, "torch": torch, "renew": self._renew}
        for rank in self.ranks:
            rank.begin()
            self._order(rank, order)
        while any(rank.state == "runs" for rank in self.ranks):
            try:
                self._read(0.1)
                self._judge(time.monotonic())
            except KeyboardInterrupt:
                self._end_cell("you")
        self._read(0.0)
        self._output.close()
        self._renew = any(rank.state != "done" for rank in self.ranks)
        if self._died is not None:
            self.stop("a rank has died")

    def _order(self, rank: RankOf, order: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # that it has gone is heard from its keeper
            self._sent[rank.number].sendall(json.dumps(order).encode() + b"\n")

    def _judge(self, now: float) -> None:
        """End the cell where it cannot come to its end; end all ranks where one does not answer."""
        running = [rank for rank in self.ranks if rank.state == "runs"]
        if not running:
            return
        if self._asked:
            self._insist(now, running)
            return
        failed = [rank.at for rank in self.ranks if rank.state == "failed"]
        if self._died is not None and now - self._died > GRACE_S:
            self._end_cell("died")
        elif failed and now - min(failed) > GRACE_S:
            self._end_cell("failed")
        elif (why := self._cannot_end(running)) and now - self._since(why, now) > STUCK_S:
            self._end_cell(why)
        elif not why:
            self._stuck = ("", 0.0)

    _stuck: tuple[str, float] = ("", 0.0)

    def _since(self, why: str, now: float) -> float:
        if self._stuck[0] != why:
            self._stuck = why, now
        return self._stuck[1]

    def _cannot_end(self, running: list[RankOf]) -> str:
        """Return why no rank can go on: "left" where one has ended without the collective in which the others wait,
        "different" where they wait in different ones; "" where they can."""
        waits = [rank.waits for rank in running]
        if not all(row is not None and row[3] not in PAIRS for row in waits):
            return ""
        for row in waits:
            assert row is not None
            for other in self.ranks:
                if other.number in row[1] and other.state == "done" and row[2] not in _sequences(other, row[1]):
                    return "left"
        for a in waits:
            for b in waits:
                if a and b and a[1:3] == b[1:3] and a[3:5] != b[3:5]:
                    return "different"
        return ""

    def _end_cell(self, why: str) -> None:
        """Have all ranks end the cell, as by Ctrl-C."""
        if self._asked and why == "you" and self._told > 1:
            self._asked -= GIVE_UP_S  # a second Ctrl-C: no more patience
        self.cause = self.cause or why
        self._asked = self._asked or time.monotonic()
        self._interrupt()

    def _interrupt(self) -> None:
        self._told += 1
        for rank in self.ranks:
            if rank.state == "runs":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.pid, signal.SIGINT)

    def _insist(self, now: float, running: list[RankOf]) -> None:
        if now - self._asked > GIVE_UP_S:
            for rank in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.pid, rank_cells.ASKED)
            deadline = time.monotonic() + ANSWER_S
            while time.monotonic() < deadline and sum(map(self._faulted, running)) < len(running):
                self._read(0.05)
            for rank in running:
                rank.state = "ended" if rank.state == "runs" else rank.state
            who = ", ".join(str(rank.number) for rank in running)
            self.stop(f"rank {who} did not answer Ctrl-C")
        elif now - self._asked > AGAIN_S * self._told:
            self._interrupt()

    def _faulted(self, rank: RankOf) -> bool:
        """Take a rank's line from what faulthandler wrote of it; return whether it stands there."""
        for file, line in _FRAME.findall(rank.fault):
            if file.startswith("In ["):
                rank.place = {**rank.place, "file": file, "line": int(line)}
                return True
        return False

    # -- what comes ----------------------------------------------------------------------------------------------------

    def _read(self, wait_s: float, listening: socket.socket | None = None) -> None:
        if self.ended:
            return
        for key, _ in self._streams.select(wait_s):
            if key.fileobj is listening and listening is not None:
                self._streams.register(listening.accept()[0], selectors.EVENT_READ, ())
                continue
            data = os.read(key.fd, 1 << 16)
            if not key.data:
                data = self._who(key, data)
                key = self._streams.get_key(key.fileobj)
                if not key.data or not data:
                    continue
            if not data:
                self._streams.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
                if key.data[1] == "keeper" and self.ranks[key.data[0]].state != "died":
                    self._heard(self.ranks[key.data[0]], {"code": None})
                continue
            number, kind = key.data
            if kind in ("stdout", "stderr"):
                self._output.take(number, kind, data)
            elif kind == "fault":
                self.ranks[number].fault += data.decode(errors="replace")
            else:
                *lines, rest = (self._held.pop(key.data, b"") + data).split(b"\n")
                self._held[key.data] = rest
                for line in lines:
                    self._heard(self.ranks[number], json.loads(line))

    def _who(self, key: selectors.SelectorKey, data: bytes) -> bytes:
        """Take the first line of a connection; return what follows it."""
        line, found, rest = (self._held.pop(key.fd, b"") + data).partition(b"\n")
        if not found:
            self._held[key.fd] = line
            return b""
        told = json.loads(line)
        self._streams.modify(key.fileobj, selectors.EVENT_READ, (told["rank"], told["kind"]))
        if told["kind"] == "control":
            self.ranks[told["rank"]].pid = told["pid"]
            self._sent[told["rank"]] = key.fileobj  # type: ignore[assignment]
        return rest

    def _heard(self, rank: RankOf, told: dict[str, Any]) -> None:
        if "ready" in told:
            rank.state = "ready"
        elif "code" in told:
            rank.code = told["code"]
            if not self.ended:
                rank.state, rank.at = "died", time.monotonic()
                self._died = self._died or rank.at
                self._faulted(rank)
        else:
            rank.take(told)


def _sequences(rank: RankOf, group: list[int]) -> set[int]:
    return {row[2] for row in rank.rows.values() if row[1] == group}
