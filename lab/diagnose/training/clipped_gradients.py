"""Gradients that are clipped to nearly nothing."""

from __future__ import annotations

import ast
import math

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.expressions import flow_of
from ..reading.sources import called, sources

BY_SIZE = {"SGD"}
"""Optimizers whose steps are as large as the gradient; Adam and its kin divide by its size."""
SMALL = 2e-4  # share of its size by which the fastest weight changes in a step that teaches it next to nothing


@rule(314, proof="the gradients' norms and the steps' learning rates were recorded")
def clipped_away(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``clip_grad_norm_(parameters, 1e-4)`` of gradients around 1, for an optimizer whose steps go by their size."""
    kept = math.sqrt(sum(g.norm**2 for g in trace.gradients.values() if math.isfinite(g.norm)))
    kinds = {facts.kind for facts in trace.steps.optimizers if facts.steps}
    moved = max((ratio for leaf, ratio in trace.largest.items() if len(leaf.shape) > 1), default=0.0)
    if not kept or not kinds or not kinds <= BY_SIZE or not 0 < moved < SMALL:
        return []
    for source in sources(trace):
        for scope in source.scopes():
            flow = flow_of(source, scope)
            for node in flow.nodes:
                if called(node) not in ("clip_grad_norm_", "clip_grad_norm") or not isinstance(node, ast.Call):
                    continue
                given = next((k.value for k in node.keywords if k.arg == "max_norm"), None)
                given = node.args[1] if given is None and len(node.args) > 1 else given
                most = flow.number(given) if given is not None else None
                if most is None or not 0.98 * most < kept < 1.02 * most:  # the last one was clipped
                    continue
                line, col, place = source.place(node)
                message = capital(
                    f"{place} clips the gradient to a norm of {most:g} (`{ast.unparse(node)}`), which it still "
                    f"reaches at the end: with a learning rate of {trace.steps.lr:g} no weight moves by more than "
                    f"{moved:.1g} of its size in a step."
                )
                remedy = "Clip what is far above the usual alone: a few times the norm that clip_grad_norm_ returns."
                return [Found("learning-rate", "warning", line, col, message, remedy)]
    return []
