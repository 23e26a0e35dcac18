"""Where the size of a layer comes from: through the arguments of its class and the variables that they are given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ...recorder.cell_trace import Trace
from ..reading.sources import Function, Source, assigned, called, sources

SIZES = {"Embedding": (0, "num_embeddings"), "Linear": (1, "out_features")}
"""Layers, and which of their arguments says how many rows or outputs they have: its place and its name."""
STEPS = 6  # from an argument to a variable and on, at most


class Origin(NamedTuple):
    """An expression that gives a size, and where it stands."""

    node: ast.AST
    expression: ast.expr
    source: Source

    @property
    def code(self) -> str:
        return ast.unparse(self.expression)

    @property
    def words(self) -> str:
        return self.source.place(self.node).words


def size_of(trace: Trace, layer: str) -> Origin | None:
    """Return what gives a layer, by its name in the text, its size; None where nobody can tell."""
    for source in sources(trace):
        for node in source.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called(node.value) in SIZES:
                size = _given(node.value, *SIZES[called(node.value)])
                if size is not None and ast.unparse(node.targets[0]) == layer:
                    return _first(trace, Origin(node, size, source))
    return None


def _first(trace: Trace, origin: Origin) -> Origin:
    """Return where a size is computed, from where it is read."""
    for _ in range(STEPS):
        before = _before(trace, origin) if isinstance(origin.expression, ast.Name) else None
        if before is None:
            break
        origin = before
    return origin


def _before(trace: Trace, origin: Origin) -> Origin | None:
    """Return what a variable was given: by the call of the function that it is an argument of, or by a statement."""
    name, source = origin.code, origin.source
    function = next((n for n in source.around(origin.node) if isinstance(n, Function)), None)
    if function is not None and any(arg.arg == name for arg in function.args.args):
        return _argument(trace, source, function, name)
    scope: ast.AST = function if function is not None else source.program
    line = getattr(origin.node, "lineno", 0)
    pairs = [p for p in assigned(ast.walk(scope)) if p.name == name and p.node.lineno < line]
    return Origin(pairs[-1].node, pairs[-1].value, source) if pairs else None


def _argument(trace: Trace, source: Source, function: Function, name: str) -> Origin | None:
    """Return what a function, or the class that it makes objects of, is given for one of its arguments."""
    arguments = [arg.arg for arg in function.args.args]
    wanted = function.name
    if arguments[0] == "self":
        arguments = arguments[1:]
        owner = next((n for n in source.around(function) if isinstance(n, ast.ClassDef)), None)
        if wanted == "__init__" and owner is not None:
            wanted = owner.name
    for other, call in _calls(trace, wanted):
        given = _given(call, arguments.index(name), name)
        if given is not None:
            return Origin(call, given, other)
    return None


def _calls(trace: Trace, name: str) -> Iterator[tuple[Source, ast.Call]]:
    for source in sources(trace):
        for node in ast.walk(source.program):
            if isinstance(node, ast.Call) and called(node) == name:
                yield source, node


def _given(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return what a call gives for an argument."""
    named = next((k.value for k in call.keywords if k.arg == name), None)
    return named if named is not None else next(iter(call.args[position : position + 1]), None)
