"""The card of `%export` in a real browser: what is seen, in light and dark, with no request and no script."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from widgets import exported
from widgets.exported import Exported, Target

from .access import axe, check, faint
from .conftest import DARK, LIGHT

LINES = [
    ("def GPT(tokens: i64[batch, 32]) -> f32[batch, 128]:", "", ""),
    ("    # state tokens.weight: f32[128, 64]", "", ""),
    ("    embedding = embedding(tokens, tokens.weight)", "In [3]:12", "self.tokens(x)"),
    ("    add = add(embedding, places.weight)", "In [3]:12", "self.tokens(x) + self.places.weight"),
    ("    layer_norm = layer_norm(add, (64,), weight, bias)", "In [3]:13", "self.norm(h)"),
    ("    <script>stolen.push(1)</script>", "In [3]:14", "</code><img src=x onerror='stolen.push(2)'>"),
    ("    return layer_norm", "", ""),
]
PART = Exported(
    "model(tokens) <b>", "41 ops, 52 pieces of state, sizes batch", LINES,
    [
        Target("numpy", ["GPT.npz", "GPT.py"], 868_000, 1.9e-3, 2.4e-7, 1.3),
        Target("c", refusal="<i>sort</i> is not written in C: In [3] line 13 (self.norm(h))", remedy="--to numpy,onnx"),
        Target("onnx", ["GPT.onnx"], 871_000, 0.41e-3, 0.5, 1.3),
        Target("gl", ["GPT.gl"], 866_000, note="not run: this version of core does not read .gl (core.export.load)"),
    ],
    1.02e-3, "latency at batch 1, error at batch 5 on other data", "files in exported",
)  # fmt: skip
DONE = Exported("model(x)", "3 ops", LINES[:5], [Target("c", ["model.c", "model.h"], 46_000, 18e-6, 4.5e-8, 0.32)],
                77e-6, "latency at batch 1", "files in folder")  # fmt: skip
FAILED = Exported("branch(x)", refusal="cannot export this: In [3] line 11 (x.sum() > 0) decides by a tensor's value",
                  remedy="core.where(condition, a, b), or core.script")  # fmt: skip


@pytest.fixture
def show(open_page: Any, tmp_path: Path) -> Any:
    """`show(views, theme)`: the cards on a page of their own, and the page's requests and errors."""

    def show(*views: Exported, theme: dict[str, str] = LIGHT, width: int = 1200) -> Any:
        variables = ";".join(f"{name}:{value}" for name, value in theme.items())
        body = "".join(map(exported.html, views))
        file = tmp_path / "card.html"
        file.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>card</title>'
                        f'<script>stolen = []</script><body style="background:var(--jp-layout-color1);{variables}">'
                        f"<main>{body}</main></body></html>", encoding="utf-8")  # fmt: skip
        watched = open_page(width=width, height=1000, allow=(tmp_path.as_uri(),))
        watched.page.goto(file.as_uri())
        return watched

    return show


def test_what_it_became_is_seen_at_once(show: Any) -> None:
    page = show(PART).page
    expect(page.locator(".head")).to_contain_text("▲ Exported in part model(tokens) <b>")
    rows = page.locator(".targets tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("1.9×")
    expect(rows.nth(2)).to_contain_text("✕ <i>sort</i> is not written in C: In [3] line 13")
    expect(rows.nth(2).locator(".remedy")).to_have_text("Remedy: --to numpy,onnx")
    expect(rows.nth(3)).to_contain_text("gives other results than the function")
    expect(page.locator(".bad")).to_have_count(2)
    expect(page.locator("details")).to_have_attribute("open", "")
    expect(page.get_by_role("region", name="program and source of model(tokens) <b>")).to_contain_text(
        "self.places.weight"
    )


def test_what_users_write_is_text(show: Any) -> None:
    watched = show(PART, DONE, FAILED)
    assert watched.page.evaluate("stolen") == []
    assert watched.page.locator(".gradlab-export img, .gradlab-export script, .gradlab-export i").count() == 0
    assert watched.errors == watched.requests == []


def test_a_narrow_card_scrolls_inside(show: Any) -> None:
    page = show(PART, width=520).page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_it_can_be_read_by_everyone(show: Any, theme: dict[str, str]) -> None:
    page = show(DONE, PART, FAILED, theme=theme).page
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):  # for whoever wants to look
        page.screenshot(path=Path(folder) / f"export-{'light' if theme is LIGHT else 'dark'}.png", full_page=True)
    for k in range(3):
        card = page.locator(".gradlab-export").nth(k)
        assert faint(card) == []
        assert check(card) == []
    assert axe(page, ".gradlab-export") == []
