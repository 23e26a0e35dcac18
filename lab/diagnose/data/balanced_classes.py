"""Samplers that are to balance the classes: one that draws every sample once, and one beside weights in the loss."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule
from ..reading.calls import given
from ..reading.scope import calls, flow_around, tell
from ..reading.sources import called, sources


@rule(618, proof="as many draws without replacement as there are samples draw each once")
def draws_all(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``WeightedRandomSampler(w, len(w), replacement=False)``: every sample once, whatever its weight."""
    for source, node in calls(trace, "WeightedRandomSampler"):
        again, many = given(node, "replacement", 2), given(node, "num_samples", 1)
        weights = given(node, "weights", 0)
        if not isinstance(again, ast.Constant) or again.value is not False or many is None or weights is None:
            continue
        inner = flow_around(source, node).inner(many)
        if called(inner) not in ("len", "numel") and not re.search(
            r"\.(shape\[0\]|size\(0\)|size)$", ast.unparse(inner)
        ):
            continue
        says = (
            f"draws as many samples as there are, none twice (`{ast.unparse(node)}`): that is every sample once, "
            "and the "
            "weights decide the order alone, so rare classes stay rare."
        )
        return tell(source, node, "loop", "warning", says, "Let it draw again: replacement=True.")
    return []


@rule(603)
def balanced_twice(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A sampler that balances the classes, and a loss that weighs them as well."""
    for source, sampler in calls(trace, "WeightedRandomSampler"):
        for other in sources(trace):
            for name in ("CrossEntropyLoss", "cross_entropy", "BCEWithLogitsLoss", "NLLLoss"):
                for node in other.calls.get(name, ()):
                    weight = given(node, "weight") or given(node, "pos_weight")
                    if weight is None or not isinstance(weight, ast.Name | ast.BinOp | ast.Call | ast.Attribute):
                        continue
                    says = (
                        f"weighs the classes in the loss (`{ast.unparse(node)}`) that the sampler "
                        f"({source.place(sampler).words}) draws alike already: rare classes count twice over, and the "
                        "model sees them everywhere."
                    )
                    return tell(other, node, "loss", "note", says, "Do one of the two.")
    return []
