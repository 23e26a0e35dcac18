"""Parameters that forward() makes: each pass has new ones, which no optimizer holds and no step moves."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Row, Trace
from ...recorder.user_files import shown_name
from ..finding import Found, capital, last_line, listed, verb
from ..order import rule
from ..reading.sources import Source, sources

PASSES = {"forward", "__call__"}


@rule(598)
def made_elsewhere(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Layers that a forward() in another file or cell makes, or that one makes and calls without a name."""
    if not trace.backwards:
        return []
    readers = trace.consumers()
    found = {source.name: source for source in sources(trace)}
    lost: dict[tuple[str, int], list[Leaf]] = {}
    for leaf in trace.gradients:
        if not leaf.module or leaf in trace.optimized or leaf in explained:
            continue
        made = next((at for row in readers.get(leaf, ()) if (at := _maker(trace, row, leaf, found)) is not None), None)
        if made is not None:
            lost.setdefault(made, []).append(leaf)
    told = []
    for (name, number), leaves in lost.items():
        if (len(leaves) < 2 and leaves[0].renewed == 0) or not all(_once(trace, leaf) for leaf in leaves):
            continue
        explained.update(leaves)
        source = found[name]
        node = next(n for n in source.nodes if isinstance(n, ast.Call) and n.lineno == number and _is_layer(n))
        line, col, place = source.place(node)
        message = capital(
            f"{place} makes `{ast.unparse(node)}` anew in every forward pass: its parameters get a gradient once, "
            "and no "
            "optimizer holds them."
        )
        remedy = f"Make it once in __init__ (self.layer = {ast.unparse(node)}) and call self.layer here."
        told.append(Found("optimizer", "warning", line, col, message, remedy, [], leaves[:8]))
    if told:  # those of other passes that nobody can tell the maker of
        others = [leaf for leaf, g in trace.gradients.items() if leaf.module and leaf not in trace.optimized]
        explained.update(leaf for leaf in others if leaf.name.startswith("unnamed") and _once(trace, leaf))
    return told


def _once(trace: Trace, leaf: Leaf) -> bool:
    """Whether each parameter at a place got a gradient once, and was then replaced by another."""
    return trace.gradients[leaf].count <= leaf.renewed + 1


def _maker(trace: Trace, row: Row, leaf: Leaf, found: dict[str, Source]) -> tuple[str, int] | None:
    """The source and the line in a forward() that makes the layer of a parameter and runs it there."""
    for code, lasti in row.chain:
        if code.co_name not in PASSES:
            continue
        own = code.co_filename in trace.files
        source = found.get("" if own else shown_name(code.co_filename))
        line = trace.place(code, lasti).line + (trace.files[code.co_filename] if own else 0)
        if source is None:
            return None
        around = [n for n in source.nodes if isinstance(n, ast.FunctionDef) and n.name == code.co_name
                  and n.lineno <= line <= last_line(n)]  # fmt: skip
        if not around:
            return None
        root = leaf.name.partition(".")[0]
        for node in ast.walk(around[-1]):
            if not isinstance(node, ast.Call) or not _is_layer(node):
                continue
            above = source.parents.get(node)
            if isinstance(above, ast.Call) and above.func is node and above.lineno <= line <= last_line(above):
                return source.name, node.lineno
            if source.name and isinstance(above, ast.Assign) and root in {ast.unparse(t) for t in above.targets}:
                return source.name, node.lineno
        return None
    return None


def _is_layer(node: ast.Call) -> bool:
    """Whether a call makes a layer: nn.Linear(...)."""
    text = ast.unparse(node.func) if isinstance(node.func, ast.Attribute) else ""
    return text.rpartition(".")[2][:1].isupper() and text.rpartition(".")[0].rpartition(".")[2] == "nn"


@rule(600)
def made_in_forward(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Layers and parameters that are bound to a name inside forward()."""
    if not trace.backwards:
        return []
    passes = [n for n in trace.nodes() if isinstance(n, ast.FunctionDef) and n.name in PASSES]
    readers = trace.consumers()
    lost: dict[int, list[Leaf]] = {}
    for leaf in trace.gradients:
        if not leaf.module or leaf in trace.optimized or leaf in explained:
            continue
        for row in readers.get(leaf, ()):
            line = row.line
            own = [p for p in passes if line is not None and p.lineno <= line <= last_line(p)]
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
