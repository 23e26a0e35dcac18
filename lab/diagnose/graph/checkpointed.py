"""Blocks that are computed again in the backward pass, and that no gradient reaches."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital, listed, verb
from ..order import rule
from ..reading.sources import called, ran, sources
from .cut import without_gradient


@rule(125)
def without_an_input(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``checkpoint(block, x)`` in its older form, of an ``x`` that needs no gradient: the block gets none either."""
    if not trace.backwards or not trace.gradients:
        return []
    without = without_gradient(trace) - explained
    dead = [leaf for leaf in trace.parameters() if leaf in without and leaf in trace.optimized]
    if not dead:
        return []
    for source in sources(trace):
        for node in source.nodes:
            if called(node) not in ("checkpoint", "checkpoint_sequential") or not isinstance(node, ast.Call):
                continue
            given = next((k.value for k in node.keywords if k.arg == "use_reentrant"), None)
            if not node.args or (isinstance(given, ast.Constant) and given.value is False):
                continue
            if not ran(trace, source, node):
                continue
            explained.update(dead)
            line, col, place = source.place(node)
            message = capital(
                f"{place} computes a block anew in the backward pass (`{ast.unparse(node)}`), and its input needs no "
                f"gradient: this form of checkpoint gives it then none at all, and {listed(dead)} "
                f"{verb(dead, 'stays as it is', 'stay as they are')}."
            )
            remedy = "Call it with use_reentrant=False."
            return [Found("no-gradient", "warning", line, col, message, remedy, [], dead)]
    return []
