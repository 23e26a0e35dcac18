"""A finding's buttons in a notebook: "Try it" asks the kernel and says what came of it, "Apply" changes the cell."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .access import axe, check, faint

SETUP = """
%load_ext lab
import core as torch
from core import nn
F = nn.functional
torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
""".strip()
CELL = """%%autograd
model = nn.Linear(8, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()"""
LINES = CELL.split("\n")
MENDED = "\n".join([*LINES[:5], "    opt.zero_grad()", *LINES[5:]])
PATCH = re.compile(r"^line 6 \+ {5}opt\.zero_grad\(\)$")
START_MS = 60_000


def shot(nb, name):
    """A picture for whoever wants to look: GRADLAB_SCREENSHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        nb.page.screenshot(path=Path(folder) / f"try_{name}.png")


def source(nb, index):
    """The text that a cell's editor holds, which is the one that would run."""
    return nb.cell(index).locator(".cm-content").evaluate(
        "e => (e.cmTile || e.cmView).view.state.doc.toString()"
    )  # fmt: skip


def undo(nb, index):
    nb.cell(index).locator(".cm-content").click()
    nb.page.keyboard.press("Control+z")


@pytest.fixture
def finding(notebook):
    """`finding(...)`: a notebook that has run the cell, and the card's first finding."""

    def finding(*cells, **options):
        nb = notebook(SETUP, CELL, *cells, **options)
        nb.run(0)
        nb.run(1)
        first = nb.output(1).locator(".findings li").first
        expect(first).to_contain_text("zero_grad", timeout=START_MS)
        expect(first.locator(".patch")).to_have_text(PATCH)
        return nb, first

    return finding


@pytest.mark.parametrize("classic", [False, True], ids=["JupyterLab", "Notebook 7"])
def test_try_it_then_apply_then_undo(finding, classic):
    nb, first = finding(classic=classic)
    expect(first.get_by_role("button")).to_have_text([re.compile("line 6", re.I), "Try it", "Apply"])
    shot(nb, "offered")
    first.get_by_role("button", name="Try it").focus()
    nb.page.keyboard.press("Enter")
    expect(first).to_contain_text("Tried: backward passes added to gradients of earlier steps: 3 before, 0 now",
                                  timeout=START_MS)  # fmt: skip
    expect(first.locator(".patch")).to_have_text(PATCH)
    expect(first.get_by_role("button", name="Try it")).to_have_count(0)
    expect(first.get_by_role("button", name="Apply")).to_be_focused()
    assert source(nb, 1) == CELL
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        nb.theme(theme)
        assert faint(nb.output(1).locator(".card")) == []
        assert check(nb.output(1).locator(".card")) == []
        assert axe(nb.page, ".jp-OutputArea-output .gradlab-card") == []
        for width in (700, 1300):
            nb.page.set_viewport_size({"width": width, "height": 900})
            shot(nb, f"{'notebook' if classic else 'lab'}_{theme.split()[1].lower()}_{width}")
    first.get_by_role("button", name="Apply").click()
    expect(first).to_contain_text("Changed in the cell, which was not run")
    assert source(nb, 1) == MENDED
    expect(nb.output(1).locator(".gradlab-card")).to_have_count(1)  # the cell was not run: the card is the old one
    shot(nb, "applied")
    first.get_by_role("button", name="Apply").click()
    expect(first).to_contain_text("no longer the one that this card is of")
    assert source(nb, 1) == MENDED
    undo(nb, 1)
    assert source(nb, 1) == CELL
    first.get_by_role("button", name="Apply").click()
    expect(first).to_contain_text("Changed in the cell, which was not run")
    assert "".join(nb.save()["cells"][1]["source"]) == MENDED
    nb.run(1)
    expect(nb.output(1).locator(".findings")).to_have_text("✓ No problems found.", timeout=START_MS)
    assert nb.watched.requests == []
    if not classic:  # Notebook 7 has errors of its own
        assert nb.watched.errors == []


def test_after_another_cell_it_is_shown_untried_and_can_be_applied(finding):
    nb, first = finding("print('between')")
    nb.run(2)
    expect(nb.output(2)).to_contain_text("between", timeout=START_MS)
    first.get_by_role("button", name="Try it").click()
    expect(first).to_contain_text("Not tried: another cell has run since", timeout=START_MS)
    shot(nb, "another_cell")
    first.get_by_role("button", name="Apply").click()
    assert source(nb, 1) == MENDED
    assert nb.watched.requests == nb.watched.errors == []


def test_a_dead_kernel_is_told_and_a_changed_cell_is_left(finding):
    nb, first = finding()
    nb.save()
    nb.shutdown()
    first.get_by_role("button", name="Try it").click()
    expect(first).to_contain_text("trying in a copy of the process")
    expect(first).to_contain_text("the kernel that drew this card does not answer", timeout=START_MS)
    nb.cell(1).locator(".cm-content").click()
    nb.page.keyboard.press("Control+End")
    nb.page.keyboard.insert_text("  # mine")
    first.get_by_role("button", name="Apply").click()
    expect(first).to_contain_text("no longer the one that this card is of")
    assert source(nb, 1) == f"{CELL}  # mine"


def test_elsewhere_the_changed_text_is_copied(finding, open_page, tmp_path):
    """A page without an editor, as nbconvert writes it."""
    nb, _ = finding()
    (output,) = nb.save()["cells"][1]["outputs"]
    page_file = tmp_path / "page.html"
    page_file.write_text(
        f"<!doctype html><meta charset=utf-8><title>page</title>{''.join(output['data']['text/html'])}"
    )
    watched = open_page(allow=(tmp_path.as_uri(),), permissions=["clipboard-read", "clipboard-write"])
    watched.page.goto(page_file.as_uri())
    first = watched.page.locator(".findings li").first
    first.get_by_role("button", name="Apply").click()
    expect(first).to_contain_text("This page cannot change the cell's text: the changed text is in the clipboard.")
    assert watched.page.evaluate("() => navigator.clipboard.readText()") == MENDED
    first.get_by_role("button", name="Try it").click()
    expect(first).to_contain_text("does not answer", timeout=START_MS)
    assert watched.requests == watched.errors == []
