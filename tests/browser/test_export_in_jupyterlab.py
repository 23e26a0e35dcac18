"""`%export` in a real JupyterLab: what a model became, how fast each form is, beside the model's own source."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import expect

from .access import axe, faint

MODEL = """
%load_ext lab
import core as torch
from core import nn
import core.nn.functional as F
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.out = nn.Linear(8 * 7 * 7, 10)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return self.out(x.flatten(1)).log_softmax(1)
model, x = Net().eval(), torch.randn(4, 1, 14, 14)
"""
REFUSED = """
%%export clipped(x) --to numpy,c
def clipped(x):
    if x.sum() > 0:
        return x
    return x * 0
"""


def shot(nb, name):
    """A picture for whoever wants to look: GRADLAB_SCREENSHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        nb.page.screenshot(path=Path(folder) / f"{name}.png")


def test_a_model_and_what_cannot_be_one_in_light_and_dark(notebook):
    nb = notebook(MODEL.strip(), "%export model(x) --dynamic x:0=batch --to numpy,c,gl", REFUSED.strip())
    for k in range(3):
        nb.run(k)
    done, refused = (nb.output(k).locator(".gradlab-export") for k in (1, 2))
    expect(done.locator(".head")).to_contain_text("Exported model(x)", timeout=90_000)
    expect(refused.locator(".head")).to_contain_text("clipped(x)", timeout=60_000)
    rows = done.locator(".targets tbody tr")
    expect(rows).to_have_count(4)  # the eager call is the first
    expect(rows.nth(2)).to_contain_text("×")
    assert done.locator(".bad").count() == 0
    expect(refused).to_contain_text("In [3] line 3")
    expect(refused).to_contain_text("core.script")
    for theme in ("Light", "Dark"):
        nb.theme(f"JupyterLab {theme}")
        for k, card in ((1, done), (2, refused)):
            card.scroll_into_view_if_needed()
            shot(nb, f"export-jupyterlab-{theme.lower()}-{k}")
            assert faint(card) == []
        assert axe(nb.page, ".jp-OutputArea-output") == []
