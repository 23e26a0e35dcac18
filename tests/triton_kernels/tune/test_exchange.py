"""Results as files and back: our JSON without loss, Kernel Tuner's and T4's shapes, what is wrong with a file."""

from __future__ import annotations

import ast
import datetime
import gzip
import json

import pytest

from lab.tuning import import_export
from triton_kernels.tune import exchange
from triton_kernels.tune.replay import read_cache
from triton_kernels.tune.store import Store

KEY = {"kernel": "softmax_kernel", "source": "abc", "device": "a GPU", "shape": [64, 128], "dtype": "float32",
       "mode": "cuda"}  # fmt: skip
FAST = {"BLOCK": 256, "num_warps": 8}
TRIALS = [
    {"config": {"BLOCK": 128, "num_warps": 4}, "status": "correct", "median_ms": 2.0, "ratio": 1.0, "n": 3,
     "samples": [2.1, 2.0, 1.9], "compile_ms": 40.0},
    {"config": FAST, "status": "correct", "median_ms": 1.0, "ratio": 0.5, "n": 2, "samples": [1.0, 1.0]},
    {"config": {"BLOCK": 512, "num_warps": 8}, "status": "compile", "reason": "no room"},
    {"config": {"BLOCK": 1024, "num_warps": 8}, "status": "correctness", "reason": "3 of 4 results are wrong"},
]  # fmt: skip


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "one") as made:
        session = made.begin(KEY, {}, "random")
        for trial in TRIALS:
            made.add(KEY, session, dict(trial))
        made.win(KEY, session, {"config": FAST, "ratio": 0.5, "low": 0.49, "high": 0.51, "ties": []})
        yield made


def assert_the_same(read, statuses):
    """What a format can say of the trials comes back."""
    for told, trial in zip(read, TRIALS, strict=True):
        assert told["config"] == trial["config"]
        assert told["status"] == statuses.get(trial["status"], trial["status"])
        assert [told.get(name) for name in ("median_ms", "samples", "compile_ms", "n")] == [
            trial.get(name) for name in ("median_ms", "samples", "compile_ms", "n")
        ]


def test_our_json_comes_back_without_loss(store, tmp_path):
    file = tmp_path / "results.json"
    file.write_text(exchange.export(store, "json"))
    with Store(tmp_path / "two") as other:
        assert exchange.take_in(other, exchange.read(file)) == 4
        assert other.problems()[0]["winner"] is None  # a choice only where it was asked for
    with Store(tmp_path / "three") as third:
        exchange.take_in(third, exchange.read(file), choices=True)
        mine, theirs = store.problems()[0], third.problems()[0]
    assert theirs["winner"]["config"] == mine["winner"]["config"] == FAST
    for a, b in zip(mine["trials"], theirs["trials"], strict=True):
        assert {k: v for k, v in a.items() if v is not None} == {k: v for k, v in b.items() if v is not None}


def test_python_names_triton_configs(store):
    text = exchange.export(store, "python")
    assert "triton.Config({'BLOCK': 256}, num_warps=8),  # a GPU, 0.500" in text
    there: dict = {}
    exec(compile(ast.parse(text), "exported", "exec"), there)
    config = there["CONFIGS"]["softmax_kernel", (64, 128), "float32"]
    assert (config.kwargs, config.num_warps) == ({"BLOCK": 256}, 8)


def test_kernel_tuner_s_cache_can_be_replayed_and_read(store, tmp_path):
    file = tmp_path / "cache.json"
    file.write_text(exchange.export(store, "kernel_tuner", "softmax_kernel", (64, 128)))
    content = json.loads(file.read_text())
    assert list(content["cache"]) == ["128,4", "256,8", "512,8", "1024,8"]
    assert content["tune_params"] == {"BLOCK": [128, 256, 512, 1024], "num_warps": [4, 8]}
    problem = read_cache(file)
    assert problem.measure.times == {(128, 4): 2.0, (256, 8): 1.0, (512, 8): "compile", (1024, 8): "runtime"}
    (tmp_path / "cache.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    (found,) = exchange.read(tmp_path / "cache.json.gz")
    assert (found["kernel"], found["device"], found["shape"]) == ("softmax_kernel", "a GPU", [64, 128])
    assert [t["status"] for t in found["trials"]] == ["correct", "correct", "compile", "runtime"]
    assert_the_same(found["trials"], {"compile": "compile", "correctness": "runtime"})
    # what the format wants (schema 1.1.0 of Kernel Tuner's cache files)
    assert {"schema_version", "device_name", "kernel_name", "problem_size", "tune_params_keys", "tune_params",
            "objective", "cache"} <= content.keys()  # fmt: skip
    for entry in content["cache"].values():
        times = ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time")
        assert all(isinstance(entry[name], int | float) for name in times)
        assert datetime.datetime.fromisoformat(entry["timestamp"])
        failed = ("InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
        assert entry["time"] in failed or isinstance(entry["time"], float)


def test_t4_results(store, tmp_path):
    file = tmp_path / "t4.json"
    file.write_text(exchange.export(store, "t4"))
    content = json.loads(file.read_text())
    assert content["schema_version"] == "1.0.0"
    first = content["results"][0]
    assert {"configuration", "times", "invalidity", "correctness"} <= first.keys()
    assert first["measurements"] == [{"name": "time", "value": 2.0, "unit": "ms"}]
    assert [r["invalidity"] for r in content["results"]] == ["correct", "correct", "compile", "correctness"]
    with pytest.raises(exchange.BadFile, match="do not say which kernel and device"):
        exchange.read(file)
    (found,) = exchange.read(file, kernel="k", device="d", shape=(64, 128))
    assert (found["kernel"], found["device"], found["shape"]) == ("k", "d", [64, 128])
    assert_the_same(found["trials"], {"compile": "compile", "correctness": "correctness"})
    # what the format wants (results schema 1.0.0)
    for r in content["results"]:
        assert r["invalidity"] in ("timeout", "compile", "runtime", "correctness", "constraints", "correct")
        assert isinstance(r["correctness"], int)
        assert isinstance(r["times"]["compilation_time"], int | float)
    content["results"][0]["measurements"] = []
    file.write_text(json.dumps(content))
    (found,) = exchange.read(file, kernel="k", device="d")
    assert (found["trials"][0]["status"], found["trials"][0]["reason"]) == ("runtime", "no time is recorded")


@pytest.mark.parametrize(("text", "words"), [
    ("{", "cannot be read: JSONDecodeError"),
    ("[1]", "holds a list, and not an object"),
    ("{}", "is neither gradlab's, nor a cache file of Kernel Tuner, nor T4 results"),
    ('{"format": "gradlab tuning results", "version": 9, "problems": []}', "has version 9, this gradlab knows 1"),
    ('{"format": "gradlab tuning results", "version": 1, "problems": [{}]}', "KeyError"),
    ('{"cache": {"1": {}}, "tune_params_keys": ["a"]}', "KeyError: 'time'"),
    ('{"results": [{"measurements": 3}]}', "do not say which kernel"),
    ("[" * 100_000, "cannot be read"),
])  # fmt: skip
def test_what_is_wrong_with_a_file(tmp_path, text, words):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(exchange.BadFile, match=words):
        exchange.read(file)


def test_the_commands(store, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    file = tmp_path / "results.json"
    file.write_text(exchange.export(store, "json"))
    assert import_export.main(["import", str(file), "--choices"]) == 0
    assert "4 trials of softmax_kernel are in" in capsys.readouterr().out
    assert import_export.main(["export", "python", "softmax_kernel", "64x128"]) == 0
    assert "triton.Config({'BLOCK': 256}, num_warps=8)" in capsys.readouterr().out
    assert import_export.main(["export", "t4", "-o", str(file)]) == 2  # it exists
    assert import_export.main(["export", "yaml"]) == 2
    assert "there are python, json, kernel_tuner, t4" in capsys.readouterr().err
    assert import_export.main(["export", "json", "no_kernel"]) == 2
    assert "has no results of no_kernel" in capsys.readouterr().err
