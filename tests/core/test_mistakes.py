"""The page of the commonest mistakes: every block runs, every message is the one printed, every remedy works."""

from __future__ import annotations

import linecache
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import core
from core.base import source

PAGE = Path(__file__).parents[2] / "lab" / "docs" / "mistakes.md"


class Section(NamedTuple):
    title: str
    code: str
    message: str
    remedy: str


def sections() -> list[Section]:
    found = []
    for part in PAGE.read_text().split("\n## ")[1:]:
        blocks = re.findall(r"```(python|text)\n(.*?)```", part, re.DOTALL)
        assert [kind for kind, _ in blocks] == ["python", "text", "python"], part.splitlines()[0]
        found.append(Section(part.splitlines()[0], *(text for _, text in blocks)))
    return found


@pytest.fixture(autouse=True)
def as_a_cell(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The blocks are the notebook's first cell."""
    monkeypatch.setattr(source, "name_of_file", lambda f: "In [1]" if f == "<mistake>" else None)
    yield
    linecache.cache.pop("<mistake>", None)


def printed(code: str) -> str:
    """What a cell prints when it fails or warns."""
    linecache.cache["<mistake>"] = (len(code), None, code.splitlines(True), "<mistake>")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(code, "<mistake>", "exec"), {"core": core})
        except Exception as e:
            return f"{type(e).__name__}: {e}\n"
    return "".join(f"{w.category.__name__}: {w.message}\n" for w in caught)


def test_there_are_twenty() -> None:
    assert len(sections()) == 20


@pytest.mark.parametrize("section", sections(), ids=lambda s: s.title)
def test_the_message_is_the_one_on_the_page(section: Section) -> None:
    assert printed(section.code) == section.message


@pytest.mark.parametrize("section", sections(), ids=lambda s: s.title)
def test_the_remedy_works(section: Section) -> None:
    assert printed(section.remedy) == ""
