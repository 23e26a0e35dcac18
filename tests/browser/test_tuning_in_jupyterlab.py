"""Somebody's Triton program in a real JupyterLab: adopted, tuned, watched, stopped; several shapes; the sessions."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .access import axe, faint
from .test_tuner_panel import tried

PROGRAM = """%%writefile {file}
import numpy as np, triton, triton.language as tl

@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

def add(x, y):
    out = np.empty_like(x)
    add_kernel[lambda config: (triton.cdiv(x.size, config["BLOCK"]),)](x, y, out, x.size, BLOCK=64)
    return out

for n in (1000, 777):
    x = np.random.rand(n).astype(np.float32)
    assert (add(x, x) == 2 * x).all()
"""
DISPATCH = """from triton_kernels import tune
chosen = tune.dispatch("softmax_f32", ["1x64", "64x64", "64x1024"], budget="9s")
chosen"""
MATMUL = "%tune matmul_f32 96x96x96 float32"


def shots(nb, name):
    """Pictures for whoever wants to look, light and dark, wide and narrow: GRADLAB_SCREENSHOTS names the folder."""
    if not (folder := os.environ.get("GRADLAB_SCREENSHOTS")):
        return
    for theme in ("Light", "Dark"):
        nb.theme(f"JupyterLab {theme}")
        for width in (1300, 700):
            nb.page.set_viewport_size({"width": width, "height": 900})
            nb.page.screenshot(path=Path(folder) / f"jupyterlab_{name}_{theme.lower()}_{width}.png")
    nb.theme("JupyterLab Light")
    nb.page.set_viewport_size({"width": 1300, "height": 900})


@pytest.mark.by_turns
def test_adopted_tuned_watched_stopped_and_dispatched(notebook, tmp_path):
    file = tmp_path / "program.py"
    setup = (f"import os; os.environ['XDG_DATA_HOME'] = {str(tmp_path)!r}\n%load_ext lab")  # fmt: skip
    nb = notebook(setup, PROGRAM.format(file=file), f"%tune {file}:add_kernel --target sm_90 --evaluations 5",
                  f"{MATMUL} --budget 120s", f"{MATMUL} --budget 7s --fresh", DISPATCH,
                  "%tune history matmul_f32")  # fmt: skip
    nb.run(0)
    nb.run(1)
    nb.run(2)
    adopted = nb.output(2)
    expect(adopted.locator(".state")).to_have_text("Tuned", timeout=240_000)
    expect(adopted).to_contain_text("nothing is timed here")
    expect(adopted.locator(".title")).to_contain_text("add_kernel")
    shots(nb, "adopted")
    nb.run(3)
    panel = nb.output(3)
    tried(panel)  # it is watched while it runs
    shots(nb, "watched")
    panel.get_by_role("button", name="Stop").click()
    expect(panel.locator(".state")).to_have_text("Stopped", timeout=60_000)
    nb.run(4)
    again = nb.output(4)
    expect(again.locator(".state")).to_have_text("Tuned", timeout=90_000)
    headline = again.locator(".figures b").inner_text()
    if found := re.match(r"[\d.]+ times as fast", headline):
        expect(again.get_by_role("tabpanel")).to_contain_text(found[0])
    else:
        expect(again.get_by_role("tabpanel")).to_contain_text(re.compile("The default stays|the default, which stays"))
    again.get_by_role("tab", name="History").click()
    expect(again.locator(".standing tbody tr")).to_have_count(2)
    expect(again).to_contain_text("The last session beside the one before")
    shots(nb, "sessions")
    assert axe(nb.page, ".jp-OutputArea-output") == faint(again.locator(".card")) == []
    nb.run(5)
    study = nb.output(5).locator(".gradlab-study")
    expect(study.locator(".taken")).to_have_count(3, timeout=120_000)
    expect(study).to_contain_text("for 3 shapes")
    shots(nb, "dispatch")
    nb.run(6)
    past = nb.output(6).locator(".gradlab-study")
    expect(past).to_contain_text("Session 2 beside session 1", timeout=20_000)
    shots(nb, "history")
    for theme, width in (("Light", 1300), ("Dark", 700)):
        nb.theme(f"JupyterLab {theme}")
        nb.page.set_viewport_size({"width": width, "height": 900})
        assert axe(nb.page, ".jp-OutputArea-output") == faint(study) == faint(past) == []
    kept = nb.save()["cells"]
    assert all("gradlab-study" in "".join(kept[k]["outputs"][-1]["data"]["text/html"]) for k in (5, 6))
    assert nb.watched.requests == nb.watched.errors == []
