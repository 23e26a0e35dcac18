"""The last step of a recurrent layer that runs in both directions: the one backward has read a single element there."""

from __future__ import annotations

import ast

from ..recorder.cell_trace import Leaf, Trace
from .finding import Found, capital
from .order import rule
from .user_sources import Function, called, own_nodes, sources

LAYERS = {"GRU", "LSTM", "RNN"}


@rule(438)
def both_directions(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``out, _ = self.rnn(x)`` of a bidirectional layer, and ``out[:, -1]``."""
    for source in sources(trace):
        layers: dict[str, bool] = {}
        for node in source.nodes:
            if isinstance(node, ast.Assign) and called(node.value) in LAYERS:
                given = {k.arg: getattr(k.value, "value", None) for k in node.value.keywords}  # type: ignore[attr-defined]
                if given.get("bidirectional") is True:
                    layers[ast.unparse(node.targets[0])] = given.get("batch_first") is True
        for scope in (n for n in source.nodes if isinstance(n, Function) and layers):
            nodes = list(own_nodes(scope))
            for node in nodes:
                if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                    continue
                layer, target = ast.unparse(node.value.func), node.targets[0]
                first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
                if layer not in layers or not isinstance(first, ast.Name):
                    continue
                wanted = f"{first.id}[:, -1]" if layers[layer] else f"{first.id}[-1]"
                taken = [n for n in nodes if isinstance(n, ast.Subscript)]
                last = next((n for n in taken if ast.unparse(n).replace(", :]", "]") == wanted), None)
                if last is None:
                    continue
                line, col, place = source.place(last)
                message = capital(
                    f"{place} takes the last step of both directions (`{ast.unparse(last)}`): {layer} is "
                    "bidirectional, and the direction from the end has read one element there, so half of the "
                    "features know nothing of the rest."
                )
                remedy = "Take the final state of each: torch.cat([h[-2], h[-1]], 1), h being the second result."
                return [Found("layout", "warning", line, col, message, remedy)]
    return []
