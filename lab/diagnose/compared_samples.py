"""Losses that compare samples with each other: a triplet that pushes the wrong pair apart, and a similarity of each
sample with itself among those that it is to be told from."""

from __future__ import annotations

import ast
import re

from ..recorder.cell_trace import Leaf, Trace
from .expressions import Flow, flow_of
from .finding import Found, capital
from .order import rule
from .user_sources import called, names_in, sources

POSITIVE = re.compile(r"(^|_)(p|pos|positive|positives|same|ap|match)(_|\d|$)|pos(_?dist)?$", re.I)
NEGATIVE = re.compile(r"(^|_)(n|neg|negative|negatives|diff|different|an)(_|\d|$)|neg(_?dist)?$", re.I)
DISTANCES = {"pairwise_distance", "norm", "cdist", "dist", "vector_norm", "euclidean", "distance"}


@rule(425)
def pushed_the_wrong_way(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``relu(d_neg - d_pos + margin)`` of distances: what belongs together is pushed apart."""
    if not trace.steps.count:
        return []
    for source in sources(trace):
        for scope in source.scopes():
            flow = flow_of(source, scope)
            for node in flow.nodes:
                inside = _hinged(node)
                if inside is None:
                    continue
                terms = list(flow.terms(inside, whole=re.compile(r"\w")))
                pos = [t for t in terms if _speaks(t.node, POSITIVE, NEGATIVE)]
                neg = [t for t in terms if _speaks(t.node, NEGATIVE, POSITIVE)]
                if len(pos) != 1 or len(neg) != 1 or pos[0].sign != -1 or neg[0].sign != 1:
                    continue
                if not all(_distance(flow, t.node) for t in (pos[0], neg[0])):
                    continue
                line, col, place = source.place(node)
                message = capital(
                    f"{place} makes the distance to what belongs together larger, and that to others smaller "
                    f"(`{ast.unparse(inside)}`): the first enters the loss with a minus, the second with a plus."
                )
                remedy = f"Turn them round: {ast.unparse(pos[0].node)} - {ast.unparse(neg[0].node)} + margin."
                return [Found("loss", "warning", line, col, message, remedy)]
    return []


def _hinged(node: ast.AST) -> ast.expr | None:
    """What a call cuts off below 0."""
    if not isinstance(node, ast.Call):
        return None
    if called(node) == "relu" and len(node.args) == 1:
        return node.args[0]
    given = {k.arg: ast.unparse(k.value) for k in node.keywords}
    if called(node) in ("clamp", "clip", "clamp_min", "clamp_"):
        of = getattr(node.func, "value", None)
        args = list(node.args)
        if isinstance(of, ast.Name) and of.id in ("torch", "core", "F"):
            of, args = (args[0] if args else None), args[1:]
        low = given.get("min", ast.unparse(args[0]) if args else "")
        return of if low in ("0", "0.0", "0.") and isinstance(of, ast.expr) else None
    if called(node) in ("max", "maximum") and len(node.args) == 2:
        zero = [
            a for a in node.args if ast.unparse(a) in ("0", "0.0") or called(a) in ("zeros_like", "zeros", "tensor")
        ]
        rest = [a for a in node.args if a not in zero]
        return rest[0] if len(rest) == 1 else None
    return None


def _speaks(node: ast.expr, of: re.Pattern[str], other: re.Pattern[str]) -> bool:
    names = names_in(node) | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return any(of.search(n) for n in names) and not any(other.search(n) for n in names)


def _distance(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is a distance: by what it was computed with, or its name where nobody can tell."""
    inner = flow.inner(node)
    calls = {called(n) for n in ast.walk(inner)}
    if calls & DISTANCES or any("dist" in c.lower() for c in calls):
        return not any("sim" in c.lower() or "cos" in c.lower() for c in calls)
    squared = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow) for n in ast.walk(inner)) or calls & {
        "pow",
        "square",
    }
    if squared and any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) for n in ast.walk(inner)):
        return True
    return isinstance(inner, ast.Name) and "dist" in inner.id.lower()
