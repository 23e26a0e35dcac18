"""Mistakes that have a planted cell, in other words: the right finding comes first, on the right line."""

from __future__ import annotations

from typing import Any

import pytest

from .other_words import WORDS


@pytest.mark.parametrize("name", WORDS)
def test_the_right_finding_comes_first(name: str, cell: Any, space: dict[str, Any]) -> None:
    planted = WORDS[name]
    record = cell(planted.text.lstrip("\n"), space)
    assert record.findings, "nothing found"
    first = record.findings[0]
    assert (first.kind, first.line) in [(planted.kind, line) for line in planted.lines], first
