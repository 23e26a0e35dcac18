"""`%shrink` and `%%shrink` in a shell: what they show, where layers are, and what they say to a line that cannot be."""

from __future__ import annotations

import pytest

from lab.notebook.shrink_magic import words_of

SETUP = """
import core
from core import nn
import lab.shrinking.shrink
lab.shrinking.shrink.ROUND_S = 1e-4
model = nn.Sequential(
    nn.Linear(8, 16),
    nn.ReLU(),
    nn.Linear(16, 3))
x, y = core.rand(40, 8), core.arange(40) % 3
def loss(output, target):
    return core.nn.functional.cross_entropy(output, target)
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("model --data (x, y)", ["model", "--data", "(x, y)"]),
        ("models[0] --data=loader --metric accuracy", ["models[0]", "--data", "loader", "--metric", "accuracy"]),
        ("--data x model", ["--data", "x model"]),
    ],
)
def test_words(line, words):
    assert words_of(line) == words


def test_a_line_gives_the_card(run):
    result, _, _ = run("%shrink model --data (x, y) --variants bf16,pruned-50")
    found = result.result
    assert [v.name for v in found.view.variants] == ["float32", "bf16", "pruned 50 %"]
    assert found["pruned 50 %"].layers[0].made == "In [1] line 6"
    bundle = found._repr_mimebundle_()
    assert "<svg" in bundle["text/html"]
    assert "shrink(small, x[:2], amount=0.5)" in found["pruned 50 %"].code
    assert "outputs differ" in bundle["text/plain"]


def test_a_cell_runs_first(run, shell):
    line, cell = "small --data x --variants bf16", "small = nn.Sequential(\n    nn.Linear(8, 2))"
    _, shown, printed = run(f"%%shrink {line}\n{cell}")
    assert "2 variants" in f"{shown}{printed}"
    found = shell.run_cell_magic("shrink", line, cell)
    assert found["bf16"].layers[0].made.endswith("line 3")
    assert found.view.measure == ""


def test_a_measure_by_name_and_of_ones_own(run):
    assert run("%shrink model --data (x, y) --variants bf16 --metric loss")[0].result.view.higher is False
    assert run("%shrink model --data (x, y) --variants bf16 --metric accuracy")[0].result.view.measure == "accuracy"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%shrink modl --data x", "%shrink: nothing is called 'modl'; did you mean model?"),
        ("%shrink model", "%shrink: the following arguments are required: --data"),
        ("%shrink model --data 3", "%shrink: the data are int; needed: a DataLoader"),
        ("%shrink len --data x", "%shrink: the model is builtin_function_or_method"),
        ("%shrink model --data x --varients int4", "did you mean --variants?"),
        ("%shrink model --data x --variants int5", "%shrink: there is no variant 'int5'"),
    ],
)
def test_a_line_that_cannot_be_is_told_in_one(run, line, said):
    result, _, printed = run(line)
    assert said in f"{result.error_in_exec}{printed}"


def test_help(run):
    assert "--variants A,B" in run("%shrink --help")[2]
    assert "--data DATA" in run("%shrink")[2]
