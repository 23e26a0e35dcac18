"""Functions that work along dimension 1 unless told otherwise, given sequences whose features are in the last one."""

from __future__ import annotations

import ast
import math

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import called, sources

ALONG_ONE = {"normalize": 2, "cosine_similarity": 2}
"""Functions whose dim is 1 by default -> how many arguments come before it."""
FUNCTIONS = {"F", "torch", "nn.functional", "torch.nn.functional", "functional", "core", "core.nn.functional"}


@rule(436)
def along_one(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``F.normalize(x)`` and ``F.cosine_similarity(a, b)`` of three dimensions: they take the second, not the last."""
    shapes: dict[tuple[str, int], tuple[int, ...]] = {}
    for row in trace.rows:
        if row.place is not None and row.phase == "forward" and not row.cut:
            key = row.place.file, row.place.line
            met = (shapes.get(key, ()), *(tuple(ref.shape) for ref in (row, *row.refs)))
            shapes[key] = max(met, key=lambda shape: (len(shape), math.prod(shape)))  # of a norm what it is taken of
    for source in sources(trace):
        for node in source.nodes:
            name = called(node)
            if name not in ALONG_ONE or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value) not in FUNCTIONS or len(node.args) > ALONG_ONE[name]:
                continue
            if any(k.arg == "dim" for k in node.keywords):
                continue
            line, col, place = source.place(node)
            own = [
                s for (file, n), s in shapes.items() if n == node.lineno and (file in trace.files) != bool(source.name)
            ]
            shape = next((s for s in own if len(s) == 3), None)
            if shape is None or (name == "normalize" and 1 in shape[1:]):
                continue
            message = capital(
                f"{place} calls `{ast.unparse(node)}` on tensors of three dimensions, {shape}, and names none: it "
                "works along dimension 1, which is not the last one."
            )
            remedy = "Name the dimension of the features: dim=-1."
            return [Found("layout", "note", line, col, message, remedy)]
    return []
