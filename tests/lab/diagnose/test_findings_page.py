"""lab/docs/findings.md: every cell gives the sentence that stands under it, every mended one nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lab.diagnose.loop_waits import interpreted

PAGE = Path(__file__).parents[3] / "lab" / "docs" / "findings.md"
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.M | re.S)
CELL = re.compile(r"```python\n(.*?)```", re.S)
SECTIONS = dict(SECTION.findall(PAGE.read_text(encoding="utf-8")))


def without_figures(text: str) -> str:
    """The sentence, its measured numbers aside; line numbers stay."""
    return re.sub(r"(?<!line )(?<!lines )\b\d[\d.,e+-]*", "#", text.lower())


@pytest.mark.parametrize("title", SECTIONS)
def test_the_page_says_what_the_card_says(title: str, cell: Any, space: dict[str, Any]) -> None:
    broken, mended = CELL.findall(SECTIONS[title])
    if '"cuda"' in broken and not interpreted():
        pytest.skip("the page says what stands there without a GPU, under Triton's interpreter")
    message, remedy = (line[2:] for line in SECTIONS[title].splitlines() if line.startswith("> ") and line != "> ")
    first = cell(broken, {**space, "y": space["x"][:, 0] * 0.5}).findings[0]
    assert without_figures(first.message) == without_figures(message)
    assert first.remedy == remedy
    record = cell(mended, {**space, "y": space["x"][:, 0] * 0.5})
    assert record.error is None
    assert [f.message for f in record.findings if f.severity != "note"] == []


def test_every_kind_of_finding_has_a_section() -> None:
    assert len(SECTIONS) >= 15
