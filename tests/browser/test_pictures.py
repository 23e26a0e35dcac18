"""Zoom, pan, the overview, full screen and pictures as files, by mouse, by keyboard and by touch."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from playwright.sync_api import expect

from ..widgets import samples
from .access import axe, check, faint
from .conftest import DARK, LIGHT

pytestmark = pytest.mark.by_turns
SVG = "{http://www.w3.org/2000/svg}"
CANVAS = ".scroll:has(> svg)"
UNDER = """([x, y]) => {
  const root = document.querySelector('.gradlab-card').firstElementChild.shadowRoot;
  const drawing = root.querySelector('.scroll > svg');
  const point = new DOMPoint(x, y).matrixTransform(drawing.getScreenCTM().inverse());
  return [point.x, point.y];
}"""
"""What of the drawing is at a place of the window, in the drawing's own units."""


def tool(page: Any, name: str) -> Any:
    return page.get_by_role("toolbar", name="picture").get_by_role("button", name=name)


def percent(page: Any) -> int:
    return int(page.get_by_role("button", name="press for 100 %").inner_text().removesuffix(" %"))


def scrolled(page: Any) -> tuple[float, float]:
    left, top = page.locator(CANVAS).evaluate("e => [e.scrollLeft, e.scrollTop]")
    return left, top


def middle(page: Any) -> tuple[float, float]:
    box = page.locator(CANVAS).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def all_in_sight(page: Any) -> bool:
    seen: bool = page.locator(CANVAS).evaluate(
        "e => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight && e.firstChild.clientHeight > 50"
    )
    return seen


def overview(page: Any) -> Any:
    tool(page, "Overview").click()
    return page.get_by_role("group", name=re.compile("^overview of"))


def test_zoom_by_buttons_and_fit(show):
    page = show("gpt")
    assert percent(page) == 100
    tool(page, "zoom in").click()
    assert percent(page) == 130
    tool(page, "zoom out").click()
    tool(page, "zoom out").click()
    assert percent(page) == 77
    assert not all_in_sight(page)
    tool(page, "Fit").click()
    assert all_in_sight(page)
    tool(page, "press for 100 %").click()
    assert percent(page) == 100
    for _ in range(9):
        tool(page, "zoom in").click()
    assert percent(page) == 400  # and no more
    page.locator(".node.group").first.click()
    assert percent(page) <= 100  # another view begins as it fits


def test_the_wheel_with_ctrl_zooms_where_the_pointer_is(show):
    page = show("gpt")
    for _ in range(5):
        tool(page, "zoom in").click()  # wider than its box: before, it stands in the middle
    before = percent(page)
    x, y = middle(page)
    under = page.evaluate(UNDER, [x, y])
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, 100)
    page.keyboard.up("Control")
    expect(page.get_by_role("button", name=f"zoom {round(before * 2.718281828**-0.25)} %")).to_be_visible()
    assert page.evaluate(UNDER, [x, y]) == pytest.approx(under, abs=2)
    assert page.evaluate("visualViewport.scale") == 1
    _, top = scrolled(page)
    now = percent(page)
    page.mouse.wheel(0, 100)  # without Ctrl it scrolls
    page.wait_for_timeout(300)
    assert scrolled(page)[1] > top
    assert percent(page) == now


def test_zoom_and_pan_by_keys(show):
    page = show("gpt")
    page.locator(".node.group").first.focus()
    page.keyboard.press("+")
    assert percent(page) == 130
    _, top = scrolled(page)
    page.keyboard.press("Shift+ArrowDown")
    assert scrolled(page)[1] == pytest.approx(top + 80, abs=1)
    expect(page.locator(".node.group").first).to_be_focused()
    page.keyboard.press("0")
    assert all_in_sight(page)
    before = percent(page)
    page.keyboard.press("-")
    assert percent(page) < before
    assert page.evaluate("stolen") == []
    page.keyboard.press("Control+0")  # the browser's own
    assert page.evaluate("stolen")[-1] == "0"


def test_the_tools_are_one_stop_of_the_tab_key(show):
    page = show("mlp")
    page.get_by_role("searchbox").focus()
    page.keyboard.press("Tab")
    expect(tool(page, "Overview")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tool(page, "zoom out")).to_be_focused()
    page.keyboard.press("End")
    expect(tool(page, "PNG")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".node").first).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(tool(page, "PNG")).to_be_focused()
    assert page.evaluate("stolen") == []


def test_a_drag_pans_and_opens_nothing(show):
    page = show("gpt")
    box = page.locator(".node.group").nth(2)
    x, y = (box.bounding_box()[key] + 20 for key in ("x", "y"))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 60, steps=4)
    page.mouse.move(x, y - 120, steps=4)
    page.mouse.up()
    assert scrolled(page)[1] == pytest.approx(120, abs=2)
    expect(page.locator(".crumbs b")).to_have_text("for step in range(20) ×20")
    box.click()
    expect(page.locator(".crumbs b")).to_have_text("model.blocks.2")


def fingers(page: Any, *moves: list[tuple[float, float]]) -> None:
    """Put one finger down or two, move them, and lift them; places are relative to the middle of the canvas."""
    x, y = middle(page)
    session = page.context.new_cdp_session(page)

    def send(kind: str, places: list[tuple[float, float]]) -> None:
        points = [{"x": x + right, "y": y + down, "id": k} for k, (right, down) in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    send("touchStart", moves[0])
    for places in moves[1:]:
        send("touchMove", places)
        page.wait_for_timeout(16)
    send("touchEnd", [])


def test_one_finger_pans_and_two_zoom(show):
    page = show("gpt", width=700, has_touch=True)
    fingers(page, *([(0, -10 * k)] for k in range(12)))
    page.wait_for_timeout(100)
    assert scrolled(page)[1] > 60
    assert percent(page) == 100
    fingers(page, *([(0, -40 - 4 * k), (0, 40 + 4 * k)] for k in range(11)))
    assert percent(page) == pytest.approx(200, abs=12)
    fingers(page, *([(0, -80 + 4 * k), (0, 80 - 4 * k)] for k in range(16)))
    assert percent(page) < 80
    assert page.evaluate("visualViewport.scale") == 1
    page.locator(".node.group").first.tap()
    expect(page.locator(".crumbs b")).to_have_text(re.compile("model.blocks"))


def test_what_a_finger_hits_is_large_enough(show):
    page = show("gpt", width=700, has_touch=True, is_mobile=True)
    for one in page.locator(".tool:visible, .lines > div").all():
        assert one.bounding_box()["height"] > 31.9


def test_views_have_shapes_on_the_edges_out_of_groups(show):
    page = show("gpt")
    expect(page.locator(".shape")).to_have_count(12)
    assert set(page.locator(".shape").all_text_contents()) == {"256×384"}
    page = show("mlp")
    expect(page.locator(".shape")).to_have_count(0)  # its boxes are ops, and say it themselves


def test_the_overview_holds_the_whole_model(show):
    page = show("gpt")
    whole = overview(page)
    expect(whole).to_have_accessible_name("overview of 892 ops")
    assert all_in_sight(page)
    names = set(whole.locator(".title, .label").all_text_contents())
    assert {f"blocks.{k}" for k in range(12)} <= {name.removeprefix("model.") for name in names}
    assert "256×384" in whole.locator(".shape").all_text_contents()
    assert percent(page) < 20
    expect(page.locator(".crumbs b")).to_have_text("all 892 ops")
    tool(page, "Overview").click()
    expect(page.locator(".crumbs b")).to_have_text("for step in range(20) ×20")
    overview(page)
    page.get_by_role("button", name="views").click()
    expect(tool(page, "Overview")).to_have_attribute("aria-pressed", "false")


def test_the_overview_by_keyboard(show):
    page = show("gpt")
    whole = overview(page)
    tool(page, "Overview").focus()
    page.keyboard.press("Tab")
    focused = page.locator(".node:focus")
    expect(focused).to_have_count(1)
    visited = set()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
        visited.add(tuple(focused.bounding_box().values()))
    assert len(visited) == 3
    far = percent(page)
    page.keyboard.press("Enter")
    assert percent(page) > far
    near = percent(page)
    expect(focused).to_have_count(1)
    page.keyboard.press("Escape")
    assert percent(page) < near
    for _ in range(4):
        page.keyboard.press("Escape")
    assert percent(page) == far
    assert all_in_sight(page)
    expect(whole.locator(".lit")).to_have_count(0)
    assert page.evaluate("stolen") == []


def test_the_overview_shows_ops_as_in_a_view_when_near(show):
    page = show("gpt")
    overview(page)
    find = page.get_by_role("searchbox")
    find.fill("softmax")
    expect(page.locator(".details")).to_contain_text("96 ops found")
    expect(page.locator(".map .node.group.lit").first).to_be_visible()
    find.press("Enter")
    lit = page.locator(".map .node.op.lit")
    expect(lit).to_have_count(1)
    expect(lit).to_be_in_viewport()
    expect(lit.locator(".label")).to_contain_text("softmax")
    expect(page.locator(".lines .lit .n")).to_have_text("3")
    lit.click()
    expect(page.locator(".details")).to_contain_text("softmax")
    assert page.locator(".map .node").count() < 300  # what is out of sight is not drawn


def test_what_is_wrong_is_marked_from_afar(show):
    page = show("cut")
    overview(page)
    for _ in range(5):
        tool(page, "zoom out").click()
    expect(page.locator(".map .mark")).to_have_text("✂")


@pytest.mark.parametrize("name", ["empty", "flat", "hostile", "long", "failed", "called"])
def test_every_record_has_an_overview(show, name):
    page = show(name)
    if name == "empty":
        expect(page.get_by_role("toolbar")).to_have_count(0)
        return
    whole = overview(page)
    assert all_in_sight(page)
    for _ in range(8):
        tool(page, "zoom in").click()
    page.wait_for_timeout(50)
    expect(whole.locator(".node").first).to_be_attached()
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_overview_can_be_read_by_everyone(show, theme):
    page = show("gpt", theme=theme)
    overview(page)
    card = page.locator(".card")
    for _ in range(3):
        page.mouse.move(1, 1)
        assert faint(card) == []
        assert check(card) == []
        assert axe(page, ".gradlab-card") == []
        for _ in range(6):
            tool(page, "zoom in").click()


def test_full_screen_and_back(show):
    page = show("gpt")
    button = page.get_by_role("button", name="full screen")
    low = page.locator(CANVAS).bounding_box()["height"]
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.fullscreenElement !== null")
    body = page.locator(".body").bounding_box()
    assert (body["width"], body["height"]) == tuple(page.viewport_size.values())
    assert page.locator(CANVAS).bounding_box()["height"] > low + 200
    assert axe(page, ".gradlab-card") == []
    page.evaluate("document.exitFullscreen()")  # as the browser does on Esc
    expect(button).to_have_attribute("aria-pressed", "false")
    assert page.locator(CANVAS).bounding_box()["height"] == low


def test_where_full_screen_is_not_allowed_the_window_is_filled(show):
    page = show("gpt", width=700)
    page.evaluate("Element.prototype.requestFullscreen = null")
    button = page.get_by_role("button", name="full screen")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    body = page.locator(".body").bounding_box()
    assert (body["x"], body["y"], body["width"], body["height"]) == (0, 0, *page.viewport_size.values())
    expect(page.locator(".node.group").first).to_be_in_viewport()
    page.locator(".node.group").first.focus()
    page.keyboard.press("Escape")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".crumbs b")).to_have_text("for step in range(20) ×20")  # that Esc was for the screen
    assert page.locator(".body").bounding_box()["width"] < 700


def saved(page: Any, name: str, path: Any) -> Any:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"{name}, save").first.click()
    download.value.save_as(path / download.value.suggested_filename)
    return path / download.value.suggested_filename


def test_a_view_as_svg_opens_by_itself(show, open_page, tmp_path):
    page = show("cut", theme=DARK)
    file = saved(page, "SVG", tmp_path)
    assert file.name == "In-8-cell.svg"
    root = ET.fromstring(file.read_text(encoding="utf-8"))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"numpy", "cross_entropy", "64×128", "✂ cut", "weight: no gradient"} <= set(words)
    assert root.find(f"{SVG}title").text == "In [8] cell"
    source = file.read_text(encoding="utf-8")
    assert not re.search(r"color-mix|var\(|class=|style=|href|<script|http(?!://www.w3.org/2000/svg)", source)
    fills = {rect.get("fill") for rect in root.iter(f"{SVG}rect")}
    assert "rgb(17,17,17)" in fills  # the ground of the theme
    alone = open_page(allow=(tmp_path.as_uri(),)).page
    alone.goto(file.as_uri())
    assert alone.evaluate("document.documentElement.tagName") == "svg"
    label = alone.locator("text", has_text="numpy").first
    assert label.evaluate("e => getComputedStyle(e).fontWeight") == "600"
    assert label.evaluate("e => e.getBoundingClientRect().width") > 30


def test_a_view_as_png_has_what_is_drawn(show, tmp_path):
    page = show("cut")
    file = saved(page, "PNG", tmp_path)
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    box = page.locator(f"{CANVAS} > svg").evaluate("e => e.getAttribute('viewBox').split(' ').map(Number)")
    assert (width, height) == pytest.approx((2 * box[2], 2 * box[3]), abs=1)
    from matplotlib.image import imread

    pixels = imread(file)
    assert pixels[0, 0, :3].tolist() == [1, 1, 1]
    red = (pixels[..., 0] > 0.75) & (pixels[..., 1] < 0.3)  # the dashes of the cut
    ink = pixels[..., :3].sum(-1) < 1
    assert red.sum() > 200
    assert ink.sum() > 500


def test_the_whole_overview_is_saved_however_far_it_is(show, tmp_path):
    page = show("gpt")
    overview(page)
    before = percent(page)
    root = ET.fromstring(saved(page, "SVG", tmp_path).read_text(encoding="utf-8"))
    labels = [text.text for text in root.iter(f"{SVG}text")]
    names = {op.op if op.count <= 1 else f"{op.op} ×{op.count}" for op in samples.gpt().ops}
    assert names <= set(labels)
    assert labels.count("dropout ×20") == sum(op.op == "dropout" for op in samples.gpt().ops)
    assert percent(page) == before
    assert all_in_sight(page)


def test_the_timeline_zooms_and_goes_from_run_to_run(show, tmp_path):
    page = show("memory")
    page.get_by_role("tab", name="Timings").click()
    tools = page.get_by_role("toolbar", name="timeline")
    runs = page.get_by_role("group", name="runs over time")
    bar = page.get_by_role("img", name="timeline of 4.00 ms").locator("rect").nth(1)
    short = bar.bounding_box()["width"]
    for _ in range(6):
        tools.get_by_role("button", name="zoom in").click()
    assert bar.bounding_box()["width"] == pytest.approx(short * 1.3**6, rel=0.02)
    runs.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".lead .quiet").first).to_contain_text("tanh, backward 1.00 ms at 3.00 ms, line 3")
    expect(bar).to_be_in_viewport(ratio=0.1)  # where it goes, the window follows
    left = runs.evaluate("e => e.scrollLeft")
    assert left > 0
    page.keyboard.press("Shift+ArrowLeft")
    assert runs.evaluate("e => e.scrollLeft") == pytest.approx(left - 80, abs=1)
    root = ET.fromstring(saved(page, "SVG", tmp_path).read_text(encoding="utf-8"))
    assert {"forward", "backward"} <= {text.text for text in root.iter(f"{SVG}text")}
    page.keyboard.press("Home")
    runs.focus()
    page.keyboard.press("0")
    assert bar.bounding_box()["width"] == pytest.approx(short, rel=0.01)
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")
    assert page.evaluate("stolen") == []


def test_a_tap_on_a_run_tells_and_a_link_shows_it(show):
    page = show("memory", width=700, has_touch=True)
    page.get_by_role("tab", name="Timings").tap()
    page.get_by_role("img", name="timeline of 4.00 ms").locator("rect").nth(1).tap()
    expect(page.locator(".lead .quiet").first).to_contain_text("tanh, backward 1.00 ms")
    page.get_by_role("button", name="show it").tap()
    expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")


def test_long_lines_of_the_source_wrap_and_the_pane_is_no_wider_than_it_needs(show):
    page = show("gpt")
    wide, narrow = page.locator(".lines > div").nth(3), page.locator(".lines > div").nth(0)
    assert wide.bounding_box()["height"] > 1.5 * narrow.bounding_box()["height"]
    text = wide.locator(".t")
    assert text.evaluate("e => e.scrollWidth <= e.clientWidth")
    page = show("mlp", "cut")
    for card in page.locator(".card").all():
        pane, body = card.locator(".source").bounding_box(), card.locator(".body").bounding_box()
        assert pane["width"] < 0.43 * body["width"]
        lines = card.locator(".lines .t").evaluate_all("all => all.map(e => e.getClientRects().length)")
        assert set(lines) == {1}
