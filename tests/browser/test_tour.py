"""The tour in a real JupyterLab: run it, read the cards, click through them, reopen it with its kernel dead.

With GRADLAB_SCREENSHOTS set to a folder, pictures of what a person sees are left there to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

TOUR = Path(__file__).resolve().parents[2] / "notebooks" / "01_tour.ipynb"
RUN_MS = 120_000
SHOTS = os.environ.get("GRADLAB_SCREENSHOTS")


def shot(place: Any, name: str) -> None:
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        place.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


def at(cells: list[str], text: str) -> int:
    """The number, among code cells, of the one that holds `text`."""
    return next(i for i, source in enumerate(cells) if text in source)


def test_tour(notebook: Any, server: Any) -> None:
    import nbformat

    path = server.root / "tour.ipynb"
    bare = nbformat.read(TOUR, 4)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(bare, path)
    cells = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == "code"]
    training, detour, deep = at(cells, "range(15)"), at(cells, ".detach().numpy()"), at(cells, "F.cross_entropy(deep(")
    nb = notebook(path=path)
    nb.command("notebook:run-all-cells")
    expect(nb.output(len(cells) - 1).last).to_contain_text("linear", timeout=RUN_MS)
    assert nb.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0
    expect(nb.output(training + 1).last).to_contain_text("right on 9")

    # the training cell: every parameter's gradient, every line's time, no false alarm
    card = nb.cell(training).locator(".card")
    card.scroll_into_view_if_needed()
    expect(card).to_contain_text("no problems found", ignore_case=True)
    while card.locator(".node.group").count():  # where it begins depends on the times
        card.locator(".node.group").first.click()
    shot(card, "training-graph-light")
    for name in ("linear", "relu", "cross_entropy", "adamw"):
        expect(card.locator(".node", has_text=name).first).to_be_visible()
    card.get_by_role("tab", name="Gradients").click()
    for name in ("model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias"):
        expect(card.locator("table").get_by_text(name, exact=True).first).to_be_visible()
    shot(card, "training-gradients-light")
    card.get_by_role("tab", name="Timings").click()
    expect(card.locator("table:visible").first).to_contain_text("loss = F.cross_entropy")
    shot(card, "training-timings-light")
    card.get_by_role("tab", name="Graph").click()

    # the detour: its line and who gets no gradient, in one sentence
    cut = nb.cell(detour).locator(".card")
    cut.scroll_into_view_if_needed()
    sentence = cut.locator(".findings li").first
    for words in ("ine 4", "encoder.0.weight", "encoder.0.bias", "numpy()"):
        expect(sentence).to_contain_text(words)
    shot(cut, "detour-light")

    # vanishing gradients: the layers by name
    vanishing = nb.cell(deep).locator(".card")
    vanishing.scroll_into_view_if_needed()
    expect(vanishing.locator(".findings li").first).to_contain_text("deep.0")
    shot(vanishing, "vanishing-light")
    vanishing.get_by_role("tab", name="Gradients").click()
    shot(vanishing, "vanishing-gradients-light")

    nb.theme("JupyterLab Dark")
    for name, one in (("training-graph-dark", card), ("detour-dark", cut), ("vanishing-dark", vanishing)):
        one.scroll_into_view_if_needed()
        shot(one, name)
    shot(nb.page, "page-dark")
    nb.theme("JupyterLab Light")

    # saved, its kernel dead, opened again
    nb.save()
    nb.shutdown()
    again = notebook(path=path)
    again.shutdown()
    reopened = again.cell(detour).locator(".card")
    expect(reopened.locator(".findings li").first).to_contain_text("encoder.0.weight", timeout=30_000)
    reopened.get_by_role("tab", name="Gradients").click()
    expect(reopened.locator("table:visible").first).to_be_visible()
    shot(again.page, "reopened-light")
    assert nb.watched.requests == again.watched.requests == []
