"""A term of the loss that is a plain number: it changes what the loss says, and no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..order import rule
from ..reading.expressions import Flow
from ..reading.safe_forms import renamed
from ..reading.scope import flow_around
from ..reading.sources import sources
from . import value_flow

HARD = {"argmax", "argmin", "eq", "ne", "gt", "lt", "ge", "le", "sign", "round", "floor"}
"""Ops whose result has no gradient, whatever they are given."""
EACH = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "binary_cross_entropy",
        "binary_cross_entropy_with_logits", "kl_div"}  # fmt: skip


@rule(150)
def number_added(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """`loss = fit + weight * penalty.item()`: backward() runs, and the penalty takes no part in it.

    A number that a term is multiplied by may be an adaptive weight; one that is added to the loss does nothing.
    """
    roots = {row for rows in trace.roots.values() for row in rows}
    sums = [row for row in roots if row.op in ("add", "add_") and row.reached and row.requires_grad and not row.shape]
    left = [row for row in trace.rows if row.cut == "item" and row.refs and row.refs[0].requires_grad]
    if not sums or not left:
        return []
    spans = {value_flow._span(place) for row in sums if (place := value_flow._raw(trace, row)) is not None}
    for cut in left:
        place = value_flow._raw(trace, cut)
        if place is None:
            continue
        for node in trace.nodes():
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and value_flow._of(node) in spans:
                terms: tuple[ast.expr, ...] = (node.left, node.right)
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and value_flow._of(node) in spans:
                terms = (node.value,)
            else:
                continue
            flow = flow_around(sources(trace)[0], node)
            if any(_scaled(flow, term, value_flow._span(place)) for term in terms):
                return [_told(trace, cut)]
    return []


@rule(151)
def term_without_gradient(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``loss = fit + 0.1 * bce(D(fake).detach(), ones)``: the second term is a number, whatever the generator does."""
    for row in trace.rows:
        if row.op not in ("add", "add_") or not row.reached or row.shape or not row.requires_grad:
            continue
        term = next((r for r in row.refs if isinstance(r, Row) and not r.requires_grad and not r.shape), None)
        inner: Ref | None = term
        while isinstance(inner, Row) and inner.op in ("mul", "div", "neg", "sub", "add") and inner.refs:
            if inner.op in ("sub", "add") and len(inner.refs) > 1:
                break  # of two values, neither of which is a number
            inner = next((r for r in inner.refs if isinstance(r, Row)), None)
        if not isinstance(inner, Row) or inner.op not in EACH | {"mean", "sum"}:
            continue
        behind = ancestors([inner])
        cut = next((r for r in behind if isinstance(r, Row) and r.cut == "detach" and r.refs[0].requires_grad), None)
        if cut is None:
            if (found := _chosen(trace, row, inner, behind)) is not None:
                return [found]
            continue
        line, col, place = where(trace, inner.chain)
        message = capital(
            f"{place} is a term of the loss without a gradient (`{code_of(trace, inner)}`, added by "
            f"`{code_of(trace, row)}`): all that it is made of left the graph at `{code_of(trace, cut)}` "
            f"({where(trace, cut.chain)[2]}), so it changes what the loss says, and no weight."
        )
        return [Found("cut", "warning", line, col, message, "Leave the detach() out of this term.", [cut, inner])]
    return []


def _chosen(trace: Trace, row: Row, inner: Row, behind: Iterable[Ref]) -> Found | None:
    """A term of what argmax or a comparison gives, which has no gradient."""
    hard = [r for r in behind if isinstance(r, Row) and r.op in HARD and any(ref.requires_grad for ref in r.refs)]
    if not hard:
        return None
    cut = min(hard, key=lambda r: r.number)
    line, col, place = where(trace, inner.chain)
    message = capital(
        f"{place} is a term of the loss without a gradient (`{code_of(trace, inner)}`, added by "
        f"`{code_of(trace, row)}`): `{code_of(trace, cut)}` ({where(trace, cut.chain)[2]}) gives "
        f"{'numbers of classes' if cut.op.startswith('arg') else 'true or false'}, which no gradient passes, so it "
        "changes what the loss says, and no weight."
    )
    soft = renamed(code_of(trace, cut), "argmax", "softmax")
    instead = f"the probabilities, {soft} in place of `{code_of(trace, cut)}`" if soft else "the values themselves"
    return Found("cut", "warning", line, col, message, f"Make the term of {instead}.", [cut, inner])


def _scaled(flow: Flow, term: ast.expr, span: value_flow.Span) -> bool:
    """Whether a term is the expression at `span`, or a multiple of it."""
    if value_flow._of(flow.inner(term)) == span:
        return True
    if isinstance(term, ast.UnaryOp):
        return _scaled(flow, term.operand, span)
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        return any(_scaled(flow, a, span) and _plain(b) for a, b in ((term.left, term.right), (term.right, term.left)))
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Div):
        return _scaled(flow, term.left, span) and _plain(term.right)
    return False


def _plain(factor: ast.expr) -> bool:
    """Whether a factor is a constant or a name: what else it is, an expression tells."""
    return isinstance(factor, ast.Constant | ast.Name | ast.Attribute)


def _told(trace: Trace, cut: Row) -> Found:
    line, col, _ = where(trace, cut.chain)
    code = code_of(trace, cut)
    message = (
        f"Line {line} adds a plain number to the loss: `{code}` leaves the graph, so this term changes what the loss "
        "says and no gradient."
    )
    how = "Leave out .item()" if ".item(" in code else f"Leave out {code.partition('(')[0]}()"
    return Found("cut", "warning", line, col, message, f"{how}: add the tensor itself.", [cut])
