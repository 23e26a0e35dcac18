"""What makes a cell slower than it needs to be: float64 by accident, ops too small for their kernels to matter."""

from __future__ import annotations

from widgets.figures import time_text

from ..gathered import Leaf, Ref, Row, Trace
from .found import Found, capital, code_of, where

MANY = 2000  # op runs below which a cell is over before anybody waits
SMALL_US = 5.0  # an op shorter than this is mostly the call
IDLE = 0.6  # share of the wall time outside ops from which Python is what is waited for


def double(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """float32 parameters and float64 data meet in an op: all that follows is float64."""
    if not any(leaf.dtype == "float32" for leaf in trace.parameters()):
        return []
    for row in trace.rows:
        if row.dtype != "float64" or row.cut or not row.requires_grad:
            continue
        kinds = {_before_cast(ref, row).dtype for ref in row.refs if ref.shape}
        if not {"float32", "float64"} <= kinds:
            continue
        line, col, place = where(trace, row.chain)
        names = [ref.name for ref in row.refs if isinstance(ref, Leaf) and ref.dtype == "float64" and ref.name]
        who = f" ({names[0]} is float64, as NumPy makes it)" if names and not names[0].startswith("unnamed") else ""
        message = capital(
            f"{place} goes on in float64: `{code_of(trace, row)}` mixes float32 and float64{who}, and what follows "
            "takes twice the memory and the time."
        )
        return [
            Found("dtype", "warning", line, col, message, "Convert the data once, where it is made: .float().", [row])
        ]
    return []


def _before_cast(ref: Ref, row: Row) -> Ref:
    """What an op was given before it brought its operands to one dtype."""
    own = isinstance(ref, Row) and ref.op == "cast" and ref.chain == row.chain and len(ref.refs) == 1
    return ref.refs[0] if own else ref  # type: ignore[union-attr]


def overhead(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Thousands of tiny ops: the time goes to calling them."""
    forward = [row for row in trace.rows if not row.cut and row.phase == "forward" and row.count]
    runs = sum(row.count for row in forward)
    spent = sum(row.forward_ns for row in forward)
    wall = trace.wall_ns - trace.own_ns
    inside = spent + trace.backward_ns + trace.update_ns
    if runs < MANY or spent / runs > 1e3 * SMALL_US or wall <= 0 or 1 - inside / wall < IDLE:
        return []
    by_line: dict[int, tuple[int, Row]] = {}
    for row in forward:
        line = trace.line(row.chain)
        if line is not None:
            by_line[line] = (by_line.get(line, (0, row))[0] + row.count, row)
    if not by_line:
        return []
    line, (count, row) = max(by_line.items(), key=lambda pair: pair[1][0])
    message = (
        f"Line {line} runs {count:,} of {runs:,} ops that take {time_text(spent / runs / 1e6)} each: "
        f"{100 * (1 - inside / wall):.0f} % of this cell's time is Python between the ops and not in them."
    )
    remedy = "Work on whole tensors in place of elements or rows: one op over a batch costs as much as one over a row."
    return [Found("overhead", "note", line, None, message, remedy, [row])]
