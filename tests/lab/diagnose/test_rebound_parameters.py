"""Steps by hand that bind the name to a new tensor: told as that, and not as a forward pass under no_grad."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]
LOOP = "w = core.zeros(16, requires_grad=True)\nfor i in range(3):\n    loss = (x @ w - x[:, 0]).square().mean()\n    "


def test_under_no_grad(cell: Any, space: Space) -> None:
    record = cell(LOOP + "loss.backward()\n    with core.no_grad():\n        w = w - 0.1 * w.grad", space)
    (finding,) = record.findings
    assert (finding.kind, finding.severity, finding.line, finding.parameters) == ("no-gradient", "error", 6, ["w"])
    assert finding.message == (
        "Line 6 binds w to a new tensor that does not require a gradient (`w = w - 0.1 * w.grad`, under no_grad): "
        "backward() on line 4 has nothing to do the next time."
    )
    assert finding.remedy == (
        "Change it in place, with core.no_grad(): w -= 0.1 * w.grad; or call w.requires_grad_() after it."
    )


def test_of_its_data(cell: Any, space: Space) -> None:
    (finding,) = cell(LOOP + "loss.backward()\n    w = w.data - 0.1 * w.grad", space).findings
    assert (finding.kind, finding.severity, finding.line) == ("no-gradient", "error", 5)
    assert "(`w = w.data - 0.1 * w.grad`, of values off the graph)" in finding.message
    assert "w -= 0.1 * w.grad" in finding.remedy


def test_by_a_gradient_of_another_name(cell: Any, space: Space) -> None:
    text = "loss.backward()\n    g = w.grad.clone()\n    with core.no_grad():\n        w = w - 0.1 * g"
    (finding,) = cell(LOOP + text, space).findings
    assert (finding.kind, finding.line) == ("no-gradient", 7)
    assert "binds w to a new tensor" in finding.message


def test_several_names(cell: Any, space: Space) -> None:
    text = """
    w, b = core.zeros(16, requires_grad=True), core.zeros(1, requires_grad=True)
    for i in range(3):
        (x @ w + b - x[:, 0]).square().mean().backward()
        with core.no_grad():
            w = w - 0.1 * w.grad
            b = b - 0.1 * b.grad
    """
    (finding,) = cell(text, space).findings
    assert finding.message.startswith("Lines 5 and 6 bind w and b to new tensors that do not require a gradient (`w = ")
    assert finding.parameters == ["w", "b"]


def test_a_list_of_new_tensors(cell: Any, space: Space) -> None:
    text = """
    ws = [core.zeros(16, requires_grad=True)]
    for i in range(3):
        (x @ ws[0] - x[:, 0]).square().mean().backward()
        with core.no_grad():
            ws = [w - 0.1 * w.grad for w in ws]
    """
    (finding,) = cell(text, space).findings
    assert finding.message.startswith(
        "Line 5 puts new tensors that do not require a gradient in place of the parameter"
    )
    assert "requires_grad_() on each new tensor after it" in finding.remedy


def test_its_gradient_is_none_the_next_time(cell: Any, space: Space) -> None:
    text = """
    A, B = P(16, 8), P(8, 1)
    for i in range(3):
        ((x @ A) @ B).square().mean().backward()
        with core.no_grad():
            A = A - 0.1 * A.grad
            B -= 0.1 * B.grad
            B.grad = None
    """
    record = cell(text, space)
    assert record.error is not None
    (finding,) = record.findings
    assert (finding.kind, finding.severity, finding.line) == ("no-gradient", "error", 5)
    assert finding.message.endswith("(`A = A - 0.1 * A.grad`, under no_grad): A.grad is None the next time.")


def test_its_gradient_ends_in_silence(cell: Any, space: Space) -> None:
    text = """
    A, B = P(16, 8), P(8, 1)
    for i in range(2):
        ((x @ A) @ B).square().mean().backward()
        if i == 0:
            A = A.data - 0.1 * A.grad
    """
    (finding,) = [f for f in cell(text, space).findings if f.severity != "note" or f.reads]
    assert (finding.severity, finding.line) == ("warning", 5)
    assert finding.message.endswith("of values off the graph): its gradient ends with the first step.")


@pytest.mark.parametrize(
    "step",
    [
        "    with core.no_grad():\n        w -= 0.1 * w.grad\n        w.grad = None",
        "    with core.no_grad():\n        w = (w - 0.1 * w.grad).requires_grad_()",
        "    with core.no_grad():\n        w = w - 0.1 * w.grad\n    w.requires_grad = True",
        "    w.data = w.data - 0.1 * w.grad\n    w.grad = None",
        "    with core.no_grad():\n        w.copy_(w - 0.1 * w.grad)\n    w.grad = None",
        "    with core.no_grad():\n        tried = w - 0.1 * w.grad\n        print(tried.sum())\n    w.grad = None",
    ],
)
def test_right_ways_are_no_finding(cell: Any, space: Space, step: str) -> None:
    record = cell(LOOP + "loss.backward()\n" + step, space)
    assert record.error is None
    assert [f.message for f in record.findings if f.severity != "note" or f.reads] == []
