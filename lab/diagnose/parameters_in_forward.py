"""Parameters that forward() makes: each pass has new ones, which no optimizer holds and no step moves."""

from __future__ import annotations

import ast

from ..recorder.cell_trace import Leaf, Trace
from .finding import Found, listed, verb
from .order import rule

PASSES = {"forward", "__call__"}


@rule(600)
def made_in_forward(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Layers and parameters that are bound to a name inside forward()."""
    if not trace.backwards:
        return []
    tree = trace.tree()
    if tree is None:
        return []
    passes = [n for n in trace.nodes() if isinstance(n, ast.FunctionDef) and n.name in PASSES]
    readers = trace.consumers()
    lost: dict[int, list[Leaf]] = {}
    for leaf in trace.gradients:
        if not leaf.module or leaf in trace.optimized or leaf in explained:
            continue
        for row in readers.get(leaf, ()):
            line = row.line
            own = [p for p in passes if line is not None and p.lineno <= line <= (p.end_lineno or p.lineno)]
            made = _made(own[0], leaf.name.partition(".")[0]) if own else None
            if made is not None:
                lost.setdefault(made, []).append(leaf)
                break
    found = []
    for line, leaves in lost.items():
        explained.update(leaves)
        names = list(dict.fromkeys(leaf.name for leaf in leaves))
        it = verb(
            names, "it gets a gradient once, and no optimizer holds it", "they get gradients once, and no optimizer"
        )
        message = f"Line {line} makes {listed(names)} anew in every forward pass: {it}"
        message += "." if len(names) == 1 else " holds them."
        remedy = "Make it once in __init__ (self.layer = ...), before the optimizer is made."
        found.append(Found("optimizer", "warning", line, None, message, remedy, [], leaves))
    return found


def _made(function: ast.FunctionDef, name: str) -> int | None:
    """The line on which a function makes what it calls by a name."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node.lineno
    return None
