"""The errors of 3x3 convolutions are told by layer, result and way, and within what was asked on a small one."""

from __future__ import annotations

import json

from core.backends import cpu
from lab.benchmarks import command, winograd_error


def test_a_small_layer_is_within_what_was_asked(monkeypatch):
    monkeypatch.setattr(winograd_error, "LAYERS", ((32, 12),))
    rows = list(winograd_error.measure())
    assert {r["way"] for r in rows} >= {"direct", "F2", "F4"}
    assert {r["what"] for r in rows} == {"y", "gx", "gw"}
    assert not [r for r in rows if r["met"] is False]
    by_way = {r["way"]: r["rms"] for r in rows if r["what"] == "y"}
    assert 0 < by_way["F2"] < by_way["F4"]  # the ways were taken


def test_the_command_shows_and_writes_the_rows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(winograd_error, "LAYERS", ((16, 6),))
    file = tmp_path / "errors.json"
    assert command.main(["winograd-error", "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "16@6" in shown
    assert "F4" in shown
    assert len(json.loads(file.read_text())) >= 9


def test_an_error_that_is_too_large_is_found(capsys, monkeypatch):
    monkeypatch.setattr(winograd_error, "LAYERS", ((16, 6),))
    monkeypatch.setattr(winograd_error, "MOST", {"F2": 1e-12, "F4": 1e-6})
    assert winograd_error.main([]) == 1
    assert "✗" in capsys.readouterr().out


def test_the_way_is_as_before(monkeypatch):
    monkeypatch.setattr(winograd_error, "LAYERS", ((16, 6),))
    list(winograd_error.measure())
    assert cpu.get_convolution_method() == "chosen"
