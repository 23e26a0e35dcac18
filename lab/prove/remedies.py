"""From a finding to the patches that may mend it: functions that look at the cell's tree, by the kind of the finding.

A function proposes; the trial decides. So it may give several patches, the likeliest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from widgets.record import Finding

from .cell import Cell, Patch

Remedy = Callable[[Cell, Finding], Iterator[Patch]]
MOST = 8  # patches of one finding that are proposed
_table: dict[str, list[Remedy]] = {}


def remedy(*kinds: str) -> Callable[[Remedy], Remedy]:
    """Decorator: let a function propose patches for findings of these kinds, after those that did before it."""

    def decorate(propose: Remedy) -> Remedy:
        for kind in kinds:
            _table.setdefault(kind, []).append(propose)
        return propose

    return decorate


def patches(text: str, finding: Finding) -> list[Patch]:
    """Return the patches for a finding; each is Python that differs from the cell's and from the others'."""
    try:
        cell = Cell(text)
    except (SyntaxError, ValueError):
        return []
    found: dict[str, Patch] = {}
    for propose in _table.get(finding.kind, []):
        for patch in propose(cell, finding):
            if patch.text != text and patch.text not in found and _is_python(patch.text):
                found[patch.text] = patch
            if len(found) == MOST:
                return list(found.values())
    return list(found.values())


def _is_python(text: str) -> bool:
    try:
        Cell(text)
    except (SyntaxError, ValueError):
        return False
    return True
