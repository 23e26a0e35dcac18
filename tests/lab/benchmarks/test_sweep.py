"""The sweep over ops: its calls run, a wrong result counts as slower, the summary counts what it says; no figure is
judged."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import core
from lab.benchmarks import command, sweep
from lab.benchmarks.sweep import Call, Row
from lab.benchmarks.sweep_ops import FAMILIES, calls

ALL = [text for family in FAMILIES for text in calls(family)]


def test_there_are_three_hundred_calls_and_none_twice():
    assert len(set(ALL)) == len(ALL) >= 300


@pytest.mark.parametrize("family", FAMILIES)
def test_every_call_runs(family):
    for text in calls(family):
        found = Call(text, core, "float32", "small", False).results()
        assert found, text


def test_both_ways_gives_the_gradients_of_all_inputs():
    found = Call("F.linear(x, weight, row)", core, "float32", "small", True).results()
    assert sorted(a.shape for a in found) == [(8,), (8, 8), (8, 8), (8, 8)]
    assert len(Call("cell(x) :: cell = t.nn.GRUCell(C, C)", core, "float32", "small", True).results()) == 6


def test_a_call_without_a_gradient_has_one_row():
    assert sweep.measure(Row("elementwise", "t.isnan(x)", "small", True), core, 3, 1e-4) is None
    row = sweep.measure(Row("elementwise", "t.exp(x)", "small", True), core, 3, 1e-4)
    assert row is not None
    assert not row.failed
    assert 0 < row.low <= row.ratio <= row.high


def test_a_wrong_result_is_not_timed_and_counts():
    assert sweep.wrong("t.exp(x)", [np.ones(2)], [np.full(2, 1.1)])
    assert sweep.wrong("t.exp(x)", [np.ones(2)], [np.ones(3)])
    assert not sweep.wrong("t.randn(R, C)", [np.ones(2)], [np.full(2, 1.1)])
    failed = sweep.measure(Row("elementwise", "t.no_such_op(x)", "small", False), _Only("no_such_op"), 3, 1e-4)
    assert failed is not None
    assert "no_such_op" in failed.failed
    done = Row("elementwise", "x + y", "small", False, ratio=0.25, low=0.2, high=0.3)
    assert sweep.summary_of([done, failed]).startswith(
        "1 of 2 rows at most PyTorch's time (50.0%); geometric mean 0.250"
    )


class _Only:
    """A library that has one op more than core."""

    def __init__(self, name: str) -> None:
        setattr(self, name, core.exp)

    def __getattr__(self, name: str) -> object:
        return getattr(core, name)


def test_the_command_writes_what_it_found(tmp_path, capsys):
    pytest.importorskip("torch")
    path = tmp_path / "rows.json"
    argv = ["sweep", "losses", "--size", "small", "--only", "F.mse_loss(x, y)", "--rounds", "3", "--all"]
    assert command.main([*argv, "--json", str(path)]) == 0
    found = json.loads(path.read_text())["results"]
    assert [(row["call"], row["both"]) for row in found] == [("F.mse_loss(x, y)", False), ("F.mse_loss(x, y)", True)]
    assert re.search(r"all +\d of 2 rows", capsys.readouterr().out)


def test_an_unknown_family_is_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["sweep", "lossses"])
    assert "no family is called lossses" in capsys.readouterr().err
