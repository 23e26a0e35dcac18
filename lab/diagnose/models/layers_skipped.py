"""Layers without a part in the result: those above the first of a recurrent stack, those behind a return in a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import given, name_of
from ..reading.expressions import defaults
from ..reading.scope import Scope, flow_around, scope_around
from ..reading.sources import Source, called


@text_rule(604, earlier=True)
def lowest_layer(scope: Scope) -> Iterator[Found]:
    """``_, (h, c) = lstm(x)`` and ``h[0]`` of several layers: the state of the first one, and not of the last."""
    source, flow = scope.source, scope.flow
    if not {"LSTM", "GRU", "RNN"} & source.calls.keys():
        return
    for node in flow.of(ast.Assign):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target = node.targets[0]
        if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
            continue
        states = target.elts[1]
        state = name_of(states.elts[0]) if isinstance(states, ast.Tuple) else name_of(states)
        made = _recurrent(source, ast.unparse(node.value.func))
        if made is None or not state:
            continue
        several = given(made, "num_layers", 2)
        layers = flow_around(source, made).number(several) if several is not None else 1
        layers = layers if layers is not None or several is None else _default(source, made, several)
        if not layers or layers < 2 or "bidirectional=True" in ast.unparse(made):
            continue
        lstm = called(made) == "LSTM" and not isinstance(states, ast.Tuple)
        wanted = f"{state}[0][0]" if lstm else f"{state}[0]"
        reads = [n for n in flow.nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load)]
        first = [n for n in reads if ast.unparse(n) in (wanted, wanted[:-1] + ", :, :]")]
        others = [n for n in reads if ast.unparse(n.value) == wanted[: wanted.rindex("[")] and n not in first]
        if not first or others or first[0].lineno < node.lineno:
            continue
        says = (
            f"takes the last state of the first of {layers:.0f} layers (`{ast.unparse(first[0])}`): the "
            "layers above "
            "it have no part in the result."
        )
        row = scope.row(first[0])
        remedy = f"Take the last one's: {wanted[:-3]}[-1]."
        yield scope.tell(first[0], "layout", says, remedy, rows=[row] if row is not None else [])


def _recurrent(source: Source, name: str) -> ast.Call | None:
    """The call that made a recurrent layer of some name."""
    for kind in ("LSTM", "GRU", "RNN"):
        for node in source.calls.get(kind, ()):
            above = source.parents.get(node)
            if isinstance(above, ast.Tuple):
                place = above.elts.index(node)
                above = source.parents.get(above)
                target = above.targets[0] if isinstance(above, ast.Assign) else None
                if isinstance(target, ast.Tuple) and ast.unparse(target.elts[place]) == name:
                    return node
            elif isinstance(above, ast.Assign) and name in map(ast.unparse, above.targets):
                return node
    return None


def _default(source: Source, made: ast.Call, several: ast.expr) -> float | None:
    """What the number of layers is by default of the class that makes them."""
    scope = scope_around(source, made)
    value = defaults(scope).get(name_of(several))
    return float(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, int) else None


@text_rule(549, earlier=True, proof="a return among the statements of a loop ends it in its first turn")
def returns_in_the_first_turn(scope: Scope) -> Iterator[Found]:
    """``for layer in self.layers: x = layer(x); return x``, with the return in the loop."""
    source, flow = scope.source, scope.flow
    for loop in flow.of(ast.For):
        if not isinstance(loop, ast.For) or not isinstance(loop.body[-1], ast.Return) or len(loop.body) < 2:
            continue
        end = loop.body[-1]
        inside = [n for statement in loop.body[:-1] for n in ast.walk(statement)]
        if end.value is None or any(isinstance(n, ast.Continue | ast.Break | ast.Return) for n in inside):
            continue
        if any(called(n) == "backward" for n in inside):
            continue  # a training that ends after its first batch is told by what ran
        grown = _grown(loop)
        read = {n.id for n in ast.walk(end.value) if isinstance(n, ast.Name)}
        for node in reversed(inside):
            if isinstance(node, ast.Assign) and read & set(map(name_of, node.targets)):
                read |= {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
        if not grown & read:
            continue
        says = (
            f"returns in the first turn of the loop over {ast.unparse(loop.iter)} "
            f"({source.place(loop).words}): the "
            "others never run."
        )
        yield scope.tell(end, "loop", says, "Put the return behind the loop: one step to the left.")


def _grown(loop: ast.For) -> set[str]:
    """The variables that each turn of a loop makes of what they were before."""
    found = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign):
            found.add(name_of(node.target))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if name_of(target) in {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}:
                    found.add(name_of(target))
        elif called(node) == "append":
            found.add(name_of(getattr(node.func, "value", node)))  # type: ignore[attr-defined]
    return found - {"", *(n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name))}
