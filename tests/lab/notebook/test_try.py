"""`%%autograd --try` in IPython: what the card says, and that the notebook is as it would be without."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import lab
from lab.notebook import try_magic
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
Run = Callable[..., tuple[Any, list[dict[str, str]], str]]
needs_fence = pytest.mark.usefixtures("trials")


@needs_fence
def test_the_card_says_what_the_remedy_did(run: Run, shell: InteractiveShell) -> None:
    run(SETUP)
    before, random_state = children(), random.getstate()
    _, bundles, printed = run(f"%%autograd --try --text\n{CELL}")
    card = bundles[-1]["text/plain"]
    assert "Tried: backward passes added to gradients of earlier steps: 3 before, 0 now." in card
    assert "        line 6 +     opt.zero_grad()" in card
    assert printed.count("once") == 1
    assert children() == before
    assert random.getstate() == random_state
    losses = shell.user_ns["loss"].item()
    run(SETUP)
    run(CELL)
    assert shell.user_ns["loss"].item() == losses


@needs_fence
@pytest.mark.parametrize("head", ["\n\n%%autograd --try --no-card\n", "%%autograd --try --no-card\n%%time\n"])
def test_lines_above_the_cell_count(run: Run, head: str) -> None:
    run(SETUP)
    run(head + CELL)
    line = (head + CELL).split("\n").index("    loss.backward()") + 1
    assert lab.last().findings[0].patch == f"line {line} +     opt.zero_grad()"


@needs_fence
def test_nothing_runs_unasked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(try_magic.snapshot, "Snapshot", None)  # making one would raise
    run(SETUP)
    run(f"%%autograd --no-card\n{CELL}")
    assert lab.last().findings[0].tried == ""


def test_where_nothing_can_be_tried_the_patch_is_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(try_magic.snapshot, "missing", lambda **_: "the GPU is in use")
    run(SETUP)
    run(f"%%autograd --try --no-card\n{CELL}")
    found = lab.last().findings[0]
    assert (found.tried, found.patch) == ("Not tried: the GPU is in use.", "line 6 +     opt.zero_grad()")


@needs_fence
def test_a_cell_that_raises_or_asks_leaves_no_process(run: Run) -> None:
    run(SETUP)
    before = children()
    result, _, _ = run("%%autograd --try --no-card\nw = torch.randn(3, requires_grad=True)\nw.grad.zero_()")
    assert result.error_in_exec is not None
    run("%%autograd --try --help\nx = 1")
    assert children() == before
