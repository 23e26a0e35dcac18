"""``lab bench tuning-replay``: other people's searches count as their tools count, and history is used."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import types

import numpy as np
import pytest

from lab.benchmarks import replay_anchors, replay_measures, tuning_replay
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.replay import Enough, ReplayMeasure, Trail, read_cache, recorded
from triton_kernels.tune.space import Space
from triton_kernels.tune.table import Table


def cache(path, device, shift=0.0):
    """A recorded space of 512 configs, a fifth illegal and some failing, for one device."""
    names = ["BLOCK", "warps", "mode"]
    found = {}
    for block in (16, 32, 48, 64, 96, 128, 160, 256):
        for warps in (1, 2, 4, 8):
            for mode in range(16):
                if block * warps > 1024:
                    continue
                time = 1.0 + abs(np.log2(block) - 6.0 - shift) + 0.2 * abs(warps - 4) + 0.01 * ((mode * 7) % 16)
                value = "RuntimeFailedConfig" if mode == 3 and warps == 8 else time
                found[f"{block},{warps},{mode}"] = {"BLOCK": block, "warps": warps, "mode": mode, "time": value}
    path.write_text(json.dumps({"device_name": device, "kernel_name": "k", "tune_params_keys": names, "cache": found}))
    return path


@pytest.fixture
def folder(tmp_path):
    for k, device in enumerate(("NVIDIA RTX A4000", "NVIDIA RTX A6000", "NVIDIA A100", "AMD Radeon PRO W7800")):
        cache(tmp_path / f"{k}.json", device, shift=0.3 * (k % 2))
    return tmp_path


@pytest.mark.by_turns
def test_the_table_says_what_is_absent_and_what_history_is_worth(folder, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert tuning_replay.main([str(folder), "--seeds", "2", "--warm"]) == 0
    out = capsys.readouterr().out
    assert "absent: kernel-tuner, because kernel-tuner is not installed. Remedy: pip install kernel-tuner" in out
    assert "absent: optuna-tpe, because optuna is not installed. Remedy: pip install optuna" in out
    assert re.search(r"k, PRO W7800 +no other device of its vendor is recorded", out)

    def to_1(name):
        return float(re.search(rf"geometric mean of \d +\d+ +{name} +[\d.]+ +\d+% +([\d.]+)", out).group(1))

    assert to_1("warm, complete") < to_1("portfolio") < to_1("random")
    assert to_1("warm, 150") < to_1("portfolio")
    with pytest.raises(SystemExit):
        tuning_replay.main([str(folder), "--strategies", "optuna-tpe"])
    assert "pip install optuna" in capsys.readouterr().err


def trail(values):
    problem = Problem("k", (1,), "float32", Space.of([{"A": a} for a in range(len(values))]), ReplayMeasure({}), "",
                      "", "replay")  # fmt: skip
    return Trail(Table(problem.space), np.array(values))


def test_a_trail_counts_and_ends():
    some = trail([5.0, np.inf, 1.04, 1.0, *[9.0] * 400])
    assert (some.budget, some(0), some(1), some(0)) == (200, 5.0, None, 5.0)
    assert some(2) == 1.04
    with pytest.raises(Enough):
        some(3)
    assert some.reached == {1.05: 4, 1.01: 5}
    worse = trail([1.0, *[5.0] * 499])
    for _ in range(200):
        worse(7)
    with pytest.raises(Enough):
        worse(0)
    assert worse.count == 200


class Suggesting:
    """What of a study's trial the search uses; it suggests what it was given."""

    def __init__(self, values):
        self.values, self.constraint = values, None

    def suggest_int(self, name, low, high):
        assert low <= self.values[name] <= high
        return self.values[name]

    suggest_categorical = None

    def set_constraint(self, name, value):
        self.constraint = value


def test_a_failure_may_stand_under_the_objective(tmp_path):
    cache = {"1": {"BLOCK": 1, "time": 2.0, "GFLOP/s": 5.0}, "2": {"BLOCK": 2, "GFLOP/s": "CompilationFailedConfig"}}
    whole = {"tune_params_keys": ["BLOCK"], "objective": "GFLOP/s", "device_name": "A4000", "cache": cache}
    (tmp_path / "cut.json").write_text(json.dumps(whole)[:-2] + ",")  # as it lies there while it is written
    problem = read_cache(tmp_path / "cut.json")
    assert problem.measure.times == {(1,): 2.0, (2,): "compile"}


def test_with_optuna_a_duplicate_counts_and_an_illegal_config_does_not(folder, monkeypatch):
    problem = read_cache(folder / "0.json")
    table, values = recorded(problem)
    bad = {"BLOCK": 7, "warps": 3, "mode": 0}  # by places: 256 with 8 warps, which the space does not have
    worse, good = {"BLOCK": 0, "warps": 0, "mode": 1}, {"BLOCK": 3, "warps": 2, "mode": 0}
    asked, told = [Suggesting(v) for v in (bad, worse, worse, bad, {**bad, "BLOCK": 0, "mode": 3}, good)], []
    study = types.SimpleNamespace(ask=lambda: asked[len(told)], tell=lambda trial, value: told.append(value))
    fake = types.SimpleNamespace(
        create_study=lambda sampler: study, samplers=types.SimpleNamespace(TPESampler=lambda seed: None),
        logging=types.SimpleNamespace(set_verbosity=lambda level: None, ERROR=0),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "optuna", fake)
    some = Trail(table, values)
    with pytest.raises(Enough):
        replay_anchors._optuna(some, 0)
    assert some.count == 4  # worse, worse again, the one that fails, good
    assert [t.constraint for t in asked[:5]] == [1.0, -1.0, -1.0, 1.0, 1.0]
    assert told[1] == told[2] == told[3] == told[4] > told[0] == 0.0


def test_with_kernel_tuner_a_config_is_paid_for_once(folder):
    table, values = recorded(read_cache(folder / "0.json"))
    some = Trail(table, values)
    spent = []
    budget = types.SimpleNamespace(is_done=lambda: len(spent) >= 3, add_evaluations=spent.append)
    runner = replay_anchors._Runner(some, table.space.names, budget, "failed")
    fails, first, second = (16, 8, 3), (16, 1, 1), (32, 1, 1)
    results = runner.run([first, first, fails, fails, second, (48, 1, 1)], {})
    assert some.count == len(spent) == 3
    assert results[0] == results[1] == {"BLOCK": 16, "warps": 1, "mode": 1, "time": values[table.row(results[0])]}
    assert results[2]["__error__"] == "failed"
    assert results[5] is None


@pytest.mark.parametrize("name", sorted(replay_anchors.ANCHORS))
def test_the_anchors_where_they_are_installed(folder, name):
    if importlib.util.find_spec({"optuna-tpe": "optuna", "kernel-tuner": "kernel_tuner"}[name]) is None:
        with pytest.raises(ImportError, match="pip install"):
            replay_anchors.ANCHORS[name]()
        return
    search = replay_anchors.ANCHORS[name]()
    table, values = recorded(read_cache(folder / "0.json"))
    some = Trail(table, values)
    with pytest.raises(Enough):
        search(some, 0)
    assert some.count > 1


def test_folders_have_means_of_their_own(folder, tmp_path, capsys):
    cache(tmp_path / "0.json", "NVIDIA A100")
    (folder / "other").mkdir()
    cache(folder / "other" / "1.json", "NVIDIA L4", shift=2.0)
    asked = [str(folder / "0.json"), str(folder / "other"), "--seeds", "1", "--strategies", "random"]
    assert tuning_replay.main([*asked, "--json", str(tmp_path / "figures")]) == 0
    out = capsys.readouterr().out
    assert out.index("0.json") < out.index("k, A100") < out.index("other") < out.index("k, L4")
    assert out.count("geometric mean of 1") == 2
    told = json.loads((tmp_path / "figures").read_text())
    assert [t["path"].rpartition("/")[2] for t in told] == ["0.json", "other"]


def test_another_strategy_of_kernel_tuners(capsys):
    assert replay_anchors.anchor("nobody") is None
    if importlib.util.find_spec("kernel_tuner") is not None:
        assert replay_anchors.anchor("kernel-tuner:pso").keywords == {"name": "pso"}
        assert replay_anchors.anchor("kernel-tuner:nothing") is None
    with pytest.raises(SystemExit):
        tuning_replay.main(["x.json", "--strategies", "nobody"])
    assert "no strategy is named nobody; there are" in capsys.readouterr().err


def test_kin_are_of_one_vendor_and_one_kernel(folder):
    (folder / "4.json").write_text((folder / "1.json").read_text().replace('"k"', '"other"'))
    problems = [
        replay_measures.Recorded("", p.kernel, p.device, p, *recorded(p))
        for p in (read_cache(folder / f"{k}.json") for k in range(5))
    ]
    assert [k.device for k in replay_measures.kin(problems[0], problems)] == ["NVIDIA RTX A6000", "NVIDIA A100"]
    assert replay_measures.kin(problems[3], problems) == []
    assert replay_measures.kin(problems[4], problems) == []


@pytest.mark.by_turns
def test_times_are_printed(capsys):
    assert tuning_replay.main(["--time"]) == 0
    out = capsys.readouterr().out
    means = [float(mean) for mean in re.findall(r"200 suggestions at 20,736 .* mean ([\d.]+) ms", out)]
    assert len(means) == 2  # from nothing, and with a history
    assert max(means) < 20  # 2 ms, on a busy machine too
    assert re.search(r"a space of 1,000,000,000 points, drawn from: 20,000 configs", out)
    with pytest.raises(SystemExit):
        tuning_replay.main([])
