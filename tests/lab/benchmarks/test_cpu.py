"""The CPU's benchmarks: their cases are right, a wrong one is not timed, a slower one is found; no figure is judged."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import core
from lab.benchmarks import check, command, cpu
from lab.benchmarks import plot as bench_plot
from lab.benchmarks.cases import Run, case
from lab.benchmarks.cpu import cases
from lab.benchmarks.timing import Spread, in_turn


@pytest.mark.parametrize("name", ["linear, both ways", "cross_entropy, both ways", "cat, both ways", "a[:, 1:3]"])
def test_a_small_case_is_measured(name):
    found = cpu.measure(next(c for c in cases("overhead") if c.name == name), None, rounds=3, block_s=1e-4)
    assert not found.failed
    assert 0 < found.errors["core"] < 1e-5 or "[" in name or "cat" in name
    assert found.us["core"] > 0
    assert found.met is None
    assert name in str(found)


@pytest.mark.parametrize("name", ["MLP", "GAN"])
def test_a_training_step_is_right_and_learns(name):
    made = next(c for c in cases("short-steps") if c.name == name)
    step = made.make(core, "float32")
    assert cpu.wrong(cpu.errors(made, {"core": step}, None)) == ""
    first = float(step()[0])
    for _ in range(3):
        step()
    assert float(step()[0]) < first


@pytest.mark.by_turns
@pytest.mark.parametrize("name", [c.name for c in cases("steps")])
def test_a_network_learns(name):
    step = next(c for c in cases("steps") if c.name == name).make(core, "float32")
    losses = [float(step()[0]) for _ in range(4)]
    assert losses[-1] < losses[0]


def test_every_section_has_cases_of_different_names():
    for section in cpu.SECTIONS:
        names = [(c.name, c.size) for c in cases(section)]
        assert names
        assert len(set(names)) == len(names)


def test_a_wrong_result_has_no_time():
    right = case("ops", "a + b", lambda lib, a, b: a + b, (8, 8), (8, 8))
    spoilt = replace(right, make=lambda lib, dtype: Run(
        lib, (lambda a, b: a + b) if dtype == "float64" else (lambda a, b: a + b * 1.001), right.make(lib, dtype).inputs
    ))  # fmt: skip
    found = cpu.measure(spoilt, None, rounds=3)
    assert "off by" in found.failed
    assert not found.us
    assert "not timed" in str(found)
    assert cpu.error_of([np.ones(2)], [np.ones(3)]) == float("inf")
    assert cpu.error_of([np.array([np.nan])], [np.ones(1)]) == float("inf")


def test_contestants_run_equally_often():
    calls = {"a": 0, "b": 0}

    def count(name):
        calls[name] += 1

    times = in_turn({n: lambda n=n: count(n) for n in calls}, rounds=4, block_s=0.0, calm_s=0.0)
    assert [len(row) for row in times.values()] == [4, 4]
    assert calls["a"] == calls["b"]


@pytest.mark.by_turns
def test_the_plot_and_the_file(tmp_path, capsys):
    file, plot = tmp_path / "figures.json", tmp_path / "figures.svg"
    assert command.main(["overhead", "--only", "a * 2", "--rounds", "3", "--eager", "--json", str(file),
                       "--svg", str(plot)]) == 0  # fmt: skip
    content = json.loads(file.read_text())
    assert [r["name"] for r in content["results"]] == ["a * 2", "a * 2, both ways"]
    assert content["machine"]["threads"] == core.get_num_threads()
    assert plot.read_text().count("<circle") == 3 + len(content["results"][0]["ratios"]) + len(
        content["results"][1]["ratios"]
    )
    content["results"][0] |= {"name": "<script>", "ratios": {"eager": [0.1, 0.2, 0.3]}, "target": 0.4}
    assert "<script>" not in bench_plot.svg(content)
    assert "a * 2" in capsys.readouterr().out


@pytest.mark.by_turns
def test_what_became_slower_is_found(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(check, "CASES", {"a + b of 8x8": check.CASES["a + b of 8x8"]})
    monkeypatch.setattr(check, "RESULTS", tmp_path / "ratios.json")
    assert command.main(["check", "--write", "--rounds", "5"]) == 0
    assert command.main(["check", "--rounds", "5"]) in (0, 1)
    wanted = {check.machine(): {"a + b of 8x8": [1e-5, 1e-5, 1e-5]}}
    (tmp_path / "ratios.json").write_text(json.dumps(wanted))
    assert command.main(["check", "--rounds", "5"]) == 1
    assert "slower than committed: a + b of 8x8" in capsys.readouterr().out
    assert check.slower(Spread(1.0, 1.2, 1.3), 1.0, Spread(0.9, 1.0, 1.1), True) is None


def test_a_few_rounds_are_needed():
    with pytest.raises(SystemExit):
        command.main(["ops", "--rounds", "2"])
