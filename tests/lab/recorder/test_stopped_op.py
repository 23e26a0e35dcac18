"""The op a cell stopped at is in its record, with what it read, also where it raised before it was dispatched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lab
from widgets.graph import badge, build
from widgets.record import Record

Cell = Callable[..., Record]
Space = dict[str, Any]


def failed(record: Record) -> list[Any]:
    return [op for op in record.ops if "error" in op.flags]


@pytest.mark.parametrize(
    ("source", "op", "line", "reads"),
    [
        ("h = x.tanh()\ny = h @ core.ones(5, 3)", "matmul", 2, ["tanh", "unnamed tensor 5×3"]),
        ("h = x + core.ones(3)", "add", 1, ["x", "unnamed tensor 3"]),
        ("a = x.exp()\nb = core.cat([a, x[:, :3]], dim=0)", "cat", 2, ["exp", "slice"]),
        ("p = F.log_softmax(x, 1)\nloss = F.nll_loss(p, labels[:7])", "nll_loss", 2, ["log_softmax", "slice"]),
        ("def f(x):\n    return x.reshape(7, 7)\ny = f(x.exp())", "reshape", 2, ["exp"]),
        ("y = x.exp().view(3, -1)", "view", 1, ["exp"]),
    ],
)
def test_an_op_that_refuses_its_arguments(
    cell: Cell, space: Space, source: str, op: str, line: int, reads: list[str]
) -> None:
    record = cell(source, space)
    assert record.error is not None
    (row,) = failed(record)
    assert (row.op, row.line, row.count) == (op, line, 1)
    names = {f"o{o.id}": o.op for o in record.ops} | {f"t{t.id}": t.name for t in record.tensors}
    assert [names[key] for key in row.inputs] == reads
    graph = build(record)
    view, k = graph.home[record.ops.index(row)]
    assert badge(graph.views[view].items[k]) == "✕ failed here"
    assert record.source.splitlines()[line - 1][row.col : row.end_col] == row.code


def test_a_module_with_a_wrong_input(cell: Cell, space: Space) -> None:
    source = "model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(9, 4))\nfor k in range(3):\n    y = model(x)"
    record = cell(source, space)
    (row,) = failed(record)
    assert (row.op, row.module, row.line, row.code) == ("linear", "model.2", 3, "model(x)")
    assert [op.op for op in record.ops] == ["linear", "relu", "linear"]
    assert row.inputs[0] == f"o{record.ops[1].id}"
    item = build(record).views[0].items[-1]
    assert item.detail == "of 64×8, 4×9, 4"


def test_an_op_of_a_function_of_the_cell_in_a_loop(cell: Cell, space: Space) -> None:
    source = "def f(h, k):\n    return h[:, k:] @ core.ones(14, 16)\nh = x\nfor k in range(5):\n    h = f(h, 4 - k)"
    record = cell(source, space)
    (row,) = failed(record)
    assert (row.op, row.line) == ("matmul", 2)
    assert [call[0] for call in row.calls] == [5, 2]


@pytest.mark.parametrize(
    "source", ["raise ValueError('no')", "y = x.exp()\n{}['a']", "y = x.exp()\ny.nothing", "1 / 0"]
)
def test_an_error_of_the_users_own_code_marks_no_op(cell: Cell, space: Space, source: str) -> None:
    assert failed(cell(source, space)) == []


def test_a_block_of_a_script() -> None:
    import core

    x = core.ones(2, 3)
    with pytest.raises(RuntimeError, match="cannot be multiplied"), lab.recording() as rec:
        x.exp() @ x
    assert [(op.op, op.flags) for op in rec.record.ops] == [("exp", []), ("matmul", ["error"])]
