"""The commands that show what was tuned: a history, two sessions compared, several shapes as a heat map."""

from __future__ import annotations

import math

import numpy as np
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from lab.notebook import tuned_display
from lab.notebook.tune_magic import tune_line
from lab.tuning import history, session_view, shown, study
from triton_kernels.tune import events as ev
from triton_kernels.tune import past
from triton_kernels.tune.dispatch_tree import grow
from triton_kernels.tune.dispatching import Dispatch
from triton_kernels.tune.replay import replayed
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store
from widgets import past as past_page
from widgets import study as study_page
from widgets import tuner

TIMES = {2**k: 1.0 + abs(k - 4) for k in range(9)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "gradlab" / "tuning"


def tuned(store, times, **options):
    session = Session(replayed(times), budget=None, store=store, resume=False, strategy="exhaustive", **options)
    view = session_view.begin(session)
    for event in session:
        session_view.take(view, session, event)
    return view


def kernel_of(store):
    return store.tuned()[0]["kernel"]


def test_a_history_and_its_last_two_compared(folder):
    with Store() as store:
        first = tuned(store, TIMES)
        second = tuned(store, {b: 1.3 * t * (2.0 if b == 32 else 1.0) for b, t in TIMES.items()})
        found = history.history(store, kernel_of(store))
    assert first.history[-1].ratio == pytest.approx(0.2)
    assert [s.number for s in second.history] == [1, 2]
    assert found.compared is not None
    assert (found.compared.first, found.compared.second) == (1, 2)
    said = " ".join(found.compared.said)
    assert "The same choice, BLOCK=16" in said
    assert "all configs alike take 1.30 times as long" in said
    assert second.beside == found.compared.said
    text = past_page.text(found)
    assert "0.200 of the default" in text
    assert second.headline == "5.00 times as fast as the default"
    assert second.beside[0] in tuner.still(second).replace("&#x27;", "'")


def test_the_sentences_of_a_comparison():
    def one(**more):
        return past.Comparison(**more)

    assert history.sentences(one())[0] == "The choices cannot be compared: neither session has one."
    choice = {"verdict": "faster", "config": {"B": 1}, "default": {"B": 2}, "ratio": 0.5, "low": 0.4, "high": 0.6}
    noisy = {**choice, "verdict": "noisy"}
    stays = {**choice, "config": {"B": 2}}
    other = {**choice, "config": {"B": 4}, "ratio": 0.3, "low": 0.29, "high": 0.31}
    cases = {
        "the first has none": (None, choice),
        "the second has none": (choice, None),
        "the first named none, for noise": (noisy, choice),
        "the first and the second named none": (noisy, noisy),
        "The default stays in both": (stays, stays),
        "Another choice: B=4 in place of B=1": (choice, other),
        "which is no difference that can be told": (choice, choice),
    }
    for words, chosen in cases.items():
        assert words in history.sentences(one(chosen=chosen))[0]
    assert "lower than the 0.500" in history.sentences(one(chosen=(choice, other), better="lower"))[0]
    timed = [({"B": k}, 1.0, 1.0) for k in range(8)]
    machine = 0.7, 0.65, 0.75
    said = history.sentences(one(timed=timed, machine=machine, changed=[past.Changed({"B": 3}, 1.6)],
                                 failing=[({"B": 4}, "compile: no")], mended=[({"B": 5}, "timeout")],
                                 only_first=2))  # fmt: skip
    assert said[1].startswith("The machine: all configs alike take 0.70 of the time (0.65 to 0.75)")
    assert said[2] == "Beside the others 1 config changed: B=3 takes 1.60 times as long."
    assert said[3] == "1 config wrong or failing now, right before: B=4 (compile: no)."
    assert said[5] == "Tried in the first alone: 2; in the second alone: 0."
    assert "is noise" in history.sentences(one(timed=timed, machine=(1.0, 0.9, 1.1)))[2]


def test_the_command(folder, tmp_path, capsys):
    with Store() as store:
        tuned(store, TIMES)
        tuned(store, TIMES)
        kernel = kernel_of(store)
    page = tmp_path / "page.html"
    assert shown.main(["history", kernel, "-o", str(page)]) == 0
    assert "Session 2 beside session 1" in capsys.readouterr().out
    made = page.read_text()
    assert made.startswith("<!doctype html>")
    assert "<script" not in made
    for wrong, why in (
        (["history", kernel, "-o", str(page)], "exists already"),
        (["history", kernel, "-o", str(tmp_path / "page.txt")], "ends with one of .html"),
        (["history", "nothing"], f"Kernels that were tuned: {kernel}"),
        (["history", kernel, "--compare", "1", "7"], "there are the sessions 1 to 2"),
        (["dispatch", "softmax_f32", "64x64", "float32"], "two shapes or more"),
        (["dispatch", str(tmp_path / "none.json")], "No such file"),
    ):
        assert shown.main(wrong) == 2
        assert why in capsys.readouterr().err
    tune_line(f"history {kernel}")
    assert "Session 2 beside session 1" in capsys.readouterr().out
    with pytest.raises(UsageError, match="%tune: no session of nothing"):
        tune_line("history nothing")


SHAPES = ((1, 64), (1, 1024), (32, 64), (32, 1024))
CONFIGS = tuple({"BLOCK": b, "num_warps": 4} for b in (64, 1024))
MS = np.array([[1.0, 2.0], [4.0, 2.0], [1.0, math.inf], [3.0, 1.5]])
MADE = Dispatch("softmax", "float32", "cpu <b>", ("rows", "columns"), grow(SHAPES, CONFIGS, MS), CONFIGS[0], SHAPES,
                CONFIGS, MS, notes=["a note"])  # fmt: skip


def test_several_shapes_as_a_heat_map(tmp_path, capsys):
    view = study.study(MADE)
    assert view.chosen == [0, 1, 0, 1]
    assert view.headline.startswith("2 configs for 4 shapes, 0.0 % slower")
    html = study_page.html(view)
    assert html.count('class="taken"') == 4
    assert html.count("✕") == 1
    assert "cpu &lt;b&gt;" in html
    assert "num_warps=4</code>" not in html  # all have it: the caption says so
    assert "All have num_warps=4" in html
    kept = tmp_path / "choice.json"
    kept.write_text(MADE.to_json())
    for name, begin in (("a.html", "<!doctype"), ("a.py", "def choose(rows, columns)"), ("a.json", "{")):
        assert shown.main(["dispatch", str(kept), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(begin)
    assert "mean regret" in capsys.readouterr().out


def test_a_cell_that_ends_with_it_shows_the_map():
    shell = InteractiveShell()
    tuned_display.register(shell)
    shown_as, _ = shell.display_formatter.format(MADE)
    assert "gradlab-study" in shown_as["text/html"]
    assert shown_as["text/plain"].startswith("def choose")
    tuned_display.unregister(shell)
    assert "text/html" not in shell.display_formatter.format(MADE)[0]


@pytest.mark.parametrize(("verdict", "words"), [
    ("faster", "2.00 times as fast as the default"), ("default", "nothing is faster than the default"),
    ("noisy", "the default stays: too noisy to tell"), ("failed", "the default fails"),
    ("stopped", "stopped before the default had a time"),
])  # fmt: skip
def test_headline_and_verdict_have_the_same_figures(verdict, words):
    """Medians of times that were taken in turn may say another ratio than that of the pairs: one of them is told."""
    default = ev.Place({"B": 1}, 10.0, 1.0, 1.0, 1.0)
    best = ev.Place({"B": 2}, 4.0, 0.5, 0.4, 0.6) if verdict in ("faster", "noisy") else default
    there = verdict not in ("failed", "stopped")
    result = ev.Result("k", (8,), "float32", "cpu", "here", "line", verdict, default if there else None,
                       best if there else None, (best, default) if there else ())  # fmt: skip
    assert session_view.headline(result) == words
    if verdict == "faster":
        assert "2.00 times as fast" in session_view.verdict(result)[1]
        assert "5.00 ms instead of 10.0 ms" in session_view.verdict(result)[1]
