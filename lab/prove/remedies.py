"""From a finding to the patches that may mend it: functions that look at the cell's tree, by the kind of the finding.

A function proposes; the trial decides. So it may give several patches, the likeliest first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from core.base import syntax
from widgets.record import Finding

from .cell import Cell, Patch
from .elsewhere import Place, further, place_of, seen_there, sources

Remedy = Callable[[Cell, Finding], Iterator[Patch]]
MOST = 8  # patches of one finding that are proposed
EVERY = "*"
_table: dict[str, list[Remedy]] = {}


def remedy(*kinds: str) -> Callable[[Remedy], Remedy]:
    """Decorator: let a function propose patches for findings of these kinds, after those that did before it.

    Without a kind it is for all, after those of a kind.
    """

    def decorate(propose: Remedy) -> Remedy:
        for kind in kinds or (EVERY,):
            _table.setdefault(kind, []).append(propose)
        return propose

    return decorate


def patches(text: str, finding: Finding) -> list[Patch]:
    """Return the patches for a finding; each is Python that differs from the cell's and from the others'.

    Examples
    --------
    >>> from . import families
    >>> text = "for x in data:\\n    f(x).backward()\\n    opt.step()"
    >>> [p.text for p in patches(text, Finding("zero-grad", "warning", 2, remedy="Call opt.zero_grad()."))][0]
    'for x in data:\\n    opt.zero_grad()\\n    f(x).backward()\\n    opt.step()'
    """
    own = place_of(finding)
    first = _elsewhere(own, finding) if own is not None else []
    more = [patch for place in further(finding)[:2] for patch in _elsewhere(place, finding)]
    return [*first, *of_text(text, finding), *more][:MOST]


def _elsewhere(place: Place, finding: Finding) -> list[Patch]:
    """Return the patches of another source, of which the finding names a line."""
    found = of_text(place.text, seen_there(finding, place))
    own = [patch for patch in found if not patch.file]
    return [replace(patch, file=place.file, name=place.name, was=place.text) for patch in own]


def guesses(text: str, finding: Finding) -> list[Patch]:
    """Return the patches of what made the things that a finding speaks of, where it names no line of that.

    Its lines are the cell's, so that in another source only what is looked for by its code is found.
    """
    message, words = (re.sub(r"\b([Ll]ine)s? \d+", r"\1", said) for said in (finding.message, finding.remedy))
    unplaced = replace(finding, line=None, message=message, remedy=words)
    found = [patch for place in sources(text) for patch in _elsewhere(place, unplaced)]
    return [replace(patch, guess=True) for patch in found][:MOST]


def of_text(text: str, finding: Finding) -> list[Patch]:
    """Return the patches of one text, of which the finding names the lines."""
    try:
        cell = Cell(text)
    except (SyntaxError, ValueError):
        return []
    code = ast.dump(cell.tree)
    found: dict[str, Patch] = {}
    for propose in [*_table.get(finding.kind, []), *_table.get(EVERY, [])]:
        for patch in propose(cell, finding):
            was = patch.was or text
            end = was[len(was.rstrip("\n")) :]  # where a statement moves from or to the last line, so does its newline
            new = replace(patch, text=patch.text.rstrip("\n") + end)
            if new.text not in found and _code(new.text) not in (None, code):
                found[new.text] = new
            if len(found) == MOST:
                return list(found.values())
    return list(found.values())


def _code(text: str) -> str | None:
    """What a text says to Python, None where it is not."""
    try:
        tree = Cell(text).tree
        with syntax.unheard():  # as "x is 3", which the user has been told of
            compile(tree, "<patch>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return ast.dump(tree)
    except (SyntaxError, ValueError):
        return None
