"""Bytes alive: what a cell's results take, when most, and on which line they were made."""

from __future__ import annotations

import gc
from typing import Any

Space = dict[str, Any]


def test_what_is_saved_for_backward_is_alive_at_the_peak(cell: Any, space: Space) -> None:
    record = cell("w = P(16, 16)\nh = x @ w\ny = h.exp()\nz = y.sin()\nloss = z.sum()\nloss.backward()", space)
    memory = record.memory
    rows = {row.line: row for row in memory.rows}
    result = 64 * 16 * 4
    assert rows[2].made_bytes >= result
    assert rows[3].peak_bytes >= result  # exp saved its output
    assert 3 * result <= memory.peak_bytes <= 8 * result
    assert memory.peak_bytes == sum(row.peak_bytes for row in memory.rows)
    assert memory.end_bytes == sum(row.kept_bytes for row in memory.rows)
    assert max(memory.bytes) == memory.peak_bytes
    assert memory.times_ms == sorted(memory.times_ms)


def test_what_is_dropped_is_not_alive(cell: Any, space: Space) -> None:
    text = "for i in range(50):\n    y = (x * 2).exp()\ny = None"
    memory = cell(text, space).memory
    result = 64 * 16 * 4
    assert memory.peak_bytes <= 4 * result
    assert memory.end_bytes == 0
    assert sum(row.made_bytes for row in memory.rows) == 100 * result


def test_views_add_nothing(cell: Any, space: Space) -> None:
    memory = cell("y = x + 1\nz = y.T[2:]\nw = y.view(-1)[3:]", space).memory
    rows = {row.line: row.made_bytes for row in memory.rows}
    assert rows == {1: 64 * 16 * 4}


def test_nothing_is_kept_alive_by_it(cell: Any, space: Space) -> None:
    import weakref

    cell("y = x.exp()", space)
    alive = weakref.ref(space.pop("y")._a)
    gc.collect()
    assert alive() is None


def test_the_timeline_holds_every_run(cell: Any, space: Space) -> None:
    record = cell("w = P(16, 4)\nfor i in range(3):\n    (x @ w).sum().backward()", space)
    names = {op.id: op.op for op in record.ops}
    runs = [(names[run.op], run.phase) for run in record.runs]
    assert runs.count(("matmul", "forward")) == 3
    assert runs.count(("matmul", "backward")) == 3
    starts = [run.start_ms for run in record.runs]
    assert starts == sorted(starts)
    assert all(run.start_ms > -1 and run.start_ms + run.ms < record.wall_ms + 1 for run in record.runs)
