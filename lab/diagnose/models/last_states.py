"""The last step of a recurrent layer: of one that runs in both directions, whose backward one has read a single element
there, or what is taken for the last step and is the last sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule, text_rule
from ..reading.recorded import row_of
from ..reading.scope import Scope
from ..reading.sources import Function, assigned, called, own_nodes, sources

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
                layer, first = _output(node)
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
                row = row_of(trace, source, last)
                return [Found("layout", "warning", line, col, message, remedy, [row] if row is not None else [])]
    return []


def _output(node: ast.AST) -> tuple[str, ast.expr | None]:
    """What a statement calls, and the variable that it gives the first of the results: ``out, _ = f(x)``, ``out =
    f(x)[0]``."""
    if not isinstance(node, ast.Assign):
        return "", None
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple):
        first = target.elts[0] if target.elts else None
    elif isinstance(value, ast.Subscript) and ast.unparse(value.slice) == "0":
        first, value = target, value.value
    else:
        return "", None
    return (ast.unparse(value.func), first) if isinstance(value, ast.Call) else ("", None)


@rule(447)
def sample_for_step(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``out, _ = lstm(x)`` with batch_first=True, and ``out[-1]``: the last sample, and not the last step."""
    for source in sources(trace):
        nodes = list(ast.walk(source.program)) if not source.name else source.nodes
        made = [(pair.name, pair.value) for pair in assigned(nodes)]
        made += [(ast.unparse(n.targets[0]), n.value) for n in nodes
                 if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Attribute)]  # fmt: skip
        batch_first = {
            name for name, value in made if isinstance(value, ast.Call) and called(value) in LAYERS
            and any(k.arg == "batch_first" and getattr(k.value, "value", None) is True for k in value.keywords)
        }  # fmt: skip
        for scope in source.scopes():
            nodes = list(own_nodes(scope))
            for node in nodes:
                layer, first = _output(node)
                if layer not in batch_first or not isinstance(first, ast.Name):
                    continue
                moved = any(isinstance(n, ast.Assign) and n is not node and first.id in map(ast.unparse, n.targets)
                            for n in nodes)  # fmt: skip
                last = next((n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load)
                             and ast.unparse(n) in (f"{first.id}[-1]", f"{first.id}[-1, :]", f"{first.id}[-1, :, :]")),
                            None)  # fmt: skip
                if moved or last is None:
                    continue
                line, col, place = source.place(last)
                message = capital(
                    f"{place} takes the last sample for the last step (`{ast.unparse(last)}`): {layer} has "
                    "batch_first=True, so the first dimension is that of the samples: all steps of a single one go on."
                )
                remedy = f"Write {first.id}[:, -1]."
                row = row_of(trace, source, last)
                return [Found("layout", "warning", line, col, message, remedy, [row] if row is not None else [])]
    return []


@text_rule(573, "pad_packed_sequence", trains=True)
def padding_for_last_step(scope: Scope) -> Iterator[Found]:
    """``out, _ = pad_packed_sequence(out, batch_first=True)`` and ``out[:, -1]``: 0 for each sequence that is shorter
    than the longest."""
    for node in scope.flow.of(ast.Assign):
        value, target = node.value, node.targets[0]  # type: ignore[attr-defined]
        first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
        if called(value) != "pad_packed_sequence" or not isinstance(first, ast.Name):
            continue
        by_sample = any(k.arg == "batch_first" and getattr(k.value, "value", None) is True for k in value.keywords)
        wanted = f"{first.id}[:, -1]" if by_sample else f"{first.id}[-1]"
        for last in scope.nodes:
            if not isinstance(last, ast.Subscript) or last.lineno <= node.lineno:  # type: ignore[attr-defined]
                continue
            if ast.unparse(last).replace(", :]", "]") != wanted:
                continue
            says = (
                f"takes the last step of padded sequences (`{ast.unparse(last)}`): of each that is shorter than the "
                f"longest of its batch that is the 0 with which {scope.place(node).words} fills it up."
            )
            remedy = "Take the final state of the layer, h[-1], or each sequence's own last step by its length."
            row = scope.row(last)
            filled = row is not None and row.stats is not None and row.stats.zeros > 0
            yield scope.tell(last, "layout", says, remedy, rows=[row] if row is not None and filled else [])
            break
