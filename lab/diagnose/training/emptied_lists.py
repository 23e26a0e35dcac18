"""Lists that are stored somewhere and emptied in place afterwards."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import called, sources

STORES = {"append", "appendleft", "add", "put", "push", "insert"}


@rule(587, proof="one list is stored and emptied")
def emptied(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``self.episodes.append(self.steps)`` and later ``self.steps.clear()``: what was stored is empty as well."""
    for source in sources(trace):
        nodes = list(ast.walk(source.program)) if not source.name else source.nodes
        calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        cleared: dict[str, ast.AST] = {}
        for node in nodes:
            cleared.update(dict.fromkeys(_emptied_by(node), node))
        for node in calls:
            given = node.args[-1] if called(node) in STORES and node.args else None
            name = ast.unparse(given) if isinstance(given, ast.Name | ast.Attribute) else ""
            if name not in cleared or _made_anew(nodes, name):
                continue
            line, col, place = source.place(node)
            message = capital(
                f"{place} stores the list {name} itself (`{ast.unparse(node)}`), and "
                f"{source.place(cleared[name]).words} empties it in place: all that was stored is one and the same "
                "list, which holds the latest alone."
            )
            remedy = f"Store a copy, list({name}), or begin a new one: {name} = []."
            return [Found("alias", "warning", line, col, message, remedy)]
    return []


def _emptied_by(node: ast.AST) -> list[str]:
    """The lists that a statement or a call empties in place: ``steps.clear()``, ``del steps[:]``."""
    if isinstance(node, ast.Delete):
        slices = [t for t in node.targets if isinstance(t, ast.Subscript) and ast.unparse(t.slice) == ":"]
        return [ast.unparse(t.value) for t in slices]
    if isinstance(node, ast.Call) and called(node) == "clear" and not node.args:
        return [ast.unparse(getattr(node.func, "value", node.func))]
    return []


def _made_anew(nodes: list[ast.AST], name: str) -> bool:
    """Whether a variable is given a new list more than once: at its beginning, and again for the next."""
    made = [
        n for n in nodes if isinstance(n, ast.Assign)
        for t in n.targets for part in (t.elts if isinstance(t, ast.Tuple) else (t,)) if ast.unparse(part) == name
    ]  # fmt: skip
    return len(made) > 1
