"""`lab.progress` and the screen of `lab.fit`: one output in a notebook, one line in a terminal, lines in a log."""

from __future__ import annotations

import io
import sys
import time
from contextlib import suppress

import pytest

import core
import lab
from lab.console import progress
from lab.console.progress import Screen
from widgets.training import Training


@pytest.fixture
def published(monkeypatch):
    """What a kernel would be sent: (bundle, display_id, update)."""
    from IPython import display

    sent = []
    monkeypatch.setattr(display, "publish_display_data", lambda bundle, transient, update: sent.append(
        (bundle, transient["display_id"], update)))  # fmt: skip
    return sent


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_in_a_notebook_one_output_is_updated(published):
    for k in (steps := lab.progress(range(30), title="Counting", show="notebook")):
        steps.show(square=k * k, loss=core.tensor(0.25))
        time.sleep(0.02)
    assert 3 <= len(published) <= 6  # 0.6 s, at most five times a second, and the end
    assert len({name for _, name, _ in published}) == 1
    assert [update for _, _, update in published] == [False] + [True] * (len(published) - 1)
    last = published[-1][0]
    assert last["text/plain"].startswith("✓ Counting · 30 of 30 steps")
    assert "square 841 · loss 0.2500" in last["text/plain"]
    assert "gradlab-fit done" in last["text/html"]


def test_fit_in_a_notebook(published):
    model = core.nn.Linear(3, 1)
    x = core.randn(8, 3)
    optimizer = core.optim.SGD(model.parameters(), 0.1)
    lab.fit(
        model,
        [(x, x.sum(1, keepdim=True))] * 3,
        core.nn.functional.mse_loss,
        optimizer,
        4,
        show="notebook",
        title="Line",
    )
    assert "✓ Line · 4 epochs, 12 steps" in published[-1][0]["text/plain"]
    assert 'class="train"' in published[-1][0]["text/html"]
    assert 'class="still"' in published[-1][0]["text/html"]


def test_drawing_that_takes_long_is_done_less_often(published, monkeypatch):
    monkeypatch.setattr(progress.training, "html", lambda view, final: time.sleep(0.02) or "")
    screen = Screen("notebook")
    screen.draw(Training())
    assert screen.next - time.perf_counter() > 0.5


def test_in_a_terminal_one_line_is_overwritten(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    for _ in lab.progress(range(5), title="Going"):
        time.sleep(0.06)
    drawn = out.getvalue().split("\r")[1:]
    assert 2 <= len(drawn) <= 3
    assert drawn[0].startswith("Going ━")
    assert drawn[-1].startswith("✓ Going · 5 of 5 steps") or drawn[-1].startswith("✓ Going ━")
    assert out.getvalue().endswith("\x1b[K\n")
    assert out.getvalue().count("\n") == 1


def test_fit_in_a_log_and_in_a_terminal(capsys, monkeypatch):
    def run(**more):
        core.manual_seed(0)
        model = core.nn.Linear(3, 1)
        x = core.randn(8, 3)
        optimizer = core.optim.SGD(model.parameters(), 0.1)
        return lab.fit(model, [(x, x)] * 2, lambda o, t: (o - t).pow(2).mean(), optimizer, 12, **more)

    run()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 13
    assert lines[0].startswith("epoch  1/12  loss ")
    assert lines[-1].startswith("✓ Trained · loss ")
    assert " · 12 epochs, 24 steps · " in lines[-1]
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    run()
    assert out.getvalue().count("\n") == 13


def test_loops_that_end_early():
    steps = lab.progress(range(9), show="off")
    for k in steps:
        if k == 3:
            break
    assert steps.view("stopped").place == "3 of 9 steps"
    failing = lab.progress(range(9), show="off")
    with suppress(ZeroDivisionError):
        for k in failing:
            1 / (2 - k)
    assert failing.count == 2
    endless = lab.progress(iter("abc"), show="off")
    assert list(endless) == ["a", "b", "c"]
    assert endless.view("done").place == "3 steps"
    with pytest.raises(TypeError, match="total="):
        len(endless)
    assert len(lab.progress(iter("abc"), total=3)) == 3
    assert list(lab.progress([], show="off")) == []


def test_where_it_is_shown(monkeypatch):
    assert progress.way_here() == "lines"
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert progress.way_here() == "terminal"
    assert Screen(False).way == "off"
    with pytest.raises(ValueError, match="show='x' is not known"):
        Screen("x")
