"""Run a command to its end and tell what it cost, and whether it hangs: by processor time, on a busy machine too.

A loop without an end uses processor time and ends no test; a lock that nobody opens uses none while nothing waits for a
processor. Neither is told by the clock alone.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

IDLE = 120.0  # seconds in which no process of a command runs or wants to
TICKS = os.sysconf("SC_CLK_TCK")
STOPPED = threading.Event()  # set by Ctrl-C: what runs is in sessions of its own, which the terminal does not reach


class Done(NamedTuple):
    """How a command ended: its exit status, what it printed, its processor time, and how it hung, if it did."""

    status: int
    said: str
    cpu: float
    hung: str = ""


def _of_session(session: int) -> tuple[float, bool]:
    """Return the processor time of a session, with those it waited for, and whether one of its processes wants more."""
    ticks, runs = 0, False
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
            runs |= fields[0] in "RD"
    return ticks / TICKS, runs


def run(
    command: list[str],
    folder: Path,
    environment: dict[str, str],
    most_cpu: float | None = None,
    progress: Callable[[], int] = lambda: 0,
    idle: float = IDLE,
) -> Done:
    """Run a command in a session of its own; it hangs if it uses `most_cpu` seconds while `progress` stands still."""
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            usage, used, hung = _watched(child, most_cpu, progress, idle)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # nor does it leave anybody behind
        output.seek(0)
        said = output.read().decode(errors="replace")
    return Done(child.returncode, said, max(usage.ru_utime + usage.ru_stime, used if hung else 0.0), hung)


def _watched(
    child: subprocess.Popen[bytes], most_cpu: float | None, progress: Callable[[], int], idle: float
) -> tuple[resource.struct_rusage, float, str]:
    """Wait for a child; return what it used, by its own account and by ours, and how it hung, if it did."""
    hung = ""
    used = at_progress = 0.0
    stood, quiet_since = progress(), time.monotonic()
    pause = 0.05
    while True:
        pid, status, usage = os.wait4(child.pid, 0 if hung else os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return usage, used, hung
        time.sleep(pause)
        pause = min(2 * pause, 1.0)
        now, runs = _of_session(child.pid)
        if runs or now > used + 0.02:
            quiet_since = time.monotonic()
        used = max(used, now)
        if progress() != stood:
            stood, at_progress = progress(), used
        if most_cpu is not None and used - at_progress > most_cpu:
            hung = f"no end in {used - at_progress:.0f} s of processor time"
        elif most_cpu is not None and time.monotonic() - quiet_since > idle:
            hung = f"waits for ever: no processor time in {idle:.0f} s"
        if hung or STOPPED.is_set():
            os.killpg(child.pid, signal.SIGKILL)
            hung = hung or "stopped"
