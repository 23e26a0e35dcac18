"""Planted mistakes: the right finding comes first, on the right line."""

from __future__ import annotations

from typing import Any

import pytest

from .planted import CELLS


@pytest.mark.parametrize("name", CELLS)
def test_the_right_finding_comes_first(name: str, cell: Any, space: dict[str, Any]) -> None:
    planted = CELLS[name]
    record = cell(planted.text.lstrip("\n"), {**space, "y": space["x"][:, 0] * 0.5})
    assert record.findings, "nothing found"
    first = record.findings[0]
    assert (first.kind, first.line) in [(planted.kind, line) for line in planted.lines], first
    assert first.remedy
    assert len([f for f in record.findings if f.severity != "note" or f.reads]) <= 2, record.findings
