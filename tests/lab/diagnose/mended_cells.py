"""Cells with one mistake each, and what mends it: a planted mistake and a healthy cell of one text."""

from __future__ import annotations

from typing import NamedTuple

from .planted_more import Planted


class Mistake(NamedTuple):
    """A cell: the finding that comes first, its line, the text, and what is put in place of what to mend it."""

    kind: str
    line: int
    text: str
    mends: tuple[tuple[str, str], ...] = ()


def planted(cells: dict[str, Mistake]) -> dict[str, Planted]:
    """The cells as they are."""
    return {name: Planted(cell.kind, (cell.line,), cell.text) for name, cell in cells.items()}


def mended(cells: dict[str, Mistake]) -> dict[str, str]:
    """Those that are mended, of which nothing is to be said."""
    found = {}
    for name, cell in cells.items():
        text = cell.text
        for one, other in cell.mends:
            assert one in text, f"{name} has no {one!r}"
            text = text.replace(one, other)
        if cell.mends:
            found[f"{name}, mended"] = text
    return found
