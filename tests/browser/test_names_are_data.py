"""Names, file names and error texts that try to be more than text, in the cards that JupyterLab draws of real cells."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from ..lab.recorder.test_names_are_data import NAMES, SETUP, STEP
from .conftest import KERNEL
from .test_autograd_in_jupyterlab import START_MS

STARTS = {"hostile": "</script><script>window", "long": "<b>ten thousand</b> WWW"}
TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
ELEMENTS = "img, script, b b, iframe, object, a[href^=javascript]"


def shot(page, name):
    """A picture for whoever wants to look: GRADLAB_SCREENSHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def inert(nb):
    """Nothing ran, nothing was asked for, nothing reaches over the page's edge."""
    assert nb.page.evaluate("[window.hacked, document.querySelector('.jp-Notebook').dir]") == [None, ""]
    assert nb.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert nb.watched.requests == []


@pytest.mark.by_turns
@pytest.mark.parametrize("kind", NAMES)
def test_every_tab_of_a_cell_whose_names_are_hostile(notebook, server, kind):
    setup = f"%load_ext lab\nimport lab\nname = {NAMES[kind]!r}\n{SETUP}"
    step = f"%%autograd\n{STEP}"
    nb = notebook(
        setup,
        f"{step}\nloss.backward()",
        f"{step}\nraise ValueError(name.replace(chr(0xD800), ''))",  # ipykernel sends no lone surrogate
        f"%%autograd --text\n{STEP}\nloss.backward()",
        f"{STEP}\nlab.walk(loss)",
        "for k in lab.progress(range(3), title=name): pass",
    )
    start = STARTS[kind]
    for index in (0, 1):
        nb.run(index)
    card = nb.output(1).locator(".card")
    expect(card.locator("header")).to_contain_text("ops", timeout=START_MS)
    nb.cell(1).locator(".cm-content").click()
    nb.page.keyboard.press("Control+End")
    nb.page.keyboard.insert_text("\nh.exp()")
    nb.page.keyboard.press("Control+Enter")
    tabs = card.get_by_role("tab")
    expect(tabs.last).to_have_text(re.compile("Changes"), timeout=START_MS)
    panel = card.get_by_role("tabpanel")
    expect(card.locator(".findings")).to_contain_text("unused" + start[:12].replace(".", ""))
    expect(card.locator(".lines").first).to_contain_text("# </script><script>window.hacked=1</script>")
    for one in tabs.all():
        one.click()
        word = one.inner_text().split()[0]
        expect(panel).to_be_visible()
        if word in ("Graph", "Gradients", "Timings"):
            expect(panel).to_contain_text(start[:6])
        assert card.locator(ELEMENTS).count() == 0
        assert not set(TURNS) & set(card.inner_text())
        assert card.bounding_box()["height"] < 1100
        shot(nb.page, f"names-{kind}-{word}")
        inert(nb)
    tabs.first.click()
    for node in panel.locator(".node").all():  # what stands below the graph of each
        node.hover()
        node.focus()
        assert card.locator(ELEMENTS).count() == 0
        assert panel.bounding_box()["width"] < 900
    find = card.get_by_role("searchbox")
    find.fill(start)
    find.press("Enter")
    expect(panel.locator(".details")).to_contain_text(start[:6])
    named = tabs.filter(has_text="Gradients")
    named.click()
    panel.locator("tbody tr").first.click()
    expect(panel.locator(".open")).to_be_visible()
    inert(nb)

    nb.run(2)
    failed = nb.cell(2).locator(".card")
    error = f"Line 6 fails with a ValueError: {start}"
    expect(failed.locator(".findings li").first).to_contain_text(error, timeout=START_MS)
    assert failed.locator(ELEMENTS).count() == 0
    assert failed.bounding_box()["height"] < 1100
    shot(nb.page, f"names-{kind}-failed")
    for index, inside in ((3, start[:12]), (4, start.replace("/", "|")[:12]), (5, start)):
        nb.run(index)
        expect(nb.output(index)).to_contain_text(inside, timeout=START_MS)
        assert nb.output(index).locator(ELEMENTS).count() == 0
    expect(nb.output(5)).to_contain_text("3 of 3 steps")
    assert nb.output(5).bounding_box()["height"] < 400
    shot(nb.page, f"names-{kind}-text")
    inert(nb)

    saved = nb.save()
    outputs = [cell["outputs"] for cell in saved["cells"]]
    assert len(json.dumps(outputs[1])) < 400_000
    path = server.root / f"names_{kind}.ipynb"
    kept = [out for out in (*outputs[1], *outputs[5]) if "text/html" in out.get("data", {})]
    strange = nbformat.from_dict({**nbformat.v4.new_code_cell("# from elsewhere"), "outputs": kept})
    nbformat.write(nbformat.v4.new_notebook(cells=[strange], metadata=KERNEL), path)
    still = notebook(path=path)
    expect(still.cell(0).locator(".jp-OutputArea-output").first).to_contain_text(start[:12])
    expect(still.cell(0).locator(".card")).to_have_count(0)
    assert not set(TURNS) & set(still.cell(0).locator(".jp-OutputArea-output").first.inner_text())
    for summary in still.cell(0).locator("summary").all():
        summary.click()
    assert still.cell(0).locator("script, iframe, b b").count() == 0
    shot(still.page, f"names-{kind}-untrusted")
    inert(still)
