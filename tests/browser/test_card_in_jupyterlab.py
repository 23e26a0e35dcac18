"""The card in a real JupyterLab: live when run, still when untrusted, its keys its own, its theme Lab's."""

from __future__ import annotations

import json
import subprocess
import sys

import nbformat
import pytest
from playwright.sync_api import expect

import widgets

from ..widgets import samples
from .access import axe, faint
from .conftest import KERNEL


@pytest.mark.by_turns
def test_live_keyboard_theme_and_reopened(notebook, server):
    (server.root / "card.json").write_text(json.dumps(widgets.html(samples.gpt())))
    nb = notebook("import json\nfrom IPython.display import HTML\nHTML(json.load(open('card.json')))", "1 + 1")
    nb.run(0)
    card = nb.output(0).locator(".card")
    expect(card.locator("header")).to_contain_text("892 ops", timeout=30_000)
    card.locator(".node.group").first.focus()
    nb.page.keyboard.press("Enter")
    expect(card.locator(".crumbs")).to_contain_text("model.blocks.0")
    nb.page.keyboard.press("ArrowDown")
    nb.page.keyboard.press("Escape")
    expect(card.locator(".node:focus .label")).to_have_text("model.blocks.0")
    for key in ("a", "b", "d", "d", "x"):  # in command mode these insert, delete and cut cells
        nb.page.keyboard.press(key)
    expect(nb.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(2)
    card.get_by_role("tab", name="Timings").click()
    expect(card.locator("table")).to_have_count(4)

    ground = "e => getComputedStyle(e).backgroundColor"
    assert card.evaluate(ground) == "rgb(255, 255, 255)"
    nb.theme("JupyterLab Dark")
    expect(card).to_have_css("background-color", "rgb(33, 33, 33)")
    nb.theme("JupyterLab Light")

    saved = nb.save()
    assert "text/html" in saved["cells"][0]["outputs"][0]["data"]
    again = notebook(path=nb.path)
    again.shutdown()
    expect(again.output(0).locator(".card header")).to_contain_text("892 ops")
    assert nb.watched.requests == again.watched.requests == []


@pytest.mark.by_turns
def test_an_untrusted_notebook_shows_the_still_card(notebook, server):
    path = server.root / "untrusted.ipynb"
    output = nbformat.v4.new_output("display_data", data={"text/html": widgets.html(samples.cut())})
    cell = nbformat.v4.new_code_cell("# from elsewhere", outputs=[output])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=KERNEL), path)
    nb = notebook(path=path)
    output = nb.output(0)
    expect(output).to_contain_text("line 2: h.numpy() cut the graph, so 4 parameters get no gradient")
    expect(output.locator("img")).to_have_js_property("complete", True)
    assert output.locator("img").evaluate("e => e.naturalWidth") > 300
    for title, inside in (
        ("Gradients (6)", "encoder.2.bias"),
        ("Time by line", "h = encoder(images)"),
        ("Time by kernel", "linear_f32"),
    ):
        output.get_by_text(title).click()
        expect(output.get_by_role("cell", name=inside, exact=True)).to_be_visible()
    expect(output.locator(".card")).to_have_count(0)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        nb.theme(theme)
        assert faint(output) == []
        assert axe(nb.page, ".jp-OutputArea-output") == []
    page = nb.page.viewport_size["width"]
    assert output.bounding_box()["x"] + output.bounding_box()["width"] <= page
    assert nb.watched.requests == nb.watched.errors == []


@pytest.mark.by_turns
def test_an_exported_page_shows_the_live_card_without_a_network(open_page, tmp_path):
    cards = [widgets.html(samples.cut()), widgets.html(samples.memory())]
    output = nbformat.v4.new_output("display_data", data={"text/html": "".join(cards)})
    path = tmp_path / "exported.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[output])]), path)
    subprocess.run([sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", str(path)], check=True)
    watched = open_page(offline=True)
    page = watched.page
    page.goto(path.with_suffix(".html").as_uri(), wait_until="domcontentloaded")
    expect(page.locator(".card .node.lit .label")).to_have_text("numpy")
    card = page.locator(".card").last
    tabs = card.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Graph", "Gradients (1)", "Timings", "Memory", "Changes (3)"]
    tabs.first.focus()
    for one in [*tabs.all()[1:], tabs.first]:
        page.keyboard.press("ArrowRight")
        expect(one).to_have_attribute("aria-selected", "true")
        panel = card.get_by_role("tabpanel")
        expect(panel.get_by_role("cell").or_(panel.locator(".node.op")).first).to_be_visible()
        assert axe(page, ".gradlab-card") == []
    of_nbconvert = ("require.min.js", "mathjax")  # its page asks for these itself, cards or none
    asked = [r for r in watched.requests if not r.startswith("file:") and not any(n in r for n in of_nbconvert)]
    assert asked == []
    assert [e for e in watched.errors if "ERR_INTERNET_DISCONNECTED" not in e] == []
