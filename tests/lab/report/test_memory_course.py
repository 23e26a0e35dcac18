"""Which line made the bytes that were alive at the peak, which line kept them, and why."""

from __future__ import annotations

from typing import Any

import pytest

import core
import lab
from core import native
from lab.report.memory_course import HELD, POINTS
from widgets.record import Record

KB = 1000


def memory(rec: Any) -> Any:
    assert rec.record.memory is not None
    return rec.record.memory


def test_what_a_gradient_needs_is_kept_by_the_line_whose_op_saved_it() -> None:
    x, w = core.randn(100, 50, requires_grad=True), core.randn(50, 100, requires_grad=True)
    with lab.record() as rec:
        h = x @ w
        y = h.exp()
        loss = y.sum()
        del h, y
        loss.backward()
    line = {row.op: row.line for row in rec.record.ops}
    held = {h.op: h for h in memory(rec).held}
    assert (held["exp"].keeper, held["exp"].why) == (line["exp"], "saved for the gradient of exp")  # its output
    assert held["exp"].size_bytes == 40_000
    assert held["exp"].number == next(op.id for op in rec.record.ops if op.op == "exp")


def test_a_later_line_keeps_what_an_earlier_one_made() -> None:
    a = core.randn(100, 100, requires_grad=True)
    with lab.record() as rec:
        h = a.exp()
        y = h + h.clone()
        z = h * y
        w = z.sum()
        del h, y, z
        core.ones(200, 200).exp()
        w.backward()
    line = {row.op: row.line for row in rec.record.ops}
    held = {h.op: h for h in memory(rec).held}
    assert held["add"].line == line["add"]
    assert (held["add"].keeper, held["add"].why) == (line["mul"], "saved for the gradient of mul")
    rows = {row.line: row for row in memory(rec).rows}
    assert rows[line["mul"]].held_bytes >= 40_000
    assert sum(row.held_bytes for row in rows.values()) == memory(rec).peak_bytes
    assert sum(row.peak_bytes for row in rows.values()) == memory(rec).peak_bytes


def test_a_variable_keeps_its_value() -> None:
    with lab.record() as rec:
        h = core.ones(100, 100).exp()
        y = h + 1
    held = {h.op: h for h in memory(rec).held}
    assert held["exp"].why == "variable h"
    assert held["add"].why == "variable y"
    assert (memory(rec).peak_op, memory(rec).peak_line) == ("add", rec.record.ops[-1].line)
    assert y.shape == h.shape


def test_gradients_at_the_peak_belong_to_the_line_of_backward() -> None:
    w = core.randn(50, 300, requires_grad=True)
    with lab.record() as rec:
        y = (core.ones(2, 50) @ w).sum()
        y.backward()
    held = [h for h in memory(rec).held if h.why == ".grad of w"]
    assert [(h.op, h.size_bytes) for h in held] == [("matmul backward", 60_000)]
    assert held[0].keeper == held[0].line + 1


def test_what_was_released_before_the_peak_is_not_told() -> None:
    with lab.record() as rec:
        for _ in range(3):
            core.ones(100, 100).exp().sum()
        big = core.ones(300, 300).exp()
    assert big.numel() == 90_000
    assert [h.op for h in memory(rec).held if h.size_bytes > KB] == ["exp"]
    assert memory(rec).held[0].size_bytes == 360_000


@pytest.mark.skipif(native.module is None, reason="slow without the C kernels")
def test_many_arrays_stay_few_rows() -> None:
    with lab.record() as rec:
        kept = [core.ones(3).exp() for _ in range(2000)]
        values = [core.ones(k + 1).exp() for k in range(3 * HELD)]
    found = memory(rec)
    assert len(kept) + len(values) > POINTS
    assert len(found.held) <= HELD
    assert len(found.times_ms) <= POINTS
    assert found.held == sorted(found.held, key=lambda h: -h.size_bytes)
    assert max(h.count for h in found.held) == 2000
    assert Record.from_json(rec.record.to_json()) == rec.record


def test_an_old_record_has_no_holders() -> None:
    old = (
        '{"version":1,"memory":{"peak_bytes":8,"rows":[{"line":1,"made_bytes":8,"peak_bytes":8}]},'
        '"kernels":[{"kernel":"k"}]}'
    )
    record = Record.from_json(old)
    assert record.memory is not None
    assert (record.memory.held, record.memory.rows[0].held_bytes) == ([], 0)
    assert (record.kernels[0].tune, record.kernels[0].declined, record.machine) == ("", [], None)


def test_the_text_names_the_peak_and_what_keeps_most_of_it() -> None:
    with lab.record() as rec:
        h = core.ones(1000, 1000).exp()
        y = h[:10].exp()
    assert y.shape == (10, 1000)
    line = next(op.line for op in rec.record.ops if op.op == "exp")
    assert "memory: at most 4 MB of results" in str(rec)
    assert f"the largest part: exp, 4 MB, kept by line {line}: variable h" in str(rec)
    assert rec.table("memory").splitlines()[1].endswith("variable h")
    assert "Memory by line" in rec.html()
    with lab.record() as small:
        core.ones(3).exp()
    assert "memory:" not in str(small)
