"""Ops of the device `cuda` that ran on the CPU, as CuPy cannot do them: what was copied for it, and why."""

from __future__ import annotations

from core.backends.cuda import fallback
from widgets.figures import size_text

from ...recorder.cell_trace import Leaf, Row, Trace
from ...recorder.kernel_choices import size_bytes
from ..finding import Found, capital, code_of, where
from ..order import rule

BIG = 1 << 20  # bytes copied, from which on it is worth a warning


@rule(840)
def elsewhere(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Each op that left the GPU, that with most bytes first."""
    rows = [row for row in trace.rows if row.backend == fallback.BACKEND and row.device == "cuda"]
    return [_found(trace, row) for row in sorted(rows, key=lambda row: -_moved(row))]


def _moved(row: Row) -> int:
    return row.count * (row.size + sum(size_bytes(ref) for ref in row.refs))


def _found(trace: Trace, row: Row) -> Found:
    line, col, place = where(trace, row.chain)
    why = fallback.why(row.op)
    times = "" if row.count == 1 else f" {row.count:,} times"
    message = capital(
        f"{place} leaves the GPU: `{code_of(trace, row)}` ran on the CPU{times}, and {size_text(_moved(row))} were "
        f"copied there and back, as CuPy cannot do {row.op}{f' ({why})' if why else ''}."
    )
    remedy = f"Without {row.op} the values stay on the GPU; or do this part on the CPU, once, before the loop."
    return Found("copy", "warning" if _moved(row) >= BIG else "note", line, col, message, remedy, [row])
