"""The card by itself in a real browser: what is seen, by mouse and by keyboard, in light and dark, with no request."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from lab.report import export
from widgets.record import LineRow

from ..widgets import samples
from .access import axe, check, faint
from .conftest import DARK, LIGHT


def tab(page, name):
    return page.get_by_role("tab", name=name)


def color(locator, name="color"):
    return locator.evaluate("(e, name) => getComputedStyle(e)[name]", name)


def test_the_live_card_replaces_the_still_one(show):
    page = show("mlp")
    expect(page.locator(".card header")).to_contain_text("16 ops, ran 451 times")
    expect(page.locator(".gradlab-still")).to_have_count(0)
    expect(page.locator(".findings")).to_have_text("✓ No problems found.")
    expect(page.locator(".node")).to_have_count(17)  # the body of the loops: fifteen ops and two inputs


def test_a_large_record_comes_packed(show):
    page = show("large")
    expect(page.locator(".card header")).to_contain_text("3,604 ops")
    assert page.locator('script[type="application/octet-stream"]').count() == 1
    expect(page.locator(".node").first).to_be_visible()


def test_a_cell_without_ops_has_no_longest_bar(show):
    page = show("empty")
    expect(page.locator(".findings")).to_have_text("No operation ran in this cell.")
    expect(page.locator(".crumbs .end")).to_have_text("")


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
    expect(page.locator(".node.bad .badge")).to_have_text(["✕ NaN", "✕ failed here"])
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
    page.get_by_role("columnheader", name="std").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="std")).to_have_attribute("aria-sort", "descending")
    expect(rows.first).to_contain_text("model.24.weight")
    page.get_by_role("columnheader", name="std").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="std")).to_have_attribute("aria-sort", "ascending")
    expect(rows.first).to_contain_text("model.0.weight")
    page.get_by_role("columnheader", name="parameter").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="std")).to_have_attribute("aria-sort", "none")
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


def test_a_line_says_what_was_no_op_too(show, monkeypatch):
    """A line that waits for data has its time beside it, and a bar of its own."""
    waits = samples.mlp()
    waits.lines.insert(0, LineRow(2, total_ms=900.0, other_ms=900.0))
    monkeypatch.setitem(samples.ALL, "mlp", lambda: waits)
    page = show("mlp")
    line = page.locator(".lines > div").nth(1)
    expect(line.locator(".ms")).to_have_text("900 ms")
    expect(line.locator(".bars .o")).to_be_visible()
    expect(line).to_have_attribute("aria-label", re.compile("^line 2: no op ran, other 900 ms"))
    tab(page, "Timings").click()
    row = page.locator("table").first.locator("tbody tr").first
    assert [cell.strip() for cell in row.locator("td").all_inner_texts()][4:7] == ["0.0", "900.0", "900.0"]


def test_a_long_line_is_wrapped_where_a_person_would(show, monkeypatch):
    long = samples.mlp()
    long.source += "\n    optimizer_of_it.state_dict_of_all_groups(set_to_none=True)"
    monkeypatch.setitem(samples.ALL, "mlp", lambda: long)
    page = show("mlp", width=860)
    line = page.locator(".lines .t").last
    assert line.text_content() == "    optimizer_of_it.state_dict_of_all_groups(set_to_none=True)"
    first = line.evaluate("""e => {
      const range = document.createRange(), walker = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
      const node = walker.nextNode(), at = node.data.search(/\\S/);
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      return range.getBoundingClientRect().top - e.getBoundingClientRect().top;
    }""")
    assert first < 15  # it begins on the row of its number


def test_details_that_scroll_are_reached_by_keyboard(show):
    page = show("mlp", width=360)
    details = page.locator(".details")
    details.evaluate("e => { e.style.maxHeight = '20px' }")
    expect(details).to_have_attribute("tabindex", "0")
    details.evaluate("e => { e.style.maxHeight = '' }")
    expect(details).not_to_have_attribute("tabindex", "0")


def test_drill_in_and_out_by_keyboard(show):
    page = show("gpt")
    group = page.locator(".node.group").first
    group.focus()
    page.keyboard.press("Enter")
    crumbs = page.get_by_role("group", name="modules")
    expect(crumbs).to_contain_text("model.blocks.0")
    expect(page.locator(".node:focus .label")).to_have_text("layer_norm ×20")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".node:focus .label")).to_have_text("attention")
    page.keyboard.press("Enter")
    expect(crumbs).to_contain_text("cell›for step in range(20) ×20›model.blocks.0›attention")
    page.keyboard.press("Escape")
    expect(page.locator(".node:focus .label")).to_have_text("attention")
    page.keyboard.press("Escape")
    expect(page.locator(".node:focus .label")).to_have_text("model.blocks.0")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".node:focus .label")).to_have_text("model.blocks.1")
    page.keyboard.press("Enter")
    crumbs.get_by_role("button", name="for step in range(20) ×20").click()
    expect(page.locator(".node:focus .label")).to_have_text("model.blocks.1")
    page.keyboard.press("Backspace")
    expect(page.locator(".node:focus .label")).to_have_text("for step in range(20) ×20")
    page.keyboard.press(" ")
    expect(page.locator(".crumbs b")).to_have_text("for step in range(20) ×20")
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
@pytest.mark.parametrize("name", ["vanishing", "hostile", "long"])
def test_nothing_sticks_out(show, name, width):
    page = show(name, width=width)
    for one in page.get_by_role("tab").all():
        one.click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for table in page.locator("table:visible").all():
            assert table.bounding_box()["width"] < 2500
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


@pytest.mark.parametrize("name", ["hostile", "long"])
def test_hostile_strings_are_shown_and_do_nothing(show, name):
    page = show(name)
    start = {"hostile": "</script><script>window.hacked=1</script><!--<img", "long": "<b>ten thousand</b> WWW"}[name]
    card = page.locator(".card")
    expect(card.locator("header .title")).to_contain_text(start)
    inside = {
        "Graph": card.locator(".node").first,
        "Gradients (2)": card.locator("tbody tr").nth(1),
        "Timings": card.get_by_role("img", name="timeline of 2.50 ms").locator("rect").last,
        "Memory": card.get_by_role("row", name=re.compile("elsewhere")),
        "Compiled": card.get_by_role("row").nth(1),
        "Changes (2)": card.get_by_role("row").nth(1),
    }
    assert [one.inner_text() for one in page.get_by_role("tab").all()] == list(inside)
    for one, place in inside.items():
        tab(page, one).click()
        place.click()
    tab(page, "Compiled").click()
    expect(inside["Compiled"].get_by_role("cell")).to_contain_text([start] * 3)
    tab(page, "Changes (2)").click()
    expect(card.locator(".lead b").last).to_contain_text(start)
    expect(inside["Changes (2)"].get_by_role("cell")).to_contain_text([start] * 5)
    tab(page, "Graph").click()
    find = page.get_by_role("searchbox")
    find.fill(start)
    expect(card.locator(".details")).to_contain_text("found")
    find.press("Enter")
    expect(card.locator(".details .code")).to_contain_text(start)
    find.fill("<img src=x onerror=window.hacked=1>no such thing")
    expect(card.locator(".details")).to_have_text("Nothing found.")
    assert card.bounding_box()["height"] < 1400
    assert page.evaluate("window.hacked") is None
    assert page.locator(".card img, .card script, .card b b").count() == 0


def test_a_name_that_turns_the_writing_round_turns_only_itself(show):
    page = show("hostile")
    for text in page.locator(".card header span, .card .details b, .card .details span, .card .message").all():
        assert color(text, "unicodeBidi") == "isolate" or color(text, "display") in ("block", "flex")


def test_marks_that_turn_the_writing_round_are_shown_as_such_everywhere(show):
    """Source that a compiler reads in another order than a person (CVE-2021-42574) is no exception, marked or not."""
    page = show("hostile")
    marks = "[...document.querySelector('.gradlab-card').firstElementChild.shadowRoot.querySelectorAll('section *')]"
    marks += ".flatMap(e => [...e.childNodes]).filter(n => n.nodeType === 3)"
    marks += ".filter(n => /[\\u202a-\\u202e\\u2066-\\u2069]/.test(n.data)).length"
    for line in page.locator(".lines > div").all():
        line.hover()
        assert page.evaluate(marks) == 0
    for one in page.get_by_role("tab").all():
        one.click()
        assert page.evaluate(marks) == 0


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


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["cut", "failed", "memory", "vanishing"])
def test_every_tab_can_be_read_by_everyone(show, name, theme):
    page = show(name, theme=theme)
    card = page.locator(".card")
    for one in page.get_by_role("tab").all():
        one.click()
        page.mouse.move(1, 1)
        assert faint(card) == []
        assert check(card) == []
        assert axe(page, ".gradlab-card") == []
    tab(page, "Gradients").click()
    page.locator("tbody tr").first.click()
    assert faint(card) == []


def test_the_checker_sees_into_the_card(show):
    page = show("memory")
    assert axe(page, ".gradlab-card") == []
    page.locator(".card .title").evaluate("e => { e.style.color = '#bbb' }")
    page.locator(".card select").evaluate("e => e.removeAttribute('aria-label')")
    found = axe(page, ".gradlab-card")
    assert [line.split(":")[0] for line in sorted(found)] == ["critical select-name", "serious color-contrast"]


def test_a_report_is_a_whole_page_for_everyone(open_page, tmp_path):
    """The page that `save` writes, with the rules for whole pages: language, title, headings, landmarks."""
    path = tmp_path / "report.html"
    export.save(samples.cut(), path)
    page = open_page(allow=(tmp_path.as_uri(),)).page
    page.goto(path.as_uri())
    expect(page.locator(".card header")).to_contain_text("7 ops")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for one in page.get_by_role("tab").all():
            one.click()
            assert axe(page) == []
            assert faint(page.locator(".card")) == []


def test_focus_goes_through_the_card_from_top_to_bottom_and_leaves_it(show):
    page = show("cut")
    page.locator(".findings button").first.focus()
    met = []
    for _ in range(14):
        focused = "document.querySelector('.gradlab-card').firstElementChild.shadowRoot.activeElement"
        told = page.evaluate(f"(e => e && (e.getAttribute('role') || e.tagName.toLowerCase()))({focused})")
        if told is None:
            break
        met.append(told)
        if told != "img":
            outline = page.evaluate(f"(e => getComputedStyle(e.querySelector('.ring') || e))({focused}).outlineStyle")
            ring = page.evaluate(
                f"(e => e.querySelector('.ring') && getComputedStyle(e.querySelector('.ring')).stroke)({focused})"
            )
            assert outline != "none" or ring not in (None, "none"), told
        page.keyboard.press("Tab")
    # two links of the finding, the lines, the tabs, full screen, ..., the tools of the picture, the boxes
    assert met == ["button", "button", "option", "tab", "button", "select", "input", "button", "button"]


def test_boxes_by_gradient_norm_and_memory(show):
    page = show("memory")
    by = page.get_by_role("combobox", name="colour boxes by")
    first = page.locator(".node.op").first
    expect(first.locator(".time")).to_have_text("5.00 ms")
    heat = "e => parseFloat(e.querySelector('.ring + .box').style.getPropertyValue('--heat'))"
    by.focus()
    page.keyboard.press("ArrowDown")
    expect(by).to_have_value("gradient norm")
    expect(first.locator(".time")).to_have_text("0.250")
    expect(first).to_have_attribute("aria-label", re.compile("gradient norm 0.250"))
    expect(page.locator(".crumbs .end")).to_have_text("bar: gradient norm, largest 0.250, log scale")
    assert first.evaluate(heat) > page.locator(".node.op").nth(1).evaluate(heat) == 0
    by.select_option("memory")
    expect(page.locator(".node.op .time")).to_have_text(["8.19 kB", "256 bytes"])
    by.select_option("time")
    expect(page.locator(".crumbs .end")).to_have_text("bar: time, longest 5.00 ms")
    assert page.evaluate("stolen") == []


def test_a_group_has_the_norm_and_the_bytes_of_what_is_inside(show):
    page = show("gpt")
    by = page.get_by_role("combobox", name="colour boxes by")
    by.select_option("gradient norm")
    norm = float(page.locator(".node.group .time").first.text_content())
    block = [g for g in samples.gpt().gradients if g.name.startswith("model.blocks.0.")]
    assert norm == pytest.approx(sum(g.norm**2 for g in block) ** 0.5, rel=5e-3)
    by.select_option("memory")
    inside = sum(op.size_bytes for op in samples.gpt().ops if op.module.startswith("model.blocks.0"))
    expect(page.locator(".node.group .time").first).to_have_text(f"{inside / 1e6:.1f} MB")


def test_a_repeat_with_one_slow_run_is_marked(show):
    page = show("memory")
    expect(page.locator(".node.op").first.locator(".label")).to_have_text("matmul ×12")
    expect(page.locator(".chip.slow")).to_have_text(["slowest 3.10 ms"])
    page.locator(".node.op").first.click()
    expect(page.locator(".details")).to_contain_text("slowest run 3.10 ms")
