"""What is left to say about slow code: the one line in which most of the time goes."""

from __future__ import annotations

from widgets.figures import time_text

from ..recorder.cell_trace import Leaf, Row, Trace
from ..recorder.repeats import RANDOM
from .cost import overhead
from .finding import Found, where
from .loop_waits import waits
from .order import rule
from .slow_code import slow
from .time_shares import Frame, Shares, begun, in_loop, on_innermost, quoted, spent

LONG_NS, MOST, TURNS = 500_000_000, 0.5, 8  # a cell's time, the share of one line, and the runs it needs
MODEL = ("linear", "conv", "matmul", "mm", "bmm", "addmm", "gru", "lstm", "rnn", "attention", "scaled_dot_product")
REMEDIES = {
    "sort": "Where only the largest are wanted, torch.topk finds them without sorting all.",
    "argsort": "Where only the largest are wanted, torch.topk finds them without sorting all.",
    "cdist": "Compute it for fewer pairs, or in half precision; what does not change, once and before the loop.",
    "contiguous": "Copy once, before the loop, or keep the data in the order that the op wants.",
    "clone": "Copy only what is changed later.",
    "repeat": "Use expand, which copies nothing, or let the next op broadcast.",
    "repeat_interleave": "Use expand and reshape, or let the next op broadcast.",
    "nonzero": "Use torch.where or a mask, which need no count of what they find.",
    "unique": "Find them once, before the loop; for counts of small numbers take torch.bincount.",
    "eig": "For a symmetric matrix take eigh; where only values are wanted, eigvalsh.",
    "linalg_eig": "For a symmetric matrix take eigh; where only values are wanted, eigvalsh.",
    "linalg_svd": "Where only values are wanted take svdvals; for a few vectors, svd_lowrank.",
    "svd": "Where only values are wanted take svdvals; for a few vectors, svd_lowrank.",
    "inverse": "Solve in place of inverting, and factor once what does not change.",
    "linalg_inv": "Solve in place of inverting, and factor once what does not change.",
    "matrix_exp": "Compute it once where the matrix does not change.",
    "multinomial": "Draw all samples in one call.",
    "index_put_": "Write all places in one call, or gather in a list and stack once.",
    "scatter_add_": "Sort by index once and sum the pieces, or use bincount with weights.",
    "one_hot": "Index by the numbers themselves: nn.Embedding, gather, or a loss that takes class numbers.",
}
DEFAULT = "See whether it can be done once, before the loop, for all at once, or on fewer values."


@rule(895)
def hottest(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A long cell with one line that takes most of its time, where nothing else is known about it."""
    shares = Shares(trace)
    if trace.error is not None or trace.stopped or shares.total < LONG_NS:
        return []
    if slow(trace, set()) or waits(trace, set()) or overhead(trace, set()):
        return []
    groups = on_innermost(shares.rows)
    if not groups:
        return []
    by_frame: dict[Frame, list[tuple[int, list[Row]]]] = {}
    for (frame, _), rows in groups.items():
        by_frame.setdefault(frame, []).append((spent(rows), rows))
    parts = max(by_frame.values(), key=lambda parts: sum(ns for ns, _ in parts))
    ns, rows = max(parts, key=lambda part: part[0])
    whole = sum(ns for ns, _ in parts)
    row = rows[0]
    runs = sum(r.runs for r in rows)
    model = row.op.startswith(MODEL) and row.requires_grad
    inside = row.path and row.chain[0][0].co_name != "forward"  # a layer of a library, called as it is meant to be
    if (
        model
        or inside
        or row.op in RANDOM
        or shares.worth(whole) < MOST
        or runs < TURNS
        or not in_loop(trace, row.chain)
        or ns < 0.5 * whole
    ):
        return []
    line, col, place = where(trace, row.chain)
    size = "×".join(map(str, row.shape)) or "one number"
    message = (
        f"{begun(place)} takes about {100 * whole / shares.total:.0f} % of this cell's time: "
        f"{quoted(trace, row.chain)} ran {runs:,} times, mostly {row.op} ({size}), {time_text(ns / runs / 1e6)} each."
    )
    return [Found("slow", "note", line, col, message, REMEDIES.get(row.op, DEFAULT), [row])]
