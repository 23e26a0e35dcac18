"""One start of a program on ranks: mpiexec under a watch, which parts what the ranks print from what they report."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import worker
from .verdict import Failure, Rank, Stopped, verdict

__all__ = ["Job", "Output"]

GRACE_S, ENDING_S, START_S = 0.5, 6.0, 120.0  # after a failure; for the end; until the start
SILENT_S, LOST_S = 6.0, 60.0  # without a word of a rank: where all others wait; in any case
_PIECE, _REDRAWN_S = 1 << 20, 1.0  # bytes of a line that is shown before its end; between the states of a progress bar
_libc = ctypes.CDLL(None)


class Output:
    """What ranks print, shown line by line with the rank before it, and kept in a folder of files if there is one.

    The files are torchrun's: ``folder/attempt_0/<rank>/stdout.log``, ``stderr.log``.
    """

    def __init__(self, tagged: bool, folder: str | None = None, quiet: bool = False) -> None:
        self.tagged, self.folder, self.quiet = tagged, folder, quiet
        self._open: dict[tuple[int, str], bytearray] = {}
        self._files: dict[tuple[int, str], int] = {}
        self._drawn: dict[tuple[int, str], float] = {}

    def take(self, rank: int, stream: str, data: bytes) -> None:
        """Take what a rank has printed."""
        key = rank, stream
        if self.folder:
            if key not in self._files:
                os.makedirs(os.path.join(self.folder, str(rank)), exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                self._files[key] = os.open(os.path.join(self.folder, str(rank), f"{stream}.log"), flags, 0o666)
            os.write(self._files[key], data)
        held = self._open.setdefault(key, bytearray())
        held += data
        if b"\n" in data or b"\r" in data or len(held) > _PIECE:
            *lines, rest = re.split(rb"(?<=\n)|(?<=\r)(?!\n)", bytes(held))
            if len(rest) > _PIECE:
                lines, rest = [*lines, rest], b""
            self._open[key] = bytearray(rest)
            self._show(key, lines)

    def _show(self, key: tuple[int, str], lines: list[bytes]) -> None:
        if self.quiet:
            return
        to = sys.stdout if key[1] == "stdout" else sys.stderr
        tag, shown = (f"[{key[0]}] " if self.tagged else ""), []
        for line in lines:
            if line.endswith(b"\r"):  # a progress bar that will be drawn again
                if time.monotonic() - self._drawn.get(key, 0.0) < _REDRAWN_S:
                    continue
                self._drawn[key] = time.monotonic()
            if text := line.decode(errors="replace").rstrip("\r\n"):
                shown.append(f"{tag}{text}\n")
            elif line.endswith(b"\n"):
                shown.append(f"{tag}\n")
        to.write("".join(shown))
        to.flush()

    def close(self) -> None:
        """Show lines that have no end, and close the files."""
        for key, held in self._open.items():
            if held:
                self._show(key, [bytes(held)])
        for file in self._files.values():
            os.close(file)
        self._open.clear()
        self._files.clear()


@dataclass
class _Parts:
    """Parts a stream of mpiexec's into what each rank wrote: mpiexec puts the mark and the rank before every piece."""

    mark: bytes
    held: bytes = b""
    rank: int = -1  # mpiexec itself

    def take(self, data: bytes, last: bool = False) -> Iterator[tuple[int, bytes]]:
        """Give (rank, bytes) for what has arrived."""
        data, self.held = self.held + data, b""
        found = re.split(b"<" + self.mark + rb":(\d+)>", data)
        if not last:  # the end may be the beginning of a mark
            at = found[-1].rfind(b"<", max(0, len(found[-1]) - len(self.mark) - 12))
            if at >= 0:
                found[-1], self.held = found[-1][:at], found[-1][at:]
        for k in range(0, len(found), 2):
            if k:
                self.rank = int(found[k - 1])
            line, end, own = found[k].partition(b"\n")
            if line or end:
                yield self.rank, line + end
            if end:  # each line has a mark: what follows without one is mpiexec's own
                self.rank = -1
            if own:
                yield self.rank, own


@dataclass
class Job:
    """One start: `run` gives None where every rank has ended well, else the failure."""

    command: list[str]
    environment: dict[str, str]
    mark: str
    ranks: list[Rank]
    timeout_s: float | None
    output: Output
    stop: list[int] = field(default_factory=list)  # signals that the launcher got
    said: bytearray = field(default_factory=bytearray)  # by mpiexec itself
    decided: bool = False  # what ranks report while they are ended is not taken
    _reports: dict[int, bytes] = field(default_factory=dict)

    def run(self) -> Failure | None:
        """Start the ranks, and watch them until they have ended, or one has failed and all are ended."""
        begin = time.monotonic()
        for rank in self.ranks:
            rank.heard_s = begin
        process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True, bufsize=0,
                                   preexec_fn=lambda: _libc.prctl(1, signal.SIGTERM))  # fmt: skip
        failure: Failure | None = None
        streams = selectors.DefaultSelector()
        for file, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            streams.register(file, selectors.EVENT_READ, (name, _Parts(self.mark.encode())))  # type: ignore[arg-type]
        try:
            failure = self._watch(streams, begin)
            if failure is not None:
                self.decided = True
                self._end(process, streams, failure.kind == "silent")
            code = process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self._clean(1.0 if failure and failure.kind == "silent" else worker.SAVING_S + 1.0)
            streams.close()
            process.stdout.close()  # type: ignore[union-attr]
            process.stderr.close()  # type: ignore[union-attr]
            for number, data in self._reports.items():  # what looked like the beginning of a report
                self.output.take(number, "stderr", data)
            self.output.close()
        if failure is None and (code or any(rank.code != 0 for rank in self.ranks)):
            failure = verdict(self.ranks, 0.0, mpiexec=(code, self.said.decode(errors="replace")))
        if failure is not None:
            failure.ran_s = time.monotonic() - begin
        elif self.said:
            sys.stderr.write(self.said.decode(errors="replace"))
        return failure

    def _watch(self, streams: selectors.BaseSelector, begin: float) -> Failure | None:
        """Read until mpiexec's streams end; return at a failure."""
        since: float | None = None
        before = begin
        while streams.get_map():
            self._read(streams, 0.1)
            now = time.monotonic()
            if now - before > 2.0:  # this process was stopped, or waited for its own output
                for rank in self.ranks:
                    rank.heard_s += now - before
            before = now
            if self.stop:
                return Stopped(self.ranks, self.stop[0])
            found = verdict(self.ranks, self.timeout_s) or self._silent(now, begin)
            if found is None:
                since = None
            elif since is None:
                since = now
            elif now - since > GRACE_S:  # what the other ranks have said meanwhile is heard
                return found
        return None

    def _silent(self, now: float, begin: float) -> Failure | None:
        """Return the failure of a host that no longer says anything."""
        lost = [r for r in self.ranks if r.pid and r.code is None and now - r.heard_s > SILENT_S]
        waits = all(r.waits and r.still_s > SILENT_S / 2 for r in self.ranks if r not in lost)
        if lost and (waits or now - lost[0].heard_s > LOST_S):
            return Failure(lost, self.ranks, "silent", now - lost[0].heard_s)
        missing = [r for r in self.ranks if not r.pid]
        if missing and now - begin > START_S:
            return Failure(missing, self.ranks, "unborn", now - begin)
        return None

    def _read(self, streams: selectors.BaseSelector, wait_s: float) -> None:
        for key, _ in streams.select(wait_s):
            name, parts = key.data
            data = os.read(key.fd, 1 << 16)
            if not data:
                streams.unregister(key.fileobj)
            for rank, piece in parts.take(data, last=not data):
                if rank < 0:
                    self.said += piece
                elif name == "stderr":
                    self._heard(rank, piece)
                else:
                    self.output.take(rank, name, piece)

    def _heard(self, number: int, piece: bytes) -> None:
        """Take what a rank wrote on stderr: reports, and what it printed around them."""
        data = self._reports.pop(number, b"") + piece
        mark = self.mark.encode() + b" "
        while (at := data.find(mark)) >= 0:
            end = data.find(b"\n", at)
            if end < 0:
                break
            self._report(data[at + len(mark) : end])
            data = data[:at] + data[end + 1 :]
        if at >= 0:  # a report whose end has not arrived
            self._reports[number] = data[at:]
            data = data[:at]
        elif (k := _overlap(data, mark)) > 0:
            self._reports[number], data = data[-k:], data[:-k]
        if data:
            self.output.take(number, "stderr", data)

    def _report(self, line: bytes) -> None:
        try:
            told: dict[str, Any] = json.loads(line)
            rank = self.ranks[told.pop("rank")]
        except (ValueError, LookupError):
            return
        rank.heard_s = time.monotonic()
        if not self.decided:
            rank.take(told)
            if rank.failed and not rank.failed_s:
                rank.failed_s = rank.heard_s
        elif "left" in told:
            rank.left = told["left"]

    def _end(self, process: subprocess.Popen[bytes], streams: selectors.BaseSelector, lost: bool) -> None:
        """End mpiexec, which ends the ranks, and show what they print meanwhile; a lost host is not waited for."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
            deadline = time.monotonic() + (ENDING_S if number == signal.SIGTERM and not lost else 0.5)
            while streams.get_map() and time.monotonic() < deadline and len(self.stop) < 2:
                self._read(streams, 0.05)
                if process.poll() is not None and not streams.select(0.05):
                    return

    def _clean(self, wait_s: float) -> None:
        """End what is left on this host; the keepers, which see to all hosts, have some seconds to do so themselves."""
        deadline = time.monotonic() + wait_s
        while (left := worker.marked(self.mark)) and time.monotonic() < deadline and len(self.stop) < 2:
            time.sleep(0.05)
        while left:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
            left = worker.marked(self.mark)


def _overlap(data: bytes, mark: bytes) -> int:
    """Return how many bytes at the end of `data` may be the beginning of a mark."""
    return next((k for k in range(min(len(data), len(mark) - 1), 0, -1) if mark.startswith(data[-k:])), 0)
