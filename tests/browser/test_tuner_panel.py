"""`%tune` in a real JupyterLab: the live panel, Stop while another cell runs, a killed kernel, what is saved."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .access import axe, faint
from .conftest import IDLE

TRIED = re.compile(r"([1-9]\d+) of [\d,]+ configs tried")
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
    return f"import os; os.environ['XDG_DATA_HOME'] = {str(tmp_path)!r}\n%load_ext lab\nimport lab.panel, time"


def shot(nb, name):
    """A picture for whoever wants to look: GRADLAB_SHOTS names the folder."""
    if folder := os.environ.get("GRADLAB_SHOTS"):
        nb.page.screenshot(path=Path(folder) / f"tuner_{name}.png")


def tried(panel):
    """How many configs the panel says were tried, once it is more than nine."""
    expect(panel).to_contain_text(TRIED, timeout=60_000)
    return int(TRIED.search(panel.locator(".figures").inner_text())[1])


def test_a_c_kernel_live_and_stopped_while_another_cell_runs(notebook, setup):
    nb = notebook(
        setup,
        "%tune matmul_f32 192x192x192 float32 --budget 120s",
        "began = time.time()\ntime.sleep(6)\nprint('slept', round(time.time() - began))",
        "result = lab.panel.latest.wait(60); print(result.ended, result.verdict, result.best.ratio <= 1)",
    )
    nb.run(0)
    nb.run(1)
    panel = nb.output(1)
    tried(panel)
    shot(nb, "live")
    panel.get_by_role("button", name="Pause").click()
    expect(panel).to_contain_text("Paused", timeout=10_000)
    panel.get_by_role("button", name="Resume").click()
    expect(panel).to_contain_text("Tuning", timeout=10_000)
    nb.run(2)
    expect(nb.cell(2).locator(".jp-InputPrompt")).to_contain_text("[*]")
    nb.page.wait_for_timeout(500)
    panel.get_by_role("button", name="Stop").click()
    expect(panel).to_contain_text(re.compile("Stopp(ing|ed)"), timeout=5_000)  # the first word is fleeting
    expect(panel.locator(".state")).to_have_text("Stopped", timeout=30_000)
    nb.run(3)
    expect(nb.output(3)).to_contain_text(re.compile("stopped (faster|default|noisy) True"), timeout=60_000)
    for tab in ("Map", "Configs", "Progress", "Rejected", "Result"):
        panel.get_by_role("tab", name=tab).click()
        shot(nb, tab.lower())
        assert axe(nb.page, ".jp-OutputArea-output") == faint(panel.locator(".card")) == []
    panel.get_by_role("tab", name="Configs").click()
    panel.get_by_role("button", name=re.compile("MR=")).last.click()
    expect(panel.get_by_role("status")).to_contain_text("The nearest that is faster")
    panel.get_by_role("tab", name="Map").focus()
    nb.page.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tab", name="Configs")).to_be_focused()
    nb.theme("JupyterLab Dark")
    shot(nb, "dark")
    assert axe(nb.page, ".jp-OutputArea-output") == faint(panel.locator(".card")) == []
    nb.theme("JupyterLab Light")
    bundle = nb.save()["cells"][1]["outputs"][0]["data"]
    assert sorted(bundle) == ["text/html", "text/plain"]
    again = notebook(path=nb.path)
    again.shutdown()
    expect(again.output(1).locator(".state")).to_have_text("Stopped")
    expect(again.output(1)).to_contain_text("The choice as code")
    assert nb.watched.requests == again.watched.requests == []
    assert nb.watched.errors == []


def test_a_killed_kernel_loses_no_trial_and_a_fresh_script_takes_the_choice(notebook, setup, tmp_path):
    command = "%tune matmul_f32 96x96x96 float32"
    nb = notebook(setup, f"{command} --budget 120s", "print('pid', os.getpid())", f"{command} --budget 14s")
    nb.run(0)
    nb.run(1)
    before = tried(nb.output(1))
    nb.run(2)
    expect(nb.output(2)).to_contain_text(re.compile(r"pid \d+"))
    os.kill(int(nb.output(2).inner_text().split()[1]), signal.SIGKILL)
    nb.page.get_by_role("dialog", name=re.compile("Kernel Restarting")).get_by_role("button").last.click()
    nb.page.wait_for_function(IDLE, timeout=60_000)
    nb.run(0)
    nb.run(3)
    panel = nb.output(3)
    expect(panel).to_contain_text("known from earlier runs", timeout=60_000)
    # the default is taken anew; whatever the panel had said was tried is on the disk
    assert int(re.search(r"(\d+) known from earlier", panel.locator(".figures").inner_text())[1]) >= before - 1
    expect(panel.locator(".state")).to_have_text("Tuned", timeout=90_000)
    shot(nb, "resumed")
    expect(panel).to_contain_text("times as fast as the default")
    done = subprocess.run([sys.executable, "-c", FRESH], env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    chosen = " ".join(f"{name}={value}" for name, value in json.loads(done.stdout).items())
    expect(panel).to_contain_text(chosen)


OWN = """%%tune --target sm_80 --evaluations 12
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
configs = dict(SKIP=[0, 1], BLOCK=[64, 128, 256], num_warps=[4, 8], num_stages=[2, 3])"""


def test_static_panels_name_limits_and_merge_duplicates(notebook, setup):
    nb = notebook(setup, "%tune matmul_kernel 512x512x512 float16 --target sm_80 --evaluations 12 --strategy random",
                  "%tune softmax_kernel 512x4096 float32 --target sm_90 --evaluations 8", OWN,
                  "%tune softmax_kernel 512x4096 float32 --target sm_90 --use BLOCK=1024")  # fmt: skip
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
    nb.output(1).get_by_role("tab", name="Map").click()
    hatched = nb.output(1).locator(".cell.never")
    hatched.first.click()
    expect(nb.output(1).get_by_role("status")).to_contain_text("no config: ")
    expect(nb.output(4)).to_contain_text("estimates are not stored")
