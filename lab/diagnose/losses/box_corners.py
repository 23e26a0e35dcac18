"""Boxes as centre and size where corners are asked for: an overlap of them is none."""

from __future__ import annotations

import ast
import re

from core.base import syntax

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, where
from ..order import rule
from ..reading.sources import sources

OVERLAP = re.compile(r"iou|inter|union|overlap|nms", re.I)
CONVERTS = re.compile(
    r"(cx_?cy_?w_?h|xywh|cwh|cent(er|re)\w*|ctr\w*)_?(2|to)_?(xy_?xy|x1y1x2y2|corners?|ltrb|tlbr|point\w*)", re.I
)
LAST = re.compile(r"^(x2|xmax|x_max|right|r|x1)$|(^|_)(x2|xmax|right)(_|$)|x2$", re.I)
FIRST = re.compile(r"^(x1|xmin|x_min|left|l|x0)$|(^|_)(x1|xmin|left)(_|$)|x1$", re.I)
SLICES = {"getitem", "slice", "select", "index", "unbind", "split", "chunk", "narrow"}


@rule(503)
def centres_for_corners(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``b[:, 2:] - b[:, :2]`` in an overlap, which is below 0 for the true boxes: these are centre and size."""
    for row in trace.rows:
        if row.op != "sub" or row.stats is None or not row.chain or row.requires_grad or len(row.refs) != 2:
            continue
        boxes = _cut_from(row.refs[0])
        if boxes is None or boxes is not _cut_from(row.refs[1]) or (row.stats.min or 0.0) >= 0.0:
            continue
        if not _width(code_of(trace, row)) or not _overlaps(row):
            continue
        line, col, place = where(trace, row.chain[1:] or row.chain)
        message = capital(
            f"{place} gives boxes to {row.chain[0][0].co_name}(), which takes them for corners, and they are none: "
            f"`{code_of(trace, row)}`, the width and the height of the true boxes, goes down to {row.stats.min:.2g}. "
            "Boxes as centre and size give an overlap that means nothing."
        )
        return [Found("loss", "warning", line, col, message, _remedy(trace), [row])]
    return []


def _cut_from(ref: Ref) -> Ref | None:
    """Of what an operand is a part, if that has four numbers for each box."""
    if not isinstance(ref, Row) or ref.op not in SLICES or len(ref.refs) != 1:
        return None
    return ref.refs[0] if ref.refs[0].shape[-1:] == (4,) else None


def _width(code: str) -> bool:
    """Whether an expression is the second half of a box without the first, or the third number without the first.

    >>> [_width(t) for t in ("b[:, 2:] - b[:, :2]", "b[..., 2] - b[..., 0]", "x2 - x1", "b[:, :2] - b[:, 2:] / 2")]
    [True, True, True, False]
    """
    try:
        tree = syntax.expression(code.strip())
    except (SyntaxError, ValueError):
        return False
    if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Sub):
        return False
    if isinstance(tree.left, ast.Name) and isinstance(tree.right, ast.Name):
        return bool(LAST.search(tree.left.id) and FIRST.search(tree.right.id))
    last, first = _part(tree.left), _part(tree.right)
    return (last, first) in {("2:", ":2"), ("2:4", ":2"), ("2:4", "0:2"), ("2:", "0:2"), ("2", "0"), ("3", "1")}


def _part(node: ast.expr) -> str:
    """Which numbers of the last dimension an index takes."""
    if not isinstance(node, ast.Subscript):
        return ""
    last = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) else node.slice
    return ast.unparse(last)


def _overlaps(row: Row) -> bool:
    """Whether a function that computes an overlap ran it."""
    code = row.chain[0][0]
    return any(OVERLAP.search(name) for name in (code.co_name, *code.co_varnames))


def _remedy(trace: Trace) -> str:
    """What makes corners of centres and sizes: the user's own function, if there is one."""
    own = next((name for source in sources(trace) for name in source.functions if CONVERTS.search(name)), None)
    if own is not None:
        return f"Make corners of both first: {own}(boxes)."
    return "Make corners of both first: torch.cat([b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2], -1)."
