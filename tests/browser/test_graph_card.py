"""The graph of real cells in a real browser: loops, branches, the op a cell stopped at, ten thousand ops."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import widgets

from ..lab.conftest import run_cell
from .access import check, faint
from .conftest import DARK, LIGHT

RNN = """
import core
core.manual_seed(0)
W = core.randn(16, 16, requires_grad=True)
xs, h = core.randn(12, 8, 16), core.zeros(8, 16)
for t in range(12):
    a = h @ W + xs[t]
    if t > 100:
        h = a.exp()
    else:
        h = a.tanh()
loss = h.pow(2).mean()
loss.backward()
"""
TRAIN = """
import core
from core import nn
core.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
opt = core.optim.SGD(model.parameters(), lr=0.1)
x, y = core.randn(24, 8), core.randn(24, 1)
for epoch in range(4):
    for i in range(0, 24, 8):
        loss = ((model(x[i:i + 8]) - y[i:i + 8]) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
FAILING = """
import core
from core import nn
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(12, 1))
for step in range(3):
    y = model(core.ones(4, 8))
"""

LONG = """
import core
x = core.ones(4, 4, requires_grad=True)
for i in range(25):
    for j in range(100):
        x = x * 0.5
        y = x.tanh()
        z = y + x
        x = z.sin()
"""


@pytest.fixture
def card(open_page, tmp_path):
    """`card(record)`: the card of a record on a page of its own."""
    pages = []

    def show(record, theme=LIGHT):
        watched = open_page(width=1300, allow=(tmp_path.as_uri(),))
        pages.append(watched)
        style = ";".join(f"{name}:{value}" for name, value in theme.items())
        file = tmp_path / f"card_{len(pages)}.html"
        body = f'<body style="background:var(--jp-layout-color1);{style}">{widgets.html(record)}'
        file.write_text(f'<!doctype html><meta charset="utf-8"><title>card</title>{body}', encoding="utf-8")
        watched.page.goto(file.as_uri())
        expect(watched.page.locator(".card")).to_be_visible()
        return watched.page

    yield show
    for watched in pages:
        assert watched.errors == []
        assert watched.requests == []


def crumbs(page):
    return page.locator(".crumbs button, .crumbs b").all_inner_texts()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_a_recurrent_loop_is_its_iterations_by_keyboard(card, theme):
    page = card(run_cell(RNN), theme)
    assert crumbs(page) == ["cell", "for t in range(12) ×12"]
    expect(page.locator(".node.group .label")).to_have_text([f"iteration {k}" for k in range(1, 13)])
    page.locator(".node.group").first.focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(page.locator(".node:focus .label")).to_have_text("iteration 3")
    assert page.locator(".node:focus .ring").evaluate("e => getComputedStyle(e).stroke") != "none"
    assert faint(page.locator(".card")) == []
    assert check(page.locator(".card")) == []
    page.keyboard.press("Enter")
    assert crumbs(page)[-1] == "iteration 3"
    expect(page.locator(".node.op .label")).to_have_text(["matmul", "add", "tanh"])
    expect(page.locator(".node.port .label")).to_have_text(["from tanh", re.compile("^from select")])
    page.keyboard.press("Backspace")
    expect(page.locator(".node:focus .label")).to_have_text("iteration 3")
    page.keyboard.press("Escape")
    expect(page.locator(".node:focus .label")).to_have_text("for t in range(12) ×12")
    expect(page.locator(".node:focus .place")).to_have_text("line 5")


def test_branches_are_told_beside_the_source_and_on_the_boxes(card):
    page = card(run_cell(RNN))
    lines = page.locator(".lines > div")
    expect(lines.nth(6).locator(".ms")).to_have_text("not taken")
    expect(lines.nth(8).locator(".ms")).to_have_text("taken")
    lines.nth(6).hover()
    expect(page.locator(".source .foot")).to_have_text("line 7: not taken: no op ran in this branch")
    page.locator(".node.group").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".chip", has_text="else, line 9")).to_have_count(1)


def test_a_training_loop_begins_inside_and_leads_out(card):
    page = card(run_cell(TRAIN))
    assert crumbs(page) == ["cell", "for epoch in range(4) ×4", "for i in range(0, 24, 8) ×3"]
    expect(page.locator(".node.op .label").first).to_have_text("slice ×12")
    page.get_by_role("button", name="for epoch in range(4) ×4").click()
    expect(page.locator(".node:focus .label")).to_have_text("for i in range(0, 24, 8) ×3")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_op_that_a_cell_stopped_at_is_outlined_and_named(card, theme):
    page = card(run_cell(FAILING), theme)
    box = page.locator(".node.bad")
    expect(box).to_have_count(1)
    expect(box.locator(".badge")).to_have_text("✕ failed here")
    expect(box.locator(".label")).to_have_text("linear")
    expect(box.locator(".detail")).to_have_text("of 4×16, 1×12, 1")
    expect(box).to_be_in_viewport()
    expect(box).to_have_attribute("aria-label", re.compile("failed here"))
    expect(page.locator(".lines .lit")).to_contain_text("y = model(core.ones(4, 8))")
    box.click()
    expect(page.locator(".details")).to_contain_text("failed here")
    expect(page.locator(".details")).to_contain_text("reads relu 4×16, model.2.weight 1×12")
    assert faint(page.locator(".card")) == []


def test_ten_thousand_ops_are_drawn_in_parts(card):
    record = run_cell(LONG)
    assert len(record.ops) == 10_000
    page = card(record)
    assert crumbs(page) == ["cell", "for i in range(25) ×25"]
    while page.locator(".node.group").count():
        assert page.locator(".node").count() <= 200
        page.locator(".node.group").last.click()
    expect(page.locator(".node.op").first).to_be_visible()
    for _ in range(len(crumbs(page)) - 1):
        page.locator(".node").first.focus()
        page.keyboard.press("Escape")
    assert crumbs(page) == ["cell"]
