"""The card of `%shrink` in a real browser: what is seen, in light and dark, wide and narrow, with no request and no
script."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from widgets import shrunk
from widgets.shrunk import Layer, Shrunk, Variant

from .access import axe, check, faint
from .conftest import DARK, LIGHT

CODE = """import copy

import core
from core.ao.quantization import Int8DynamicActivationInt8WeightConfig

small = copy.deepcopy(model).eval()
core.quantize_(small, Int8DynamicActivationInt8WeightConfig())
"""
PLACES = {
    "conv1": ("Conv2d 1→32", "In [3] line 12", "x = self.conv1(x).relu()", "In [3] line 5"),
    "conv2": ("Conv2d 32→64", "In [3] line 13", "x = self.pool(self.conv2(x).relu())", "In [3] line 6"),
    "head.0": ("Linear 1024→128", "In [3] line 14", "return self.head(x.flatten(1))  # <b>logits</b>", "In [3] line 8"),
    "head.2": ("Linear 128→10", "In [3] line 14", "return self.head(x.flatten(1))  # <b>logits</b>", "In [3] line 9"),
}


def layers(*errors: float | None, note: str = "") -> list[Layer]:
    return [Layer(name, kind, own, own and 1.4 * own, line, text, made, note if own is None else "")
            for (name, (kind, line, text, made)), own in zip(PLACES.items(), errors, strict=True)]  # fmt: skip


VARIANTS = [
    Variant("float32", 606_000, 212e-6, 4.1e-3, 0.9833, 0.0),
    Variant("bf16", 303_000, 402e-6, 6.9e-3, 0.9833, 0.0041, layers(0.002, 0.003, 0.0031, 0.0028), CODE),
    Variant("int8 weight-only", 154_000, 198e-6, 4.0e-3, 0.9833, 0.0093, layers(0.004, 0.006, 0.008, 0.005), CODE),
    Variant("int8 dynamic", 154_000, 121e-6, 1.9e-3, 0.9806, 0.014, layers(0.009, 0.0115, 0.0084, 0.012), CODE),
    Variant("int8 static", 154_000, 103e-6, 1.6e-3, 0.9778, 0.021, layers(0.021, 0.016, 0.011, 0.013), CODE),
    Variant("int4", refusal="a row of 9 features is no whole number of <i>groups</i>: conv1 (In [3] line 5)",
            remedy="group_size=9, or leave conv1 out"),
    Variant("pruned 25 %", 351_000, 160e-6, 2.7e-3, 0.95, 0.11, layers(None, None, None, 0.09, note="24 of 32 kept"),
            CODE),
    Variant("pruned 50 %", 161_000, 118e-6, 1.5e-3, 0.7111, 0.43, layers(None, None, None, 0.4, note="16 of 32 kept"),
            CODE),
    Variant("pruned 75 %", 45_000, 88e-6, 0.8e-3, 0.3417, 0.82, layers(None, None, None, 0.8, note="8 of 32 kept"),
            CODE),
]  # fmt: skip
FOOT = ["accuracy on 360 items; latency: the median of 7 rounds in which each variant has its turn, 2 threads; size: "
        "the bytes of the state.", "Pruned variants were not trained afterwards, which is what gives them their "
        "accuracy back."]  # fmt: skip
PART = Shrunk("model <b>", "DigitsCNN, 151,306 parameters", "accuracy", True, VARIANTS, 32, "int8 dynamic",
              "int8 dynamic is the smallest that keeps accuracy within 1 point and is no slower: 452 kB (75 %) less.",
              FOOT)  # fmt: skip
UNLABELLED = Shrunk("net", "Sequential, 9,000 parameters", variants=VARIANTS[:5], chosen="int8 dynamic")
FAILED = Shrunk("made", refusal="the model cannot be copied: cannot pickle '_io.TextIOWrapper' object",
                remedy="hold no open file in it")  # fmt: skip


@pytest.fixture
def show(open_page: Any, tmp_path: Path) -> Any:
    """`show(views, theme)`: the cards on a page of their own, and the page's requests and errors."""

    def show(*views: Shrunk, theme: dict[str, str] = LIGHT, width: int = 1300) -> Any:
        variables = ";".join(f"{name}:{value}" for name, value in theme.items())
        body = "".join(map(shrunk.html, views))
        file = tmp_path / "card.html"
        file.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>card</title>'
                        f'<script>stolen = []</script><body style="background:var(--jp-layout-color1);{variables}">'
                        f"<main>{body}</main></body></html>", encoding="utf-8")  # fmt: skip
        watched = open_page(width=width, height=1000, allow=(tmp_path.as_uri(),))
        watched.page.goto(file.as_uri())
        return watched

    return show


def test_what_each_variant_costs_is_seen_at_once(show: Any) -> None:
    page = show(PART).page
    expect(page.locator(".head")).to_contain_text("▲ 8 of 9 variants model <b>")
    rows = page.locator(".scroll").first.locator("tbody tr")
    expect(rows).to_have_count(9)
    expect(rows.nth(3)).to_contain_text("int8 dynamicrecommended")
    expect(rows.nth(3)).to_contain_text("0.25×")
    expect(rows.nth(5)).to_contain_text("✕ a row of 9 features is no whole number of <i>groups</i>")
    expect(rows.nth(5).locator(".remedy")).to_have_text("Remedy: group_size=9, or leave conv1 out")
    expect(page.get_by_role("img")).to_have_count(2)
    assert "No other variant beats" in (page.get_by_role("img").first.get_attribute("aria-label") or "")
    expect(page.get_by_role("region", name="code of int8 dynamic of model <b>")).to_contain_text("core.quantize_(small")
    expect(page.get_by_role("region", name="layers of int8 dynamic of model <b>")).to_contain_text("In [3] line 14")


def test_a_click_takes_the_code(show: Any) -> None:
    page = show(PART).page
    page.get_by_role("region", name="code of int8 dynamic of model <b>").click()
    assert page.evaluate("getSelection().toString()").strip() == CODE.strip()


def test_what_users_write_is_text(show: Any) -> None:
    watched = show(PART, UNLABELLED, FAILED)
    assert watched.page.evaluate("stolen") == []
    assert watched.page.locator(".gradlab-shrunk :is(img, script, i)").count() == 0
    assert watched.errors == watched.requests == []


def test_names_in_the_plots_are_apart(show: Any) -> None:
    page = show(PART).page
    boxes = (
        page.locator("svg")
        .first.locator("text.best, text.beaten")
        .evaluate_all(
            "all => all.map(e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom] })"
        )
    )
    assert len(boxes) == 8
    for k, a in enumerate(boxes):
        for b in boxes[:k]:
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] + 2 or b[3] <= a[1] + 2
            assert apart, (a, b)


@pytest.mark.parametrize("width", [1300, 700])
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_it_can_be_read_by_everyone(show: Any, theme: dict[str, str], width: int) -> None:
    page = show(PART, UNLABELLED, FAILED, theme=theme, width=width).page
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):  # for whoever wants to look
        name = f"shrink-{'light' if theme is LIGHT else 'dark'}-{width}.png"
        page.screenshot(path=Path(folder) / name, full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for k in range(3):
        card = page.locator(".gradlab-shrunk").nth(k)
        assert faint(card) == []
        assert check(card) == []
    assert axe(page, ".gradlab-shrunk") == []
