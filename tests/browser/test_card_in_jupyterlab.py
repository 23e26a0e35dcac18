"""The card in a real JupyterLab: live when run, still when untrusted, its keys its own, its theme Lab's."""

from __future__ import annotations

import json
import subprocess
import sys

import nbformat
from playwright.sync_api import expect

import widgets

from ..widgets import samples
from .conftest import KERNEL


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
    output.get_by_text("Gradients (6)").click()
    expect(output.get_by_role("cell", name="encoder.2.bias")).to_be_visible()
    expect(output.locator(".card")).to_have_count(0)
    assert nb.watched.requests == []


def test_an_exported_page_shows_the_live_card_without_a_network(open_page, tmp_path):
    output = nbformat.v4.new_output("display_data", data={"text/html": widgets.html(samples.cut())})
    path = tmp_path / "exported.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[output])]), path)
    subprocess.run([sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", str(path)], check=True)
    page = open_page(offline=True).page
    page.goto(path.with_suffix(".html").as_uri(), wait_until="domcontentloaded")
    expect(page.locator(".card .node.lit .label")).to_have_text("numpy")
    page.get_by_role("tab", name="Timings").click()
    expect(page.locator(".card table")).to_have_count(4)
