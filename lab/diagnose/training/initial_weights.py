"""Start values that are defined and never set, or that are set over weights which were loaded."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, last_line
from ..order import rule
from ..reading.calls import functions, name_of
from ..reading.scope import calls, scope_around, tell
from ..reading.sources import called, sources

INITIAL = re.compile(
    r"^_?(init(ialize|ialise)?_?(weights?|params?|parameters)?|weights?_init|reset_parameters|_reset_parameters|init_fn)$",
    re.I,
)
SETS = re.compile(r"(normal|uniform|zeros|constant|orthogonal|ones|fill|kaiming\w*|xavier\w*)_$")


@rule(577)
def never_initialised(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A method ``init_weights`` that nothing calls: the layers keep the start values that they were made with."""
    for source in sources(trace):
        for node in source.nodes:
            if not isinstance(node, ast.FunctionDef) or not INITIAL.match(node.name) or node.name == "__init__":
                continue
            sets = any(SETS.search(called(n)) for n in ast.walk(node))
            above = source.parents.get(node)
            if not sets or (node.name == "reset_parameters" and "nn.Linear" in ast.unparse(above or node)):
                continue
            kind = above if isinstance(above, ast.ClassDef) else None
            if kind is not None and not any(re.search(r"Module$", ast.unparse(b)) for b in kind.bases):
                continue
            every = [*sources(trace)]
            used = any(
                name_of(n) == node.name and isinstance(getattr(n, "ctx", None), ast.Load) for s in every
                for n in (s.nodes if s.name else ast.walk(s.program)) if isinstance(n, ast.Name | ast.Attribute)
            )  # fmt: skip
            if used:
                continue
            says = (
                f"defines {node.name}(), and nothing calls it: PyTorch knows no method of that name, so the "
                "layers keep "
                "the start values that they are made with."
            )
            call = f"self.{node.name}() at the end of __init__" if kind is not None else f"net.apply({node.name})"
            return tell(source, node, "unused", "note", says, f"Call it: {call}.")
    return []


@rule(578)
def initialised_over(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``net.load_state_dict(...)`` and then ``net.apply(init_weights)``: what was loaded is drawn anew."""
    known = functions(trace)
    for source, load in calls(trace, "load_state_dict"):
        model = ast.unparse(getattr(load.func, "value", load))
        scope = scope_around(source, load)
        for node in ast.walk(scope):
            if (
                not isinstance(node, ast.Call)
                or node.lineno <= last_line(load)
                or scope_around(source, node) is not scope
            ):
                continue
            own = ast.unparse(getattr(node.func, "value", node)) == model
            function = called(node) if node.args and ast.unparse(node.args[0]) == model else ""
            if own and called(node) == "apply" and node.args:
                function = name_of(node.args[0])
            elif own and INITIAL.match(called(node)):
                function = called(node)
            made = known.get(function)
            if made is None or not re.search(r"init\.\w+_\(|\.(normal|uniform)_\(", ast.unparse(made[1])):
                continue
            if any(isinstance(a, ast.If | ast.For | ast.While) for a in source.around(node)) or _made_anew(
                scope, model, load, node
            ):
                continue
            says = (
                f"draws start values for {model} (`{ast.unparse(node)}`) after {source.place(load).words} has loaded "
                "its weights: what was trained before is lost."
            )
            return tell(source, node, "optimizer", "warning", says, "Load after the start values are set.")
    return []


def _made_anew(scope: ast.AST, model: str, load: ast.Call, node: ast.Call) -> bool:
    """Whether the model's name is given another one in between, or it is loaded again afterwards."""
    for other in ast.walk(scope):
        bound = isinstance(other, ast.Assign) and model in map(ast.unparse, other.targets)
        if bound and last_line(load) < other.lineno <= node.lineno:  # type: ignore[attr-defined]
            return True
        again = called(other) == "load_state_dict" and other is not load and other.lineno > node.lineno  # type: ignore[attr-defined]
        if again and isinstance(other, ast.Call) and ast.unparse(getattr(other.func, "value", other)) == model:
            return True
    return False
