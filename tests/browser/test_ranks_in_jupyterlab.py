"""`%%ranks` in a real JupyterLab: output by rank, variables that stay, the card of a late rank and of a collective that
differs, and Stop."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .access import axe, check, faint

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py and mpich")

SETUP = """
%%ranks 4
import time
import core as torch
import core.distributed as dist
from core import nn
from core.nn.parallel import DistributedDataParallel as DDP
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
print("ready")
"""
LATE = """
%%ranks
for step in range(20):
    x, y = torch.randn(16, 64), torch.randint(0, 10, (16,))
    if rank == 2:
        time.sleep(0.06)  # it reads a slow disk
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
MISMATCH = """
%%ranks --timeout 20
total = torch.ones(4)
if rank == 1:
    dist.broadcast(total, 0)
else:
    dist.all_reduce(total)
"""
FOREVER = """
%%ranks
while True:
    time.sleep(0.05)
"""


def shot(nb, name):
    """A picture for whoever wants to look: GRADLAB_SCREENSHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        nb.page.screenshot(path=Path(folder) / f"{name}.png")


def area(nb, index):
    return nb.cell(index).locator(".jp-OutputArea").first


def seen(nb, card, name):
    """The card at two widths, in light and dark."""
    for width in (1300, 700):
        nb.page.set_viewport_size({"width": width, "height": 900})
        for theme in ("Light", "Dark"):
            nb.theme(f"JupyterLab {theme}")
            expect(nb.page.locator("#jupyterlab-splash")).to_be_hidden()  # of the change of the theme
            card.locator(".head").scroll_into_view_if_needed()
            shot(nb, f"{name}-jupyterlab-{theme.lower()}-{width}")
            assert faint(card) == []
            assert check(card) == []
    assert axe(nb.page, ".gradlab-ranked") == []


def test_a_late_rank_and_a_collective_that_differs(notebook):
    nb = notebook(*(text.strip() for text in ("%load_ext lab", SETUP, LATE, MISMATCH, FOREVER, "%ranks stop")))
    nb.run(0)
    nb.run(1)
    for rank in range(4):
        expect(area(nb, 1)).to_contain_text(f"[{rank}] ready", timeout=60_000)
    nb.run(2)
    card = nb.output(2).locator(".gradlab-ranked")
    expect(card.locator(".message.warning").first).to_contain_text("Rank 2 is late", timeout=60_000)
    expect(card.locator(".message.warning").first).to_contain_text("longer on line 5 (time.sleep(0.06)")
    assert card.locator(".lane").nth(2).locator("path.computing").count() == 1
    seen(nb, card, "ranks-late")
    nb.run(3)
    card = nb.output(3).locator(".gradlab-ranked")
    said = "Rank 1 calls broadcast on line 4 where ranks 0, 2 and 3 call all_reduce on line 6"
    expect(card.locator(".message.error").first).to_contain_text(said, timeout=60_000)
    expect(card.locator(".message.error").first).to_contain_text("if rank == 1: on line 3")
    expect(area(nb, 3)).to_contain_text("RanksFailed")
    seen(nb, card, "ranks-different")
    nb.run(4)
    nb.page.wait_for_timeout(1500)
    nb.command("kernelmenu:interrupt")
    expect(area(nb, 4)).to_contain_text("the cell was stopped on all ranks", timeout=10_000)
    nb.run(5)
    expect(area(nb, 5)).to_contain_text("the ranks have ended")
    assert nb.watched.requests == []
