"""`%shrink` in a real JupyterLab: variants of a model of the notebook, its lines, and the code that is copied."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import expect

from lab.shrinking.variants import RECIPES

from .access import axe, check, faint

MODEL = """
%load_ext lab
import core as torch
from core import nn
import core.nn.functional as F
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32 * 4 * 4, 10)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.head(x.flatten(1))
from sklearn.datasets import load_digits
found = load_digits()
x = torch.tensor(found.data.reshape(-1, 1, 8, 8) / 16).float()
y = torch.tensor(found.target)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for k in range(60):
    rows = slice(100 * k % 1400, 100 * k % 1400 + 100)
    optimizer.zero_grad()
    F.cross_entropy(model(x[rows]), y[rows]).backward()
    optimizer.step()
"""


def shot(nb, name):
    """A picture for whoever wants to look: GRADLAB_SCREENSHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        nb.page.screenshot(path=Path(folder) / f"{name}.png")


def test_a_model_in_light_and_dark(notebook):
    nb = notebook(MODEL.strip(), "%shrink model --data (x[1400:], y[1400:])")
    nb.run(0)
    nb.run(1)
    card = nb.output(1).locator(".gradlab-shrunk")
    expect(card.locator(".head")).to_contain_text("variants model", timeout=120_000)
    rows = card.locator(".scroll").first.locator("tbody tr")
    expect(rows).to_have_count(len(RECIPES))
    expect(rows.first).to_contain_text("float32")
    expect(card.locator("svg")).to_have_count(2)
    first = card.locator("details", has_text="pruned 50 %")
    first.locator("summary").click()
    expect(first).to_contain_text("In [1] line")
    code = first.locator("pre")
    code.click()
    assert "amount=0.5" in nb.page.evaluate("getSelection().toString()")
    for width in (1300, 700):
        nb.page.set_viewport_size({"width": width, "height": 900})
        for theme in ("Light", "Dark"):
            nb.theme(f"JupyterLab {theme}")
            expect(nb.page.locator("#jupyterlab-splash")).to_be_hidden()  # of the change of the theme
            card.locator(".head").scroll_into_view_if_needed()
            shot(nb, f"shrink-jupyterlab-{theme.lower()}-{width}")
            assert faint(card) == []
            assert check(card) == []
    assert axe(nb.page, ".gradlab-shrunk") == []
    assert nb.watched.requests == []
