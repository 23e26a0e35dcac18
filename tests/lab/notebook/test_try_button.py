"""The button "Try it": what a press is answered, that nothing runs unasked, how long the copy of the process lives."""

from __future__ import annotations

import glob
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import lab
from lab.notebook import card_buttons, try_button
from lab.prove import proving, snapshot
from tests.lab.prove.processes import children

SETUP = """import core as torch
torch.manual_seed(0)
nn = torch.nn
F = nn.functional
x, labels = torch.randn(32, 8), torch.randint(0, 3, (32,))
"""
CELL = """model = nn.Linear(8, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    opt.step()
print("once")
"""
MARK = 'data-kernel="'
Run = Callable[..., tuple[Any, list[dict[str, str]], str]]
pytestmark = pytest.mark.usefixtures("trials")


def until(true: Callable[[], bool]) -> bool:
    """Whether something comes to be true in a few seconds: processes are let go from a thread."""
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def press(place: str, number: int = 0) -> dict[str, str]:
    return card_buttons.obey(f"try {number}", {}, place)


@pytest.fixture
def opened(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """`opened(text)`: run a cell as in an open notebook; what its card is marked with, "" where its buttons cannot
    ask."""
    monkeypatch.setattr(card_buttons, "message_of_cell", lambda: {"header": {}, "metadata": {"cellId": "a"}})
    monkeypatch.setattr(card_buttons, "_connect", lambda bridge: None)
    run(SETUP)

    def opened(text: str) -> str:
        _, bundles, _ = run(text)
        card = bundles[-1].get("text/html", "") if bundles else ""
        return card.partition(MARK)[2].partition('"')[0] if MARK in card else ""

    yield opened
    run("pass")


def test_a_press_is_answered_and_leaves_the_notebook_as_it_was(
    run: Run, shell: InteractiveShell, opened: Callable[..., str]
) -> None:
    before = children()
    place = opened(f"%%autograd\n{CELL}")
    weights, names = shell.user_ns["model"].weight.tolist(), set(shell.user_ns)
    finding = lab.last().findings[0]
    assert (finding.tried, finding.patch) == ("", "line 6 +     opt.zero_grad()")
    assert len(children() - before) == 1
    told = press(place)
    assert told["level"] == "proved"
    assert told["said"].startswith("Tried: backward passes added to gradients of earlier steps: 3 before, 0 now")
    assert told["patch"] == finding.patch
    assert lab.last().findings[0].tried == told["said"]
    assert shell.user_ns["model"].weight.tolist() == weights
    assert set(shell.user_ns) == names
    run("pass")
    assert until(lambda: children() == before)


def test_nothing_runs_unasked(opened: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot.Snapshot, "run", None)  # an order would raise
    assert opened(f"%%autograd\n{CELL}")
    assert try_button._latest is not None


def test_a_second_press_is_answered_without_a_second_trial(
    opened: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = opened(f"%%autograd\n{CELL}")
    told = press(place)
    monkeypatch.setattr(snapshot.Snapshot, "run", None)
    assert press(place) == told


def test_after_another_cell_the_card_says_so(run: Run, opened: Callable[..., str]) -> None:
    place = opened(f"%%autograd\n{CELL}")
    run("1 + 1")
    assert press(place) == {"said": f"Not tried: {try_button.ANOTHER_CELL}.", "patch": "", "level": "untried"}


def test_another_cell_ends_a_trial(run: Run, opened: Callable[..., str]) -> None:
    before: set[int] = children()
    told: list[dict[str, str]] = []
    place = opened(f"%%autograd\n{CELL}".replace("range(4)", "range(1000)"))
    (asleep,) = children() - before
    pressed = threading.Thread(target=lambda: told.append(press(place)))
    pressed.start()
    folders = f"{tempfile.gettempdir()}/{snapshot.FOLDER}{asleep}-*"
    assert until(lambda: bool(glob.glob(folders)))  # of a worker that is at it
    run("1 + 1")
    pressed.join(60)
    assert told == [{**told[0], "level": "untried", "said": f"Not tried: {try_button.ANOTHER_CELL}."}]
    assert until(lambda: children() == before)
    assert glob.glob(folders) == []


@pytest.mark.parametrize(
    "text", [f"%%autograd\n{CELL}".replace("    loss.b", "    opt.zero_grad()\n    loss.b"),
             f"%%autograd --text\n{CELL}", f"%%autograd --no-card\n{CELL}", "%%autograd\nx + labels.nowhere"],
    ids=["nothing found", "text", "no card", "an error without a patch"],
)  # fmt: skip
def test_without_a_change_to_try_no_process_is_kept(text: str, run: Run, opened: Callable[..., str]) -> None:
    before = children()
    opened(text)
    assert until(lambda: children() == before)


def test_without_a_notebook_no_process_is_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(SETUP)
    monkeypatch.setattr(try_button, "Offer", None)  # making one would raise
    run(f"%%autograd\n{CELL}")
    assert lab.last().findings[0].patch == ""


def test_a_large_process_is_told_instead_of_a_button(
    opened: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "EASY_BYTES", 1 << 20)
    before = children()
    opened(f"%%autograd\n{CELL}")
    assert children() == before
    finding = lab.last().findings[0]
    assert "of which `%%autograd --try` alone makes a copy" in finding.tried
    assert finding.patch == "line 6 +     opt.zero_grad()"


def test_a_rule_that_fails_costs_no_card(opened: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("a rule")

    monkeypatch.setattr(proving, "patches", fails)
    before = children()
    opened(f"%%autograd\n{CELL}")
    record = lab.last()
    assert record.findings[0].kind == "zero-grad"
    assert record.environment["remedies"] == "not known: ZeroDivisionError: a rule"
    assert until(lambda: children() == before)


@pytest.mark.parametrize("number", [5, 9999])
def test_a_finding_that_is_not_there_is_refused(number: int, opened: Callable[..., str]) -> None:
    place = opened(f"%%autograd\n{CELL}")
    with pytest.raises(ValueError, match=f"no finding {number}"):
        press(place, number)


def test_a_copy_that_held_too_much_is_told(opened: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "HELD_BYTES", 1)
    place = opened(f"%%autograd\n{CELL}")
    time.sleep(1.5)
    assert press(place)["said"] == f"Not tried: {snapshot.TOO_MUCH}."


def test_who_waits_for_the_end_of_a_pipe_is_not_kept_waiting(opened: Callable[..., str]) -> None:
    """The sleeping process holds no end of a pipe: `cat` would never see that its input has ended."""
    opened("import subprocess; cat = subprocess.Popen(['cat'], stdin=subprocess.PIPE)")
    assert opened(f"%%autograd\n{CELL}cat.stdin.close(); cat.wait(10)")


def test_a_port_is_free_again(opened: Callable[..., str], run: Run, shell: InteractiveShell) -> None:
    run("import socket; server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(1)")
    server = shell.user_ns["server"]
    address = server.getsockname()
    assert opened(f"%%autograd\n{CELL}")
    server.close()

    def free() -> bool:
        with socket.socket() as again:
            return again.connect_ex(address) != 0  # nobody listens

    assert until(free)


def test_the_place_in_an_open_file_is_that_before_the_cell(
    opened: Callable[..., str], run: Run, shell: InteractiveShell, tmp_path: Path
) -> None:
    (tmp_path / "numbers.txt").write_text("0\n1\n2\n3\n" * 10)
    shell.user_ns["path"] = str(tmp_path / "numbers.txt")
    run("file = open(path, buffering=1); file.readline(); file = open(path)")
    place = opened(f"%%autograd\nassert file.readline() == '0\\n'\n{CELL}rest = file.read()")
    assert press(place)["level"] == "proved"


def test_a_process_that_dies_takes_its_copy_with_it(tmp_path: Path) -> None:
    script = (
        "import os, time\nfrom lab.prove.snapshot import Scene, Snapshot\ns = Snapshot(Scene({}))\n"
        "print(s.pid, flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    assert until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())
