"""Losses in which a sign or an order decides what is learnt: quantiles, and the risk of those who are left."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.expressions import Flow, speaks_of
from ..reading.scope import Scope, stripped
from ..reading.sources import called, key

PREDICTED = re.compile(r"pred|(^|_)(out|output|outputs|y_hat|yhat|forecast|est|estimate|fit|q_hat|logits)(_|s?$)", re.I)
WANTED = re.compile(r"target|true|label|actual|truth|(^|_)(y|ys|yb|gt|tgt|obs)$", re.I)
TIME = re.compile(r"time|duration|surv|(^|_)(t|y|when|until|days|weeks|months|years|age|tenure)$", re.I)
EVENT = re.compile(r"event|censor|(^|_)(e|d|delta|status|observed)$", re.I)


@text_rule(429, trains=True)
def quantile_turned(scope: Scope) -> Iterator[Found]:
    """``max(q * e, (q - 1) * e)`` of an error that is the prediction minus the target: it learns 1 - q."""
    for node in scope.calls("max", "maximum", "where"):
        error = _pinball(node)
        difference = None if error is None else scope.flow.inner(error)
        if not isinstance(difference, ast.BinOp) or not isinstance(difference.op, ast.Sub):
            continue
        left, right = difference.left, difference.right
        named = speaks_of(left, PREDICTED, WANTED) and speaks_of(right, WANTED, PREDICTED)
        if named or (_asked(scope, left) and isinstance(scope.flow.inner(right), ast.Subscript)):
            there = scope.place(difference).words
            says = (
                f"weighs errors with the quantile the wrong way round (`{ast.unparse(node)}`): they are the prediction "
                f"minus the target (`{ast.unparse(difference)}`, {there}), so what is learnt for a quantile q is the "
                "quantile 1 - q."
            )
            remedy = f"Take the target minus the prediction: {ast.unparse(right)} - {ast.unparse(left)}."
            yield scope.tell(node, "loss", says, remedy)


def _asked(scope: Scope, node: ast.expr) -> bool:
    """Whether a value is what a network gives."""
    inner = stripped(scope.flow, node)
    kinds = scope.source.made.get(key(inner.func), ()) if isinstance(inner, ast.Call) else ()
    return any(kind in scope.source.classes or kind in ("Sequential", "Linear") for kind in kinds)


def _pinball(node: ast.AST) -> ast.expr | None:
    """The error that the larger of ``q * error`` and ``(q - 1) * error`` is taken of."""
    if not isinstance(node, ast.Call) or called(node) not in ("max", "maximum", "where"):
        return None
    parts = node.args[1:] if called(node) == "where" else node.args
    sides = [p for p in parts if isinstance(p, ast.BinOp) and isinstance(p.op, ast.Mult)]
    if len(parts) != 2 or len(sides) != 2:
        return None
    for first, second in (sides, sides[::-1]):
        for q, error in ((first.left, first.right), (first.right, first.left)):
            for less, same in ((second.left, second.right), (second.right, second.left)):
                if ast.unparse(error) == ast.unparse(same) and ast.unparse(less) == f"{ast.unparse(q)} - 1":
                    return error
    return None


@text_rule(431, trains=True)
def risk_before(scope: Scope) -> Iterator[Found]:
    """A partial likelihood whose sums run over those who had their event before, and not over those at risk."""
    summed = next((n for n in scope.nodes if _running_sum(scope.flow, n)), None)
    sorts = scope.calls("argsort", "sort", "sort_values")
    names = {n.id for n in scope.nodes if isinstance(n, ast.Name)}
    if summed is None or len(sorts) != 1 or not any(map(EVENT.search, names)) or not _ascending(sorts[0]):
        return
    if scope.calls("flip", "flipud", "fliplr") or any("[::-1]" in ast.unparse(n) for n in scope.nodes):
        return
    says = (
        f"sorts by time, the earliest first (`{ast.unparse(sorts[0])}`), and {scope.place(summed).words} sums up from "
        f"the first on (`{ast.unparse(summed)}`): each sum is over those whose time has come before, and not over "
        "those who are still at risk."
    )
    yield scope.tell(sorts[0], "loss", says, "Sort the latest first: descending=True.")


def _running_sum(flow: Flow, node: ast.AST) -> bool:
    """Whether a call sums up exponentials from the first on."""
    if called(node) == "logcumsumexp":
        return True
    return called(node) == "cumsum" and any(called(n) == "exp" for n in ast.walk(flow.inner(_summed(node))))


def _summed(node: ast.AST) -> ast.expr:
    """What a call of a function or a method sums up."""
    assert isinstance(node, ast.Call)
    own = getattr(node.func, "value", None)
    outside = own is None or (isinstance(own, ast.Name) and own.id in ("torch", "core", "np"))
    return node.args[0] if outside and node.args else own if own is not None else node


def _ascending(node: ast.AST) -> bool:
    """Whether times are sorted, the earliest first."""
    assert isinstance(node, ast.Call)
    if any(k.arg == "descending" for k in node.keywords) or len(node.args) > 2:
        return False
    given = _summed(node)
    text = ast.unparse(given)
    return not text.startswith("-") and TIME.search(text.rpartition(".")[2]) is not None
