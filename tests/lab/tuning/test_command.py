"""`%tune` and `python -m lab tune`: the grammar, what is shown while it runs, the result in words, every error."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.error import UsageError

from lab.benchmarks import tuning_replay
from lab.notebook import tune_magic
from lab.tuning import command
from tests.triton_kernels.tune import faults
from triton_kernels.tune import energy, lookup
from triton_kernels.tune import events as ev
from triton_kernels.tune.fronts import Weighed
from triton_kernels.tune.replay import replayed
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def places(tmp_path, compiled, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(compiled))
    lookup.forget()
    yield
    lookup.forget()


def result(problem, **options):
    session = Session(problem, **{"jobs": 1, **options})
    list(session)
    return session.result


def test_the_result_in_words():
    text = command.describe(result(replayed({1: 4.0, 2: "runtime", 4: 1.0, 8: 3.0}), budget=None))
    assert text.startswith("recorded 1 float32, on recorded\nBest: BLOCK=4\n  4.00 times as fast as the default")
    assert "1.00 ms instead of 4.00 ms" in text
    assert re.search(r"0\.250  0\.250 to 0\.250 +1.00 ms  BLOCK=4\n", text)
    assert "BLOCK=1 (default)" in text
    assert "Rejected: 1\n     1  runtime: was recorded as failing (runtime)" in text
    assert "4 of 4 configs tried in" in text
    assert "(portfolio; ended: complete)\nNot stored." in text


def test_the_front_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    front = (Weighed({"BLOCK": 4}, 0.25, 0.5), Weighed({"BLOCK": 1}, 1.0, 0.125))
    found = replace(result(replayed({1: 4.0, 4: 1.0})), objective="accuracy", front=front)
    assert (
        "Accuracy (the largest error, as a share of what is allowed) against time: 2 configs that none beats in both\n"
        "  0.5 at 0.250 of the default's time: BLOCK=4\n  0.125 at 1.000 of the default's time: BLOCK=1\n"
    ) in command.describe(found)
    with pytest.raises(command.Wrong, match="objective 'energy': no counter of the processor's energy"):
        command.understood(["softmax_f32", "8x16", "float32", "--objective", "energy"])


def test_the_result_where_the_default_stays_where_it_is_wrong_and_where_it_was_stopped():
    assert "The default stays: nothing tried is measurably faster than BLOCK=1." in command.describe(
        result(replayed({1: 1.0, 2: 2.0}))
    )
    said = "Nothing can be won here: of 3 configs none is more than 2 % faster."
    assert said not in command.describe(result(replayed({1: 1.0, 2: 0.97, 4: 2.0})))
    assert "of 3 configs none is more than 1 % faster." in command.describe(result(replayed({1: 1.0, 2: 1.5, 4: 2.0})))
    assert "Nothing can be won" not in command.describe(result(replayed({1: 1.0, 2: 1.5, 4: 2.0}), evaluations=2))
    wrong = command.describe(result(replayed({1: "correctness", 2: 2.0})))
    assert "The default itself fails, so there is nothing to compare with." in wrong
    assert "1  correctness: BLOCK=1: was recorded as failing" in wrong
    session = Session(faults.problem(()), jobs=1)
    session.stop()
    list(session)
    assert "Stopped before the default had a time." in command.describe(session.result)
    noisy = ev.Result("k", (1,), "float32", "cpu", "d", "random", "noisy", ev.Place({"A": 1}, 1.0, 1, 1, 1),
                      ev.Place({"A": 1}, 1.0, 1, 1, 1))  # fmt: skip
    assert "Too noisy to name a winner" in command.describe(noisy)


@pytest.mark.by_turns
def test_a_c_kernel_in_a_log(capsys):
    with Store() as kept:
        found = command.tune(
            ["softmax_f32", "16x100", "float32", "--evaluations", "3", "--strategy", "random"], store=kept
        )
    assert found.evaluations == 3
    assert found.verdict in ("faster", "default", "noisy")
    shown = capsys.readouterr().out
    assert re.search(r"✓ Tuned softmax_f32 16x100 .*default .* 3 of \d+ configs", shown), shown
    assert str(found.space_size) in shown
    assert found.stored.endswith("tuning.db")


def test_a_shape_that_does_not_fit_into_memory(capsys, monkeypatch):
    with pytest.raises(command.Wrong, match=r"wants about 388,800,000,000,000 bytes .* Remedy: a smaller shape"):
        command.tune(["softmax_f32", "9000000x900000", "float32", "--budget", "9s"])
    monkeypatch.setattr("triton_kernels.tune.problem.free_bytes", lambda: None)  # where nobody tells
    failed = command.tune(["softmax_f32", "9000000x900000", "float32", "--budget", "9s"])
    assert failed.verdict == "failed"
    assert failed.reasons == (("runtime: out of memory while checking", 1),)
    assert "✕ Tuned softmax_f32" in capsys.readouterr().out


def test_what_is_estimated_says_so_while_it_runs():
    said_of = {"softmax_f32": "0.50 of the default (", "softmax_kernel": "0.50 of the default's, estimated ("}
    for measured, said in said_of.items():
        problem = command.find(measured, "64x1024", "float32", "sm_90" if measured.endswith("kernel") else None)
        view = command._View(SimpleNamespace(problem=problem, budget_s=9.0, table=[1, 2]), None)
        view.default, word = 1.0, "default" if measured == "softmax_f32" else "default, estimated"
        assert view.view("running").figures == [(word, "1.00 ms")]
        view.best, view.ratio = 0.5, 0.5
        assert view.view("running").figures[0][1].startswith(said)


@pytest.mark.by_turns
def test_trials_of_before_are_taken_over_unless_fresh(capsys):
    words = ["softmax_f32", "16x100", "float32", "--evaluations", "2", "--strategy", "random"]
    command.tune(words)
    again = command.tune(words)
    assert again.resumed == 1
    assert "2 trials of earlier runs are taken over" in capsys.readouterr().out
    assert command.tune([*words, "--fresh"]).resumed == 0


@pytest.fixture
def published(monkeypatch):
    from IPython import display

    sent = []
    monkeypatch.setattr(display, "publish_display_data", lambda bundle, transient, update: sent.append(
        (bundle, transient["display_id"], update)))  # fmt: skip
    return sent


@pytest.mark.by_turns
def test_in_a_notebook_one_output_is_updated(published):
    session = Session(faults.problem((), work=tuple(range(400, 0, -10))), budget="60s", evaluations=20, jobs=1)
    command.watch(session, show="notebook")
    assert session.result.evaluations == 20
    assert len(published) >= 2
    assert len({name for _, name, _ in published}) == 1
    assert "✓ Tuned faulty_f32 8x64" in published[-1][0]["text/plain"]
    assert "default" in published[-1][0]["text/plain"]


@pytest.mark.by_turns
def test_an_interrupt_stops_and_the_result_still_comes(monkeypatch):
    session = Session(faults.problem((3,), work=(4, 0)), strategy="exhaustive", budget=None, jobs=1)
    calls = []

    class Interrupted:
        """A queue whose reader is interrupted once, as by Jupyter's stop button."""

        def __init__(self):
            self.queue = queue.SimpleQueue()
            self.put = self.queue.put

        def get(self, timeout):
            event = self.queue.get(timeout=timeout)
            if isinstance(event, ev.Compiled) and event.config["FAULT"] == 3 and not calls:
                calls.append(time.monotonic())
                raise KeyboardInterrupt
            return event

    monkeypatch.setattr(command, "queue", SimpleNamespace(SimpleQueue=Interrupted, Empty=queue.Empty))
    command.watch(session, show="off")
    assert session.result.ended == "stopped"
    assert session.result.best is not None
    assert time.monotonic() - calls[0] < 5
    assert not [t for t in threading.enumerate() if t.name == "gradlab tuner"]


def test_an_error_in_the_session_is_the_callers(monkeypatch):
    session = Session(replayed({1: 1.0, 2: 2.0}))
    monkeypatch.setattr(session, "_search", lambda *a: (_ for _ in ()).throw(RuntimeError("broken")))
    with pytest.raises(RuntimeError, match="broken"):
        command.watch(session, show="off")


WRONG = [
    ("nonsense 1x2 float32", "no kernel that can be tuned is named 'nonsense'. There are"),
    ("softmax_krnel 1x2 float32", "Did you mean softmax_kernel"),
    ("matmul_f32 1x2 float32", "takes a shape MxNxK, 3 sizes; came: 1x2"),
    ("matmul_f32 axb float32", "a shape is sizes with x between them, as in 4096x1024; came: 'axb'"),
    ("matmul_f32 1x2x3 float64", "for float64 there is matmul_f64"),
    ("matmul_f32 1x2x3 int9", "matmul_f32 takes float32, not int9"),
    ("matmul_f32 1x2x3", "the following arguments are required: DTYPE\n%tune KERNEL SHAPE DTYPE"),
    ("matmul_f32", "the following arguments are required: SHAPE, DTYPE\n%tune KERNEL SHAPE DTYPE"),
    ("matmul_f32 1x2x3 float32 --tolerance 0.1", "--tolerance is for a program's kernels, as in train.py:add_kernel"),
    ("nowhere.py:add", "there is no file nowhere.py. Needed: a program, as in train.py:add_kernel"),
    ("nowhere.py:add 1x2 float32", "has the shapes that it is launched with; came besides: 1x2"),
    ("matmul_f32 1x2x3 float32 --budget soon", "a budget is a positive time such as 60s, 5m or 1h; came: 'soon'"),
    ("matmul_f32 1x2x3 float32 --strategy luck", "no strategy is named 'luck'; there are exhaustive, random, line"),
    ("matmul_f32 1x2x3 float32 --evaluations 0", "--evaluations is at least 1; came: 0"),
    ("matmul_f32 1x2x3 float32 --evaluations x", "invalid int value: 'x'"),
    ("matmul_f32 1x2x3 float32 --colour red", "unrecognized arguments: --colour red"),
    ("softmax_kernel 1x2 float32 --target sm_1", "no target is called sm_1; there are cuda"),
    ("softmax_kernel 1x2 int8", "takes float16, bfloat16, float32, float64, not int8"),
    ("softmax_f32 1x2 float32 --target sm_90", "is for Triton kernels"),
    ("'unclosed", "No closing quotation"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_errors_are_one_usage_error_with_what_there_is(line, said):
    with pytest.raises(UsageError) as info:
        tune_magic.tune_line(line)
    assert said in str(info.value)
    assert str(info.value).startswith("%tune: ")


@pytest.mark.by_turns
def test_the_magic_in_a_shell(capsys):
    from IPython.core.interactiveshell import InteractiveShell

    import lab

    shell = InteractiveShell()
    lab.load_ipython_extension(shell)
    try:
        shell.run_cell("%tune").raise_error()
        listed = capsys.readouterr().out
        assert "MxNxK, in C (the tuner's own)\n    matmul_f32" in listed
        assert "core's own C: products of matrices\n    core_matmul" in listed
        assert isinstance(shell.run_cell("%tune nothing").error_in_exec, UsageError)
        shell.run_cell("%tune softmax_f32 4x64 float32 --evaluations 2").raise_error()
        said = capsys.readouterr().out
        assert "2 of" in said
        assert "Note: this is a C kernel of the tuner's own" in said
        assert "later runs at this shape take it" not in said
    finally:
        lab.unload_ipython_extension(shell)
    assert "tune" not in shell.magics_manager.magics["line"]


def test_elementwise_kernels_are_known_from_the_op_table():
    problem = command.find("tanh_backward_kernel", "64x64", "float16", "sm_80")
    assert (problem.kernel, problem.shape, problem.measure.kind) == ("tanh_backward_kernel", (4096,), "static")
    assert problem.check.kind == "interpret"
    problem.check.open()
    assert problem.check.check(problem.space.default) < 1
    where = command.find("where_kernel", "100", "float32", "sm_80")
    where.check.open()
    assert where.check.check(where.space.default) < 1


@pytest.mark.by_turns
def test_the_command_line():
    def run(*words):
        done = subprocess.run([sys.executable, "-m", "lab", *words], capture_output=True, text=True, cwd=ROOT)
        return done.returncode, done.stdout, done.stderr

    code, out, _ = run("tune", "softmax_f32", "4x64", "float32", "--evaluations", "2")
    assert code == 0, out
    assert "✓ Tuned softmax_f32 4x64" in out
    code, _, error = run("tune", "matmul_f32", "12", "float32")
    assert (code, error) == (2, "lab: matmul_f32 takes a shape MxNxK, 3 sizes; came: 12\n")


def test_replay_prints_its_table(tmp_path, capsys):
    from tests.triton_kernels.tune.test_measures import cache

    cache(tmp_path / "one.json")
    (tmp_path / "broken.json").write_text("{")
    assert tuning_replay.main([str(tmp_path), "--seeds", "2", "--strategies", "portfolio,random", "--json",
                        str(tmp_path / "out")]) == 0  # fmt: skip
    out, error = capsys.readouterr()
    assert re.search(r"k, GPU +6 +portfolio +[\d.]+ +100% +[\d.]+ +100%", out)
    assert "geometric mean of 1" in out
    assert "broken.json is no cache file of Kernel Tuner" in error
    assert '"strategy": "random"' in (tmp_path / "out").read_text()
    (tmp_path / "one.json").unlink()
    assert tuning_replay.main([str(tmp_path)]) == 1
    for words in (["nowhere"], [str(tmp_path), "--strategies", "luck"], [str(tmp_path), "--seeds", "0"]):
        with pytest.raises(SystemExit):
            tuning_replay.main(words)
