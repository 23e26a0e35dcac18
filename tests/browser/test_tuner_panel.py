"""The tuner in a real JupyterLab: a card's button, the live panel, Stop while another cell runs, a killed kernel, what
is saved."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .access import axe, faint
from .conftest import IDLE

TRIED = re.compile(r"([1-9]\d+) of ([\d,]+) configs tried")
BEST = re.compile(r"[\d.]+ times as fast as the default|nothing is faster than the default")  # by the machine
TABS = ("Map", "Configs", "Progress", "Roofline", "Rejected", "Result")
CARD = """%%autograd
import core as torch
x = torch.ones(192, 192)
y = x @ x"""
BUSY = """ended = time.time() + 60
while time.time() < ended and not os.path.exists(flag):
    time.sleep(0.02)
print('released', os.path.exists(flag))"""
FRESH = """
import json
import numpy as np
from triton_kernels.tune import c_kernels
a = np.ones((96, 96), np.float32)
assert c_kernels.run("matmul", a, a)[0, 0] == 96
print(json.dumps(c_kernels.stored_for("matmul", (96, 96, 96), "float32")))
"""


@pytest.fixture
def setup(tmp_path):
    """The first cell: results are kept in a folder of the test's own."""
    return (f"import os; os.environ['XDG_DATA_HOME'] = {str(tmp_path)!r}; flag = {str(tmp_path / 'flag')!r}\n"
            "%load_ext lab\nimport lab.notebook.panel, time")  # fmt: skip


def shot(nb, name):
    """A picture for whoever wants to look: GRADLAB_SCREENSHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):
        nb.page.screenshot(path=Path(folder) / f"tuner_{name}.png")


def tried(panel):
    """How many configs the panel says were tried, once it is more than nine, and of how many."""
    expect(panel.locator(".figures")).to_contain_text(TRIED, timeout=60_000)
    found = TRIED.search(panel.locator(".figures").inner_text())
    return int(found[1]), int(found[2].replace(",", ""))


def tune_row(card):
    """The button on a slow row of the card's timings."""
    card.get_by_role("tab", name="Timings").click()
    return card.get_by_role("button", name="Tune gemm")


@pytest.mark.by_turns
def test_a_card_s_button_tunes_below_it_while_another_cell_runs(notebook, setup, tmp_path):
    nb = notebook(
        setup, CARD, BUSY, "result = lab.notebook.panel.latest.wait(60); print(result.ended, result.best.ratio <= 1)"
    )
    nb.run(0)
    nb.run(1)
    button = tune_row(nb.output(1))
    nb.run(2)
    running = nb.cell(2).locator(".jp-InputPrompt")
    expect(running).to_contain_text("[*]")
    panel = nb.output(1).nth(1)
    for _ in range(10):  # the kernel makes its ear after the card, which takes a busy machine a while
        button.click()
        try:
            expect(panel.locator(".state")).to_have_text("Tuning", timeout=4000)
            break
        except AssertionError:
            continue
    _, whole = tried(panel)
    assert whole >= 500
    shot(nb, "live")
    panel.get_by_role("button", name="Pause").click()
    expect(panel.locator(".state")).to_have_text("Paused", timeout=1000)
    panel.get_by_role("button", name="Resume").click()
    expect(panel.locator(".state")).to_have_text("Tuning", timeout=1000)
    began = time.monotonic()
    panel.get_by_role("button", name="Stop").click()
    expect(panel.locator(".state")).to_have_text(re.compile("Stopp(ing|ed)"), timeout=5000)  # the first is fleeting
    assert time.monotonic() - began < 1
    expect(panel.locator(".state")).to_have_text("Stopped", timeout=30_000)
    expect(running).to_contain_text("[*]")
    (tmp_path / "flag").touch()
    expect(nb.output(2)).to_have_text(re.compile("released True"))
    nb.run(3)
    expect(nb.output(3)).to_contain_text("stopped True", timeout=60_000)
    for tab in TABS:
        panel.get_by_role("tab", name=tab).click()
        shot(nb, tab.lower())
        assert axe(nb.page, ".jp-OutputArea-output") == faint(panel.locator(".card")) == []
    expect(panel.locator(".standing")).to_contain_text(re.compile("best.*default.*[Bb]est|peak.*default"))
    panel.get_by_role("tab", name="Configs").click()
    axis = panel.locator(".grip").last.bounding_box()  # of the times: its upper half is let through
    nb.page.mouse.move(axis["x"] + 12, axis["y"] + 2)
    nb.page.mouse.down()
    nb.page.mouse.move(axis["x"] + 12, axis["y"] + axis["height"] / 2, steps=3)
    nb.page.mouse.up()
    expect(panel.locator(".brush")).to_have_count(1)
    through, count = map(
        int, re.findall(r"\d+", panel.get_by_role("table").locator("caption").inner_text().replace(" ", ""))[:2]
    )
    assert 0 < through < count
    panel.get_by_role("button", name="Show all").click()
    panel.get_by_role("button", name=re.compile("THREADS=")).last.click()
    expect(panel.get_by_role("status")).to_contain_text("The nearest that is faster")
    panel.get_by_role("tab", name="Map").focus()
    nb.page.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tab", name="Configs")).to_be_focused()
    nb.theme("JupyterLab Dark")
    nb.page.set_viewport_size({"width": 700, "height": 900})
    shot(nb, "dark")
    assert axe(nb.page, ".jp-OutputArea-output") == faint(panel.locator(".card")) == []
    nb.theme("JupyterLab Light")
    outputs = nb.save()["cells"][1]["outputs"]
    assert [sorted(output["data"]) for output in outputs] == [["text/html", "text/plain"]] * 2
    again = notebook(path=nb.path)
    again.shutdown()
    expect(again.output(1).nth(1).locator(".state")).to_have_text("Stopped")
    tune_row(again.output(1).nth(0)).click()  # nobody listens: the command is there to be copied
    expect(again.output(1).nth(0).get_by_role("status")).to_contain_text("in a new cell")
    expect(again.output(1).nth(0)).to_contain_text("%tune core_matmul 192x192x192 float32")
    assert nb.watched.requests == again.watched.requests == []
    assert nb.watched.errors == []


@pytest.mark.by_turns
def test_a_killed_kernel_loses_no_trial_and_a_fresh_script_takes_the_choice(notebook, setup, tmp_path):
    command = "%tune matmul_f32 96x96x96 float32"
    nb = notebook(setup, f"{command} --budget 120s", "print('pid', os.getpid())", f"{command} --budget 7s")
    nb.run(0)
    nb.run(1)
    before, whole = tried(nb.output(1))
    assert whole >= 500
    nb.run(2)
    expect(nb.output(2)).to_contain_text(re.compile(r"pid \d+"))
    os.kill(int(nb.output(2).inner_text().split()[1]), signal.SIGKILL)
    nb.page.get_by_role("dialog", name=re.compile("Kernel Restarting")).get_by_role("button").last.click()
    nb.page.wait_for_function(IDLE, timeout=60_000)
    nb.run(0)
    nb.run(3)
    panel = nb.output(3)
    expect(panel).to_contain_text("known from earlier runs", timeout=60_000)
    expect(panel.locator(".figures")).to_contain_text(BEST, timeout=60_000)  # while it runs
    # the default is taken anew; whatever the panel had said was tried is on the disk
    assert int(re.search(r"(\d+) known from earlier", panel.locator(".figures").inner_text())[1]) >= before - 1
    expect(panel.locator(".state")).to_have_text("Tuned", timeout=90_000)
    shot(nb, "resumed")
    expect(panel.locator(".figures")).to_contain_text(BEST)

    def chosen():
        done = subprocess.run([sys.executable, "-c", FRESH], env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
                              capture_output=True, text=True, check=True)  # fmt: skip
        return " ".join(f"{name}={value}" for name, value in (json.loads(done.stdout) or {}).items())

    if kept := chosen():  # nothing is, where the default is the fastest
        expect(panel.get_by_role("row", name=kept).last).to_contain_text("chosen")
    other = panel.get_by_role("button", name=re.compile("^Use ")).last
    name = other.get_attribute("aria-label").removeprefix("Use ")
    other.click()
    expect(panel.get_by_role("status")).to_contain_text(f"{name} is the choice now")
    assert chosen() == name
    assert nb.watched.errors == []


OWN = """%%tune --target sm_{} --evaluations 14
import numpy as np, triton, triton.language as tl

@triton.jit
def scale_kernel(x, out, n, SKIP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n) * 2
    if SKIP:
        v = tl.where(i % BLOCK == 0, 0.0, v)
    tl.store(out + i, v, mask=i < n)

x = np.random.rand(1000).astype(np.float32)
arguments = dict(x=x, out=np.empty_like(x), n=x.size)
grid = lambda config: (triton.cdiv(x.size, config["BLOCK"]),)
reference = lambda x, out, n: 2 * x
configs = dict(SKIP=[0, 1], BLOCK=[64, 256, 1 << 21], num_warps=[4, 8], num_stages=[2, 3])"""


@pytest.mark.by_turns
@pytest.mark.parametrize("target", [80, 90])
def test_static_panels_name_limits_and_merge_duplicates(notebook, setup, target):
    softmax = f"%tune softmax_kernel 512x4096 float32 --target sm_{target}"
    nb = notebook(setup, f"%tune matmul_kernel 512x512x512 float16 --target sm_{target} --evaluations 5",
                  f"{softmax} --evaluations 5", OWN.format(target), f"{softmax} --use BLOCK=1024")  # fmt: skip
    for k in range(5):
        nb.run(k)
    for k in (1, 2, 3):
        panel = nb.output(k)
        expect(panel.locator(".state")).to_have_text("Tuned", timeout=180_000)
        expect(panel).to_contain_text("nothing is timed here")
        expect(panel).to_contain_text("registers")
        panel.get_by_role("tab", name="Map").click()
        shot(nb, f"static_{k}")
    expect(nb.output(3)).to_contain_text("with a binary already seen")
    nb.output(3).get_by_role("tab", name="Rejected").click()
    expect(nb.output(3)).to_contain_text("correctness: ")
    expect(nb.output(3)).to_contain_text("1048576")  # the limit that a block of two million exceeds
    for k in (1, 2):
        panel = nb.output(k)
        hatched = panel.locator(".cell.never")
        for name in panel.get_by_role("combobox").last.locator("option").all_inner_texts():
            if not hatched.count():  # not every pair of tunables has any
                panel.get_by_role("combobox").last.select_option(name)
        hatched.first.click()
        expect(panel.get_by_role("status")).to_contain_text("no config: ")
    expect(nb.output(4)).to_contain_text("estimates are not stored")
