"""`python -m lab tour`: notebooks are copied, what is there stays, the first is opened."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab import tour
from lab.pages import shipped


def test_it_copies_all_and_says_how_to_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "place"
    assert tour.main([str(folder), "--no-open"]) == 0
    assert [path.name for path in sorted(folder.iterdir())] == [path.name for path in shipped.notebooks()]
    assert f"jupyter lab {folder / '01_tour.ipynb'}" in capsys.readouterr().out


def test_what_is_there_stays_unless_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "02_char_gpt.ipynb"
    mine.write_text("my own")
    assert tour.main([str(tmp_path), "--no-open"]) == 0
    assert "left as they were, for they are there already: 02_char_gpt.ipynb (--force" in capsys.readouterr().out
    assert mine.read_text() == "my own"
    assert tour.main([str(tmp_path), "--no-open", "--force"]) == 0
    assert mine.read_text() != "my own"


def test_it_opens_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda words, env: asked.append(words) or 0)
    assert tour.main([str(tmp_path)]) == 0
    assert asked[0][1:] == ["-m", "jupyterlab", str(tmp_path / "01_tour.ipynb")]


def test_a_file_in_the_folders_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert tour.main([str(tmp_path / "file")]) == 2
    assert "is a file; needs a folder" in capsys.readouterr().err


def test_an_installation_without_notebooks_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shipped, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(shipped.metadata, "files", lambda name: [])
    assert tour.main([str(tmp_path / "tour"), "--no-open"]) == 2
    assert "Remedy: install the wheel again" in capsys.readouterr().err
