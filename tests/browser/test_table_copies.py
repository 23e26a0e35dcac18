"""Tables go to the clipboard as text in columns and as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from playwright.sync_api import expect

from ..widgets import samples


@pytest.fixture
def opened(show) -> Any:
    """`opened("mlp", "Timings")`: a tab of a sample's card that may use the clipboard."""

    def opened(name: str, tab: str) -> Any:
        page = show(name, permissions=["clipboard-read", "clipboard-write"])
        page.get_by_role("tab", name=tab).click()
        return page

    return opened


def copied(page: Any, button: str) -> str:
    page.get_by_role("button", name=button).click()
    expect(page.locator(".copies span", has_text="copied")).not_to_have_count(0)
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text.replace("\r\n", "\n")


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_figures_are_unrounded_in_csv(opened):
    page = opened("mlp", "Timings")
    head, *body = rows(copied(page, "CSV: By line"))
    assert head == ["line", "source", "runs", "forward ms", "backward ms", "sum ms"]
    lines = samples.mlp().lines
    assert [int(row[0]) for row in body] == [line.line for line in lines]
    for row, line in zip(body, lines, strict=True):
        assert float(row[3]) == pytest.approx(line.forward_ms, rel=1e-3)
        assert int(row[2]) == line.count
    assert page.evaluate("stolen") == []


def test_text_has_columns_and_the_total(opened):
    text = copied(opened("mlp", "Timings"), "Copy text: By line").splitlines()
    assert len(text) == 2 + len(samples.mlp().lines)
    assert text[0].split() == ["line", "source", "runs", "forward", "ms", "backward", "ms", "sum", "ms"]
    assert text[-1].split()[:2] == ["all", "lines"]
    assert len({len(line) for line in text}) == 1  # the last column is one of figures: all end at one place


def test_rows_are_copied_in_the_order_that_is_shown(opened):
    page = opened("vanishing", "Gradients")
    page.get_by_role("columnheader", name="std").get_by_role("button").click()
    head, *body = rows(copied(page, "CSV: By parameter"))
    assert head == ["parameter", "shape", "norm", "mean", "std", "zeros", "update / weight", "flags"]
    assert len(body) == 26
    deviations = [float(row[4]) for row in body]
    assert deviations == sorted(deviations, reverse=True)
    assert body[0][0] == "model.24.weight"
    assert any("vanishing" in row[-1] for row in body)


def test_all_rows_are_copied_though_some_are_not_shown(opened):
    page = opened("large", "Gradients")
    expect(page.locator("tbody tr")).to_have_count(300)
    assert len(rows(copied(page, "CSV: By parameter"))) == 1 + 323


def test_units_of_csv_stand_in_the_head(opened):
    page = opened("called", "Timings")
    head, *body = rows(copied(page, "CSV: By kernel"))
    assert "GFLOP/s (FLOP/s)" in head
    gemm = dict(zip(head, next(row for row in body if row[0] == "gemm"), strict=True))
    assert float(gemm["GFLOP/s (FLOP/s)"]) == 5e9
    page.get_by_role("tab", name="Memory").click()
    head, *body = rows(copied(page, "CSV: By line"))
    assert "made in all (bytes)" in head
    assert sum(int(row[head.index("made in all (bytes)")]) for row in body) > 0


def test_hostile_names_stay_fields_and_are_no_formulas(opened):
    page = opened("hostile", "Gradients")
    head, *body = rows(copied(page, "CSV: By parameter"))
    assert {len(row) for row in body} == {len(head)}
    assert all(row[0][0] not in "=+-@" for row in body)
    assert page.evaluate("window.hacked") is None


def test_without_a_clipboard_a_selection_is_copied_or_it_is_said_that_it_cannot(show):
    page = show("mlp")
    page.get_by_role("tab", name="Timings").click()
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.evaluate("document.execCommand = name => { window.taken = getSelection().toString(); return name === 'copy' }")
    button = page.get_by_role("button", name="CSV: By line")
    button.click()
    expect(page.locator(".copies span").first).to_have_text("4 rows copied")
    assert page.evaluate("document.querySelectorAll('textarea').length") == 0
    page.evaluate("document.execCommand = () => false")
    button.click()
    expect(page.locator(".copies span").first).to_have_text("this page may not copy")
