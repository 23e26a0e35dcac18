"""Positions within a part that are taken for positions in the whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..finding import Found, capital
from ..order import text_rule
from ..reading.expressions import LIBRARIES, Flow
from ..reading.scope import Scope
from ..reading.sources import Source, called

FINDERS = {"topk", "argsort", "argmax", "argmin", "sort", "max", "min", "nonzero", "multinomial"}
"""Functions whose result is positions, or has them."""
CARRIED = {"cpu", "numpy", "tolist", "item", "squeeze", "flatten", "view", "reshape", "long", "to", "detach", "int"}
DEEP = 12


@text_rule(571, earlier=True)
def part_for_whole(scope: Scope) -> Iterator[Found]:
    """``pool = X[~labelled]``, ``best = score(pool).topk(9).indices`` and then ``labelled[best]``."""
    source, flow = scope.source, scope.flow
    parts = [n for n in flow.nodes if isinstance(n, ast.Subscript) and _selects(n.slice)]
    for node in flow.nodes if parts else ():
        found = _told(source, flow, parts, node)
        if found is not None:
            yield found


def _told(source: Source, flow: Flow, parts: list[ast.Subscript], node: ast.AST) -> Found | None:
    """Told of ``whole[positions]`` where the positions are those within ``whole[chosen]``."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name | ast.Attribute):
        return None
    search = _search(flow, node.slice)
    if search is None:
        return None
    whole = ast.unparse(node.value)
    for part in _parts_of(flow, _searched(search)):
        chosen = ast.unparse(part.slice)
        alike = {ast.unparse(n.value) for n in parts if ast.unparse(n.slice) == chosen}
        if isinstance(part.slice, ast.UnaryOp):
            alike.add(ast.unparse(part.slice.operand))  # the mask itself is as long as the whole
        if whole not in alike or _set_between(flow, whole, part, node):
            continue
        line, col, place = source.place(node)
        message = capital(
            f"{place} takes positions within a part for positions in the whole (`{ast.unparse(node)}`): "
            f"{source.place(search).words} finds them (`{ast.unparse(search)}`) in what was computed of "
            f"`{ast.unparse(part)}` ({source.place(part).words}), so they stand for other elements of {whole}."
        )
        mask = isinstance(part.slice, ast.UnaryOp | ast.Compare | ast.BinOp)
        places = f"({chosen}).nonzero().squeeze(1)" if mask else chosen
        remedy = f"Translate them first: {whole}[{places}[{ast.unparse(node.slice)}]]."
        return Found("data", "warning", line, col, message, remedy)
    return None


def _selects(chosen: ast.expr) -> bool:
    """Whether a subscript chooses elements by a mask or a list of positions: no slice, no number."""
    if isinstance(chosen, ast.UnaryOp):
        return isinstance(chosen.op, ast.Invert)
    if isinstance(chosen, ast.BinOp):
        return isinstance(chosen.op, ast.BitAnd | ast.BitOr)
    return isinstance(chosen, ast.Compare)


def _search(flow: Flow, node: ast.expr) -> ast.Call | None:
    """The call that found positions, of an expression or a variable that holds them."""
    for _ in range(DEEP):
        if isinstance(node, ast.Name):
            value = flow.value(node) or _unpacked(flow, node)
            if value is None:
                return None
            node = value
        elif isinstance(node, ast.Attribute) and node.attr == "indices":
            node = node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice | ast.Constant):
            node = node.value  # the first ones of them, or one of two results
        elif isinstance(node, ast.Call) and called(node) in FINDERS:
            return node
        elif isinstance(node, ast.Call) and called(node) in CARRIED and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return None
    return None


def _unpacked(flow: Flow, name: ast.Name) -> ast.expr | None:
    """What ``_, name = call`` was given last before it is read."""
    before = [
        node
        for node in flow.nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and any(isinstance(t, ast.Name) and t.id == name.id for t in node.targets[0].elts[1:])
        and node.lineno < name.lineno
    ]
    return before[-1].value if before else None


def _searched(call: ast.Call) -> ast.expr:
    """What a call of a function or a method looks through."""
    own = call.func.value if isinstance(call.func, ast.Attribute) else None
    if (own is None or ast.unparse(own) in LIBRARIES) and call.args:
        return call.args[0]
    return own if own is not None else call


def _parts_of(flow: Flow, node: ast.expr, depth: int = DEEP) -> Iterator[ast.Subscript]:
    """Yield the parts, chosen by a mask, of which an expression was computed."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Subscript) and _selects(inner.slice):
            yield inner
        elif isinstance(inner, ast.Name) and depth and (value := flow.value(inner)) is not None:
            yield from _parts_of(flow, value, depth - 1)


def _set_between(flow: Flow, whole: str, part: ast.Subscript, node: ast.Subscript) -> bool:
    """Whether the whole is another thing by then: ``boxes = boxes[keep]``."""
    return any(
        isinstance(n, ast.Name | ast.Attribute)
        and isinstance(n.ctx, ast.Store)
        and ast.unparse(n) == whole
        and part.lineno <= n.lineno < node.lineno
        for n in flow.nodes
    )
