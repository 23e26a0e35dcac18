"""A warning that PyTorch gives while it is recorded is of the line, and as often told, as without."""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import lab  # noqa: E402

TEXT = """
def cell(torch):
    a = torch.nn.functional.mse_loss(torch.ones(3, 1), torch.ones(3))
    y = torch.ones(2, requires_grad=True) * 2
    for _ in range(3):
        y.grad
    y.grad
    torch.nn.functional.softmax(torch.ones(2, 2))
    return torch.nn.Softmax()(torch.ones(2, 2))
"""


def told(recorded: bool, action: str) -> list[Any]:
    """(file, line, class) of every warning of a cell, in order."""
    space: dict[str, Any] = {"__name__": "a_cell"}
    linecache.cache["<a cell>"] = (len(TEXT), None, TEXT.splitlines(True), "<a cell>")
    exec(compile(TEXT, "<a cell>", "exec"), space)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        if recorded:
            lab.record(space["cell"], torch)
        else:
            space["cell"](torch)
    return [(w.filename, w.lineno, w.category) for w in caught]


@pytest.mark.parametrize("action", ["default", "always", "module"])
def test_a_warning_keeps_its_line(action: str) -> None:
    alone = told(False, action)
    assert [line for file, line, _ in alone if file == "<a cell>"][:2] == [3, 6]
    assert told(True, action) == alone


def test_an_error_of_a_filter_is_raised_where_it_was() -> None:
    for recorded in (False, True):
        with pytest.raises(UserWarning, match="target size"):
            told(recorded, "error")


def test_what_shows_warnings_is_put_back() -> None:
    before = warnings._showwarnmsg  # type: ignore[attr-defined]
    told(True, "always")
    assert warnings._showwarnmsg is before  # type: ignore[attr-defined]


def test_a_method_of_the_users_runs_once() -> None:
    original, calls = torch.Tensor.add, []
    torch.Tensor.add = lambda self, *args: (calls.append(1), original(self, *args))[1]
    try:
        rec = lab.record(lambda: torch.ones(2).add(1))
    finally:
        torch.Tensor.add = original
    assert len(calls) == 1
    assert [op.op for op in rec.record.ops] == ["add"]
