"""Planted mistakes between ranks are found with their lines; cells that come close and are right have no finding."""

from __future__ import annotations

import pytest

from lab.ranks.words import ranks_text

from .cells import HEALTHY, PLANTED


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found_with_its_line(cell, name):
    kind, line, words, text = PLANTED[name]
    found = cell(text, 4.0).findings
    assert found, "nothing was found"
    assert (found[0].kind, found[0].line) == (kind, line), found
    said = f"{found[0].message} {found[0].remedy}"
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_right_has_no_finding(cell, pool, name):
    card = cell(HEALTHY[name], 20.0)
    assert [rank.error for rank in pool.ranks] == [None] * 4
    assert [f for f in card.findings if f.kind != "late-rank"] == []


def test_ranks_in_words():
    assert ranks_text([1, 2]) == "ranks 1 and 2"
