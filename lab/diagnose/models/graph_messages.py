"""Graphs: degrees without the loops or of the other end, messages that come back to whom they left, attention over all
edges at once, or summed at the other end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import mentions, operands, option, rows_at
from ..reading.expressions import Flow
from ..reading.scope import Index, Scope, spread, stripped
from ..reading.sources import called

SCATTERS = {"index_add", "index_add_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"}
POWERS = re.compile(r"-0\.5|rsqrt|inverse|/ *\w*deg|\*\* -|reciprocal|sqrt")


def _plus_identity(flow: Flow, node: ast.expr) -> ast.expr | None:
    """What a matrix is without the loops that are added to it: A of ``A + torch.eye(n)``."""
    inner = flow.inner(node)
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add):
        for one, other in ((inner.left, inner.right), (inner.right, inner.left)):
            if any(called(n) == "eye" for n in ast.walk(flow.inner(other))):
                return one
    return None


@text_rule(343, "eye(")
def degree_without_loops(scope: Scope) -> Iterator[Found]:
    """``deg = A.sum(1)`` and ``deg ** -0.5 * (A + I) * deg ** -0.5``: the loops are not counted."""
    source, index = scope.source, scope.index
    if not mentions(POWERS, source.text):
        return
    for node in (*index.products, *index.binary.get(ast.MatMult, ()), *index.called("mm", "matmul", "spmm")):
        if isinstance(source.parents.get(node), ast.BinOp | ast.Call):
            continue
        parts = list(spread(index.flow, node, 160))
        bare = [b for n in parts if isinstance(n, ast.BinOp) and (b := _plus_identity(index.flow, n)) is not None]
        plain = {ast.unparse(b) for b in bare}
        for call in (n for n in parts if called(n) == "sum" and plain):
            of = operands(call)[0]
            many = len(operands(call)) + len(getattr(call, "keywords", ())) > 1
            if not many or ast.unparse(of) not in plain or _plus_identity(index.flow, of) is not None:
                continue
            message = (
                f"counts the edges without the loops (`{ast.unparse(call)}`), and normalises the matrix that "
                "has them "
                f"(`{ast.unparse(node)}`): its rows sum to more than they should, most at nodes with few "
                "neighbours."
            )
            remedy = f"Count them too: ({ast.unparse(of)} + torch.eye(n)).sum(1)."
            yield scope.tell(call, "loss", message, remedy)


def _scattered(index: Index) -> Iterator[tuple[ast.Call, ast.expr, ast.expr]]:
    """Yield what is added up at nodes: the call, where it goes to, and what."""
    for call in index.called(*SCATTERS):
        args = operands(call)
        if len(args) >= 4:
            yield call, args[2], args[3]


def _gathered(flow: Flow, node: ast.expr) -> set[str]:
    """By which indices the values that go into an expression were taken."""
    found = set()
    for one in spread(flow, node, 160):
        if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load):
            if isinstance(one.slice, ast.Name):
                found.add(one.slice.id)
            elif isinstance(one.slice, ast.Subscript):
                found.add(ast.unparse(one.slice))
        elif called(one) == "index_select" and isinstance(one, ast.Call) and len(operands(one)) == 3:
            found.add(ast.unparse(operands(one)[2]))
    return found


@text_rule(344)
def back_to_the_sender(scope: Scope) -> Iterator[Found]:
    """``out.index_add(0, src, h[src])``: each node gets its own features, and nothing of its neighbours."""
    index = scope.index
    for call, to, what in _scattered(index):
        name = _root(to)
        taken = _gathered(index.flow, what)
        if taken != {name} or not _of_edges(index, name):
            continue
        message = (
            f"adds up what was taken from {name} at {name} again (`{ast.unparse(call)}`): each node gets its own "
            "features as often as it has edges, and nothing of its neighbours."
        )
        yield scope.tell(
            call, "loss", message, "Take from the one end and add at the other: out.index_add(0, dst, h[src])."
        )


def _of_edges(index: Index, name: str) -> bool:
    """Whether an index is one end of edges: by its name, or by what it was taken out of together with the other."""
    if re.match(r"(src|source|sender|row|col|dst|receiver|from_|to_)|.*edge", name) and name not in ("rows", "cols"):
        return True
    for node in index.kinds.get(ast.Assign, ()):
        target = node.targets[0]
        pair = isinstance(target, ast.Tuple) and len(target.elts) == 2 and "edge" in ast.unparse(node.value)
        if pair and name in map(ast.unparse, target.elts):
            return True
    return False


def _root(node: ast.expr) -> str:
    """The variable of an index that is given a shape: src of ``src[:, None].expand_as(h)``."""
    while True:
        if (
            isinstance(node, ast.Call)
            and called(node) in ("expand_as", "expand", "unsqueeze", "view", "repeat")
            and operands(node)
        ):
            node = operands(node)[0]
        elif isinstance(node, ast.Subscript) and "None" in ast.unparse(node.slice):
            node = node.value
        else:
            return ast.unparse(node)


@text_rule(345)
def degree_of_the_other_end(scope: Scope) -> Iterator[Found]:
    """``agg.index_add(0, dst, ...)`` divided by how often each node is a source: right for edges both ways alone."""
    index = scope.index
    for node in index.binary.get(ast.Div, ()) if index.called(*SCATTERS) else ():
        tops = {_root(operands(n)[2]) for n in spread(index.flow, node.left, 160)
                if called(n) in SCATTERS and len(operands(n)) >= 4}  # fmt: skip
        bottoms = [n for n in spread(index.flow, node.right, 120) if called(n) in SCATTERS | {"bincount", "degree"}]
        for call in bottoms:
            args = operands(call)
            by = _root(args[2] if called(call) in SCATTERS and len(args) >= 4 else args[0]) if args else ""
            if len(tops) != 1 or not by or by in tops or not re.fullmatch(r"[\w\[\]]+", by):
                continue
            to = next(iter(tops))
            message = (
                f"divides what came to {to} by how often each node is in {by} (`{ast.unparse(node)}`; "
                f"`{ast.unparse(call)}`): unless every edge is there both ways, that is no mean."
            )
            yield scope.tell(node, "loss", message, f"Count the same end: torch.bincount({to}, minlength=n).", "note")


@text_rule(346, "softmax")
def one_softmax_for_all_edges(scope: Scope) -> Iterator[Found]:
    """``torch.softmax(e, dim=0)`` of a score for each edge: the attention of all nodes together sums to 1."""
    trace, source, index = scope.trace, scope.source, scope.index
    for call in index.called("softmax"):
        along = option(call, "dim", 1)
        if along is None or ast.unparse(along) not in ("0", "-1") or not operands(call):
            continue
        rows = [r for r in rows_at(trace, source, call) if r.op == "softmax"]
        flat = [r for r in rows if len(r.shape) == 1 or (len(r.shape) == 2 and ast.unparse(along) == "0")]
        taken = _gathered(index.flow, operands(call)[0])
        to = {
            _root(where)
            for c, where, what in _scattered(index)
            if any(n is call for n in spread(index.flow, what, 160))
        }
        if not flat or not to & taken or len(taken) < 2:
            continue
        n = flat[0].shape[0]
        name = sorted(to & taken)[0]
        message = (
            f"takes one softmax over all {n:,} edges (`{ast.unparse(call)}`): the weights of a node's "
            "neighbours are "
            f"to sum to 1 for each node of {name}, and here those of the whole graph do, so a message is "
            "nearly nothing."
        )
        remedy = f"Divide by the sum at each node: e.exp() / sums[{name}], sums of index_add(0, {name}, e.exp())."
        yield scope.tell(call, "layout", message, remedy, rows=flat[:1])


@text_rule(608, "exp")
def attention_of_the_other_end(scope: Scope) -> Iterator[Found]:
    """``alpha / sums[src]`` of exponentials that are summed by src, and messages that go to dst."""
    index = scope.index
    for node in index.binary.get(ast.Div, ()):
        summed, by = _summed_by(index.flow, node.right)
        if summed is None or not any(called(n) == "exp" for n in spread(index.flow, node.left, 120)):
            continue
        for call, to, what in _scattered(index):
            if call is summed or _root(to) == by or not any(n is node for n in spread(index.flow, what, 200)):
                continue
            message = (
                f"divides the attention by its sums over {by} (`{ast.unparse(node)}`; `{ast.unparse(summed)}`), and "
                f"the messages go to {_root(to)} (`{ast.unparse(call)}`): of what comes to a node the weights do not "
                "sum to 1."
            )
            yield scope.tell(node, "loss", message, f"Sum them where the messages go: index_add(0, {_root(to)}, ...).")


def _summed_by(flow: Flow, node: ast.expr) -> tuple[ast.Call | None, str]:
    """The call that adds values up at nodes, of which ``sums[src] + eps`` takes one for each edge, and by what."""
    for part in ast.walk(node):
        if not isinstance(part, ast.Subscript) or not isinstance(part.slice, ast.Name):
            continue
        made = stripped(flow, part.value)
        if isinstance(made, ast.Call) and called(made) in SCATTERS and len(args := operands(made)) >= 4:
            by = _root(args[2])
            return (made, by) if by == part.slice.id else (None, "")
    return None, ""
