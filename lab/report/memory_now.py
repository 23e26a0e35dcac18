"""The memory of a GPU that is held at this moment, by the lines of the cell that is being recorded."""

from __future__ import annotations

from ..diagnose.finding import code_of, where
from ..recorder.cell_trace import Trace


def holders(trace: Trace) -> list[tuple[str, int, int]]:
    """Return what is alive on a GPU now by the line that made it: (line, bytes, arrays), that with most bytes first."""
    lines: dict[str, list[int]] = {}
    for block in trace.blocks:
        row = block.row
        if block.died_ns or row is None or row.device == "cpu":
            continue
        what = f"{where(trace, row.chain)[2]}: {code_of(trace, row)}" + (", its gradient" if block.backward else "")
        entry = lines.setdefault(what, [0, 0])
        entry[0] += block.size
        entry[1] += 1
    return sorted(((what, size, n) for what, (size, n) in lines.items()), key=lambda held: -held[1])
