"""The card of a cell while that runs, in a real Jupyter kernel: what is sent, when, and what is left when it ends."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from tests.fake_gpu import ROOT

SETUP = """
%load_ext lab
import time, threading, os, core, lab
from core import nn
F = nn.functional
core.manual_seed(0)
x = core.randn(64, 4)
y = x.sum(1, keepdim=True)
rate = 0.05
def names():
    return sorted(t.name for t in threading.enumerate() if t.name.startswith(('gradlab live', 'gradlab sampler')))
"""
LOOP = """%%autograd
core.manual_seed(1)
model = nn.Linear(4, 1)
optimizer = core.optim.SGD(model.parameters(), rate)
for k in range(STEPS):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
    MORE
"""
WAIT_S = 120


class Kernel:
    """One kernel; `run` gives a cell's messages."""

    def __init__(self) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(ROOT), env={**os.environ, "PYTHONPATH": str(ROOT)})
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WAIT_S)
        self.run(SETUP)

    def run(self, code: str, interrupt: bool = False, cell: str = "a") -> list[Any]:
        """Run a cell; `interrupt` stops it after the first picture of the live card."""
        client = self.client
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = client.session.msg("execute_request", content, metadata={"cellId": cell})
        client.shell_channel.send(message)
        found: list[Any] = []
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            got = client.get_iopub_msg(timeout=WAIT_S)
            if got["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            found.append(got)
            if interrupt and got["msg_type"] == "display_data":
                interrupt = False
                self.manager.interrupt_kernel()
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                return found
        raise TimeoutError(code)

    def said(self, code: str) -> str:
        return "".join(m["content"]["text"] for m in self.run(code, cell="b") if m["msg_type"] == "stream")


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    made = Kernel()
    yield made
    made.client.stop_channels()
    made.manager.shutdown_kernel(now=True)


def loop(steps: int, more: str = "") -> str:
    return LOOP.replace("STEPS", str(steps)).replace("MORE", more)


def cards(messages: list[Any]) -> list[tuple[str, str, str]]:
    """(kind of message, display id, html) of what was shown."""
    found = []
    for m in messages:
        if m["msg_type"] in ("display_data", "update_display_data"):
            content = m["content"]
            found.append(
                (m["msg_type"], content["transient"].get("display_id", ""), content["data"].get("text/html", ""))
            )
    return found


def test_it_comes_follows_and_gives_its_place_to_the_card(kernel: Kernel) -> None:
    shown = cards(kernel.run(loop(250)))
    kinds = [kind for kind, _, _ in shown]
    assert kinds[0] == "display_data"
    assert set(kinds[1:]) == {"update_display_data"}
    assert len({name for _, name, _ in shown}) == 1
    *live, last = (html for _, _, html in shown)
    assert len(live) >= 2
    for html in live:
        assert len(html) < 12_000
        assert "<script" not in html
    steps = [int(re.search(r"step (\d+) of 250", html)[1]) for html in live]  # type: ignore[index]
    assert steps == sorted(set(steps))
    assert "gradlab-card" in last
    assert "Run</summary>" in last
    assert kernel.said("print(names(), lab.last().course.steps)") == "[] 250\n"


def test_a_cell_of_less_than_a_second_has_its_card_alone(kernel: Kernel) -> None:
    shown = cards(kernel.run(loop(3)))
    assert [kind for kind, _, _ in shown] == ["display_data"]
    assert "gradlab-card" in shown[0][2]


def test_stop_keeps_the_card_and_ends_the_thread(kernel: Kernel) -> None:
    messages = kernel.run(loop(3000), interrupt=True)
    assert any(m["msg_type"] == "error" and m["content"]["ename"] == "KeyboardInterrupt" for m in messages)
    shown = cards(messages)
    assert "gradlab-card" in shown[-1][2]
    assert shown[-1][0] == "update_display_data"
    assert "Stopped by you" in shown[-1][2]
    assert kernel.said("print(names(), lab.last().stopped[:14], lab.last().course.steps > 10)") == (
        "[] Stopped by you True\n"
    )


def test_a_cell_that_clears_its_output_gets_its_card_at_the_end(kernel: Kernel) -> None:
    more = "if k == 70:\n        from IPython.display import clear_output; clear_output()"
    shown = cards(kernel.run(loop(120, more)))
    assert shown[0][0] == "display_data"
    assert shown[-1][0] == "display_data"
    assert "gradlab-card" in shown[-1][2]


def test_processes_that_the_cell_forks_live(kernel: Kernel) -> None:
    more = "pid = os.fork()\n    if not pid: os._exit(len(names()))\n    assert os.waitpid(pid, 0)[1] == 0"
    messages = kernel.run(loop(120, more))
    assert not [m for m in messages if m["msg_type"] == "error"]
    assert "gradlab-card" in cards(messages)[-1][2]


def test_an_error_of_the_thread_is_a_line_on_the_card(kernel: Kernel) -> None:
    kernel.run("from widgets import run_card\nreal = run_card.live\nrun_card.live = lambda *_: 1 / 0")
    messages = kernel.run(loop(80))
    kernel.run("run_card.live = real")
    assert not [m for m in messages if m["msg_type"] in ("error", "stream")]
    assert [kind for kind, _, _ in cards(messages)] == ["display_data"]
    assert "ZeroDivisionError" in kernel.said("print(lab.last().course.note)")


def test_the_next_run_stands_beside_it(kernel: Kernel) -> None:
    kernel.run(loop(60), cell="c")
    kernel.run("rate = 0.005")
    kernel.run(loop(60), cell="c")
    said = kernel.said("print(lab.last().course.changes, len(lab.last().course.before))")
    assert "rate: 0.05 → 0.005." in said
    assert "loss at step 60" in said
    assert said.endswith(" 1\n")
    kernel.run(loop(60), cell="c")
    assert kernel.said("print(lab.last().course.changes, len(lab.last().course.before))") == "[] 2\n"
