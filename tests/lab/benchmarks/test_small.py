"""The benchmark of small numbers: its contestants are right, one that is not is left out, all of it is told."""

from __future__ import annotations

import json

import core
from lab.benchmarks import command, small


def test_a_layer_is_measured(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(small, "LAYERS", ((64, 32),))
    monkeypatch.setattr(small, "ROWS", (1, 3))
    monkeypatch.setattr(small, "GROUP", 32)
    threads = core.get_num_threads()
    assert command.main(["small", "--only", "64x32", "--rounds", "3", "--json", str(tmp_path / "found.json")]) == 0
    assert core.get_num_threads() == threads
    found = json.loads((tmp_path / "found.json").read_text())["small"]
    assert [r["rows"] for r in found["layers"]] == [1, 3]
    assert all({"int8", "weights 8", "weights 4"} <= r["shares"].keys() for r in found["layers"])
    assert "64 x 32" in capsys.readouterr().out


def test_a_wrong_result_has_no_time(monkeypatch):
    right = small.ours
    monkeypatch.setattr(small, "ours", lambda *a: {**right(*a), "int8": lambda: right(*a)["int8"]() + 1})
    absent: dict[str, str] = {}
    works = small.contestants(2, 128, 32, absent)
    assert "int8" not in works
    assert "off by" in absent["int8 at 2x128x32"]


def test_weights_that_come_from_memory(monkeypatch):
    monkeypatch.setattr(small, "STREAM", (256, 64))
    found = {row["name"]: row for row in small.streams(3)}
    assert set(found) == {"read", "int8", "weights 8", "weights 4"}
    assert found["read"]["share"] == 1
    assert all(row["gb_s"] > 0 for row in found.values())
