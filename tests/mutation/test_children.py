"""A command that hangs is told by processor time: an endless loop and an endless wait, but not a busy machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.mutation import children


def run(text: str, **limits) -> children.Done:
    return children.run([sys.executable, "-c", text], Path.cwd(), dict(os.environ), **limits)


def test_what_a_command_says_and_costs() -> None:
    done = run("import sys; print('said'); sys.exit(3)")
    assert (done.status, done.said, done.hung) == (3, "said\n", "")
    assert done.cpu > 0


def test_an_endless_loop_ends_also_in_a_process_that_the_command_starts() -> None:
    loop = "while True: pass"
    assert "no end" in run(loop, most_cpu=0.5).hung
    started = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {loop!r}])"
    assert "no end" in run(started, most_cpu=0.5).hung


def test_an_endless_wait_ends() -> None:
    assert "waits" in run("import threading; threading.Event().wait()", most_cpu=60.0, idle=1.0).hung


def test_progress_starts_the_count_again() -> None:
    ticks = iter(range(10**6))
    assert not run("sum(range(3 * 10**7))", most_cpu=0.3, progress=lambda: next(ticks)).hung
    assert run("sum(range(3 * 10**7))", most_cpu=0.1).hung


def test_a_wait_that_ends_is_no_hang() -> None:
    assert not run("import time; time.sleep(1.5)", most_cpu=0.8, idle=60.0).hung
