"""A loop in which each turn reads what the one before wrote: recording a turn costs as much late as early."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lab.adapters.hooks import Ear, Hooks
from lab.diagnose.speed import cost
from lab.recorder.cell_trace import Row, Trace


class GraphNode:
    """A node of PyTorch's graph, as the hooks ask it; counts how often it is gone through."""

    gone_through = 0

    def __init__(self, before: GraphNode | None) -> None:
        self.metadata: dict[str, Any] = {}
        self.hooks: list[Any] = []
        self._before = before
        self.register_prehook = self.register_hook = self.hooks.append

    def name(self) -> str:
        return "CopySlices"

    @property
    def next_functions(self) -> tuple[tuple[GraphNode | None, int], ...]:
        type(self).gone_through += 1
        return ((self._before, 0),)


def test_a_graph_whose_nodes_are_of_one_row_is_not_gone_through_again() -> None:
    hooks = cast(Any, Hooks.__new__(Hooks))
    hooks._ear = Ear(hooks)
    row, node = object(), None
    GraphNode.gone_through = 0
    for _ in range(50):
        node = GraphNode(node)
        node.metadata["gradlab"] = row  # the recorder notes it before
        hooks._mark([node], row)
        assert len(node.hooks) == 2
    assert GraphNode.gone_through == 50


def test_what_recurs_is_found_in_one_pass_over_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    token, chain = object(), ((compile("0", "<cell>", "eval"), 0),)
    rows: list[Row] = []
    for k in range(300):
        row = Row(token, k, "setitem_", chain, None, 0, tuple(rows[-1:]))
        row.shape, row.count = (10,), 1
        rows.append(row)
    trace = Trace()
    trace.rows = rows
    passes: list[Any] = []
    whole = cost._computed_from

    def counted(trace: Trace, key: Any) -> set[Row]:
        passes.append(key)
        return whole(trace, key)

    monkeypatch.setattr(cost, "_computed_from", counted)
    known: dict[Any, set[Row]] = {}
    assert [cost._recurs(row, trace, known) for row in rows] == [False] + [True] * 299
    assert len(passes) == 1
