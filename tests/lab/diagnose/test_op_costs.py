"""What ops, calls and loops cost: the Python on their lines and the passes backward count, and none of it twice."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from lab.diagnose.speed import op_costs
from lab.diagnose.speed.time_shares import Shares, loop_around
from lab.recorder.cell_trace import Sample, Trace

from .test_slow_code import SECOND, rows_of, timed
from .traced_slow import frame

NEAR = 1e-3  # what is taken off as the cost of telling of ops
LOOP = "w = P(16, 4)\nfor k in range(9):\n    y = x @ w + 1\n    z = y.sum()\n{end}"


def clocked(trace: Trace, **seconds: float) -> Shares:
    """Ten seconds, in which the cell was met on lines (`at3=4.0`), each run of an op and each gradient a tenth."""
    timed(trace, SECOND // 10)
    trace.wall_ns = 10 * SECOND
    for name, spent in seconds.items():
        line = int(name.removeprefix("at"))
        trace.samples[line] = Sample("op", (frame(trace, line),), ns=int(spent * SECOND), beats=9)
    return Shares(trace)


def test_ops_cost_their_part_of_the_python_on_their_line(traced: Any, space: dict[str, Any]) -> None:
    trace = traced(LOOP.format(end=""), space)
    shares = clocked(trace, at3=4.0, at4=6.0)
    assert op_costs.of_ops(shares, rows_of(trace, "matmul")) == pytest.approx(
        2 * SECOND, rel=NEAR
    )  # 0.9 and half of 2.2
    assert op_costs.of_ops(shares, rows_of(trace, "matmul", "add")) == pytest.approx(4 * SECOND, rel=NEAR)
    assert op_costs.of_ops(shares, rows_of(trace, "sum")) == pytest.approx(6 * SECOND, rel=NEAR)


@pytest.mark.parametrize(("beside", "counts"), [(0.0, 1.0), (0.5, 1.5), (3.0, 2.0)])
def test_passes_backward_count_with_what_is_beside_gradients(
    traced: Any, space: dict[str, Any], beside: float, counts: float
) -> None:
    trace = traced(LOOP.format(end="    z.backward()"), space)
    shares = clocked(trace, at3=10.0)
    known = sum(row.backward_ns for row in trace.rows)
    trace.backward_ns = round((1 + beside) * known)
    products = rows_of(trace, "matmul")
    assert op_costs.backward_of(shares, products) == pytest.approx(
        counts * sum(row.backward_ns for row in products), rel=NEAR
    )


@pytest.mark.parametrize(("end", "seconds"), [("    z.backward()", 9.0), ("z.backward()", 9.3)])
def test_a_loop_in_which_the_cell_goes_back_was_met_there(
    traced: Any, space: dict[str, Any], end: str, seconds: float
) -> None:
    trace = traced(LOOP.format(end=end), space)
    shares = clocked(trace, at3=4.0, at4=5.0, at1=1.0)
    loop = loop_around(trace, frame(trace, 3))
    assert isinstance(loop, ast.For)
    assert op_costs.of_loop(shares, loop) == pytest.approx(seconds * SECOND, rel=NEAR)


def test_a_call_costs_what_it_was_met_in(traced: Any, space: dict[str, Any]) -> None:
    trace = traced("def both(t):\n    return t * 2 + 1\nfor k in range(9):\n    y = both(x)", space)
    timed(trace, SECOND // 10)
    trace.wall_ns = 10 * SECOND
    call = rows_of(trace, "mul")[0].chain[1:]
    trace.samples[0] = Sample("op", (frame(trace, 2), *call), ns=7 * SECOND, beats=9)
    trace.samples[1] = Sample("python", (frame(trace, 3),), ns=3 * SECOND, beats=9)
    assert op_costs.of_call(Shares(trace), call) == pytest.approx(7 * SECOND, rel=NEAR)
    trace.samples.pop(0)
    assert op_costs.of_call(Shares(trace), call) == pytest.approx(1.8 * SECOND, rel=NEAR)  # its ops


def test_ops_of_a_loop_that_run_once_cost_fewer_calls(traced: Any, space: dict[str, Any]) -> None:
    trace = traced(LOOP.format(end=""), space)
    shares, rows = clocked(trace, at3=10.0), rows_of(trace, "matmul", "add")
    each, once = (op_costs.for_all_turns(shares, rows, turns) for turns in (1, 9))
    assert each - once == pytest.approx(16 * op_costs.CALL_NS)
    (product,) = rows_of(trace, "matmul")
    assert op_costs.flops_of(product) == 64 * 16 * 4
    for row in rows:
        row.reached = 9
    assert op_costs.for_all_turns(shares, rows, 9) == pytest.approx(3 * once)
    assert op_costs.for_all_turns(shares, rows, 9, over=True) < op_costs.for_all_turns(shares, rows, 9)
    for row in rows:
        row.backend = "PyTorch"
    assert op_costs.in_place(shares, 1) == op_costs.TORCH_CALL_NS
    assert op_costs.layer_steps(shares, 2, trained=True) == 6 * op_costs.TORCH_STEP_NS
