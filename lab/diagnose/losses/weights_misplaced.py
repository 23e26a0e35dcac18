"""Masks and weights that reach a loss in the wrong way: times one number of the whole batch, added where they should be
multiplied, or multiplied twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, where
from ..order import rule, text_rule
from ..reading.calls import name_of
from ..reading.expressions import scalar
from ..reading.scope import Scope, goals, value_of
from ..training.start_values import _range

REDUCES = {"sum", "mean", "nansum", "nanmean"}
SCALES = {"mul", "div", "neg", "add", "sub", "rsub"}
WEIGHT = re.compile(r"(^|_)(w|weights?|coef\w*|alpha|lambda\w*|lam)(_|$)|_w$", re.I)
LOSS = re.compile(r"loss|nll|err|(^|_)(kl|ce|bce|mse|penalty|term)(_|$)", re.I)


@rule(507)
def one_number_masked(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``kl = torch.sum(...) * mask``: the sum of the whole batch stands at each place that the mask keeps."""
    for row in trace.rows:
        if row.op != "mul" or not row.reached or len(row.refs) != 2 or not row.shape:
            continue
        one = next((r for r in row.refs if r.requires_grad and not r.shape and isinstance(r, Row)), None)
        mask = next((r for r in row.refs if not r.requires_grad and len(r.shape) > 0), None)
        if one is None or mask is None or tuple(mask.shape) != tuple(row.shape):
            continue
        whole = _summed(one)
        of = whole.refs[0] if whole is not None else None
        if whole is None or of is None or tuple(of.shape[: len(mask.shape)]) != tuple(mask.shape):
            continue
        if mask.dtype != "bool" and _range(mask) != (0.0, 1.0):
            continue
        line, col, place = where(trace, row.chain)
        shape = ", ".join(map(str, of.shape))
        message = capital(
            f"{place} multiplies the mask with one number (`{code_of(trace, row)}`): `{code_of(trace, whole)}` has no "
            f"dim and sums all of ({shape}), what the mask leaves out too, so each place that it keeps gets the whole."
        )
        remedy = "Sum over the last dimension alone: .sum(-1) before the mask is multiplied with it."
        return [Found("loss", "warning", line, col, message, remedy, [whole, row])]
    return []


def _summed(ref: Ref) -> Row | None:
    """The sum over all of a tensor that a number is, times and plus other numbers."""
    for _ in range(8):
        if not isinstance(ref, Row) or ref.shape:
            return None
        if ref.op in REDUCES:
            return ref
        on_graph = [r for r in ref.refs if r.requires_grad]
        if ref.op not in SCALES or len(on_graph) != 1:
            return None
        ref = on_graph[0]
    return None


@text_rule(509, "backward", trains=True, earlier=True)
def weight_added(scope: Scope) -> Iterator[Found]:
    """``loss = self.interior_weight + interior_loss``: the weight stands beside what it is to weigh."""
    flow = scope.flow
    for goal in goals(scope.source, flow):
        terms = list(flow.terms(goal))
        for term in terms if len(terms) > 1 else ():
            node = term.node
            if term.sign < 0 or not scalar(node) or not WEIGHT.search(name_of(node)) or flow.setting(node) is None:
                continue
            whole = flow.entrance(goal, node)
            message = (
                f"adds {ast.unparse(node)} to the loss (`{ast.unparse(whole)}`), which is a number: it weighs nothing, "
                "and its gradient is 0."
            )
            beside = whole.right if isinstance(whole, ast.BinOp) else node
            remedy = f"Multiply with it: {ast.unparse(node)} * {ast.unparse(beside)}."
            yield scope.tell(whole, "loss", message, remedy)


@text_rule(527)
def weighted_twice(scope: Scope) -> Iterator[Found]:
    """``loss = (w * error).sum()`` and then ``loss = (w * loss).sum()``."""
    for pair in scope.index.given:
        if not LOSS.search(pair.name):
            continue
        times = [n for n in ast.walk(pair.value) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)]
        for product in times:
            for weight, of in ((product.left, product.right), (product.right, product.left)):
                if name_of(of) != pair.name or not isinstance(of, ast.Name) or not WEIGHT.search(name_of(weight)):
                    continue
                before = value_of(scope.flow, of)
                if before is None or not _times(before, ast.unparse(weight)):
                    continue
                message = (
                    f"multiplies {pair.name} with {ast.unparse(weight)} once more (`{ast.unparse(pair.value)}`): "
                    f"{scope.place(before).words} has done so already (`{ast.unparse(before)}`), so it counts by its "
                    "square."
                )
                yield scope.tell(product, "loss", message, "Leave one of the two out.")


def _times(node: ast.expr, weight: str) -> bool:
    """Whether an expression has a product with a weight in it."""
    return any(
        isinstance(n, ast.BinOp)
        and isinstance(n.op, ast.Mult)
        and weight in (ast.unparse(n.left), ast.unparse(n.right))
        for n in ast.walk(node)
    )
