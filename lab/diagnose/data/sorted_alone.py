"""Sequences that are sorted by their lengths, and labels that stay in the old order."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import bare
from ..reading.scope import Scope, goals, spread
from ..reading.sources import called, names_in

LOSSES = {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss",
          "l1_loss", "smooth_l1_loss"}  # fmt: skip


@text_rule(614, "sort", "backward", trains=True)
def labels_in_the_old_order(scope: Scope) -> Iterator[Found]:
    """``n, order = n.sort(descending=True)``, ``rnn(pack(x[order], n))`` and a loss with ``y`` as it was."""
    orders = dict(_orders(scope))
    if not orders:
        return
    for goal in goals(scope.source, scope.flow):
        for call in spread(scope.flow, goal):
            if not isinstance(call, ast.Call) or scope.does(call) not in LOSSES or len(call.args) < 2:
                continue
            target = bare(call.args[1])
            taken = [n for n in scope.index.kinds.get(ast.Subscript, ()) if isinstance(n.ctx, ast.Load)]
            for name, node in orders.items():
                sorted_ = next(
                    (n for n in taken if ast.unparse(n.slice) == name and isinstance(n.value, ast.Name)), None
                )
                if sorted_ is None or not isinstance(target, ast.Name) or _restored(scope, name):
                    continue
                if name in {w for n in spread(scope.flow, target) for w in names_in(n)} or not _together(
                    scope,
                    sorted_.value.id,
                    target.id,  # type: ignore[attr-defined]
                ):
                    continue
                message = (
                    f"compares with {target.id} in its old order (`{ast.unparse(call)}`): `{ast.unparse(sorted_)}` "
                    f"({scope.place(sorted_).words}) has sorted the samples by {scope.place(node).words}, so most get "
                    "the label of another one."
                )
                remedy = f"Sort it along: {target.id}[{name}]; or enforce_sorted=False in pack_padded_sequence."
                yield scope.tell(call, "loop", message, remedy)


def _orders(scope: Scope) -> Iterator[tuple[str, ast.AST]]:
    """Yield the variables that hold the order in which something is sorted, and where."""
    for node in scope.index.kinds.get(ast.Assign, ()):
        target = node.targets[0]
        if called(node.value) == "argsort" and isinstance(target, ast.Name):
            yield target.id, node
        elif called(node.value) == "sort" and isinstance(target, ast.Tuple) and isinstance(target.elts[-1], ast.Name):
            yield target.elts[-1].id, node


def _restored(scope: Scope, order: str) -> bool:
    """Whether the order is used for anything but to take samples: to bring what comes out back, or to write."""
    for node in scope.nodes:
        if isinstance(node, ast.Name) and node.id == order and isinstance(node.ctx, ast.Load):
            above = scope.source.parents.get(node)
            if not isinstance(above, ast.Subscript) or isinstance(above.ctx, ast.Store):
                return True
    return False


def _together(scope: Scope, one: str, other: str) -> bool:
    """Whether two variables are set by one statement: they are of the same samples."""
    for node in scope.nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.For) else []
        if any({one, other} <= {n.id for n in ast.walk(t) if isinstance(n, ast.Name)} for t in targets):
            return True
    return False
