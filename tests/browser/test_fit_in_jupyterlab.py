"""`lab.fit` in a real JupyterLab: the plot moves in one place while it trains, stays when saved, and Stop ends it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from .access import axe, faint
from .conftest import KERNEL

SETUP = """
import core as torch, lab, time
from core import nn
torch.manual_seed(0)
x = torch.randn(256, 8)
y = (x @ torch.randn(8, 1) + 0.1 * torch.randn(256, 1)).tanh()
batches = list(zip(x.split(16), y.split(16)))
class Model(nn.Module):
    def __init__(self, pause):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        self.pause = pause
    def forward(self, x):
        time.sleep(self.pause)
        return self.layers(x)
def train(pause=0.0, epochs=12, **more):
    model = Model(pause)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    return lab.fit(model, batches[:-4], nn.functional.mse_loss, optimizer, epochs, validation=batches[-4:], **more)
"""


def shot(nb, name):
    """A picture for whoever wants to look: GRADLAB_SCREENSHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        nb.page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.mark.by_turns
def test_live_then_kept_and_reopened(notebook):
    nb = notebook(SETUP, "history = train(0.04, 8)\nhistory", "history.plot()")
    nb.run(0)
    nb.run(1)
    fit = nb.output(1).locator(".gradlab-fit")
    expect(fit).to_contain_text("Training", timeout=30_000)
    expect(fit).to_have_count(1)  # one output, updated in place
    expect(fit).to_contain_text(re.compile("epoch [2-4] of 8"), timeout=20_000)
    expect(fit.locator("path.train")).to_have_count(1)
    expect(fit.locator("path.dots")).to_have_count(1)
    shot(nb, "live")
    share = "e => parseFloat(e.style.width)"
    before = fit.locator(".bar span").evaluate(share)
    expect(fit).to_contain_text(re.compile("epoch [5-8] of 8|Trained 8 epochs"), timeout=20_000)
    assert fit.locator(".bar span").evaluate(share) > before
    assert before > 10
    expect(fit).to_contain_text("✓ Trained", timeout=30_000)
    expect(fit).to_have_count(1)
    expect(fit.locator("img.still")).to_be_hidden()
    height = fit.bounding_box()["height"]
    assert 250 < height < 420
    fit.locator(".plot i").nth(40).hover()
    expect(fit.locator("i:hover s")).to_contain_text("training")
    expect(fit.locator("i:hover s")).to_contain_text("validation")
    shot(nb, "light")
    assert axe(nb.page, ".jp-OutputArea-output") == faint(fit) == []
    nb.theme("JupyterLab Dark")
    expect(fit).to_have_css("background-color", "rgb(33, 33, 33)")
    shot(nb, "dark")
    assert axe(nb.page, ".jp-OutputArea-output") == faint(fit) == []
    nb.theme("JupyterLab Light")
    nb.run(2)
    expect(nb.output(2).locator(".gradlab-fit path.train")).to_have_count(1)
    saved = nb.save()
    bundle = saved["cells"][1]["outputs"][0]["data"]
    assert "✓ Trained" in "".join(bundle["text/plain"])
    assert "<script" not in "".join(bundle["text/html"])
    assert len("".join(bundle["text/html"])) < 60_000
    again = notebook(path=nb.path)
    again.shutdown()
    expect(again.output(1).locator(".gradlab-fit path.train")).to_have_count(1)
    assert nb.watched.requests == again.watched.requests == []


@pytest.mark.by_turns
def test_stop_ends_training_and_gives_the_history(notebook):
    nb = notebook(SETUP, "history = train(0.03, 200)", "len(history.losses) > 3, history.state")
    nb.run(0)
    nb.run(1)
    fit = nb.output(1).locator(".gradlab-fit")
    # an epoch and not a step, which the picture may leave out
    expect(fit).to_contain_text(re.compile(r"epoch ([5-9]|\d\d+) of 200"), timeout=30_000)
    nb.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.interrupt()")
    expect(fit).to_contain_text("■ Interrupted", timeout=20_000)
    expect(fit).to_contain_text("Interrupted in epoch")
    shot(nb, "interrupted")
    nb.run(2)
    expect(nb.output(2)).to_contain_text("(True, 'interrupted')", timeout=20_000)
    expect(nb.output(1)).not_to_contain_text("KeyboardInterrupt")


@pytest.mark.by_turns
def test_an_untrusted_notebook_keeps_the_figures_and_a_picture(notebook, server):
    from widgets.training import Training, html

    losses = [2.0 / (1 + 0.1 * k) + 0.05 * (k % 7) for k in range(400)]
    view = Training(state="done", place="4 epochs, 400 steps", timing="900 steps/s · 0.4 s", losses=losses,
                    figures=[("loss", "0.0494"), ("validation", "0.2")], knots=[(0, 0), (400, 4)],
                    checks=[(1, 0.5), (2, 0.3), (3, 0.25), (4, 0.2)])  # fmt: skip
    output = nbformat.v4.new_output("display_data", data={"text/html": html(view, final=True)})
    cell = nbformat.v4.new_code_cell("# from elsewhere", outputs=[output])
    path = server.root / "untrusted_fit.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=KERNEL), path)
    nb = notebook(path=path)
    output = nb.output(0)
    expect(output).to_contain_text("4 epochs, 400 steps")
    expect(output).to_contain_text("loss 0.0494")
    image = output.locator("img")
    expect(image).to_be_visible()
    assert image.evaluate("e => e.naturalWidth") == 760
    shot(nb, "untrusted")
    for hidden in ("training", "epoch 1"):  # the plot's own words, which nothing would place
        expect(output.get_by_text(hidden).first).to_be_hidden()
    assert nb.watched.requests == []
