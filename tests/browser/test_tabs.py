"""What stands behind the figures: a kernel's config and tuner, who keeps the memory, the functions a cell called."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from .access import axe, check, faint
from .conftest import DARK, LIGHT


def tab(page: Any, name: str) -> Any:
    return page.get_by_role("tab", name=name)


def test_a_kernel_opens_by_keyboard_and_says_what_it_reached(show: Any) -> None:
    page = show("called")
    tab(page, "Timings").click()
    kernels = page.locator("table").last
    row = kernels.get_by_role("row", name=re.compile("^gemm"))
    expect(row).to_contain_text(re.compile(r"1\.00.*5\.00.*25 %"))  # GB/s, GFLOP/s, the larger of 25 % and 25 %
    row.get_by_role("button", name="gemm", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".open")).to_contain_text("first on 8×8 float32, 8×8 float32 with 2 threads")
    expect(page.locator(".open")).to_contain_text("5.00 GFLOP/s, 25 % of the 20.0 GFLOP/s of a float32 product")
    page.keyboard.press("Enter")
    expect(page.locator(".open")).to_have_count(0)
    kernels.get_by_role("button", name="tanh_reference").click()
    expect(page.locator(".open li")).to_have_text("tanh (C): takes float32 and float64, got int64")
    expect(page.locator(".open")).to_contain_text("75 % of the 4.00 GB/s copied")
    expect(page.locator(".open").get_by_role("button", name="Tune")).to_have_count(0)
    expect(page.locator(".open")).to_contain_text("The tuner has no space for this kernel.")
    assert page.evaluate("stolen") == []


def test_the_tuner_s_command_is_copied(show: Any) -> None:
    page = show("called", permissions=["clipboard-read", "clipboard-write"])
    tab(page, "Timings").click()
    page.get_by_role("button", name="Tune gemm").click()  # in its row: it opens the row, and presses what is in it
    expect(page.get_by_role("status")).to_have_text("copied; run it in a new cell")
    page.get_by_role("button", name="Tune a C kernel").click()
    expect(page.locator(".open")).to_contain_text("the tuner's own, at this shape: your ops do not run it.")
    assert page.evaluate("navigator.clipboard.readText()") == "%tune matmul_f32 8x8x8 float32"
    expect(page.locator(".open")).to_have_count(1)  # the click on the button did not close the row


def test_without_a_clipboard_the_command_is_selected(show: Any) -> None:
    page = show("called")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.evaluate("document.execCommand = () => false")
    tab(page, "Timings").click()
    page.get_by_role("button", name="gemm", exact=True).click()
    page.get_by_role("button", name="Tune a C kernel").click()
    expect(page.get_by_role("status")).to_have_text("copy it, and run it in a new cell")


def test_a_record_without_a_peak_says_so(show: Any) -> None:
    page = show("mlp")
    tab(page, "Timings").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("The peak was not measured on this machine")


def test_the_memory_tab_names_who_keeps_the_bytes(show: Any) -> None:
    page = show("called")
    tab(page, "Memory").click()
    expect(page.locator(".lead").first).to_contain_text("at 2.00 ms, when line 2 ran tanh")
    course = page.get_by_role("img", name="bytes alive over 3.00 ms, peak 512 bytes, line 2, tanh at 2.00 ms")
    course.hover()
    expect(page.get_by_role("tabpanel")).to_contain_text(re.compile("bytes alive at 1"))
    held = page.locator("table").last
    expect(held.locator("tbody tr").first).to_contain_text("saved for the gradient of tanh")
    expect(held.get_by_role("row", name=re.compile("matmul"))).to_contain_text("variable y")
    held.locator("tbody tr").first.hover()
    expect(page.locator(".lines .lit .n")).to_have_text("3")
    held.get_by_role("button", name="3").click()
    expect(tab(page, "Graph")).to_have_attribute("aria-selected", "true")


def test_called_functions_open_below_the_cell(show: Any) -> None:
    page = show("called")
    fold = page.get_by_role("button", name="double In [3], line 5")
    expect(fold).to_have_attribute("aria-expanded", "true")  # there is room for it below the cell
    fold.focus()
    page.keyboard.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    inner = page.get_by_role("listbox", name="double, In [3], line 5")
    expect(inner.get_by_role("option")).to_have_count(3)
    inner.get_by_role("option").nth(1).hover()
    expect(page.locator(".source .foot")).to_have_text("double, line 6: forward 2.00 ms, backward 4.00 ms, 1 run")
    expect(page.locator(".node.lit .label")).to_have_text(["matmul"])
    expect(page.locator(".lines .lit .n")).to_have_text(["2", "6"])  # the line of the cell that led there, and this one
    page.locator(".node.op").nth(1).hover()
    expect(page.locator(".lines .lit .n")).to_have_text(["2", "7"])
    expect(page.locator(".lines mark")).to_have_text("y.tanh()")
    inner.get_by_role("option").first.focus()
    page.keyboard.press("ArrowDown")
    expect(inner.get_by_role("option").nth(1)).to_be_focused()
    fold.click()
    expect(inner).to_have_count(0)
    assert page.evaluate("stolen") == []


def test_a_line_opens_the_function_that_it_calls(show: Any) -> None:
    page = show("called")
    page.get_by_role("listbox", name="source with times").get_by_role("option").nth(1).click()
    expect(page.get_by_role("button", name="double In [3], line 5")).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".node.lit .label")).to_have_text(["matmul", "tanh"])


def test_the_heat_map_marks_who_has_none_and_opens_the_histogram(show: Any) -> None:
    page = show("called")
    tab(page, "Gradients (2)").click()
    heat = page.get_by_role("img", name="heat map of log2 |gradient| by parameter")
    expect(heat.locator("text.flag")).to_have_text(["none", "w"])
    heat.locator(".hit").first.click()
    expect(page.get_by_role("button", name="x", exact=True)).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("button", name="x", exact=True)).to_be_focused()
    expect(page.locator(".open")).to_contain_text("Rms 0.100")
    heat.locator(".hit").nth(1).click()
    expect(page.locator(".open").last).to_contain_text("backward did not reach it")
    for name in ("shape", "norm", "mean", "std", "zeros", "update / weight", "flags"):
        expect(page.get_by_role("columnheader", name=name).get_by_role("button")).to_have_count(1)


def test_what_check_found_stands_with_the_findings(show: Any) -> None:
    page = show("called")
    expect(page.get_by_role("listitem").filter(has_text="Checked")).to_be_visible()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_all_of_it_can_be_read_by_everyone(show: Any, theme: dict[str, str]) -> None:
    page = show("called", theme=theme)
    page.get_by_role("button", name="double In [3]").click()
    for name in ("Gradients (2)", "Timings", "Memory"):
        tab(page, name).click()
        closed = page.get_by_role("tabpanel").locator("[aria-expanded=false]")
        while closed.count():
            closed.first.click()
        page.mouse.move(1, 1)
        assert faint(page.locator(".card")) == []
        assert check(page.locator(".card")) == []
        assert axe(page, ".gradlab-card") == []
