"""What a loop goes through, and what stands in its body for a row or an element of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..reading.calls import operands
from ..reading.sources import called
from .sequential_loops import carried_in_place, sequential
from .time_shares import Loop

PLAIN = {"item", "int", "float", "tolist", "long", "bool"}  # what only makes a number of an element


def targets_of(loop: Loop) -> list[tuple[ast.expr, ast.expr]]:
    """What a loop gives values to, and what it goes through."""
    if isinstance(loop, ast.For | ast.AsyncFor):
        return [(loop.target, loop.iter)]
    return [(g.target, g.iter) for g in getattr(loop, "generators", ())]


def wholes(loops: list[Loop]) -> dict[str, str]:
    """Return what each name stands for as a whole: of ``for a, b in zip(x, y)`` x and y; "" for a number that counts.

    >>> wholes([ast.parse("for i, (a, b) in enumerate(zip(x, y)): pass").body[0]])
    {'i': '', 'a': 'x', 'b': 'y'}
    """
    found: dict[str, str] = {}

    def put(target: ast.expr, over: ast.expr) -> None:
        parts = over.args if isinstance(over, ast.Call) else []
        if called(over) == "enumerate" and parts and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            put(target.elts[0], ast.Call(ast.Name("range"), [], []))
            put(target.elts[1], parts[0])
        elif called(over) == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(parts):
            for name, part in zip(target.elts, parts, strict=True):
                put(name, part)
        elif isinstance(target, ast.Name):
            while called(over) in ("tolist", "numpy", "list", "tqdm") and (of := operands(over)):
                over = of[0]
            found[target.id] = "" if called(over) in ("range", "arange") else ast.unparse(over)

    for loop in loops:
        for target, over in targets_of(loop):
            put(target, over)
    return found


def body_of(loops: list[Loop]) -> Iterator[ast.AST]:
    inner = loops[0]
    parts = inner.body if isinstance(inner, ast.For | ast.AsyncFor | ast.While) else [getattr(inner, "elt", inner)]
    for part in parts:
        yield from ast.walk(part)


def element_of(node: ast.expr) -> ast.expr:
    """An element without what makes a number of it: ``int(x[i].item())`` is ``x[i]``."""
    while isinstance(node, ast.Call) and called(node) in PLAIN and (of := operands(node)):
        node = of[0]
    return node


def whole_of(node: ast.expr, names: dict[str, str], part_of: bool = False) -> str:
    """The tensor of which an expression is an element or a row, by the numbers and names of loops, or a part of one
    (``x[i, 0]``); "" for any other."""
    node = element_of(node)
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name | ast.Attribute | ast.Subscript):
        counts = {name for name, of in names.items() if not of}
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        counting = [isinstance(part, ast.Name) and part.id in counts for part in parts]
        if all(counting) or (part_of and any(counting)):
            inner = whole_of(node.value, names) if isinstance(node.value, ast.Subscript) else ""
            return inner or ast.unparse(node.value)
    return ""


def parts_of(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def place_of(node: ast.Subscript) -> tuple[ast.expr, list[ast.expr]]:
    """What an element is taken of, and by which indices: of ``t[i, j]`` and of ``t[i][j]`` alike."""
    parts = parts_of(node)
    if len(parts) == 1 and isinstance(node.value, ast.Subscript):
        return node.value.value, [node.value.slice, *parts]
    return node.value, parts


def assigned_in(loops: list[Loop]) -> dict[str, ast.expr]:
    """What names are given once in the innermost loop."""
    found: dict[str, list[ast.expr]] = {}
    for node in body_of(loops):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def columns(loop: Loop) -> dict[str, str]:
    """What the names of ``for s, d in edges.tolist()`` stand for: edges[:, 0] and edges[:, 1]."""
    found: dict[str, str] = {}
    for target, over in targets_of(loop):
        turned = False
        while called(over) in ("tolist", "numpy", "t") and (of := operands(over)):
            over, turned = of[0], turned or called(over) == "t"
        if isinstance(over, ast.Attribute) and over.attr == "T":
            over, turned = over.value, True
        if isinstance(target, ast.Tuple) and isinstance(over, ast.Name | ast.Attribute):
            for k, name in enumerate(target.elts):
                if isinstance(name, ast.Name):
                    found[name.id] = f"{ast.unparse(over)}[{k}]" if turned else f"{ast.unparse(over)}[:, {k}]"
    return found


def follows(loop: Loop) -> bool:
    """Whether a turn of a loop needs what the turn before gave."""
    own = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if sequential(loop) or carried_in_place(loop) not in ("", *own):
        return True
    parts = [n for n in ast.walk(loop) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Subscript)]
    written = {ast.unparse(n.value.value): ast.unparse(n) for n in parts if isinstance(n.ctx, ast.Store)}  # type: ignore[attr-defined]
    read = [n for n in parts if ast.unparse(n.value.value) not in own]  # type: ignore[attr-defined]
    return any(written.get(ast.unparse(n.value.value), ast.unparse(n)) != ast.unparse(n) for n in read)  # type: ignore[attr-defined]


def of_rows(loop: Loop) -> bool:
    """Whether each turn of a loop takes a row of something."""
    names = wholes([loop])
    index = [part for n in ast.walk(loop) if isinstance(n, ast.Subscript) for part in parts_of(n)]
    return not isinstance(loop, ast.While) and (
        any(names.values()) or any(isinstance(part, ast.Name) and part.id in names for part in index)
    )


def of_one(node: ast.expr) -> ast.expr:
    """A row without the dimension that makes a batch of one: ``x.unsqueeze(0)``, ``x[None]``, ``x[i : i + 1]``."""
    if called(node) == "unsqueeze" and (of := operands(node)):
        return of[0]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value is None:
        return node.value
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.lower is not None:
        low, high = ast.unparse(node.slice.lower), node.slice.upper
        if high is not None and ast.unparse(high) == f"{low} + 1":
            return ast.Subscript(node.value, node.slice.lower, ast.Load())
    return node
