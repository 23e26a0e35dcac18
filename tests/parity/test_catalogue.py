"""The catalogue of PyTorch's functions: complete, and what is there is right but for the differences known by name."""

from __future__ import annotations

import pytest

from tests.parity.catalogue import compare, table

# Percent of the catalogue that must be there and right; raised as functions come, never lowered.
FLOOR = 97.0


@pytest.fixture(scope="module")
def report() -> compare.Report:
    return compare.examine(table.rows())


def test_the_list_is_what_this_pytorch_documents() -> None:
    """A function is in the list or left out by a pattern with a reason, and every pattern leaves something out."""
    documented = table.documented()
    assert set(table.functions()) == {n for n in documented if not table.excluded(n)}
    assert sorted(table.functions()) == list(table.functions())
    used = {p for p in table.exclusions() if any(table.matches(n, p) for n in documented)}
    assert set(table.exclusions()) == used
    assert all(table.exclusions().values())


def test_every_row_has_a_call_that_pytorch_carries_out() -> None:
    """So that each function has at least one result compared, not only errors."""
    import torch

    def succeeds(row: table.Row) -> bool:
        f = row.function(torch)
        return any(
            compare.run(torch, row, f, text, v).error is None for text in row.calls for v in compare.VARIANTS[:3]
        )

    assert [row.name for row in table.rows() if not succeeds(row)] == []


def test_what_is_there_is_right(report: compare.Report) -> None:
    assert {n: said for n, said in report.wrong.items() if n not in table.known()} == {}


def test_the_known_differences_are_differences(report: compare.Report) -> None:
    assert [n for n in table.known() if n not in report.wrong] == []


def test_the_percentage(report: compare.Report) -> None:
    apart = sum(name in report.wrong for name in table.by_processor())  # PyTorch's scalar loops give these as well
    assert report.percent + 100 * apart / report.total >= FLOOR
