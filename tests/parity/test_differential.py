"""Recording changes nothing that a program on PyTorch can notice: every case, and some of the programs.

All programs: ``python -m tests.differential --torch``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential import programs
from tests.differential.harness import Harness

pytest.importorskip("torch")

SOME = ("programs/vae", "programs/maml", "healthy/a custom function")


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with Harness("torch") as running:
        yield running


@pytest.mark.parametrize("program", [p for p in programs.cases() if "torch" in p.packages], ids=lambda p: p.name)
def test_a_case_does_not_notice(harness: Harness, program: programs.Program) -> None:
    for verdict in harness.verdicts(program, {program.ways[0]}):
        assert not verdict.found, str(verdict)


@pytest.mark.parametrize("name", SOME)
def test_a_program_does_not_notice(harness: Harness, name: str) -> None:
    (program,) = [p for p in [*programs.own("torch"), *programs.lab_cells("torch")] if p.name == name]
    for verdict in harness.verdicts(program):
        assert not verdict.found, str(verdict)
        assert verdict.ops > 0
