"""Options that do not exist, of every magic and command: the nearest is told. `--help` has options and an example."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from lab import doctor, run
from lab.__main__ import main
from lab.benchmarks import command as bench
from lab.console.options import Parser
from lab.tuning import command as tuning

Say = Callable[[str], str]


@pytest.fixture
def say() -> Iterator[Say]:
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "lab")

    def said(cell: str) -> str:
        with capture_output() as captured:
            shell.run_cell(cell, store_history=True)
        return captured.stdout + captured.stderr

    yield said
    assert "ran" not in shell.user_ns
    shell.run_line_magic("unload_ext", "lab")
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("cell", "meant"),
    [
        ("%%autograd --chek\nran = 1", "--check"),
        ("%%autograd --no-crad\nran = 1", "--no-card"),
        ("%autograd onn", "on"),
        ("%autograd coutn", "count"),
        ("%tune --lst", "--list"),
        ("%tune core_softmax 4x4 float32 --budgt 3s", "--budget"),
        ("%tune core_softmax 4x4 float32 --strategy portfolo", "portfolio"),
        ("%%tune --budgt 3s\nran = 1", "--budget"),
        ("%%tune --refrence f\nran = 1", "--reference"),
    ],
)
def test_magics(say: Say, cell: str, meant: str) -> None:
    assert f"did you mean {meant}?" in say(cell)


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("%%autograd --help\nran = 1", ["--text", "--check", "--no-card", "%autograd count"]),
        ("%autograd --help", ["--text", "--check", "--no-card"]),
        ("%tune --help", ["--budget", "--target", "--use", "--list", "--wait"]),
        ("%%tune -h\nran = 1", ["--budget", "--reference", "--language"]),
    ],
)
def test_help_of_magics(say: Say, cell: str, options: list[str]) -> None:
    said = say(cell)
    assert "Error" not in said
    assert all(option in said for option in options)
    example = said.partition("example:")[2]
    assert cell.split()[0] in example


@pytest.mark.parametrize("cell", ["%%tune", "%%tune\n\n  \n", "%%tune --budget 3s\n"])
def test_an_empty_tune_cell_shows_examples(say: Say, cell: str) -> None:
    said = say(cell)
    assert "UsageError" not in said
    assert "@triton.jit" in said
    assert "// tune: 1, 4, 8" in said


@pytest.mark.parametrize(
    ("command", "argv", "meant"),
    [
        (run.main, ["--reprot", "r.html", "train.py"], "--report"),
        (doctor.main, ["--jsn"], "--json"),
        (bench.main, ["--ony", "x"], "--only"),
        (bench.main, ["opss"], "ops"),
    ],
)
def test_commands(
    command: Callable[[list[str]], int], argv: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(argv)
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_commands_that_return(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuning.main(["core_softmax", "4x4", "float32", "--evaluatoins", "3"]) == 2
    assert "did you mean --evaluations?" in capsys.readouterr().err
    assert main(["docter"]) == 2
    assert "did you mean doctor?" in capsys.readouterr().err


def test_values_and_what_a_script_is_given_are_no_options() -> None:
    parser = Parser()
    parser.add_argument("--use")
    parser.add_argument("rest", nargs="*")
    assert parser.parse_args(["--use=--odd"]).use == "--odd"
    assert parser.parse_args(["a", "--", "--odd"]).rest == ["a", "--odd"]
    script = Parser(script=True)
    script.add_argument("--report")
    script.add_argument("script")
    script.add_argument("arguments", nargs=argparse.REMAINDER)
    assert script.parse_args(["--report", "r", "train.py", "--epochs", "3"]).arguments == ["--epochs", "3"]
    with pytest.raises(SystemExit):
        script.parse_args(["--raport", "r", "train.py"])
