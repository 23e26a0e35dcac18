"""`python -m lab bench launch` on the fake machine: it measures and says its limits; no figure is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks import command, launch


@pytest.mark.by_turns
def test_the_figures_are_taken_and_written(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    quick = launch._MEASURE.replace("repeat=2000", "repeat=3").replace("number=50", "number=2")
    monkeypatch.setattr(launch, "_MEASURE", quick.replace("repeat=400", "repeat=3").replace("repeat=200", "repeat=3"))
    assert command.main(["launch", "--json", str(tmp_path / "figures.json")]) in (0, 1)
    found = json.loads((tmp_path / "figures.json").read_text())
    assert found["figures"].keys() >= {"planned launch", "a + b", "allocating a result"}
    assert all(0 < least <= median for least, median in found["figures"].values())
    assert found["torch imported"] is False
    out = capsys.readouterr().out
    assert "at most 1.5" in out
    assert "a stand-in" in out or "CuPy" in out


def test_without_a_gpu_and_without_the_source_tree_it_says_so(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(launch, "__file__", str(tmp_path / "lab" / "benchmarks" / "launch.py"))
    assert command.main(["launch"]) == 2
    assert "neither a GPU nor the source tree" in capsys.readouterr().err
