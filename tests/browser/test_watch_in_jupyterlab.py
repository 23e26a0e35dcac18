"""A cell that trains, watched in a real JupyterLab: the card comes while it runs, follows, and stays when it ends."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .access import axe, faint

SETUP = """
%load_ext lab
import time, core as torch, lab
from core import nn
F = nn.functional
torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x @ torch.randn(8, 1) + 0.1 * torch.randn(512, 1)).tanh()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32)
held = x[:64], y[:64]
rate = 0.01
""".strip()
LOOP = """
%%autograd
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), rate)
for epoch in range(EPOCHS):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
        time.sleep(PAUSE)
    with torch.no_grad():
        val_loss = F.mse_loss(model(held[0]), held[1]).item()
    lab.log(close=((model(x) - y).abs() < 0.1).float().mean())
    print("epoch", epoch)
""".strip()
START_MS = 60_000


def shot(place, name):
    """A picture for whoever wants to look: GRADLAB_SCREENSHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        place.screenshot(path=Path(folder) / f"{name}.png")


def loop(epochs, pause):
    return LOOP.replace("EPOCHS", str(epochs)).replace("PAUSE", str(pause))


@pytest.mark.by_turns
def test_the_card_follows_and_stays(notebook):
    nb = notebook(SETUP, loop(25, 0.03))
    nb.run(0)
    nb.run(1)
    live = nb.output(1).locator(".gradlab-fit")
    expect(live).to_contain_text(re.compile("step [0-9]+ of 400"), timeout=START_MS)
    expect(live).to_have_count(1)
    expect(live.locator("path.train").first).to_be_visible()
    expect(live).to_contain_text("left")
    expect(live).to_contain_text("close")
    before = live.locator(".bar span").evaluate("e => parseFloat(e.style.width)")
    expect(live.locator("path.dots")).to_have_count(1, timeout=20_000)
    expect(live.locator(".layers")).to_contain_text("model.4")
    for theme, name in (("JupyterLab Dark", "dark"), ("JupyterLab Light", "light")):
        nb.theme(theme)
        expect(nb.page.locator("#jupyterlab-splash")).to_have_count(0)
        live.evaluate("e => e.scrollIntoView()")
        shot(nb.page, f"watch_live_{name}")  # of the page: twice a second the element is another one
        assert faint(live) == []
    assert live.locator(".bar span").evaluate("e => parseFloat(e.style.width)") > before
    card = nb.output(1).locator(".card")
    expect(card.locator("header")).to_contain_text("ops", timeout=START_MS)
    expect(nb.output(1).locator(".gradlab-fit.running")).to_have_count(0)
    expect(nb.cell(1).locator(".jp-OutputArea")).to_contain_text("epoch 24")
    card.get_by_role("tab", name="Run").click()
    panel = card.get_by_role("tabpanel", name="Run")
    expect(panel).to_contain_text("400 steps")
    expect(panel.get_by_role("img", name=re.compile("loss by step"))).to_be_visible()
    expect(panel.get_by_role("img", name=re.compile("close by step"))).to_be_visible()
    expect(panel.get_by_role("row", name=re.compile("model.4"))).to_be_visible()
    for theme, name in (("JupyterLab Dark", "dark"), ("JupyterLab Light", "light")):
        nb.theme(theme)
        expect(nb.page.locator("#jupyterlab-splash")).to_have_count(0)
        shot(card, f"watch_kept_{name}")
        assert faint(card) == []
        assert axe(nb.page, ".jp-OutputArea-output .gradlab-card") == []
    nb.page.set_viewport_size({"width": 700, "height": 900})
    shot(card, "watch_kept_700")
    assert axe(nb.page, ".jp-OutputArea-output .gradlab-card") == []
    nb.save()
    nb.shutdown()
    again = notebook(path=nb.path)
    again.shutdown()
    card = again.output(1).locator(".card")
    card.get_by_role("tab", name="Run").click()
    expect(card.get_by_role("tabpanel", name="Run")).to_contain_text("400 steps")
    assert nb.watched.requests == again.watched.requests == []


@pytest.mark.by_turns
def test_stop_keeps_the_card_and_the_next_run_stands_beside_it(notebook):
    nb = notebook(SETUP, loop(400, 0.02), "rate = 0.001\nstopped = True")
    nb.run(0)
    nb.run(1)
    live = nb.output(1).locator(".gradlab-fit")
    expect(live).to_contain_text(re.compile("step [0-9]+ of 6,400"), timeout=START_MS)
    begin = time.monotonic()
    nb.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.interrupt()")
    card = nb.output(1).locator(".card")
    expect(card.locator(".findings")).to_contain_text("Stopped by you", timeout=20_000)
    print("stopped after", time.monotonic() - begin)  # told and not judged: the machine may be busy
    shot(card, "watch_stopped")
    card.get_by_role("tab", name="Run").click()
    expect(card.get_by_role("tabpanel", name="Run")).to_contain_text("steps")
    nb.run(2)
    nb.run(1)
    expect(nb.output(1).locator(".gradlab-fit")).to_contain_text(re.compile("step [0-9]+ of 6,400"), timeout=START_MS)
    nb.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.interrupt()")
    expect(card.locator(".findings")).to_contain_text("Stopped by you", timeout=20_000)
    card.get_by_role("tab", name="Run").click()
    panel = card.get_by_role("tabpanel", name="Run")
    expect(panel).to_contain_text("rate: 0.01 → 0.001")
    expect(panel.locator("path.other").first).to_be_attached()
    shot(card, "watch_beside")
