"""`python -m lab`: what it answers, and to what it says that there is no such thing."""

from __future__ import annotations

import pytest

from lab.__main__ import main
from lab.benchmarks import command


def test_without_a_command_or_with_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "a command is needed" in capsys.readouterr().err
    assert main(["docter"]) == 2
    assert "unknown command 'docter'" in capsys.readouterr().err


def test_a_benchmark_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["tensorflow"])
    assert "nothing is called tensorflow: there are overhead, ops, layers, " in capsys.readouterr().err
