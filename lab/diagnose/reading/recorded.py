"""What the recording says of an expression of the text: the op that gave it its value, and how it enters the loss."""

from __future__ import annotations

import ast

from core.base.source import Location

from ...recorder.cell_trace import Row, Trace
from ...recorder.user_files import shown_name
from .sources import Source

AVERAGING = {"mean", "sum", "cast", "float", "to", "double"}
RISING = {*AVERAGING, "add", "stack", "cat", "exp", "log", "log1p", "expm1", "sqrt", "relu", "softplus", "sigmoid",
          "tanh", "clamp", "minimum", "maximum", "log_sigmoid", "nanmean", "logsumexp", "add_"}  # fmt: skip
MOST = 400  # ops between an expression and the loss


def row_of(trace: Trace, source: Source, node: ast.expr) -> Row | None:
    """Return the op that gave an expression its value: the last one that ran for just these characters."""
    frames = dict.fromkeys(frame for row in trace.rows for frame in row.chain)
    here = {frame for frame in frames if _spans(trace, trace.place(*frame), source, node)}
    made = [row for row in trace.rows if row.phase == "forward" and not row.cut and not here.isdisjoint(row.chain)]
    return max(made, key=lambda row: row.number, default=None)


def _spans(trace: Trace, at: Location, source: Source, node: ast.expr) -> bool:
    """Whether a place is that of an expression, from its first character to its last."""
    if source.name:
        more, known = 0, at.file not in trace.files and shown_name(at.file) == source.name
    else:
        more, known = trace.files.get(at.file, 0), at.file in trace.files
    place = (at.line + more, at.col, at.end_line + more, at.end_col)
    return known and place == (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def entering(trace: Trace, source: Source, node: ast.expr, sign: int) -> list[Row] | None:
    """Return what shows that an expression enters the loss with a sign: its op and the losses that it enters; [] where
    the recording does not tell, None where it enters with the other one."""
    row = row_of(trace, source, node)
    if row is None or not row.reached or any(call.args for call in source.calls.get("backward", ())):
        return []  # backward() may be given a sign
    weight, roots = weight_in_loss(trace, row)
    return [row, *roots] if weight == sign else None if weight else []


def weight_in_loss(trace: Trace, row: Row) -> tuple[int, list[Row]]:
    """Return 1 where a loss grows with what an op gives, -1 where it falls, 0 where the recorded ops do not tell; and
    the losses."""
    ends = {root for rows in trace.roots.values() for root in rows}
    readers = trace.consumers()
    signs = {row: 1}
    waiting = [row]
    while waiting and len(signs) < MOST:
        at = waiting.pop()
        for reader in readers.get(at, ()):
            if reader.cut or not reader.reached:
                continue
            sign = signs[at] * turn(reader, at)
            if not sign or signs.get(reader, sign) != sign:
                return 0, []
            if reader not in signs:
                signs[reader] = sign
                waiting.append(reader)
    found = [end for end in signs if end in ends]
    weights = {signs[end] for end in found}
    return (weights.pop(), found) if len(weights) == 1 else (0, [])


def turn(row: Row, before: Row) -> int:
    """Return 1 where what an op gives grows with one of its inputs, -1 where it falls, 0 where that is not known."""
    if row.op == "neg":
        return -1
    if row.view or row.op in RISING:
        return 1
    if row.op in ("sub", "rsub") and len(row.refs) == 2:
        return 1 if row.refs[0] is before else -1
    if row.op not in ("mul", "div") or before not in row.refs:
        return 0
    others = [ref for ref in row.refs if ref is not before]
    if not others:
        return by_values(row, before) if len(row.refs) == 1 else 0
    by = others[0].stats if isinstance(others[0], Row) else None
    if by is None or (row.op == "div" and row.refs[0] is not before):
        return 0
    return 1 if (by.min or 0) > 0 else -1 if (by.max or 0) < 0 else 0


def by_values(row: Row, before: Row) -> int:
    """Return 1 where an op with a plain number keeps the sign, -1 where it turns it, 0 where that is not known."""
    if row.op == "neg":
        return -1
    a, b = row.stats, before.stats
    if a is None or b is None or not a.mean or not b.mean:
        return 0
    return 1 if a.mean * b.mean > 0 else -1
