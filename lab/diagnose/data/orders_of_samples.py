"""Inputs and labels that are brought into different orders: one list shuffled alone, one part of a batch sorted."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule
from ..reading.calls import bare, name_of
from ..reading.expressions import Flow
from ..reading.scope import flows, tell
from ..reading.sources import Source, assigned, called
from .leaked_targets import TARGETS

ORDERS = {"shuffle", "sort", "argsort"}


@rule(768)
def one_side_shuffled(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``random.shuffle(images)`` of two lists that belong together, or ``return xs[order], ys``."""
    for source, flow in flows(trace):
        if not ORDERS & source.calls.keys():
            continue
        pairs = list(assigned(flow.nodes))
        for node in flow.nodes:
            if called(node) != "shuffle" or not isinstance(node, ast.Call) or len(node.args) != 1:
                continue
            name = name_of(node.args[0])
            if not isinstance(source.parents.get(node), ast.Expr) or not name:
                continue
            for pair in pairs:
                own = isinstance(pair.value, ast.ListComp) and len(pair.value.generators) == 1
                if not own or pair.node.lineno > node.lineno:
                    continue
                over = ast.unparse(pair.value.generators[0].iter)  # type: ignore[attr-defined]
                if pair.name == name and re.fullmatch(r"\w+", over):
                    later = [
                        n for n in flow.nodes if isinstance(n, ast.Name) and n.id == over and n.lineno > node.lineno
                    ]
                    if (
                        later
                        and over not in ("range",)
                        and not any(called(source.parents.get(r, r)) == "shuffle" for r in later)
                    ):
                        says = (
                            f"shuffles {name} alone (`{ast.unparse(node)}`): {over}, of which it was made "
                            f"({source.place(pair.node).words}), keeps the order that it had, so they no longer belong "
                            "together."
                        )
                        remedy = f"Shuffle one list of pairs: pairs = list(zip({over}, {name}))."
                        return tell(source, node, "data", "warning", says, remedy)
                again = [p for p in pairs if p.name == pair.name and p.node.lineno > node.lineno]
                reads = [
                    n for n in flow.nodes if isinstance(n, ast.Name) and n.id == pair.name and n.lineno > node.lineno
                ]
                if (
                    over != name
                    or pair.name == name
                    or again
                    or not reads
                    or any(called(source.parents.get(r, r)) == "shuffle" for r in reads)
                ):
                    continue
                says = (
                    f"shuffles {name} alone (`{ast.unparse(node)}`): {pair.name} "
                    f"({source.place(pair.node).words}) keeps "
                    "the order that it had, so they no longer belong together."
                )
                remedy = f"Shuffle one list of pairs: pairs = list(zip({name}, {pair.name}))."
                return tell(source, node, "data", "warning", says, remedy)
        found = _ordered_alone(source, flow)
        if found:
            return found
    return []


def _ordered_alone(source: Source, flow: Flow) -> list[Found]:
    """``return xs[order], lengths, ys``, where the order was made to sort the lengths; ``loss(net(x[order]), y)``."""
    orders = {}
    for node in flow.of(ast.Assign):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target = node.targets[0]
        if called(node.value) == "sort" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            orders[name_of(target.elts[1])] = (node, name_of(target.elts[0]))
        elif called(node.value) == "argsort":
            orders[name_of(target)] = (node, "")
    for order, (made, sorted_one) in orders.items():
        moved = {  # what is a variable in the new order
            pair.name
            for pair in assigned(flow.nodes)
            if isinstance(pair.value, ast.Subscript) and ast.unparse(pair.value.slice) == order
        }
        taken = {
            ast.unparse(n.value) for n in flow.nodes if isinstance(n, ast.Subscript) and ast.unparse(n.slice) == order
        }
        for node in flow.nodes:
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                parts = node.value.elts
            elif (
                isinstance(node, ast.Call)
                and re.search(r"loss|cross_entropy|criterion", called(node))
                and len(node.args) > 1
            ):
                parts = [_innermost(flow, a) for a in node.args[:2]]
            else:
                continue
            new = [p for p in parts if name_of(p) in moved or ast.unparse(getattr(p, "slice", p)) == order]
            old = [
                p
                for p in parts
                if isinstance(p, ast.Name) and p.id not in moved | {sorted_one, order} and TARGETS.match(p.id)
                and p.id not in taken
            ]  # fmt: skip
            if not new or not old or node.lineno < made.lineno:
                continue
            if isinstance(node, ast.Call) and called(made.value) == "sort":
                continue
            says = (
                f"gives {ast.unparse(new[0])} in another order ({source.place(made).words}: `{ast.unparse(made)}`) and "
                f"{old[0].id} in the old one (`{ast.unparse(node)}`): they no longer belong together."
            )
            return tell(source, node, "data", "warning", says, f"Bring both into one order: {old[0].id}[{order}].")
    return []


def _innermost(flow: Flow, node: ast.expr) -> ast.expr:
    """The data that a model's output comes from, as far as it is called in place."""
    for _ in range(6):
        node = bare(node)
        if isinstance(node, ast.Call) and len(node.args) == 1:
            node = node.args[0]
        elif isinstance(node, ast.Name) and isinstance(value := flow.value(node), ast.Call) and len(value.args) == 1:
            node = value.args[0]
        else:
            return node
    return node
