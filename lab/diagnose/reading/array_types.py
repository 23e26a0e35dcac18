"""The dtype that an array or a tensor has by the text, as far as that says it."""

from __future__ import annotations

import ast
import re
from typing import Any

from ...recorder.cell_trace import Trace
from .calls import given, operands
from .expressions import LIBRARIES, Flow, flow_of
from .passed import arguments, result
from .scope import flow_around, whole
from .sources import Function, Source, assigned, called, sources

DEEP = 12
KINDS = re.compile(r"^(uint8|int8|int16|int32|int64|float16|bfloat16|float32|float64|bool)$")
SHORT = {"byte": "uint8", "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
         "bfloat16": "bfloat16", "short": "int16"}  # fmt: skip
"""Methods of tensors, and Python's types."""
OF_TYPES = {"float": "float64", "int": "int64", "bool": "bool"}
KEEPS = {"copy", "reshape", "transpose", "squeeze", "ravel", "flatten", "numpy", "cpu", "detach", "clone", "contiguous",
         "permute", "unsqueeze", "view", "clip", "clamp", "swapaxes", "expand_dims", "flip", "stack", "concatenate",
         "cat", "asarray", "array", "ascontiguousarray", "moveaxis", "rot90", "roll", "repeat", "tile", "from_numpy",
         "tensor", "as_tensor", "max", "min", "round", "vstack", "hstack"}  # fmt: skip
"""Functions and methods that give values of the dtype that they are given."""
PICTURES = {"imread", "imdecode", "read_image", "decode_image"}
"""Functions that read a picture: bytes."""


def dtype_of(trace: Trace, source: Source, node: ast.AST, depth: int = DEEP) -> str:
    """Return the name of the dtype of an expression, "" where nobody can tell."""
    if not depth or not isinstance(node, ast.expr):
        return ""
    if isinstance(node, ast.Name):
        return _of_name(trace, source, node, depth)
    if isinstance(node, ast.Call):
        return _of_call(trace, source, node, depth)
    if isinstance(node, ast.Subscript):
        return dtype_of(trace, source, node.value, depth - 1)
    if isinstance(node, ast.Attribute) and node.attr in ("T", "data", "mT"):
        return dtype_of(trace, source, node.value, depth - 1)
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        return _common([dtype_of(trace, source, one, depth - 1) for one in node.elts])
    if isinstance(node, ast.ListComp):
        return dtype_of(trace, source, node.elt, depth - 1)
    if isinstance(node, ast.IfExp):
        return _common([dtype_of(trace, source, one, depth - 1) for one in (node.body, node.orelse)])
    return ""


def _common(kinds: list[str]) -> str:
    return kinds[0] if kinds and len(set(kinds)) == 1 else ""


def _of_name(trace: Trace, source: Source, node: ast.Name, depth: int) -> str:
    flow = flow_around(source, node)
    value = flow.value(node)
    if value is not None:
        return dtype_of(trace, source, value, depth - 1)
    scope = flow.scope
    if (turns := _turns(flow, node.id)) is not None:
        return dtype_of(trace, source, turns, depth - 1)
    if isinstance(scope, Function) and any(a.arg == node.id for a in ast.walk(scope.args) if isinstance(a, ast.arg)):
        stored = [n.id for n in flow.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)].count(node.id)
        parts = [_is_part_of(pair.value, node.id) for pair in assigned(flow.nodes) if pair.name == node.id]
        if parts.count(True) != stored:
            return ""
        kinds = [dtype_of(trace, source, one, depth - 1) for one in arguments(source, scope, node.id)]
        kinds += [
            dtype_of(trace, other, one, depth - 1) for other, one in _from_elsewhere(trace, source, scope, node.id)
        ]
        return _common(kinds)
    outer = flow_of(source, whole(source))
    bound = [n for n in outer.nodes if isinstance(n, ast.Name) and n.id == node.id and isinstance(n.ctx, ast.Store)]
    held = trace.arrays.get(node.id)
    return (
        held.dtype if held is not None and len(bound) == 1 and not (flow is not outer and flow.binds(node.id)) else ""
    )


def _is_part_of(value: ast.AST, name: str) -> bool:
    """Whether a value has the dtype of a variable by being a part of it, or the same in another shape."""
    while isinstance(value, ast.Subscript) or (
        isinstance(value, ast.Call) and called(value) in KEEPS and operands(value)
    ):
        value = value.value if isinstance(value, ast.Subscript) else operands(value)[0]
    return isinstance(value, ast.Name) and value.id == name


def _turns(flow: Flow, name: str) -> ast.expr | None:
    """What the one loop, or comprehension, goes through that sets a variable to one item after the other."""
    stores = [n for n in flow.of(ast.Name) if n.id == name and isinstance(n.ctx, ast.Store)]  # type: ignore[attr-defined]
    loops: list[Any] = flow.of(ast.For, ast.comprehension) if len(stores) == 1 else []
    loop = next((n for n in loops if stores[0] in ast.walk(n.target)), None)
    if loop is None:
        return None
    if loop.target is stores[0]:
        return loop.iter  # type: ignore[no-any-return]
    parts, through = getattr(loop.target, "elts", []), loop.iter
    if stores[0] not in parts or not isinstance(through, ast.Call):
        return None
    at = parts.index(stores[0])
    if called(through) == "zip" and at < len(through.args):
        return through.args[at]
    return through.args[0] if called(through) == "enumerate" and at == 1 and through.args else None


def _from_elsewhere(trace: Trace, source: Source, function: Function, name: str) -> list[tuple[Source, ast.expr]]:
    """What the calls in the other sources give an argument of a file's function."""
    if not source.name or isinstance(source.parents.get(function), ast.ClassDef):
        return []
    places = [a.arg for a in function.args.args]
    if name not in places:
        return []
    found = []
    for other in sources(trace):
        for call in other.calls.get(function.name, ()) if other is not source else ():
            value = given(call, name, places.index(name))
            if value is not None:
                found.append((other, value))
    return found


def _of_call(trace: Trace, source: Source, node: ast.Call, depth: int) -> str:
    name = called(node)
    of_library = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in LIBRARIES
    kind = given(node, "dtype")
    if kind is None and name in ("astype", "to", "type", "view") and node.args:
        kind = node.args[0]
    if kind is not None and (told := _kind(kind)):
        return told
    if KINDS.match(name) and of_library:
        return name  # np.uint8(x)
    if name in SHORT and isinstance(node.func, ast.Attribute) and not node.args:
        return SHORT[name]
    if name in PICTURES:
        return "uint8"
    if isinstance(node.func, ast.Name) or not of_library:
        made = source.given.get(name, ()) if isinstance(node.func, ast.Name) else ()
        returned = made[0].body if len(made) == 1 and isinstance(made[0], ast.Lambda) else result(source, node)
        if returned is None and isinstance(node.func, ast.Name) and name not in source.functions:  # it is imported
            source = next((other for other in sources(trace) if name in other.functions), source)
            returned = result(source, node)
        if returned is not None:
            return dtype_of(trace, source, returned, depth - 1)
    if name in KEEPS or name == "to":
        parts = operands(node)
        return dtype_of(trace, source, parts[0], depth - 1) if parts else ""
    return ""


def _kind(node: ast.expr) -> str:
    """The dtype that an argument names: ``np.uint8``, ``"uint8"``, ``float``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if KINDS.match(node.value) else ""
    if isinstance(node, ast.Name) and node.id in OF_TYPES:
        return OF_TYPES[node.id]
    name = node.attr if isinstance(node, ast.Attribute) else ""
    return name if KINDS.match(name) else ""
