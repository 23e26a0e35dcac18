"""lab/docs/findings.md: every cell gives the sentence that stands under it, every mended one nothing."""

from __future__ import annotations

import re

import pytest

from lab.diagnose.speed.loop_waits import interpreted
from lab.pages.cells import Section, read_by_findings, run_cell, sections

SECTIONS = sections()
SAVED = re.compile(r"(about|at most|\d+ to) \d+ % less time")  # which of them, the clock decides


def without_figures(text: str) -> str:
    """The sentence, its measured numbers aside; line numbers stay."""
    return re.sub(r"(?<!line )(?<!lines )\b\d[\d.,e+-]*", "#", text.lower())


@pytest.mark.parametrize("section", SECTIONS, ids=[section.title for section in SECTIONS])
def test_the_page_says_what_the_card_says(section: Section) -> None:
    if '"cuda"' in section.broken and not interpreted():
        pytest.skip("the page says what stands there without a GPU, under Triton's interpreter")
    first = run_cell(section.broken, read_by_findings()).findings[0]
    saying, shown = (SAVED.sub("about 9 % less time", message) for message in (first.message, section.message))
    assert without_figures(saying) == without_figures(shown)
    assert first.remedy == section.remedy
    record = run_cell(section.mended, read_by_findings())
    assert record.error is None
    assert [f.message for f in record.findings if f.severity != "note" or f.reads] == []


def test_every_kind_of_finding_has_a_section() -> None:
    assert len(SECTIONS) >= 15
