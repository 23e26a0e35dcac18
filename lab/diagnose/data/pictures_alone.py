"""Augmentation that turns a picture and leaves what stands in it where it was."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

PICTURE = re.compile(r"^(im|img|image|picture|pic|x|frame)s?$", re.I)
PLACED = re.compile(r"box|mask|keypoint|kpt|landmark|seg|polygon|heatmap|joints?$", re.I)
TARGET = re.compile(r"^(target|label|annotation|ann|gt|y)s?$", re.I)
MOVES = {"flip", "fliplr", "flipud", "hflip", "vflip", "rot90", "roll", "rotate", "affine", "crop", "resized_crop"}


@rule(589)
def turned_without(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``image = image.flip(-1)`` in a function that gets the boxes too and gives them back as they were."""
    placed = any(PLACED.search(source.text) for source in sources(trace))
    for source in sources(trace):
        for function in (n for n in source.nodes if isinstance(n, Function)):
            found = _told(source, function, placed)
            if found is not None:
                return [found]
    return []


def _told(source: Source, function: Function, places: bool) -> Found | None:
    """Told of a function that turns the picture and hands on what belongs to it; `places`: somewhere there are boxes,
    masks or points, so that a target may be one."""
    given = [a.arg for a in function.args.args]
    picture = next((name for name in given if PICTURE.search(name)), None)
    placed = next((name for name in given if PLACED.search(name)), None)
    if placed is None and places:
        placed = next((name for name in given if TARGET.search(name)), None)
    if picture is None or placed is None:
        return None
    nodes = list(own_nodes(function))
    turned = next((
        n for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == picture
        and called(n.value) in MOVES and picture in names_in(n.value)
    ), None)  # fmt: skip
    returned = any(isinstance(n, ast.Return) and n.value is not None and placed in names_in(n.value) for n in nodes)
    changed = any(
        isinstance(n, ast.Name | ast.Subscript | ast.Attribute) and isinstance(n.ctx, ast.Store)
        and ast.unparse(n).partition("[")[0].partition(".")[0] == placed
        for n in nodes
    )  # fmt: skip
    passed = any(isinstance(n, ast.Call) and placed in {name for a in n.args for name in names_in(a)} for n in nodes)
    if turned is None or not returned or changed or passed:
        return None
    line, col, place = source.place(turned)
    message = capital(
        f"{place} moves the picture (`{ast.unparse(turned)}`), and {function.name}() gives {placed} back as it was: it "
        "stands where things were before."
    )
    remedy = f"Move {placed} in the same way, under the same condition."
    return Found("data", "warning", line, col, message, remedy)
