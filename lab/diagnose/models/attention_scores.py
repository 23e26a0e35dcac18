"""Scores of an attention: masked with a number that is no small one, cut after the softmax, or so large that the
softmax picks a single key."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Row, Trace
from ..finding import Found, capital, code_of, where
from ..order import rule, text_rule
from ..reading.calls import operands
from ..reading.expressions import Flow
from ..reading.scope import Scope
from ..reading.sources import called

FILLS = {"masked_fill": 1, "masked_fill_": 1, "where": 2}
"""Calls that put a number where a mask says so, and which argument it is."""
LOW = -50.0  # a score below this is none
CAUSAL = re.compile(r"tril|triu|causal|subsequent|look_?ahead", re.I)
WIDE = 12.0  # standard deviation of scores from which a softmax has one value near 1


@text_rule(458)
def masked_by_zero(scope: Scope) -> Iterator[Found]:
    """``scores.masked_fill(mask == 0, 0).softmax(-1)``: a score of 0 is no small one."""
    source, flow = scope.source, scope.flow
    for node in flow.nodes:
        if called(node) != "softmax" or not isinstance(node, ast.Call):
            continue
        filled = _filled(flow, node)
        if filled is None:
            continue
        call, number = filled
        weight = "1" if abs(number) < 1e-3 else "no small number"
        message = (
            f"gives what the mask leaves out the score {number:g} (`{ast.unparse(call)}`), and "
            f"{source.place(node).words} takes the softmax: exp({number:g}) is {weight}, so "
            "it goes on having weight."
        )
        row = scope.row(node)
        weighs = row is not None and row.stats is not None and not row.stats.zeros
        remedy = "Fill with float('-inf')."
        yield scope.tell(call, "mask", message, remedy, rows=[row] if row is not None and weighs else [])


def _filled(flow: Flow, node: ast.Call) -> tuple[ast.Call, float] | None:
    """Return the call that masks what a softmax is given with a number which is no small one, and the number."""
    own = node.func.value if isinstance(node.func, ast.Attribute) else None
    outside = own is None or ast.unparse(own) in ("F", "torch", "core", "nn.functional", "torch.nn.functional")
    of = (node.args[0] if node.args else None) if outside else own
    inner = flow.inner(of) if of is not None else None
    if not isinstance(inner, ast.Call) or called(inner) not in FILLS:
        return None
    place = FILLS[called(inner)]
    if called(inner) == "where" and len(inner.args) == 3:
        numbers = [one_number(flow, a) for a in inner.args[1:]]
        if sum(n is not None for n in numbers) != 1:
            return None
        number = next(n for n in numbers if n is not None)
    elif len(inner.args) > place:
        found = one_number(flow, inner.args[place])
        if found is None:
            return None
        number = found
    else:
        return None
    return (inner, number) if number > LOW else None


def one_number(flow: Flow, node: ast.expr) -> float | None:
    """Return the number that an expression is, or that every element of a tensor is which it makes: ``-1e9``,
    ``torch.full_like(x, -1e9)``, ``torch.zeros_like(x)``."""
    inner = flow.inner(node)
    name, args = called(inner), inner.args if isinstance(inner, ast.Call) else []
    if name in ("zeros", "zeros_like", "ones", "ones_like"):
        return float(name.startswith("one"))
    filled = args[1] if name in ("full", "full_like") and len(args) > 1 else None
    filled = args[0] if name in ("tensor", "as_tensor", "float", "scalar_tensor") and len(args) == 1 else filled
    if filled is not None:
        return one_number(flow, filled)
    text = ast.unparse(inner)
    if re.fullmatch(r"-((np|math|torch)\.)?inf|['\"]-inf(inity)?['\"]|torch\.finfo\(.*\)\.min", text):
        return float("-inf")
    return flow.number(inner)


@text_rule(459)
def weights_cut(scope: Scope) -> Iterator[Found]:
    """``scores.softmax(-1) * torch.tril(ones)``: the sum that the earlier ones are divided by has the later in it."""
    flow = scope.flow
    divided = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) and called(n.right) == "sum"
                  for n in flow.nodes)  # fmt: skip
    for node in flow.nodes:
        if not divided and called(node) in ("tril", "tril_") and called(flow.inner(operands(node)[0])) == "softmax":
            yield _cut(scope, node)
        if divided or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for weights, mask in ((node.left, node.right), (node.right, node.left)):
            if called(flow.inner(weights)) != "softmax":
                continue
            if not CAUSAL.search(ast.unparse(mask) + ast.unparse(flow.inner(mask))):
                continue
            yield _cut(scope, node)


def _cut(scope: Scope, node: ast.AST) -> Found:
    """Told of weights that are cut after the softmax."""
    message = (
        f"cuts weights after the softmax (`{ast.unparse(node)}`): later positions are in the "
        "sum that the weights of the earlier ones were divided by, so these tell of the future, and "
        "they do not sum to 1."
    )
    return scope.tell(node, "mask", message, "Mask the scores with float('-inf'), and take the softmax of those.")


@rule(461)
def not_scaled(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Scores of queries and keys that are so large that each softmax picks one key."""
    for row in trace.rows:
        if row.op != "softmax" or not row.reached or len(row.shape) < 3 or not row.refs or row.shape[-1] < 4:
            continue
        scores = _product(row.refs[0])
        stats = scores.stats if scores is not None else None
        if scores is None or stats is None or stats.std is None or stats.max is None or stats.std < WIDE:
            continue
        width = scores.refs[0].shape[-1]
        line, col, place = where(trace, scores.chain)
        message = capital(
            f"{place} multiplies queries and keys of width {width} (`{code_of(trace, scores)}`) to scores that go "
            f"from {stats.min:.3g} to {stats.max:.3g}: a softmax of those picks one key with a weight of nearly 1, and "
            "passes hardly a gradient."
        )
        remedy = f"Divide them by the root of the width: scores / {width} ** 0.5; or normalise what they are made of."
        return [Found("gradient", "warning", line, col, message, remedy, [scores, row])]
    return []


def _product(ref: Ref) -> Row | None:
    """Return the product of two values with gradients that scores are, masked or not; None where they were scaled."""
    while isinstance(ref, Row) and ref.refs:
        if ref.op in ("matmul", "einsum", "bmm"):
            both = [r for r in ref.refs if r.requires_grad]
            return ref if len(both) == 2 and all(len(r.shape) > 2 for r in both) else None
        if not (ref.view or ref.op in ("masked_fill", "masked_fill_", "where", "cast", "float")):
            return None
        ref = next((r for r in ref.refs if r.requires_grad), ref.refs[0])
    return None
