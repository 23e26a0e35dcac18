"""The card by itself in a real browser: what is seen, by mouse and by keyboard, in light and dark, with no request."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import widgets
from widgets.record import Memory, MemoryRow, OpRow, Record, Run

from ..widgets import samples

LIGHT = {
    "--jp-layout-color1": "white",
    "--jp-content-font-color1": "rgba(0, 0, 0, 0.87)",
    "--jp-content-font-color2": "rgba(0, 0, 0, 0.54)",
    "--jp-border-color2": "#e0e0e0",
    "--jp-brand-color1": "#1976d2",
    "--jp-error-color1": "#d32f2f",
}
DARK = {
    "--jp-layout-color1": "#111111",
    "--jp-content-font-color1": "rgba(255, 255, 255, 1)",
    "--jp-content-font-color2": "rgba(255, 255, 255, 0.7)",
    "--jp-border-color2": "#616161",
    "--jp-brand-color1": "#2196f3",
    "--jp-error-color1": "#f44336",
}
NOTEBOOK_KEYS = """
window.stolen = [];
document.addEventListener('keydown', e => window.stolen.push(e.key));
"""


def remembered():
    """A cell of two ops with its memory and its timeline."""
    memory = Memory(3_000_000, 2.0, 1_000_000, [0.0, 1.0, 2.0, 3.0], [0, 2_000_000, 3_000_000, 1_000_000])
    memory.rows = [MemoryRow(2, 2_000_000, 2_000_000, 0, 1), MemoryRow(3, 1_000_000, 1_000_000, 1_000_000, 1)]
    ops = [OpRow(0, "matmul", line=2, forward_ms=1.0), OpRow(1, "tanh", line=3, inputs=["o0"], backward_ms=1.0)]
    runs = [Run(0, 0.0, 1.0), Run(1, 3.0, 1.0, "backward")]
    return Record("In [1]", "w = 1\nh = x @ w\ny = h.tanh()", ops=ops, memory=memory, runs=runs, forward_ms=1.0)


@pytest.fixture
def show(open_page, tmp_path):
    """`show("mlp", ...)`: the samples' cards on one page that listens for keys as a notebook does."""
    pages = []

    def show(*names, theme=LIGHT, width=1300, **options):
        watched = open_page(width=width, allow=(tmp_path.as_uri(),), **options)
        variables = ";".join(f"{name}:{value}" for name, value in theme.items())
        made = {**samples.ALL, "large": lambda: samples.gpt(40, 100), "memory": remembered}
        body = "".join(widgets.html(made[name]()) for name in names)
        file: Path = tmp_path / "card.html"
        file.write_text(
            f'<!doctype html><meta charset="utf-8"><title>card</title><script>{NOTEBOOK_KEYS}</script>'
            f'<body style="background:var(--jp-layout-color1);{variables}">{body}',
            encoding="utf-8",
        )
        watched.page.goto(file.as_uri())
        pages.append(watched)
        return watched.page

    yield show
    for watched in pages:
        assert watched.errors == []
        assert watched.requests == []


def tab(page, name):
    return page.get_by_role("tab", name=name)


def color(locator, name="color"):
    return locator.evaluate("(e, name) => getComputedStyle(e)[name]", name)


def test_the_live_card_replaces_the_still_one(show):
    page = show("mlp")
    expect(page.locator(".card header")).to_contain_text("16 ops, ran 451 times")
    expect(page.locator(".gradlab-still")).to_have_count(0)
    expect(page.locator(".findings")).to_have_text("✓ No problems found.")
    expect(page.locator(".node")).to_have_count(18)


def test_a_large_record_comes_packed(show):
    page = show("large")
    expect(page.locator(".card header")).to_contain_text("3,604 ops")
    assert page.locator('script[type="application/octet-stream"]').count() == 1
    expect(page.locator(".node").first).to_be_visible()


def test_without_scripts_the_still_card_stays(show):
    page = show("cut", java_script_enabled=False)
    expect(page.locator(".gradlab-still")).to_be_visible()
    expect(page.locator(".gradlab-still")).to_contain_text("line 2: h.numpy() cut the graph")
    expect(page.locator("img")).to_have_attribute("alt", "graph of the cell: 7 ops")
    page.get_by_text("Gradients (6)").click()
    expect(page.get_by_role("cell", name="encoder.0.bias")).to_be_visible()


def test_the_first_glance_says_what_is_wrong_and_where(show):
    page = show("cut")
    first = page.locator(".findings li").first
    expect(first.locator(".word")).to_have_text("✕ Error")
    expect(first.locator(".message")).to_contain_text(
        "line 2: h.numpy() cut the graph, so 4 parameters get no gradient"
    )
    expect(first.locator(".remedy")).to_contain_text("Stay in tensors")
    expect(page.locator(".lines .lit")).to_contain_text("h = core.tensor(h.numpy() * scale)")
    expect(page.locator(".lines mark")).to_have_text("h.numpy()")
    expect(page.locator(".node.lit")).to_be_in_viewport()
    expect(page.locator(".node.lit .label")).to_have_text("numpy")
    expect(page.locator(".node.cut .badge")).to_have_text("✂ cut")
    expect(page.locator(".edge.cut")).to_have_count(2)
    expect(page.locator(".chip.dead")).to_have_text(["weight: no gradient", "bias: no gradient"] * 2)


def test_a_cell_that_raised(show):
    page = show("failed")
    first = page.locator(".findings li").first
    expect(first).to_contain_text("line 3: IndexError: Dimension out of range")
    expect(first).to_contain_text("this card is partial")
    expect(page.locator(".node.bad .badge")).to_have_text(["✕ NaN", "✕ failed"])
    expect(page.locator(".findings li")).to_have_count(3)
    expect(page.locator(".lines .error .n")).to_have_text(["✕ 1", "✕ 3"])


def test_a_line_lights_its_boxes_and_a_box_its_line(show):
    page = show("mlp")
    page.locator(".lines > div").nth(3).hover()
    expect(page.locator(".node.lit .label")).to_have_text(["log_softmax ×30", "nll_loss ×30"])
    expect(page.locator(".source .foot")).to_have_text(re.compile(r"^line 4: forward .*, backward .*, 60 runs$"))
    page.locator(".node.op").first.hover()
    expect(page.locator(".lines .lit")).to_have_text(re.compile("logits = model"))
    expect(page.locator(".lines mark")).to_have_text("model(images)")
    page.locator(".node.op").first.click()
    expect(page.locator(".details")).to_contain_text("kernel linear_f32, C")
    expect(page.locator(".details")).to_contain_text("output 64×256 float32")
    expect(page.locator(".details")).to_contain_text("reads images 64×64, model.0.weight 256×64")


def test_tabs_by_arrow_keys(show):
    page = show("mlp")
    tab(page, "Graph").focus()
    page.keyboard.press("ArrowRight")
    expect(tab(page, "Gradients (8)")).to_be_focused()
    expect(tab(page, "Gradients (8)")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel", name="Gradients (8)")).to_be_visible()
    page.keyboard.press("End")
    expect(tab(page, "Timings")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tab(page, "Graph")).to_be_focused()
    expect(page.get_by_role("tabpanel")).to_have_count(1)
    assert page.evaluate("stolen") == []


def test_gradients_sort_and_open(show):
    page = show("vanishing")
    tab(page, "Gradients (26)").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(26)
    page.get_by_role("columnheader", name="rms").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="rms")).to_have_attribute("aria-sort", "descending")
    expect(rows.first).to_contain_text("model.24.weight")
    page.get_by_role("columnheader", name="rms").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="rms")).to_have_attribute("aria-sort", "ascending")
    expect(rows.first).to_contain_text("model.0.weight")
    page.get_by_role("columnheader", name="parameter").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="rms")).to_have_attribute("aria-sort", "none")
    first = rows.first.get_by_role("button").first
    first.focus()
    page.keyboard.press("Enter")
    expect(first).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".open rect")).to_have_count(64)
    expect(page.locator(".open")).to_contain_text("accumulated 30 times")
    page.keyboard.press("Enter")
    expect(page.locator(".open")).to_have_count(0)
    expect(rows.filter(has_text="vanishing")).to_have_count(8)


def test_a_parameter_without_gradient_is_said_in_words(show):
    page = show("cut")
    page.get_by_role("button", name="show 4 parameters").click()
    rows = page.locator("tbody tr.lit")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("no gradient line 2")
    rows.first.get_by_role("button", name="line 2").click()
    expect(tab(page, "Graph")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".node.lit .label")).to_have_text("numpy")


def test_timings_sum_up(show):
    page = show("mlp")
    tab(page, "Timings").click()
    tables = page.locator("table")
    expect(tables).to_have_count(4)
    lines = tables.first
    figures = lines.locator("tbody tr").evaluate_all("rows => rows.map(r => +r.children[5].textContent)")
    total = float(lines.locator("tfoot td").nth(5).inner_text())
    assert abs(sum(figures) - total) < 0.03
    expect(tables.nth(3).locator("tbody tr").first).to_contain_text("linear_backward_f32")
    lines.get_by_role("button", name="7").click()
    expect(page.locator(".lines .lit")).to_contain_text("optimizer.step()")


def test_drill_in_and_out_by_keyboard(show):
    page = show("gpt")
    group = page.locator(".node.group").first
    group.focus()
    page.keyboard.press("Enter")
    crumbs = page.get_by_role("navigation", name="modules")
    expect(crumbs).to_contain_text("model.blocks.0")
    expect(page.locator(".node:focus .label")).to_have_text("layer_norm ×20")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".node:focus .label")).to_have_text("attention")
    page.keyboard.press("Enter")
    expect(crumbs).to_contain_text("cell›model.blocks.0›attention")
    page.keyboard.press("Escape")
    expect(page.locator(".node:focus .label")).to_have_text("attention")
    page.keyboard.press("Escape")
    expect(page.locator(".node:focus .label")).to_have_text("model.blocks.0")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".node:focus .label")).to_have_text("model.blocks.1")
    page.keyboard.press("Enter")
    crumbs.get_by_role("button", name="cell").click()
    expect(page.locator(".node:focus .label")).to_have_text("model.blocks.1")
    assert page.evaluate("stolen") == []
    page.keyboard.press("Control+s")
    assert page.evaluate("stolen")[-1] == "s"  # what is the notebook's own still reaches it


def test_source_lines_by_keyboard(show):
    page = show("mlp")
    page.locator(".lines > div").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(page.locator(".lines > div").nth(3)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".node.lit .label")).to_have_text(["log_softmax ×30", "nll_loss ×30"])


def test_a_line_of_a_closed_group_opens_it(show):
    page = show("gpt")
    page.locator(".lines > div").nth(2).click()
    expect(page.locator(".node.group.lit")).to_have_count(12)


@pytest.mark.parametrize(("theme", "ground", "ink"), [(LIGHT, "255", "0"), (DARK, "17", "255")])
def test_theme_comes_from_the_page(show, theme, ground, ink):
    page = show("cut", theme=theme)
    assert color(page.locator(".card"), "backgroundColor").startswith(f"rgb({ground}, ")
    assert re.match(rf"rgba?\({ink}, {ink}, {ink}", color(page.locator(".findings .message")))
    red = color(page.locator(".node.cut .box"), "stroke")
    assert red == {"255": "rgb(211, 47, 47)", "17": "rgb(244, 67, 54)"}[ground]


def test_no_theme_is_light_and_vscode_is_followed(show):
    page = show("mlp", theme={})
    assert color(page.locator(".card"), "backgroundColor") == "rgb(255, 255, 255)"
    page = show("mlp", theme={"--vscode-editor-background": "#1e1e1e", "--vscode-foreground": "#cccccc"})
    assert color(page.locator(".card"), "backgroundColor") == "rgb(30, 30, 30)"
    assert color(page.locator(".card")) == "rgb(204, 204, 204)"


@pytest.mark.parametrize("width", [1300, 700, 380])
@pytest.mark.parametrize("name", ["vanishing", "hostile"])
def test_nothing_sticks_out(show, name, width):
    page = show(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    beside = page.locator(".source").bounding_box()["width"] < page.locator(".body").bounding_box()["width"] - 2
    assert beside == (width == 1300)


def test_cards_do_not_interfere(show):
    page = show("mlp", "gpt", "cut")
    expect(page.locator(".card")).to_have_count(3)
    second = page.locator(".gradlab-card").nth(1)
    second.get_by_role("tab", name="Timings").click()
    third = page.locator(".gradlab-card").nth(2)
    expect(third.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")
    page.locator(".gradlab-card").first.locator(".lines > div").nth(3).hover()
    expect(third.locator(".node.lit .label")).to_have_text("numpy")
    assert page.evaluate("Object.keys(window).filter(k => /card|gradlab|CSS_/i.test(k))") == []


def test_hostile_strings_are_shown_and_do_nothing(show):
    page = show("hostile")
    expect(page.locator(".card header .title")).to_contain_text("</script><script>window.hacked=1</script><!--<img")
    for name in ("Gradients (2)", "Timings", "Graph"):
        tab(page, name).click()
    page.locator(".node").nth(1).click()
    tab(page, "Gradients (2)").click()
    page.locator("tbody tr").nth(1).click()
    assert page.evaluate("window.hacked") is None
    assert page.locator(".card img, .card script").count() == 0


@pytest.mark.parametrize("name", ["failed", "flat"])
def test_every_view_opens(show, name):
    page = show(name)
    for name in ("Gradients", "Timings", "Graph"):
        tab(page, name).click()
    if page.locator(".node.group").count():
        expect(page.locator(".crumbs .end")).to_contain_text("1,000 boxes folded into runs of 32")
        page.locator(".node.group").first.click()
        expect(page.locator(".node.op")).not_to_have_count(0)


def test_the_memory_tab_says_the_peak_and_whose_it_is(show):
    page = show("memory")
    tab(page, "Memory").click()
    expect(page.locator(".lead b").first).to_have_text("3.00 MB")
    expect(page.get_by_role("img", name="bytes alive over 3.00 ms, peak 3.00 MB at 2.00 ms")).to_be_visible()
    expect(page.get_by_role("row", name="2 h = x @ w")).to_contain_text("2.00 MB")


def test_the_timeline_names_the_run_that_is_pointed_at(show):
    page = show("memory")
    tab(page, "Timings").click()
    timeline = page.get_by_role("img", name="timeline of 4.00 ms")
    timeline.locator("rect").nth(1).hover()
    expect(page.locator(".lead .quiet")).to_contain_text("tanh, backward 1.00 ms at 3.00 ms, line 3")


def test_the_heat_map_has_a_row_for_each_gradient(show):
    page = show("mlp")
    tab(page, "Gradients").click()
    heat = page.get_by_role("img", name="heat map of log2 |gradient| by parameter")
    expect(heat).to_be_visible()
    names = heat.locator("text").evaluate_all("list => list.map(t => t.textContent)")
    rows = page.locator("table tbody tr td:first-child").all_inner_texts()
    assert set(rows) <= set(names)


def test_search_goes_from_op_to_op_by_keyboard(show):
    page = show("gpt")
    find = page.get_by_role("searchbox")
    find.fill("softmax")
    expect(page.locator(".details")).to_contain_text("found")
    find.press("Enter")
    expect(page.locator(".node.lit .label")).to_contain_text("softmax")
    find.fill("no such thing")
    expect(page.locator(".details")).to_have_text("Nothing found.")
    find.press("Escape")
    expect(find).to_have_value("")
