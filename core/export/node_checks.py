"""What a node from a file has to be: inputs, parameters and results as its op, or its form, is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..declare import op as declarations
from ..declare.op import Elementwise, Operation
from ..serialization.source import broken, short
from .copied import unwrapped
from .described import dtype_named
from .ir import Node, Sized, Value


def whole(x: Any, below: int) -> bool:
    """Return whether this is one of the numbers 0, 1, ... below."""
    return type(x) is int and 0 <= x < below


def is_whole_number(x: Any) -> bool:
    """Return whether this is a whole number, or one that the sizes decide."""
    return isinstance(x, Sized) or (type(x) is int)


def checked_params(op: Any, node: Node, where: str) -> dict[str, Any]:
    """Return the parameters of an op in the order of its declaration; what is missing has its default."""
    unknown = [name for name in node.params if name not in op.params]
    if unknown:
        known = ", ".join(op.params) or "none"
        raise broken(f"{where} has the parameter {short(unknown[0])}, and it knows {known}")
    params = {name: node.params.get(name, default) for name, default in op.params.items()}
    for name, default in op.params.items():
        if not _like(params[name], default):
            raise broken(f"{where} has {name}={short(params[name])}, where something like {default!r} is needed")
    values = [isinstance(x, Value) for x in node.inputs]
    if isinstance(op, Elementwise):
        fits = len(values) == len(op.inputs) and any(values) and not any(x is None for x in node.inputs)
        fits = fits and all(isinstance(x, Value | bool | int | float | complex | Sized) for x in node.inputs)
        count = (1, 1)
    else:
        fits = bool(values) and values[0] and all(x is None or isinstance(x, Value) for x in node.inputs)
        fits = (
            fits and (all(values) if op.variadic else len(values) <= len(op.inputs)) and _binds(op, len(values), params)
        )
        count = (1, 4096) if op.returns == 0 else (1, max(op.returns, len(op.outputs)))
    if not fits:
        raise broken(f"{where} has {len(node.inputs)} inputs that are not ({', '.join(op.inputs)})")
    if not count[0] <= len(node.outputs) <= count[1]:
        raise broken(f"{where} gives {len(node.outputs)} results")
    return params


def _binds(op: Operation, count: int, params: dict[str, Any]) -> bool:
    try:
        inspect.signature(unwrapped(op.forward)).bind(None, *range(count), **params)
    except TypeError:
        return False
    return True


def _like(x: Any, default: Any) -> bool:
    """Return whether a parameter is of the kind of its default."""
    if default is None:
        return True
    if isinstance(default, bool):
        return isinstance(x, bool)
    if isinstance(default, int):
        return (type(x) is int) or isinstance(x, Sized | float)
    if isinstance(default, float):
        return isinstance(x, int | float | Sized)  # a truth too: what fills the border of a mask
    if isinstance(default, tuple):
        return isinstance(x, tuple) or x is None
    return isinstance(x, type(default))


def check_form(node: Node, where: str) -> None:
    """Raise LoadError for a form that is not as `ir.FORMS` says."""
    names, check = _CHECKS[node.op]
    if set(node.params) != set(names):
        raise broken(f"{where} has the parameters {short(tuple(node.params))}, and not {', '.join(names) or 'none'}")
    if not check(node):
        raise broken(
            f"{where} is not written as it has to be: inputs {short(node.inputs)}, {len(node.outputs)} results"
        )


def _scalar(x: Any) -> bool:
    return isinstance(x, bool | int | float | complex | Sized)


def _full(node: Node) -> bool:
    p = node.params
    shape = isinstance(p["shape"], tuple) and len(p["shape"]) <= 64 and all(map(is_whole_number, p["shape"]))
    return not node.inputs and shape and _scalar(p["value"]) and dtype_named(p["dtype"]) is not None and _gives(node, 1)


def _arange(node: Node) -> bool:
    p = node.params
    numbers = all(_scalar(p[key]) and not isinstance(p[key], complex) for key in ("start", "end", "step"))
    return not node.inputs and numbers and dtype_named(p["dtype"]) is not None and _gives(node, 1)


def _put(node: Node) -> bool:
    path = node.params["path"]
    if len(node.inputs) != 2 or not all(isinstance(x, Value) for x in node.inputs) or not _gives(node, 1):
        return False
    return isinstance(path, tuple) and all(map(_is_step, path))


def _is_step(step: Any) -> bool:
    """Return whether this is (view op, params, which of its outputs)."""
    if not isinstance(step, tuple) or len(step) != 3 or not isinstance(step[0], str):
        return False
    op = declarations.table.get(step[0])
    if not isinstance(op, Operation) or not op.view or not isinstance(step[1], tuple):
        return False
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in step[1]):
        return False
    params = dict(step[1])
    known = len(params) == len(step[1]) and set(params) == set(op.params)
    alike = known and all(_like(params[k], default) for k, default in op.params.items())
    return alike and (step[2] is None if op.returns == 1 else whole(step[2], 4096))


def _if(node: Node) -> bool:
    counts = {len(block.outputs) for block in node.blocks} | {len(node.outputs)}
    empty = all(not block.inputs for block in node.blocks)
    return len(node.inputs) == 1 and isinstance(node.inputs[0], Value) and len(counts) == 1 and empty


def _while(node: Node) -> bool:
    test, body = node.blocks
    counts = {len(node.inputs), len(test.inputs), len(body.inputs), len(body.outputs), len(node.outputs)}
    return len(counts) == 1 and len(test.outputs) == 1 and all(isinstance(x, Value) for x in node.inputs)


def _gives(node: Node, count: int) -> bool:
    return len(node.outputs) == count and None not in node.outputs


_CHECKS: dict[str, tuple[tuple[str, ...], Callable[[Node], bool]]] = {
    "full": (("shape", "value", "dtype"), _full),
    "arange": (("start", "end", "step", "dtype"), _arange),
    "put": (("path",), _put),
    "if": ((), _if),
    "while": ((), _while),
}
