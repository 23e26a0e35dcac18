"""`python -m tests.browser.bench_card`: the card of a model of 5,000 ops in Chromium: drawn, zoomed and searched.

The record is real: a GPT is run and recorded. For each thing that a person does, the median of seven times: from the
event until the next picture stands (`wall`), the main thread's part of it (`main`), and the processor time of all of
Chromium's processes until they are quiet again (`CPU`), which other programs do not lengthen. The promise is 0.3 s.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from typing import Any

from playwright.sync_api import sync_playwright

import widgets

from ..lab.conftest import run_cell
from .conftest import FLAGS, NAMES

MODEL = """
import core
from core import nn

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.reshape(rows, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / 4.0
        mask = core.ones(length, length, dtype=core.bool).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(rows, length, width))

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, 2)
        self.norm2 = nn.LayerNorm(width)
        self.up, self.gate, self.down = nn.Linear(width, 64), nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = self.norm2(x)
        u = self.gate(h)
        u = 0.5 * u * (1.0 + (0.8 * (u + 0.045 * u * u * u)).tanh())
        return x + self.down(self.up(h) * u)

class GPT(nn.Module):
    def __init__(self, blocks, width=32):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(50, width), nn.ModuleList([Block(width) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 50)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

core.manual_seed(0)
model = GPT(BLOCKS)
tokens = core.randint(0, 50, (1, 9))
loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
loss.backward()
"""
OPS = 5000
TIMES = 7

PUT = """async card => {
  const start = performance.now();
  document.body.append(document.createRange().createContextualFragment(card));
  const drawn = () => document.querySelector('.gradlab-card[data-live]')?.firstElementChild.shadowRoot;
  const picture = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  while (!drawn()) await picture();
  await picture();
  return performance.now() - start;
}"""

ACTS = """async name => {
  const root = document.querySelector('.gradlab-card').firstElementChild.shadowRoot;
  const canvas = root.querySelector('.scroll:has(> svg)');
  const field = root.querySelector('input');
  const button = words => [...root.querySelectorAll('.tool')].find(one => one.textContent === words);
  const wheel = deltaY => {
    const {left, top} = canvas.getBoundingClientRect();
    const at = {clientX: left + 300, clientY: top + 150};
    canvas.dispatchEvent(new WheelEvent('wheel', {ctrlKey: true, deltaY, ...at, bubbles: true, cancelable: true}));
  };
  const find = words => { field.value = words; field.dispatchEvent(new Event('input')); };
  const acts = {
    overview: () => button('Overview').click(),
    in: () => wheel(-50),
    out: () => wheel(50),
    fit: () => button('Fit').click(),
    find: () => find('softmax'),
    clear: () => find(''),
    next: () => field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'})),
  };
  const picture = () => new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn)));
  await picture();
  const start = performance.now();
  acts[name]();
  await picture();
  await picture();  // what a scroll or a new scale asks for is drawn in the next one
  return performance.now() - start;
}"""


class Page:
    """A page of Chromium and the clocks beside it."""

    def __init__(self, browser: Any, card: str) -> None:
        self.page = browser.new_page(viewport={"width": 1300, "height": 900})
        self.processes = browser.new_browser_cdp_session()
        self.session = self.page.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.card = card
        self.page.evaluate("document.title = 'notebook'")
        self.page.wait_for_timeout(500)

    def clocks(self) -> tuple[float, float]:
        """Processor seconds of all processes, and of the page's main thread."""
        told = self.processes.send("SystemInfo.getProcessInfo")["processInfo"]
        metrics = {m["name"]: m["value"] for m in self.session.send("Performance.getMetrics")["metrics"]}
        return sum(process["cpuTime"] for process in told), metrics["TaskDuration"]

    def timed(self, run: Callable[[], float]) -> tuple[float, float, float]:
        """Milliseconds by the clock on the wall, of the main thread, and of all processes."""
        before = self.clocks()
        wall = run()
        self.page.wait_for_timeout(200)
        after = self.clocks()
        return wall, 1e3 * (after[1] - before[1]), 1e3 * (after[0] - before[0])

    def open(self) -> float:
        """Put the card into the page as a notebook does, until it is drawn."""
        wall: float = self.page.evaluate(PUT, self.card)
        return wall

    def act(self, name: str) -> float:
        wall: float = self.page.evaluate(ACTS, name)
        return wall


def said(name: str, times: list[tuple[float, float, float]]) -> None:
    wall, main, cpu = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"{name:44} {wall:7.0f} {main:7.0f} {cpu:7.0f} {max(t[0] for t in times):9.0f}", flush=True)


def main() -> None:
    one = len(run_cell(MODEL.replace("BLOCKS", "2")).ops) - len(run_cell(MODEL.replace("BLOCKS", "1")).ops)
    record = run_cell(MODEL.replace("BLOCKS", str(-(-OPS // one))))
    print(f"{len(record.ops):,} ops")
    path = next(filter(None, map(shutil.which, NAMES)))
    card = widgets.html(record)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        print(f"{'ms, medians of ' + str(TIMES):44} {'wall':>7} {'main':>7} {'CPU':>7} {'most wall':>9}")
        opened, overviews = [], []
        for _ in range(TIMES):
            page = Page(browser, card)
            opened.append(page.timed(page.open))
            overviews.append(page.timed(lambda page=page: page.act("overview")))
            if len(opened) < TIMES:
                page.page.close()
        said("the card, put into an open page", opened)
        said("the overview of all ops, first", overviews)
        done = {name: [] for name in ("in", "out", "find", "next", "clear", "fit")}
        for name, count in (("in", 16), ("out", 16), ("fit", 1)):
            done[name] += [page.timed(lambda name=name: page.act(name)) for _ in range(count)]
        for _ in range(TIMES):
            for name in ("find", "next", "clear", "fit"):
                done[name].append(page.timed(lambda name=name: page.act(name)))
        words = {
            "in": "zoomed in by a step of the wheel",
            "out": "zoomed out by a step",
            "find": "searched",
            "next": "gone to what was found",
            "clear": "the search cleared",
            "fit": "all in sight again",
        }
        for name, times in done.items():
            said(words[name], times)
        page.act("overview")
        said("searched in a view", [page.timed(lambda: page.act("find")) for _ in range(TIMES)])
        browser.close()


if __name__ == "__main__":
    main()
