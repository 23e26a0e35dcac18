"""`python -m lab rows`: seventy rows, commands that name what exists, and a few of them run."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lab import rows
from lab.__main__ import COMMANDS, main
from lab.rows import Row

ROOT = Path(__file__).parents[2]
ALL = rows.rows()
CHEAP = (6, 14, 20)


def names_in(path: Path) -> set[str]:
    """The names of the tests of a file."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_there_are_seventy_and_each_says_what_it_is() -> None:
    assert [row.number for row in ALL] == list(range(1, 71))
    assert len({row.capability for row in ALL}) == 70
    for row in ALL:
        assert row.what
        assert row.shows or row.issue, f"row {row.number} neither shows anything nor names who builds it"
        assert bool(row.left) == (row.issue is not None), f"row {row.number}: what is left has an issue"


@pytest.mark.parametrize("row", ALL, ids=lambda row: str(row.number))
def test_what_a_command_names_exists(row: Row) -> None:
    for command in row.shows:
        first, *words = shlex.split(command)
        assert first in ("pytest", "python")
        assert rows.words_of(command)[0] == sys.executable
        if first == "python":
            assert words[0] == "-c" or words[:2] == ["-m", "lab"]
            assert words[0] == "-c" or words[2] in COMMANDS
            continue
        named = [word for word in words if not word.startswith("-")]
        assert named, f"row {row.number}: the command would run every test"
        for word in named:
            file, _, test = word.partition("::")
            assert (ROOT / file).exists(), f"row {row.number}: {file} does not exist"
            assert not test or test in names_in(ROOT / file), f"row {row.number}: {file} has no {test}"


def test_the_list_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rows"]) == 0
    said = capsys.readouterr().out
    assert said.count("\n       $ ") == sum(len(row.shows) for row in ALL)
    assert "53 ▲ Fused by a compiler" in said
    assert said.splitlines()[-1].startswith("70 rows: ")
    assert rows.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told[34]["state"] == "built"
    assert told[52] == vars(ALL[52]) | {"state": "in part"}


@pytest.mark.by_turns
def test_cheap_rows_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows.main(["--run", *map(str, CHEAP)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "3 ok"
    assert said[0].startswith(" 6 Textbook gradients: ok, ")


def test_what_fails_is_shown_and_what_is_not_built_is_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [
        Row(1, "Right", "x", ["python -c pass"]),
        Row(2, "Wrong", "x", ["python -c pass", "python -c 'raise SystemExit(\"no such tower\")'"]),
        Row(3, "Slow", "x", ["python -c 'import time; time.sleep(60)'"]),
        Row(4, "Later", "x", left="all", issue=9),
        Row(5, "Beside", "x", ["pytest -q tests/parity"]),
        Row(6, "Partly", "x", ["python -c pass", "pytest -q tests/parity"]),
    ]
    monkeypatch.setattr(rows, "rows", lambda: known)
    monkeypatch.setattr(rows, "NEEDS", {"tests/parity": "no_such_package"})
    assert rows.main(["--run", "--seconds", "3"]) == 1
    said = capsys.readouterr().out
    assert " 1 Right: ok, " in said
    assert "no such tower" in said
    assert "it took longer than 3 s" in said
    assert " 4 Later: not yet, issue 9" in said
    assert " 5 Beside: not run: no_such_package is not installed" in said
    assert "(a part was not run: no_such_package is not installed)" in said
    assert said.splitlines()[-1] == "2 ok, 2 failed, 1 not run"


def test_what_cannot_be_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        rows.main(["--run", "71"])
    assert "there is no row 71: they are 1 to 70" in capsys.readouterr().err
    monkeypatch.setattr(rows, "ROOT", ROOT / "core")
    with pytest.raises(SystemExit):
        rows.main(["--run", "6"])
    assert "Remedy: run it in a clone" in capsys.readouterr().err


def test_it_ships_with_the_wheel() -> None:
    assert "rows.toml" in (ROOT / "pyproject.toml").read_text()
    done = subprocess.run([sys.executable, "-m", "lab", "rows"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "70 rows" in done.stdout
