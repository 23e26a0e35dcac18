"""`%%autograd` in a shell without a kernel: the cell runs as it would without, and its card follows."""

from __future__ import annotations

import re
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import lab
import widgets
from core.base import source
from core.events import observe
from lab.recorder.sampled_steps import CLOSE

SETUP = """import core, numpy as np
core.manual_seed(0)
x = core.randn(8, 4)
W, V = core.randn(4, 4).requires_grad_(), core.randn(4, 2).requires_grad_()
def layer(a):
    return (a @ W).tanh()
"""
Run = Callable[..., tuple[Any, list[dict[str, str]], str]]


def card_of(bundles: list[dict[str, str]]) -> str:
    (card,) = [
        b["text/plain"] for b in bundles if "autograd" in b.get("text/plain", "") or "In [" in b.get("text/plain", "")
    ]
    return card


def test_names_and_the_last_value_are_the_cells_own(run: Run, shell: InteractiveShell) -> None:
    result, bundles, printed = run("%%autograd\nh = layer(x)\nh.shape")
    assert result.success
    assert tuple(result.result) == (8, 4)
    assert "Size([8, 4])" in printed
    assert "h" in shell.user_ns
    assert [sorted(b) for b in bundles] == [["text/html", "text/plain"]]
    assert bundles[0]["text/plain"].startswith(f"In [{result.execution_count}]: 2 ops")
    assert not observe.observers


def test_lines_are_those_the_notebook_shows(run: Run) -> None:
    lines = ["# a comment", "h = layer(x)", "z = h.detach().numpy()", "", "(core.from_numpy(z) @ V).sum().backward()"]
    _, bundles, _ = run("%%autograd --text\n" + "\n".join(lines))
    card = card_of(bundles)
    assert (
        "Line 4 cuts the graph: `h.detach().numpy()` hands the values of `h` to NumPy, and line 6 brings them back"
        in card
    )
    assert "so W gets no gradient" in card
    assert re.search(r"^ +3 .* 2 .*h = layer\(x\)", card, re.M)
    assert "h = layer(x)" in card


def test_blank_lines_above_the_magic_count(run: Run) -> None:
    _, bundles, _ = run("\n\n%%autograd --text\nh = layer(x).detach()\n(h @ V).sum().backward()")
    assert "Line 4 cuts the graph" in card_of(bundles)
    assert next(row.line for row in lab.last().lines if row.count) == 4


def test_a_cell_that_raises_has_a_partial_card_and_its_own_traceback(run: Run) -> None:
    result, bundles, printed = run("%%autograd --text\nh = layer(x)\nbad = h + core.ones(3, 3)\nmore = h.exp()")
    assert isinstance(result.error_in_exec, RuntimeError)
    lines = [f.lineno for f in traceback.extract_tb(result.error_in_exec.__traceback__) if f.name.startswith("<")]
    assert 3 in lines
    assert "Error: Line 3 fails in `add`: " in card_of(bundles)
    assert "The cell stopped here (RuntimeError), so this card is partial" in card_of(bundles)
    assert "lab/" not in printed
    error = lab.last().error
    assert error is not None
    assert (error.type, error.line) == ("RuntimeError", 3)


def uncoloured(ran: tuple[Any, list[dict[str, str]], str]) -> tuple[Any, list[dict[str, str]], str]:
    return ran[0], ran[1], re.sub(r"\x1b\[[\d;]*m", "", ran[2])


def test_a_traceback_shows_the_users_frames_and_one_of_the_librarys(run: Run, shell: InteractiveShell) -> None:
    cell = "def inner(a):\n    return a + core.ones(3, 3)\nh = layer(x)\ninner(h)"
    for magic in ("%%autograd --no-card\n", ""):
        result, _, printed = uncoloured(run(magic + cell))
        assert printed.count(" in inner(a)") == 1
        assert len(re.findall(r"^File .*/core/", printed, re.MULTILINE)) == 1
        assert "frames of gradlab's own are left out" in printed
        whole = traceback.extract_tb(result.error_in_exec.__traceback__)
        assert sum("/core/" in frame.filename for frame in whole) > 2  # the exception has them all
        assert shell.InteractiveTB.tb is result.error_in_exec.__traceback__  # and so has %debug
    shell.run_line_magic("xmode", "Verbose")
    try:
        _, _, printed = uncoloured(run(cell))
    finally:
        shell.run_line_magic("xmode", "Context")
    assert len(re.findall(r"^File .*/core/", printed, re.MULTILINE)) > 2
    assert "left out" not in printed
    # a callback of the user's between frames of the library stays, and so does the error behind an error
    cell = """
def hook(g):
    return g + core.ones(7, 7)
h = layer(x)
h.register_hook(hook)
try:
    h.sum().backward()
except RuntimeError as first:
    raise ValueError("worse") from first
"""
    _, _, printed = uncoloured(run(cell))
    assert " in hook(g)" in printed
    assert "ValueError: worse" in printed
    assert len(re.findall(r"^File .*/core/", printed, re.MULTILINE)) == 1


def test_a_backward_that_raises_is_explained(run: Run) -> None:
    _, bundles, _ = run("%%autograd --text\nloss = core.tensor(layer(x).sum())\nloss.backward()")
    assert "Line 2 cuts the graph" in card_of(bundles)
    assert "backward() on line 3 has nothing to do" in card_of(bundles)


@pytest.mark.parametrize("flag", ["--bad", "sideways", "--text --bad"])
def test_an_unknown_flag_is_one_line(run: Run, shell: InteractiveShell, flag: str) -> None:
    shell.user_ns.pop("never", None)
    result, bundles, printed = run(f"%%autograd {flag}\nnever = 1")
    assert isinstance(result.error_in_exec, UsageError)
    assert printed.strip().count("\n") == 0
    assert "it takes --text, --check, --precision, --whole, --try, --no-card" in printed
    assert "never" not in shell.user_ns
    assert bundles == []
    assert not observe.observers


def test_text_alone_and_no_card(run: Run) -> None:
    _, bundles, _ = run("%%autograd --text\ny = layer(x)")
    assert [sorted(b) for b in bundles] == [["text/plain"]]
    _, bundles, _ = run("%%autograd --no-card\ny = layer(x).exp()")
    assert bundles == []
    assert [op.op for op in lab.last().ops] == ["matmul", "tanh", "exp"]


def test_await_in_a_cell(run: Run, shell: InteractiveShell) -> None:
    result, bundles, _ = run("%%autograd --text\nimport asyncio\nawait asyncio.sleep(0)\ny = layer(x)")
    assert result.success
    assert lab.last().ops[0].line == 6  # layer's own line, in the first cell
    assert next(row.line for row in lab.last().lines if row.count) == 4
    assert len(bundles) == 1


def test_functions_of_earlier_cells_are_told_by_their_number(run: Run) -> None:
    run("%%autograd --no-card\ny = layer(x)")
    assert lab.last().ops[0].file.startswith("In [")
    assert lab.last().ops[0].code == "a @ W"
    assert "In [" in source.describe(lab_place(run))


def lab_place(run: Run) -> Any:
    run("%%autograd --no-card\ny = layer(x)\nnode = y.grad_fn")
    return InteractiveShell.instance().user_ns["node"].place


def test_strings_over_several_lines_stay_as_they_are(run: Run, shell: InteractiveShell) -> None:
    run("%%autograd --no-card\nwords = '''one\n  two'''\nfor i in range(2):\n    y = x * i")
    assert shell.user_ns["words"] == "one\n  two"
    assert next(row.line for row in lab.last().lines if row.count) == 5


def test_on_and_off(run: Run) -> None:
    assert "off" in run("%autograd")[2]
    run("%autograd on")
    _, bundles, _ = run("y = layer(x)")
    assert len(bundles) == 1
    assert run("1 + 1")[1] == []  # no op, no card
    _, bundles, _ = run("%%time\ny = layer(x)")
    assert [row.line for row in lab.last().lines if row.count] == [2]
    run("%autograd off")
    assert run("y = layer(x)")[1] == []
    assert not observe.observers
    assert "is none of on, count and off" in run("%autograd sideways")[2]


def test_cards_under_every_cell_sample_steps_and_begin_anew_after_a_loop(run: Run, shell: InteractiveShell) -> None:
    run("%autograd on")
    loop = """
optimizer = core.optim.SGD([W], lr=1e-3)
for i in range(3000):
    optimizer.zero_grad()
    layer(x).square().sum().backward()
    optimizer.step()
score = layer(x).std()
"""
    _, bundles, _ = run(loop)
    record = lab.last()
    assert len(bundles) == 1
    assert re.match(r"[\d,]+ of 3,000 steps were recorded", record.checked)
    assert [op.count for op in record.ops if op.op == "std"] == [1]
    assert [op.count for op in record.ops if op.op == "tanh"] == [3000, 1]
    run("%autograd off")
    assert "run_code" not in vars(shell)
    run("%%autograd --no-card" + loop.replace("3000", "300"))
    assert lab.last().checked == ""
    assert not observe.observers


def test_a_long_loop_is_recorded_whole_where_that_is_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLOSE, "first_ns", 0)
    loop = """
optimizer = core.optim.SGD([W], lr=1e-3)
for i in range(1000):
    optimizer.zero_grad()
    layer(x).square().sum().backward()
    optimizer.step()
"""
    run("%%autograd --no-card" + loop)
    record = lab.last()
    assert re.match(r"[\d,]+ of 1,000 steps were recorded", record.checked)
    assert [op.count for op in record.ops if op.op == "tanh"] == [1000]
    run("%%autograd --no-card --whole" + loop)
    assert lab.last().checked == ""


def test_the_registered_cell_magic(run: Run) -> None:
    _, bundles, _ = run("get_ipython().run_cell_magic('autograd', '--text', 'y = layer(x)')")
    assert len(bundles) == 1
    assert "--no-card" in InteractiveShell.instance().find_cell_magic("autograd").__doc__


def test_a_cell_inside_a_cell_does_not_end_the_recording(run: Run) -> None:
    run("%%autograd --no-card\nget_ipython().run_cell('inner = layer(x)')\ny = layer(x).exp()")
    assert "exp" in [op.op for op in lab.last().ops]


def test_a_card_that_cannot_be_drawn_is_said_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(record: Any) -> str:
        raise ValueError("no paper\nand no ink")

    monkeypatch.setattr(widgets, "text", broken)
    result, bundles, printed = run("%%autograd\ny = layer(x)\ny.shape")
    assert result.success
    assert bundles == []
    assert (
        printed.strip().splitlines()[-1]
        == "autograd: no card for this cell (ValueError: no paper); the cell itself ran as always."
    )


def test_a_recorder_that_fails_is_said_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.recorder.observer.Recorder._op", lambda self, event: {}["gone"])
    result, _, printed = run("%%autograd\ny = layer(x)\ny.shape")
    assert result.success
    assert tuple(result.result) == (8, 4)
    assert "the recorder failed: KeyError" in printed
    assert not observe.observers


def test_unloading_takes_everything_back(run: Run, shell: InteractiveShell) -> None:
    before = len(shell.input_transformers_cleanup)
    shell.run_line_magic("unload_ext", "lab")
    assert len(shell.input_transformers_cleanup) == before - 1
    assert "autograd" not in shell.magics_manager.magics["cell"]
    shell.run_line_magic("load_ext", "lab")
    lab.load_ipython_extension(shell)  # twice is once
    assert len(shell.input_transformers_cleanup) == before
    assert len(run("%%autograd\ny = layer(x)")[1]) == 1


def test_the_wall_time_of_a_cell_that_raised_is_not_told(run: Run) -> None:
    _, bundles, _ = run("%%autograd --text\nh = layer(x)\n1 / 0")
    card = card_of(bundles)
    assert "Error: Line 3 fails with a ZeroDivisionError" in card
    assert "wall" not in card


def test_another_magic_that_takes_the_cell(run: Run) -> None:
    result, bundles, printed = run("%%autograd --text\n%%time\nh = layer(x)\nh.sum().backward()")
    assert result.success
    assert "Wall time" in printed
    card = card_of(bundles)
    assert re.search(r"^ +3 .* 2 .*h = layer\(x\)", card, re.M)
    assert re.search(r"^ +4 .* 2 .*h\.sum\(\)", card, re.M)


def test_a_cell_with_backward_alone_has_its_card(run: Run) -> None:
    run("loss = layer(x).sum()")
    run("%autograd on")
    _, bundles, _ = run("loss.backward()")
    run("%autograd off")
    card = card_of(bundles)
    assert "No problems found." in card
    assert "W " in card


def test_a_cell_that_runs_again_says_what_changed(shell: InteractiveShell) -> None:
    for text in ("%%autograd --no-card\nh = layer(x).exp()", "%%autograd --no-card\nh = layer(x).exp().log()"):
        with capture_output():
            shell.run_cell(text, store_history=True, cell_id="the-cell").raise_error()
    comparison = lab.last().comparison
    assert comparison is not None
    assert [(c.kind, c.name) for c in comparison.changes if c.kind.startswith("op")] == [("op added", "log")]
    with capture_output():
        shell.run_cell("%%autograd --no-card\nh = x + 1", store_history=True, cell_id="another").raise_error()
    assert lab.last().comparison is None


@pytest.mark.parametrize("magic", ["%%export halved(x) --to numpy", "%%autograd --no-card"])
def test_the_cell_below_a_magic_has_the_number_and_the_lines_that_are_shown(
    magic: str, run: Run, shell: InteractiveShell
) -> None:
    number = shell.execution_count
    result, _, printed = run(f"{magic}\ndef halved(x):\n    return x / 2\nhalved(x) / undefined")
    assert isinstance(result.error_in_exec, NameError)
    assert re.search(rf"In ?\[{number}\][^\n]*line:? 4", printed), printed
    assert shell.execution_count == number + 1


def test_count_says_one_line_under_every_cell(run: Run, shell: InteractiveShell) -> None:
    run("%autograd count")
    try:
        result, bundles, printed = run(
            "loss = layer(x).sum()\nloss.backward()\nobserved = core.events.observe.observers"
        )
        assert result.success
        assert bundles == []
        assert shell.user_ns["observed"] == ()
        assert "autograd: 3 ops recorded, 1 backward pass in" in printed
        _, bundles, printed = run("a = 1")
        assert (bundles, printed) == ([], "")
        _, bundles, printed = run("%%autograd --text\nloss = layer(x).sum()")
        assert "recorded" not in printed
        assert card_of(bundles)
        assert "cards are count" in run("%autograd")[2]
    finally:
        run("%autograd off")
    assert run("layer(x).sum().backward()")[2] == ""


CLOCK = """%%autograd --text
import time
began = time.perf_counter()
for k in range(300):
    h = layer(x)
    h.sum().backward()
time.sleep(0.1)
took = time.perf_counter() - began
"""


def test_wall_is_the_cells_own_clock_and_its_parts_add_up(run: Run, shell: InteractiveShell) -> None:
    _, bundles, _ = run(CLOCK)
    record = lab.last()
    assert record.wall_ms == pytest.approx(1e3 * shell.user_ns["took"], rel=0.02)
    assert record.recording_ms > 0
    parts = record.forward_ms + record.backward_ms + record.update_ms + record.recording_ms + record.other_ms
    assert parts == pytest.approx(record.wall_ms)
    assert record.other_ms > 100
    head = card_of(bundles).splitlines()[0]
    shown = dict(re.findall(r"(forward|backward|update|recording|other|wall) ([\d.]+) ms", head))
    assert sum(float(v) for k, v in shown.items() if k != "wall") == pytest.approx(float(shown["wall"]), rel=0.05)


def test_drawing_plots_and_tracebacks_is_no_part_of_wall(run: Run, shell: InteractiveShell) -> None:
    def draws() -> None:
        time.sleep(0.3)

    shell.events.register("post_execute", draws)
    try:
        run(CLOCK)
        assert lab.last().wall_ms == pytest.approx(1e3 * shell.user_ns["took"], rel=0.02)
        run(CLOCK + "raise KeyboardInterrupt")
        assert lab.last().wall_ms == pytest.approx(1e3 * shell.user_ns["took"], rel=0.02)
    finally:
        shell.events.unregister("post_execute", draws)


STOP = """%%autograd --text
opt = core.optim.SGD([W, V], lr=0.1)
for k in range(10):
    loss = (layer(x) @ V).detach().sum() + (layer(x) @ V).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if k == 2:
        raise KeyboardInterrupt
"""


def test_a_cell_that_is_stopped_did_not_fail(run: Run) -> None:
    result, bundles, _ = run(STOP)
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    record = lab.last()
    assert record.error is None
    assert record.stopped == "Stopped by you at line 9 after 3 steps."
    assert not [op for op in record.ops if "error" in op.flags]
    assert not [f for f in record.findings if f.kind == "error"]
    card = card_of(bundles)
    assert "● Note: Stopped by you at line 9 after 3 steps." in card
    assert "KeyboardInterrupt" not in card
    assert "✕" not in card
    assert "wall" in card
    html = widgets.html(record)
    assert "Stopped by you at line 9" in html.split("<script")[0]
    assert '"stopped":["Stopped by you at line 9 after 3 steps.",' in html
    run(STOP.replace("range(10)", "range(1000)").replace("k == 2", "k == 40"))
    assert "×1,000" not in widgets.html(lab.last())  # what the loop would have been


def test_an_op_in_which_the_cell_is_stopped_did_not_fail(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    InteractiveShell.instance().user_ns["stopped"] = stopped
    run("%%autograd --no-card\nclass Slow(core.autograd.Function):\n    forward = staticmethod(stopped)\nSlow.apply(W)")
    record = lab.last()
    assert record.error is None
    assert record.stopped.startswith("Stopped by you at line 4")
    assert not [op for op in record.ops if "error" in op.flags]
    assert record.findings == []


def test_what_ran_before_a_stop_is_still_looked_at(run: Run) -> None:
    run(STOP.replace("    opt.zero_grad()\n", ""))
    assert "zero-grad" in [f.kind for f in lab.last().findings]
    gan = STOP.replace("k in range(10):", "k in range(10):\n    other = core.optim.SGD([V], lr=0.1)")
    run(gan)
    assert not [f for f in lab.last().findings if f.kind == "optimizer" and "nothing steps other" in f.message]


def test_torch_is_core_from_the_magic_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    assert "in the meaning of PyTorch" in run("%as_torch")[2]
    result, bundles, _ = run(
        "%%autograd\nimport torch\nm = torch.nn.Linear(2, 1)\nm(torch.ones(3, 2)).sum().backward()"
    )
    assert result.success
    assert len(bundles) == 1
    assert {"linear", "sum"} <= {op.op for op in lab.last().ops}
    run("%as_torch")  # twice is once
    run("%as_torch off")
    assert "torch" not in sys.modules
    with pytest.raises(UsageError, match="neither on nor off"):
        run("%as_torch maybe")[0].raise_error()
