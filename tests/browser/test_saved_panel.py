"""A saved tuner's panel by itself in a real browser: every tab, no request, nothing that is not text."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from widgets import tuner

TUNABLES = [("BLOCK", ["16", "32", "64"], 0), ("WARPS", ["2", "4"], 1), ("FIXED", ["1"], 0)]
WORK = {"work": [2e6, 1e5]}
TRIALS = [
    ([0, 1, 0], "right", 1.0, 0.5, "", {"registers": 40, **WORK}),
    ([1, 1, 0], "right", 0.5, 0.25, "", {"registers": 32, **WORK}),
    ([2, 1, 0], "same", 0.7, 0.35, "BLOCK=32", {"registers": 32, **WORK}),
    ([1, 0, 0], "right", 2.0, 1.0, "", {"registers": 64, **WORK}),
    ([2, 0, 0], "compile", None, None, "too many registers", {}),
]
VIEW = tuner.Tuning(
    "scale <b>", "a GPU", "done", size=6, default_ms=0.5, tunables=TUNABLES, trials=TRIALS,
    never={"0,1": [(0, 0, "a limit")]}, reasons=[("too many registers", 1)], roof=(1e12, 1e11, "measured", 2e6, 1e5),
)  # fmt: skip


@pytest.fixture
def show(open_page, tmp_path):
    """`show(view)`: the saved panel on a page of its own, and the page's requests and errors."""

    def show(view):
        file = tmp_path / "panel.html"
        page_text = f'<!doctype html><meta charset="utf-8"><title>panel</title>{tuner.html(view)}'
        file.write_text(page_text, encoding="utf-8")
        watched = open_page(allow=(tmp_path.as_uri(),))
        watched.page.goto(file.as_uri())
        return watched.page.locator(".card"), watched

    return show


def test_a_panel_without_a_time_lets_ratios_through_all_the_same(show):
    panel, watched = show(tuner.Tuning("nothing yet", tunables=TUNABLES))
    panel.get_by_role("tab", name="Configs").click()
    panel.get_by_role("combobox").select_option("the fastest half")
    panel.get_by_role("tab", name="Configs").click()
    expect(panel.locator("caption")).to_contain_text("0 of 0 configs")
    assert watched.errors == watched.requests == []


def test_every_tab_of_a_saved_panel(show):
    panel, watched = show(VIEW)
    expect(panel.locator(".figures")).to_contain_text("2.00 times as fast as the default")
    found = {}
    for tab in panel.get_by_role("tab").all():
        tab.click()
        found[tab.inner_text()] = panel.inner_text()
        texts = panel.locator("text").all_text_contents()
        assert "[object" not in found[tab.inner_text()] + "".join(texts)
    assert list(found) == ["Result", "Map", "Configs", "Progress", "Roofline", "Rejected", "History"]
    assert "too many registers" in found["Rejected"]
    assert "The best:" in found["Roofline"]
    panel.get_by_role("tab", name="Configs").click()
    expect(panel.locator("svg .halo")).to_have_text(["16", "32", "64", "2", "4", "0.50", "2.00"])
    expect(panel.locator("tbody tr")).to_have_count(4)
    panel.get_by_role("tab", name="Map").click()
    cells = panel.locator(".cell")
    expect(cells).to_have_text(["", "2.00", "✕", "1.00", "0.50", "0.70"])
    cells.nth(1).click()
    expect(panel.get_by_role("status")).to_contain_text(re.compile("nearest that is faster: WARPS 2 → 4 takes 0.250"))
    assert watched.errors == watched.requests == []
