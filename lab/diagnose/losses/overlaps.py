"""Overlaps of masks and boxes that are computed wrongly: a union that counts twice, a Dice without its 2, of logits,
boxes that lie apart, sides of an image that are exchanged, a suppression that begins with the lowest score."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..order import rule, text_rule
from ..reading.calls import name_of, operands
from ..reading.expressions import Flow
from ..reading.scope import Scope
from ..reading.sources import Function, Source, called, names_in
from ..training.start_values import _range
from .losses import LINEAR, _source

COMMON = re.compile(r"(^|_)(inter|intersect\w*|overlaps?|common|tp|num|numerator)(_|\d|$)|inter(section)?", re.I)
JACCARD = re.compile(r"iou|jaccard|union", re.I)
DICE = re.compile(r"dice|sorensen|(^|_)f1(_|$)|dsc", re.I)
TALL, WIDE = (
    re.compile(r"^(h|height|img_h|im_h|image_height|H|ih|orig_h|hh)$"),
    re.compile(r"^(w|width|img_w|im_w|image_width|W|iw|orig_w|ww)$"),
)
LEAST = {"clamp", "clamp_", "clamp_min", "relu", "where", "clip"}


@text_rule(542, earlier=True)
def counted_twice(scope: Scope) -> Iterator[Found]:
    """``inter / (p.sum() + t.sum())``: an IoU whose union holds the common part twice, or a Dice without its 2."""
    source, flow = scope.source, scope.flow
    for node in flow.of(ast.BinOp):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        kind = _kind(source, node)
        above = _parts(flow, node.left)
        below = _parts(flow, node.right)
        if kind is None or above is None or below is None or len(above) != 1 or len(below) != 2:
            continue
        (times, common), *_ = above
        if times != 1 or any(part[0] != 1 for part in below) or not _common(flow, common):
            continue
        if any(COMMON.search(n) for _, part in below for n in names_in(part)) or not all(_total(p) for _, p in below):
            continue
        if kind == "iou":
            says = (
                f"divides what is common by the sum of both (`{ast.unparse(node)}`): the union holds the "
                "common part "
                "once, so a perfect overlap gives 0.5."
            )
            remedy = "Take it away once: union = a.sum() + b.sum() - inter."
        else:
            says = (
                f"has a Dice without its 2 (`{ast.unparse(node)}`): a perfect overlap gives 0.5, and a loss of it "
                "stays at 0.5."
            )
            remedy = "Write 2 * inter / (a.sum() + b.sum())."
        yield scope.tell(node, "loss" if kind == "dice" else "evaluation", says, remedy)


def _kind(source: Source, node: ast.AST) -> str | None:
    """Whether a quotient is called an IoU or a Dice, by its function, its class or its variable."""
    for above in source.around(node):
        name = ""
        if isinstance(above, ast.Assign):
            name = name_of(above.targets[0])
        elif isinstance(above, Function | ast.ClassDef):
            name = above.name
        if DICE.search(name):
            return "dice"
        if JACCARD.search(name):
            return "iou"
    return None


def _parts(flow: Flow, node: ast.expr, depth: int = 8) -> list[tuple[float, ast.expr]] | None:
    """The terms of a sum that are no plain numbers or eps, each with its factor; None where one is subtracted."""
    number = flow.number(node)
    if number is not None or (isinstance(node, ast.Name) and re.search(r"eps|smooth", node.id)):
        return []
    if re.fullmatch(r"self\.\w*(eps|smooth)\w*", ast.unparse(node)):
        return []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and depth:
        left, right = _parts(flow, node.left, depth - 1), _parts(flow, node.right, depth - 1)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for factor, rest in ((node.left, node.right), (node.right, node.left)):
            times = flow.number(factor)
            if times is not None:
                inner = _parts(flow, rest, depth - 1)
                return None if inner is None else [(times * k, n) for k, n in inner]
    if isinstance(node, ast.Call) and called(node) in ("clamp", "clamp_min", "float", "item"):
        return _parts(flow, getattr(node.func, "value", node), depth - 1) if depth else None
    value = flow.value(node) if depth else None
    if value is not None and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub | ast.Mult):
        return _parts(flow, value, depth - 1)
    return [(1.0, node)]


def _common(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is what two have in common."""
    if COMMON.search(name_of(node)):
        return True
    inner = flow.inner(node)
    sums = isinstance(inner, ast.Call) and called(inner) == "sum"
    return sums and any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult | ast.BitAnd) for n in ast.walk(inner))


def _total(node: ast.expr) -> bool:
    """Whether an expression may be the size of one of both: a sum, an area."""
    return called(node) in ("sum", "area", "box_area", "count_nonzero") or bool(
        re.search(r"area|sum|size|(^|_)(a|b|p|t|pred|target|true|pp|tt)(_|\d|$)|card", name_of(node), re.I)
    )


@rule(544)
def overlap_of_logits(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A Dice or an IoU loss of logits, which are no shares of a mask."""
    for row in trace.rows:
        if row.op != "mul" or not row.reached or len(row.refs) != 2 or not row.chain:
            continue
        place_names = [code.co_qualname for code, _ in row.chain[:2]]
        named = any(re.search(r"dice|iou|jaccard|tversky", name, re.I) for name in place_names)
        if not named and share_of(trace, row) is None:
            continue
        one = next((r for r in row.refs if r.requires_grad), None)
        mask = next((r for r in row.refs if not r.requires_grad and r.shape), None)
        made = _source(one) if one is not None else None
        if made is None or mask is None or _range(mask) != (0.0, 1.0) or made.stats is None:
            continue
        if made.op not in LINEAR or (made.stats.min or 0.0) >= 0.0:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} takes the overlap of logits with a mask (`{code_of(trace, row)}`, logits from "
            f"{made.stats.min:.3g} to {made.stats.max:.3g}): it is a share only of values from 0 to 1, and logits "
            "make it "
            "as large or as negative as one likes."
        )
        return [Found("loss", "warning", line, col, message, "Take torch.sigmoid(logits) first.", [made, row])]
    return []


def share_of(trace: Trace, row: Row) -> Row | None:
    """Return the quotient that is an overlap: a product with a mask, summed up, over a sum of both; None for any other
    product."""
    mask = next((r for r in row.refs if not r.requires_grad and r.shape), None)
    one = next((r for r in row.refs if r.requires_grad), None)
    stack = [(row, False, 0)]
    while stack:
        below, summed, depth = stack.pop()
        for above in trace.consumers().get(below, ()):
            if above.op == "div" and len(above.refs) == 2 and above.refs[0] is below and summed:
                parts = ancestors([above.refs[1]])
                if mask in parts and one in parts:
                    return above
            elif above.reached and depth < 8 and (above.op in ("sum", "mul", "add", "cast") or above.view):
                stack.append((above, summed or above.op == "sum", depth + 1))
    return None


@text_rule(545, earlier=True)
def boxes_apart(scope: Scope) -> Iterator[Found]:
    """``inter = (x2 - x1) * (y2 - y1)`` of boxes that may lie apart: two negative sides have a positive area."""
    source, flow = scope.source, scope.flow
    text = [called(n) for n in flow.nodes]
    if not {"max", "maximum"} & set(text) or not {"min", "minimum"} & set(text) or LEAST & set(text):
        return
    if any(isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Gt | ast.Lt) and _sides(flow, n)
           for n in flow.nodes):  # fmt: skip
        return
    for node in flow.of(ast.BinOp, ast.Call):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = [node.left, node.right]
        elif called(node) == "prod" and isinstance(node, ast.Call):
            sides = operands(node)[:1]
        else:
            continue
        above = source.parents.get(node)
        name = name_of(above.targets[0]) if isinstance(above, ast.Assign) else ""
        if not re.search(r"inter|overlap|common", name, re.I):
            continue
        if not all(_length(flow, side) for side in sides):
            continue
        says = (
            f"multiplies the sides of what two boxes have in common (`{ast.unparse(node)}`) and lets them be "
            "negative: for boxes that lie apart in both directions the product is positive, an overlap that is not "
            "there."
        )
        yield scope.tell(node, "loss", says, "Cut the sides at 0 first: (x2 - x1).clamp(min=0).")


def _sides(flow: Flow, node: ast.Compare) -> bool:
    """Whether a comparison is one of box sides: what a mask is made of."""
    return any(re.search(r"[xy]\d|lt|rb|wh", n) for n in names_in(node))


def _length(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is the difference of the least and the largest of two."""
    if isinstance(node, ast.Subscript):
        node = node.value
    inner = flow.inner(node)
    if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub):
        return False
    ends = [called(flow.inner(side)) for side in (inner.left, inner.right)]
    return ends[0] in ("min", "minimum") and ends[1] in ("max", "maximum")


@text_rule(546, earlier=True)
def lowest_first(scope: Scope) -> Iterator[Found]:
    """``order = scores.argsort()`` and ``order[0]`` in a suppression: the lowest score is kept first."""
    flow = scope.flow
    function = flow.scope
    if not isinstance(function, Function) or not re.search(r"nms|suppress", function.name, re.I):
        return
    for node in flow.of(ast.Assign):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call | ast.Subscript | ast.Attribute):
            continue
        made = node.value if isinstance(node.value, ast.Call) else node.value.value
        if called(made) not in ("argsort", "sort") or not isinstance(made, ast.Call):
            continue
        text = ast.unparse(node.value)
        if "descending" in text or "[::-1]" in text or ".flip(" in text or "-" in ast.unparse(made):
            continue
        name = ast.unparse(node.targets[0]).strip("()").split(", ")[-1]
        turned = any(f"{name}[::-1]" in ast.unparse(n) or f"{name}.flip" in ast.unparse(n) for n in flow.nodes
                     if isinstance(n, ast.Assign | ast.For))  # fmt: skip
        first = any(
            isinstance(n, ast.Subscript) and ast.unparse(n.value) == name and ast.unparse(n.slice) == "0"
            for n in flow.nodes
        )
        last = any(isinstance(n, ast.Subscript) and ast.unparse(n) == f"{name}[-1]" for n in flow.nodes)
        if turned or last or not first:
            continue
        says = (
            f"orders the boxes from the lowest score up (`{text}`) and takes the first: the weakest box is "
            "kept, and "
            "better ones that overlap with it are thrown away."
        )
        yield scope.tell(made, "evaluation", says, "Order them downwards: descending=True.")


@text_rule(547, earlier=True)
def sides_exchanged(scope: Scope) -> Iterator[Found]:
    """``boxes / torch.tensor([H, W, H, W])`` of boxes that are x, y, x, y; ``boxes[:, 0] * h``."""
    flow = scope.flow
    for node in flow.of(ast.List, ast.Tuple, ast.AugAssign, ast.BinOp, ast.Call):
        wrong = _exchanged(flow, node)
        if wrong is None:
            continue
        both = any(_listed(n) == "wide" for n in flow.nodes) or isinstance(wrong, ast.BinOp | ast.AugAssign)
        says = (
            f"scales x by the height and y by the width (`{ast.unparse(wrong)}`): in an image that is not "
            "square the "
            "boxes are stretched one way and squeezed the other."
        )
        remedy = "x goes with the width: [W, H, W, H]."
        yield scope.tell(wrong, "data", says, remedy, "warning" if both else "note")


def _listed(node: ast.AST) -> str:
    """ "tall" for ``[H, W, H, W]``, "wide" for ``[W, H, W, H]``, "" for anything else."""
    if called(node) == "repeat" and re.search(r"\.(shape|size\(\))\[-2:\]", ast.unparse(node)):
        return "tall"  # the last two sizes are height and width
    if not isinstance(node, ast.List | ast.Tuple) or len(node.elts) not in (2, 4):
        return ""
    names = [name_of(e) for e in node.elts]
    if len(names) == 2:
        return ""
    tall = all(TALL.match(n) for n in names[::2]) and all(WIDE.match(n) for n in names[1::2])
    wide = all(WIDE.match(n) for n in names[::2]) and all(TALL.match(n) for n in names[1::2])
    return "tall" if tall else "wide" if wide else ""


def _exchanged(flow: Flow, node: ast.AST) -> ast.AST | None:
    if _listed(node) == "tall":
        scope = {name_of(n) for n in flow.nodes if isinstance(n, ast.Name | ast.Attribute)}
        return node if any(re.search(r"box|bbox|anchor|rel|coord", n, re.I) for n in scope) else None
    target: ast.expr | None = None
    value: ast.expr | None = None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult | ast.Div):
        target, value = node.target, node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        target, value = node.left, node.right
    name = name_of(value) if value is not None else ""
    if not isinstance(target, ast.Subscript) or not (TALL.match(name) or WIDE.match(name)):
        return None
    if not re.search(r"box", ast.unparse(target.value), re.I):
        return None
    last = target.slice.elts[-1] if isinstance(target.slice, ast.Tuple) else target.slice
    column = ast.unparse(last)
    x, y = column in ("0", "2", "[0, 2]", "0::2", "::2"), column in ("1", "3", "[1, 3]", "1::2")
    return node if (x and TALL.match(name)) or (y and WIDE.match(name)) else None
