"""Programs with workers that are interrupted, killed or starved: a clear end, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("worker_program.py")
DEADLINE = 90.0


class Program:
    """A run of the program in a process group of its own."""

    def __init__(self, *arguments: str) -> None:
        self.mark = uuid.uuid4().hex
        path = os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])
        env = {**os.environ, "PYTHONPATH": path, "MARK": self.mark}
        self.process = subprocess.Popen([sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True, env=env)  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "main\n"
        self.workers: list[int] = []

    def first_batch(self) -> None:
        """Wait for it."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("first")

    def meet_workers(self) -> None:
        """Wait for the first batch, and note who the workers are: for programs that go on long enough to be asked."""
        self.first_batch()
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            self.workers = [int(pid) for pid in file.read().split()]
        assert len(self.workers) == 4

    def end(self) -> tuple[int, str, str]:
        """Its exit status and its last words. Nothing it started outlives it, and so no segment, which has no name."""
        out, err = self.process.communicate(timeout=DEADLINE)
        until = time.monotonic() + 5
        while self.left():
            assert time.monotonic() < until, "workers outlive the program"
            time.sleep(0.01)
        return self.process.returncode, out, err

    def left(self) -> list[str]:
        """The processes that have its mark in their environment."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (process / "environ").read_bytes():
                    found.append(process.name)
            except OSError:
                continue
        return found


def run(*arguments: str) -> tuple[int, str, str]:
    program = Program(*arguments)
    program.first_batch()
    return program.end()


@pytest.mark.by_turns
def test_a_script_needs_no_guard_and_its_classes_reach_the_workers() -> None:
    code, out, err = run("persist", "40")
    assert (code, out, err) == (0, f"done {2 * sum(range(40))}\n", "")


@pytest.mark.by_turns
@pytest.mark.parametrize("mode", ["stuck", "persist"])
def test_ctrl_c_in_a_terminal_ends_all(mode: str) -> None:
    program = Program(mode, "4000")
    program.first_batch()
    os.killpg(program.process.pid, signal.SIGINT)
    code, out, err = program.end()
    assert code == -signal.SIGINT
    assert "done" not in out
    assert err.count("Traceback") == 1  # the workers are silent
    assert err.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.by_turns
def test_ctrl_c_to_the_parent_alone_ends_all() -> None:
    program = Program("stuck")
    program.first_batch()
    os.kill(program.process.pid, signal.SIGINT)
    code, _, err = program.end()
    assert code == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.by_turns
@pytest.mark.parametrize(("mode", "how"), [
    ("stuck", signal.SIGKILL), ("busy", signal.SIGKILL), ("stuck", signal.SIGTERM),
])  # fmt: skip
def test_workers_end_with_a_parent_that_is_killed(mode: str, how: signal.Signals) -> None:
    program = Program(mode)
    program.first_batch()
    begin = time.monotonic()
    os.kill(program.process.pid, how)
    code, _, _ = program.end()
    assert code == -how
    assert time.monotonic() - begin < 2.5


def test_workers_that_are_just_starting_end_with_their_parent() -> None:
    program = Program("stuck")
    until = time.monotonic() + DEADLINE
    while len(program.left()) < 3:  # the program itself, and two workers that have not yet imported anything
        assert time.monotonic() < until
        time.sleep(0.002)
    os.kill(program.process.pid, signal.SIGKILL)
    assert program.end()[0] == -signal.SIGKILL


@pytest.mark.by_turns
def test_a_worker_killed_from_outside_is_told_of() -> None:
    program = Program("slow", "4000")
    program.meet_workers()
    os.kill(program.workers[2], signal.SIGKILL)
    code, _, err = program.end()
    assert code == 1
    assert f"DataLoader worker (pid {program.workers[2]}) is killed by signal: Killed. (SIGKILL)" in err
    assert "worker 2 of 4, at the sample with index " in err


@pytest.mark.by_turns
@pytest.mark.parametrize(("mode", "words"), [
    ("memory", "MemoryError: Caught MemoryError in DataLoader worker process 1."),
    ("files", "Too many open files"),
])  # fmt: skip
def test_a_failing_worker_ends_the_program_with_a_clear_error(mode: str, words: str) -> None:
    code, out, err = run(mode, "40")
    assert code == 1
    assert "done" not in out
    assert words in err


@pytest.mark.by_turns
def test_full_shared_memory_is_no_end() -> None:
    code, out, err = run("full", "40")
    assert (code, out) == (0, f"done {sum(range(40))}\n")
    assert "found no shared memory for a batch: [Errno 27] File too large" in err
    assert err.count("UserWarning") == 1


@pytest.mark.by_turns
def test_a_notebook_s_data_set_reaches_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient").NotebookClient
    cells = [
        "import os, signal, threading, time, dataclasses, core\nfrom core.utils.data import DataLoader, Dataset",
        "SCALE = 2.0\n@dataclasses.dataclass\nclass Batch:\n    x: core.Tensor\n    n: int\n"
        "def double(t):\n    return t * SCALE\n"
        "class Squares(Dataset):\n    def __len__(self):\n        return 20\n"
        "    def __getitem__(self, i):\n        return double(core.full((5000,), float(i)))\n"
        "def collate(samples):\n    return Batch(core.stack(samples), len(samples))",
        "with __import__('warnings').catch_warnings():\n    __import__('warnings').simplefilter('ignore')\n"
        "    loader = DataLoader(Squares(), batch_size=4, num_workers=4, collate_fn=collate)\n"
        "found = list(loader)\nassert all(type(b) is Batch for b in found)\n"
        "[b.x[:, 0].tolist() for b in found][-1], found[0].n",
        "class Slow(Squares):\n    def __getitem__(self, i):\n        time.sleep(100)\n"
        "threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    next(iter(DataLoader(Slow(), num_workers=2)))\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read().split())",
    ]  # fmt: skip
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    client(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert book.cells[2].outputs[-1]["data"]["text/plain"] == "([32.0, 34.0, 36.0, 38.0], 4)"
    assert book.cells[3].outputs[0]["text"] == "interrupted\n[]\n"
