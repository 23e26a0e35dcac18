"""`%%autograd` in a real JupyterLab: every tab by mouse and by keyboard, light and dark, reopened with a dead kernel;
a cell that raises, one that awaits, and one that is run a hundred times."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .access import axe, check, faint

SETUP = """
%load_ext lab
import asyncio, core as torch
from core import nn
F = nn.functional
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
""".strip()
STEP = "%%autograd\nmodel.zero_grad()\nloss = F.cross_entropy(model(x), y)\nloss.backward()"
TABS = ("Graph", "Gradients (4)", "Timings", "Memory", "Changes")
START_MS = 60_000


def named(place, name):
    return place.get_by_role("tab", name=re.compile("^" + re.escape(name)))


def see(card, name):
    """The panel of a tab is there, is the only one, and holds what it is for."""
    expect(named(card, name)).to_have_attribute("aria-selected", "true")
    expect(card.get_by_role("tabpanel")).to_have_count(1)
    panel = card.get_by_role("tabpanel", name=re.compile("^" + re.escape(name)))
    inside = {
        "Graph": panel.locator(".node.op").first,
        "Gradients (4)": panel.get_by_role("button", name="model.0.weight", exact=True),
        "Timings": panel.get_by_role("img", name=re.compile("timeline")),
        "Memory": panel.get_by_role("img", name=re.compile("bytes alive")),
        "Changes": panel.get_by_role("row", name=re.compile("op added exp")),
    }[name]
    expect(inside).to_be_visible()


def walk(nb, card):
    """Every tab by mouse, then every tab by keyboard."""
    for name in TABS:
        named(card, name).click()
        see(card, name)
    nb.page.keyboard.press("Home")
    for name in TABS:
        see(card, name)
        nb.page.keyboard.press("ArrowRight")
    see(card, "Graph")


@pytest.mark.by_turns
def test_every_tab_in_light_and_dark_and_reopened(notebook):
    nb = notebook(SETUP, STEP)
    nb.run(0)
    nb.run(1)
    card = nb.output(1).locator(".card")
    expect(card.locator("header")).to_contain_text("ops", timeout=START_MS)
    expect(named(card, "Changes")).to_have_count(0)  # nothing yet to stand beside
    nb.cell(1).locator(".cm-content").click()
    nb.page.keyboard.press("Control+End")
    nb.page.keyboard.insert_text("\nloss.exp()")
    nb.page.keyboard.press("Control+Enter")
    expect(named(card, "Changes")).to_have_count(1, timeout=START_MS)
    expect(nb.output(1).locator(".gradlab-card")).to_have_count(1)
    walk(nb, card)
    named(card, "Changes").click()
    row = card.get_by_role("row", name=re.compile("op added exp"))
    row.get_by_role("button", name="5").click()
    expect(card.locator(".lines .lit")).to_contain_text("loss.exp()")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        nb.theme(theme)
        walk(nb, card)
        for name in TABS:
            named(card, name).click()
            assert faint(card) == []
            assert check(card) == []
            assert axe(nb.page, ".jp-OutputArea-output .gradlab-card") == []
    nb.theme("JupyterLab Light")
    nb.save()
    nb.shutdown()
    again = notebook(path=nb.path)
    again.shutdown()
    walk(again, again.output(1).locator(".card"))
    assert nb.watched.requests == again.watched.requests == []


@pytest.mark.by_turns
def test_every_tab_in_notebook_7(notebook):
    nb = notebook(SETUP, STEP, "loss.exp()", classic=True)
    assert nb.page.evaluate("() => window.jupyterapp.name") == "Jupyter Notebook"
    for index in (0, 1):
        nb.run(index)
    card = nb.output(1).locator(".card")
    expect(card.locator("header")).to_contain_text("ops", timeout=START_MS)
    nb.cell(1).locator(".cm-content").click()
    nb.page.keyboard.press("Control+End")
    nb.page.keyboard.insert_text("\nloss.exp()")
    nb.page.keyboard.press("Control+Enter")
    expect(named(card, "Changes")).to_have_count(1, timeout=START_MS)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        nb.theme(theme)
        walk(nb, card)
        assert faint(card) == []
        assert axe(nb.page, ".jp-OutputArea-output .gradlab-card") == []
    for key in ("a", "b", "d", "d", "x"):  # in command mode these insert, delete and cut cells
        nb.page.keyboard.press(key)
    expect(nb.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(3)
    nb.save()
    nb.shutdown()
    again = notebook(path=nb.path, classic=True)
    again.shutdown()
    walk(again, again.output(1).locator(".card"))
    assert nb.watched.requests == again.watched.requests == []


@pytest.mark.by_turns
def test_a_cell_that_raises_and_one_that_awaits(notebook):
    raises = "%%autograd\nh = model(x)\nbad = h @ torch.ones(5, 5)\nloss = bad.sum()"
    awaits = "%%autograd\nawait asyncio.sleep(0.01)\nh = model(x).tanh()\nawait asyncio.sleep(0)\nh.sum().backward()"
    nb = notebook(SETUP, raises, awaits)
    nb.run(0)
    nb.run(1)
    card = nb.cell(1).locator(".card")
    expect(card.locator(".findings li").first).to_contain_text(
        re.compile("line 3 .*cannot be multiplied.*stopped here.*so this card is partial", re.I), timeout=START_MS
    )
    expect(card.locator(".findings li.error")).to_have_count(1)
    expect(card.locator(".lines .error .n")).to_have_text("✕ 3")
    expect(card.locator(".node.op").first).to_be_visible()
    expect(nb.cell(1).locator(".jp-OutputArea")).to_contain_text("Traceback (most recent call last)")
    nb.run(2)  # a cell that waits in the queue when another raises does not run
    awaited = nb.cell(2).locator(".card")
    expect(awaited.locator(".node .label", has_text="tanh").last).to_be_visible(timeout=START_MS)
    expect(awaited.locator(".lines > div").nth(4)).to_have_attribute("aria-label", re.compile("^line 5: forward"))
    expect(awaited.locator(".findings")).to_have_text("✓ No problems found.")
    named(awaited, "Gradients (4)").click()
    see(awaited, "Gradients (4)")


@pytest.mark.by_turns
def test_a_cell_run_a_hundred_times_keeps_its_size(notebook):
    """One card at a time; the page's nodes and heap and the kernel's memory stay as they were after the first runs."""
    resident = "rss = int(open('/proc/self/statm').read().split()[1]) * 4096 // 10**6"
    resident += "; print('run', get_ipython().execution_count, 'resident', rss)"
    nb = notebook(SETUP, STEP, resident)
    nb.run(0)
    nb.run(1)
    expect(nb.output(1).locator(".card header")).to_contain_text("ops", timeout=START_MS)
    devtools = nb.page.context.new_cdp_session(nb.page)

    def again(times):
        nb.cell(1).locator(".cm-content").click()
        run = "async n => { for (let k = 0; k < n; k++) await window.jupyterapp.commands.execute('notebook:run-cell') }"
        nb.page.evaluate(run, times)

    def sizes(number):
        nb.run(2)
        expect(nb.output(2)).to_contain_text(re.compile(rf"run {number}\d* resident"), timeout=START_MS)
        megabytes = int(nb.output(2).inner_text().split()[-1])
        devtools.send("HeapProfiler.collectGarbage")
        counters = devtools.send("Memory.getDOMCounters")
        heap = devtools.send("Runtime.getHeapUsage")["usedSize"]
        saved = nb.save()["cells"][1]["outputs"]
        return counters["nodes"], counters["jsEventListeners"], heap, megabytes, len(saved), len(str(saved))

    again(9)
    nodes, listeners, heap, megabytes, outputs, length = sizes(1)
    again(91)
    nodes_after, listeners_after, heap_after, megabytes_after, outputs_after, length_after = sizes(10)
    expect(nb.cell(1).locator(".gradlab-card")).to_have_count(1)
    assert outputs == outputs_after == 1
    assert nodes_after < nodes * 1.15
    assert listeners_after < listeners * 1.15
    assert heap_after < heap * 1.15
    assert megabytes_after < megabytes + 40
    assert length_after < length * 1.2
    assert nb.watched.requests == []
