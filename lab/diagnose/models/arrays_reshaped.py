"""Arrays that are reshaped where their dimensions should change places, before anything is recorded of them."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule
from ..reading.calls import operands, rows_at
from ..reading.expressions import LIBRARIES, Flow
from ..reading.scope import Scope, index_of, scopes, told
from ..reading.sources import called
from .dimension_order import VIEWS, remedy_of

KEEPS = {"float", "double", "half", "to", "astype", "from_numpy", "tensor", "as_tensor", "array", "asarray", "cuda",
         "cpu", "contiguous", "clone", "copy", "detach", "FloatTensor", "Tensor", "div", "sub", "mul", "add",
         "ascontiguousarray", "clip", "clamp", "type", "long", "int"}  # fmt: skip
"""Functions and methods that leave each value in its place."""
MADE = {"rand", "randn", "zeros", "ones", "random", "normal", "integers", "randint", "empty", "standard_normal", "full",
        "uniform"}  # fmt: skip
RESHAPES = {"view", "reshape"}


@rule(505, proof="the shape before is known, and a reshape moves no element")
def pictures_reshaped(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``pixels.reshape(n, 3, 32, 32)`` of an array of (n, 32, 32, 3)."""
    if not trace.steps.count:
        return []
    for scope in scopes(trace, earlier=True):
        for call in scope.calls(*RESHAPES):
            if any(row.op in VIEWS for row in rows_at(trace, scope.source, call)):
                continue  # what is recorded is looked at by `scrambled`
            before = shape_of(scope, operands(call)[0]) if operands(call) else None
            after = _asked(scope, call, before) if before else None
            if before is None or after is None or sorted(before) != sorted(after):
                continue
            one, other = ([n for n in shape if n != 1] for shape in (before, after))
            if one == other or len(set(one)) < 2:
                continue
            words = [", ".join(map(str, shape)) for shape in (before, after)]
            message = (
                f"mixes up dimensions: `{ast.unparse(call)}` reads ({words[0]}) as ({words[1]}) without moving an "
                "element, so what stood side by side in the last dimension is spread over others."
            )
            remedy = re.sub(
                r"permute(\(.*?\))", r"permute\1 of a tensor, transpose\1 of an array", remedy_of(before, after)
            )
            return told(scope.source, call, "layout", message, remedy)
    return []


def shape_of(scope: Scope, node: ast.expr, depth: int = 12) -> tuple[int, ...] | None:
    """Return the shape of an expression that leaves each value of an array in its place, by what a variable holds or
    how the array was made."""
    flow = scope.flow
    while depth:
        depth -= 1
        if isinstance(node, ast.BinOp):
            sides = [s for s in (node.left, node.right) if flow.number(s) is None]
            if len(sides) != 1:
                return None
            node = sides[0]
        elif isinstance(node, ast.Call) and called(node) in MADE:
            return _literal(flow, node)
        elif isinstance(node, ast.Call) and called(node) in KEEPS and operands(node):
            node = operands(node)[0]
        elif isinstance(node, ast.Name) and (value := flow.value(node)) is not None:
            held = _held(scope, node)
            if held is not None:
                return held
            node = value
        else:
            return _held(scope, node)
    return None


def _held(scope: Scope, node: ast.expr) -> tuple[int, ...] | None:
    """The shape that a variable has at the end, where all that it was given is known to have left the values in their
    places: it had it before, too."""
    held = scope.trace.arrays.get(node.id) if isinstance(node, ast.Name) else None
    if held is None or not isinstance(node, ast.Name):
        return None
    given = [p.value for p in index_of(scope.flow).given if p.name == node.id]
    still = all(_in_place(value, node.id) for value in given[1:])
    return tuple(held.shape) if still else None


def _in_place(node: ast.expr, name: str) -> bool:
    """Whether an expression is a variable whose values were cast, scaled or moved, each in its place."""
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.BinOp):
        return _in_place(node.left, name) or (isinstance(node.op, ast.Mult | ast.Add) and _in_place(node.right, name))
    if isinstance(node, ast.Call) and called(node) in KEEPS and operands(node):
        return _in_place(operands(node)[0], name)
    return False


def _literal(flow: Flow, call: ast.Call) -> tuple[int, ...] | None:
    """The shape that an array is made with: ``torch.rand(n, 32, 32, 3)``, ``rng.integers(0, 256, (n, 32, 32, 3))``."""
    named = next((k.value for k in call.keywords if k.arg in ("size", "shape")), None)
    parts = [a for a in call.args if isinstance(a, ast.Tuple | ast.List)]
    sizes = list(_sizes(named)) if named is not None else list(_sizes(parts[-1])) if parts else list(call.args)
    if called(call) in ("randint", "integers", "normal", "uniform") and named is None and not parts:
        return None
    numbers = [flow.number(size) for size in sizes]
    if not numbers or any(n is None or n != int(n) or n < 1 for n in numbers):
        return None
    return tuple(int(n) for n in numbers if n is not None)


def _sizes(node: ast.expr) -> Iterator[ast.expr]:
    yield from node.elts if isinstance(node, ast.Tuple | ast.List) else [node]


def _asked(scope: Scope, call: ast.Call, before: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that is asked for: of one size that nobody knows, what is left for it."""
    method = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) not in LIBRARIES
    args = list(call.args) if method else list(call.args[1:])
    if len(args) == 1:
        args = list(_sizes(args[0]))
    if any(isinstance(a, ast.Starred) for a in args):
        return None
    numbers = [scope.flow.number(a) for a in args]
    known = math.prod(int(n) for n in numbers if n is not None and n > 0)
    whole = math.prod(before)
    if sum(n is None or n < 0 for n in numbers) > 1 or not known or whole % known:
        return None
    return tuple(whole // known if n is None or n < 0 else int(n) for n in numbers)
