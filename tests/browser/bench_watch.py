"""`python -m tests.browser.bench_watch [SECONDS]`: a long cell in JupyterLab: its first picture, its updates, its Stop.

A loop trains for two minutes under `%%autograd` and a browser watches: how soon the card stands, how far apart its
pictures are, and how much of the time the kernel ran the cell. It is run again and stopped by JupyterLab's button: how
long until the kernel is idle, and until the card says so. The promise: a picture within 2 s, Stop within 1 s.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright

from .conftest import FLAGS, IDLE, KERNEL, NAMES, START_S, Notebook, Server, Watched

SETUP = """
%load_ext lab
import time, core as torch
from core import nn
torch.manual_seed(0)
x, y = torch.randn(4096, 64), torch.randn(4096, 1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=64, shuffle=True)
"""
LOOP = """
%%autograd
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
begin, busy = time.perf_counter(), time.process_time()
while time.perf_counter() - begin < SECONDS:
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
print("busy", (time.process_time() - busy) / (time.perf_counter() - begin))
"""
SEEN = """
cell => {
  window.pictures = [];
  let before = '';
  const look = () => {
    const card = cell.querySelector('.gradlab-fit');
    const now = card ? card.innerText : '';
    if (now !== before) { before = now; window.pictures.push(performance.now()); }
    requestAnimationFrame(look);
  };
  look();
}
"""


def alone(seconds: float = 2.0) -> float:
    """Return the share of a processor that a plain loop gets here at this time."""
    begin, busy = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        pass
    return (time.process_time() - busy) / (time.perf_counter() - begin)


def watch(notebook: Notebook, index: int) -> float:
    """Run a cell and note in the page when its card changes; return the page's clock at the start."""
    notebook.cell(index).evaluate(SEEN)
    notebook.cell(index).locator(".cm-content").click()
    start: float = notebook.page.evaluate("() => performance.now()")
    notebook.page.keyboard.press("Control+Enter")
    return start


def main(seconds: float) -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        root = Path(folder) / "notebooks"
        root.mkdir()
        server = Server(root, Path(folder))
        browser: Any = None
        try:
            server.wait()
            cells = [SETUP, LOOP.replace("SECONDS", str(seconds)), LOOP.replace("SECONDS", "600")]
            code: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
            made = [{**code, "id": f"cell{k}", "source": cell.strip()} for k, cell in enumerate(cells)]
            written = {"cells": made, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
            (root / "long.ipynb").write_text(json.dumps(written))
            path = next(filter(None, map(shutil.which, NAMES)))
            browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
            page = browser.new_page(viewport={"width": 1300, "height": 900})
            page.goto(f"{server.url}/lab/tree/long.ipynb?reset")
            page.wait_for_function(IDLE, timeout=START_S * 1000)
            notebook = Notebook(Watched(page), root / "long.ipynb")
            notebook.run(0)
            page.wait_for_timeout(500)
            page.wait_for_function(IDLE, timeout=START_S * 1000)
            print(f"a loop of Python alone  {alone():.2f} processors: of a busy machine each program has a part")
            run(notebook, seconds)
            stop(notebook)
        finally:
            if browser is not None:
                browser.close()
            server.stop()


def run(notebook: Notebook, seconds: float) -> None:
    """The whole of a long cell."""
    start = watch(notebook, 1)
    card = notebook.cell(1).locator(".card header")
    card.wait_for(timeout=1e3 * (3 * seconds + 60))
    seen = [at - start for at in notebook.page.evaluate("() => window.pictures") if at > start]
    gaps = sorted(b - a for a, b in pairwise(seen))
    said = notebook.cell(1).locator(".jp-OutputArea").inner_text()
    print(f"the first picture       {seen[0] / 1e3:.2f} s")
    print(f"pictures                {len(seen)} in {(seen[-1] - seen[0]) / 1e3:.0f} s")
    usual, long = statistics.median(gaps), gaps[int(0.95 * len(gaps))]
    print(f"between two             median {usual:.0f} ms, 95 % {long:.0f} ms, most {gaps[-1]:.0f} ms")
    print(f"the kernel ran          {float(said.split('busy')[1].split()[0]):.2f} processors")


def stop(notebook: Notebook) -> None:
    """The button above the notebook, ten seconds after the start."""
    watch(notebook, 2)
    notebook.page.wait_for_timeout(10_000)
    begin = time.perf_counter()
    notebook.page.locator('[data-command="notebook:interrupt-kernel"], [data-jp-item-name="interrupt"]').first.click()
    notebook.page.wait_for_function(IDLE, timeout=60_000)
    idle = time.perf_counter() - begin
    findings = notebook.cell(2).locator(".card .findings")
    findings.get_by_text("Stopped by you").wait_for(timeout=60_000)
    print(f"Stop: the kernel idle   {idle:.2f} s; its card {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120.0)
