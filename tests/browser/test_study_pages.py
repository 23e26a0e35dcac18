"""The pages of several shapes and of a kernel's sessions in a real browser: light and dark, wide and narrow, with no
request and no script; and the panel's tab of sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from widgets import past, study, tuner
from widgets.past import Compared, History, Problem, Session
from widgets.study import Study

from .access import axe, check, faint
from .conftest import DARK, LIGHT

SHAPES = [f"{rows}x{columns}" for rows in (1, 32, 512) for columns in (64, 256, 1024, 4096)]
CONFIGS = [f"BLOCK={b} num_warps={w} num_stages=2" for b in (64, 256, 1024) for w in (1, 4, 8)] + ["<b>=1 <b>=2 A=3"]
TIMES = [[None if (s + c) % 11 == 5 else 0.01 * (s + 1) * (1 + 0.4 * abs(c - s % 9)) for c in range(10)]
         for s in range(12)]  # fmt: skip
STUDY = Study("softmax <b>", "a GPU", SHAPES, CONFIGS, TIMES, [s % 9 if s < 4 else 3 for s in range(12)], 0.021, 0.3,
              tree="def choose(rows, columns):\n    return {'<b>': 1}", notes=["A note <b>."])  # fmt: skip
ROWS = [Session(k, "2026-11-29 18:17", "faster", 31, "8.0 s", "TILE=16 <b>=2", 0.5 - 0.01 * k, 0.4, 0.6, 0.12,
                "compiler gcc 12.2") for k in (1, 2)]  # fmt: skip
ROWS.append(Session(3, "2026-11-29 18:20", "no end was written", 4, "1.0 s"))
DOTS = [(f"TILE={k}", 0.1 * k, 0.13 * k * (1.6 if k == 7 else 1.0), k == 7) for k in range(1, 20)]
HISTORY = History("stencil <b>", [Problem("stencil 512x512 float32 on a machine", ROWS)],
                  Compared(1, 2, ["The default stays in both.", "All configs alike take 1.30 times as long."],
                           [("compiler", "gcc <b>12.2", "gcc 14.1"), ("arguments", "", "x" * 200)], DOTS,
                           1.3))  # fmt: skip


@pytest.fixture
def show(open_page: Any, tmp_path: Path) -> Any:
    """`show(html, theme)`: a piece of HTML on a page of its own, and the page's requests and errors."""

    def show(inside: str, theme: dict[str, str] = LIGHT, width: int = 1300) -> Any:
        variables = ";".join(f"{name}:{value}" for name, value in theme.items())
        file = tmp_path / "page.html"
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>page</title>'
        style = f"background:var(--jp-layout-color1);color:var(--jp-content-font-color1);{variables}"
        body = f'<body style="{style}"><main><h1>page</h1>{inside}</main></body></html>'
        file.write_text(head + body, encoding="utf-8")
        watched = open_page(width=width, height=900, allow=(tmp_path.as_uri(),))
        watched.page.goto(file.as_uri())
        return watched

    return show


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1300, 700])
@pytest.mark.parametrize("name", ["study", "past"])
def test_everyone_can_read_it(show: Any, theme: dict[str, str], width: int, name: str) -> None:
    watched = show(study.html(STUDY) if name == "study" else past.html(HISTORY), theme, width)
    page, box = watched.page, watched.page.locator(".gradlab-study")
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        tone = "light" if theme is LIGHT else "dark"
        page.screenshot(path=Path(folder) / f"{name}_{tone}_{width}.png", full_page=True)
    assert axe(page) == faint(box) == []
    assert [said for said in check(box) if "scope" not in said] == []  # headers of rows have one too
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # what is wide scrolls by itself
    assert box.locator("script, b b").count() == 0
    assert watched.errors == watched.requests == []


def test_the_map_tells_what_is_taken_in_words_too(show: Any) -> None:
    page = show(study.html(STUDY)).page
    expect(page.locator(".said")).to_contain_text("4 configs for 12 shapes, 2.1 % slower")
    table = page.get_by_role("table")
    expect(table.locator("tbody tr")).to_have_count(len(CONFIGS))
    expect(table.locator(".taken")).to_have_count(len(SHAPES))
    expect(table.get_by_role("rowheader").first).to_have_text("BLOCK=64 num_warps=1 num_stages=2")
    first = table.locator("tbody tr").first.locator("td").first
    expect(first).to_have_text("1.00 taken")
    strong, pale = (table.locator("td", has_text=text).first.evaluate("e => getComputedStyle(e).backgroundColor")
                    for text in ("1.00", "4.20"))  # fmt: skip
    assert strong != pale
    expect(table.get_by_text("✕ failed").first).to_be_visible()


def test_the_picture_tells_the_machine_from_what_changed(show: Any) -> None:
    page = show(past.html(HISTORY)).page
    picture = page.get_by_role("img")
    expect(picture).to_have_accessible_name(
        "times of 19 configs in session 1 (across) and session 2 (up): 1 has changed"
    )
    expect(picture.locator(".moved")).to_have_count(1)
    expect(picture.locator(".machine")).to_have_count(1)
    expect(page.locator(".bar")).to_have_count(2)
    lone = History("k", [Problem("k", ROWS)], Compared(1, 2, ["x"]))
    assert show(past.html(lone)).page.get_by_role("img").count() == 0


def test_the_panel_s_tab_of_sessions(show: Any) -> None:
    view = tuner.Tuning("stencil", state="done", headline="the default stays: too noisy to tell", history=ROWS,
                        beside=["The default stays in both.", "Nothing <b>."])  # fmt: skip
    page = show(tuner.html(view)).page
    panel = page.locator(".card")
    expect(panel.locator(".figures")).to_contain_text("the default stays: too noisy to tell")
    panel.get_by_role("tab", name="History").click()
    expect(panel).to_contain_text("The last session beside the one before. The default stays in both.")
    expect(panel.locator("tbody tr")).to_have_count(3)
    expect(panel.locator("tbody tr").first).to_contain_text("0.490")
    assert axe(page) == faint(panel) == []
    nothing = show(tuner.html(tuner.Tuning("stencil"))).page.locator(".card")
    nothing.get_by_role("tab", name="History").click()
    expect(nothing).to_contain_text("No session of this problem has ended before.")
