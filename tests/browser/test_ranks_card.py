"""The card of `%%ranks` in a real browser: what is seen, in light and dark, wide and narrow, with no request and no
script."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from widgets import ranked
from widgets.ranked import Lane, Ranked, Sent
from widgets.record import Finding

from .access import axe, check, faint
from .conftest import DARK, LIGHT


def lane(number: int, late: int, steps: int = 20) -> Lane:
    """A rank that computes 10 ms a step, 50 ms where it is the late one, and waits for that one."""
    found = Lane(number)
    for k in range(steps):
        at, own = 0.062 * k, 0.05 if number == late else 0.01
        found.spans += [(at, at + own, "computing"), (at + 0.05, at + 0.062, "communicating")]
        if own < 0.05:
            found.spans.insert(-1, (at + own, at + 0.05, "waiting"))
        found.steps.append(at + 0.062)
    return found


LATE = Finding("late-rank", "warning", 9, message="Rank 2 is late to 20 of 24 operations, by 40.0 ms each time; the "
               "others wait for it 60 % of the time: it is 800 ms longer on line 9 (`time.sleep(<b>0.05</b>)`) than "
               "the others.",
               remedy="See what it does there that the others do not: more data, or `print` on one rank.")  # fmt: skip
SENT = [Sent("line 11", "F.cross_entropy(model(x), y).backward()  # <b>buckets</b>", "all_reduce (bucket)", 20,
             1_540_000, 0.24, 0.6, "rank 2, by 40 ms (19 of 20 times)"),
        Sent("line 3", "model = DDP(net())", "broadcast", 1, 77_000, 0.002, 0.008, "")]  # fmt: skip
MANY = [Sent(f"line {k}", "dist.all_reduce(p.grad)", "all_reduce", 10, 10_000 * k, 0.01, 0.01) for k in range(1, 30)]
PART = Ranked("%%ranks 4 · In [3] <b>", 4, 1.24, [lane(k, 2) for k in range(4)], SENT, [LATE], (0.3, 0.5),
              "The longest waiting, larger", foot=["4 ranks share 2 processors."])  # fmt: skip
WRONG = Finding("collective-mismatch", "error", 4, message="Rank 1 calls `broadcast` on line 4 where ranks 0, 2 and 3 "
                "call `all_reduce` on line 6: it is collective number 1 of the cell on each.",
                remedy="All ranks call the same collectives. It stands under `if rank == 1:` on line 3.")  # fmt: skip
NOTE = Finding("no-overlap", "note", 9, message="Gradients are summed on line 9.", remedy="Use DDP.")
FAILED = Ranked("%%ranks 4 · In [4]", 4, 2.5, [Lane(k, [(0.0, 0.1, "computing"), (0.1, 2.5, "waiting")],
                                                    note="error" if k == 1 else "stopped") for k in range(4)], MANY,
                [WRONG, NOTE], state="failed")  # fmt: skip
STOPPED = Ranked("%%ranks 1 · In [5]", 1, 0.5, [Lane(0, [(0.0, 0.5, "computing")], [0.1])], state="stopped")


@pytest.fixture
def show(open_page: Any, tmp_path: Path) -> Any:
    """`show(views, theme)`: the cards on a page of their own, and the page's requests and errors."""

    def show(*views: Ranked, theme: dict[str, str] = LIGHT, width: int = 1300) -> Any:
        variables = ";".join(f"{name}:{value}" for name, value in theme.items())
        body = "".join(map(ranked.html, views))
        file = tmp_path / "card.html"
        file.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>card</title>'
                        f'<body style="background:var(--jp-layout-color1);{variables}">'
                        f"<main>{body}</main></body></html>", encoding="utf-8")  # fmt: skip
        watched = open_page(width=width, height=1000, allow=(tmp_path.as_uri(),))
        watched.page.goto(file.as_uri())
        return watched

    return show


def test_who_is_late_is_seen_at_once(show: Any) -> None:
    page = show(PART).page
    expect(page.locator(".head")).to_contain_text("4 ranks · 1.24 s · 48.4 % waiting for others")
    expect(page.locator(".message.warning")).to_contain_text("Rank 2 is late to 20 of 24 operations")
    expect(page.locator(".message code").first).to_have_text("time.sleep(<b>0.05</b>)")
    images = page.get_by_role("img")
    expect(images).to_have_count(2)
    label = images.first.get_attribute("aria-label") or ""
    assert "rank 2: computing 1.00 s (80.6 %), communicating 240 ms" in label
    whole = images.first.locator(".lane")
    colours = [whole.nth(k).locator("path.waiting").count() for k in range(4)]
    assert colours == [1, 1, 0, 1]
    rows = page.get_by_role("region", name="operations between the ranks").locator("tbody tr")
    expect(rows.first).to_contain_text("rank 2, by 40 ms (19 of 20 times)")


def test_time_by_rank_is_a_table(show: Any) -> None:
    page = show(PART).page
    page.get_by_text("time by rank", exact=True).click()
    rows = page.get_by_role("region", name="time by rank").locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(2)).to_contain_text("80.6 %")


def test_long_tables_are_cut(show: Any) -> None:
    page = show(FAILED).page
    expect(page.get_by_role("region", name="operations between").locator("tbody tr")).to_have_count(ranked.ROWS)
    expect(page.get_by_text(f"{len(MANY) - ranked.ROWS} more, with less waiting")).to_be_visible()


def test_what_users_write_is_text(show: Any) -> None:
    watched = show(PART, FAILED, STOPPED)
    assert watched.page.locator(".gradlab-ranked :is(img, script, b b)").count() == 0
    assert watched.errors == watched.requests == []


@pytest.mark.parametrize("width", [1300, 700])
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_it_can_be_read_by_everyone(show: Any, theme: dict[str, str], width: int) -> None:
    page = show(PART, FAILED, STOPPED, theme=theme, width=width).page
    if folder := os.environ.get("GRADLAB_SCREENSHOTS"):  # for whoever wants to look
        name = f"ranks-{'light' if theme is LIGHT else 'dark'}-{width}.png"
        page.screenshot(path=Path(folder) / name, full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cut = "all => all.filter(table => table.scrollWidth > table.clientWidth).length"
    assert page.locator(".gradlab-ranked > .scroll").evaluate_all(cut) == 0
    for k in range(3):
        card = page.locator(".gradlab-ranked").nth(k)
        assert faint(card) == []
        assert check(card) == []
    assert axe(page, ".gradlab-ranked") == []
