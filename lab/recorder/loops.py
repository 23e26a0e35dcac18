"""How long a loop will go on: the `for` loops around a line, and how many turns each has, as far as can be told without
running anything of the user's."""

from __future__ import annotations

import ast
import builtins
import linecache
import math
import operator
from collections.abc import Callable
from functools import lru_cache
from inspect import CO_NEWLOCALS
from types import FrameType
from typing import Any, NamedTuple

from core.tensors.tensor import Tensor

from .number_names import parsed
from .user_files import users_frame
from .variable_names import attributes

DEEP = 16  # frames that are looked at
PASS_ON = {"enumerate", "tqdm", "progress", "track", "list", "tuple", "reversed", "sorted", "iter", "tqdm_notebook"}
"""Calls that give as many values as their first argument."""
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_LIBRARIES = ("core.", "torch.")


class Loop(NamedTuple):
    """One loop around a line: how many turns it has and in which it is, counted from 0; None where that is unknown."""

    turns: int | None
    turn: int | None


def around(frame: FrameType | None) -> list[Loop]:
    """Return the loops that a frame of the user's stands in, the outermost first.

    >>> import sys
    >>> def look():
    ...     return around(sys._getframe(1))
    """
    found: list[Loop] = []
    frame = users_frame(frame)
    for _ in range(DEEP):
        if frame is None:
            break
        inner = [loop for node in _loops(frame) if (loop := _loop(node, frame)) is not None]
        found = inner + found
        if not frame.f_code.co_flags & CO_NEWLOCALS:
            break
        frame = users_frame(frame.f_back)
    return found


def expected(loops: list[Loop], made: int) -> int | None:
    """Return how many steps there will be, of which `made` were made since the outermost loop began.

    Inner loops of unknown length, and steps that are not made in each turn, are estimated by what was seen so far.

    >>> expected([Loop(10, 2), Loop(100, None)], 250), expected([Loop(10, 4), Loop(None, None)], 400)
    (1000, 889)
    >>> expected([Loop(10, 4), Loop(100, 0)], 101), expected([Loop(None, None)], 5), expected([Loop(3, None)], 5)
    (252, None, None)
    """
    outer = next((k for k, loop in enumerate(loops) if loop.turns is not None and loop.turns > 1), None)
    if outer is None or any(loop.turns is None for loop in loops[:outer]):
        return None
    loops = loops[outer:]
    known = [loop.turns for loop in loops if loop.turns is not None]
    whole = math.prod(known) if len(known) == len(loops) else None
    turns, turn = known[0], loops[0].turn
    if turn and (whole is None or not made / (turn + 1) <= whole / turns <= made / turn):
        begun = 0.5  # of the turn that it is in; what was seen says more than what is written
        for loop in reversed(loops[1:]):
            begun = 0.5 if not loop.turns or loop.turn is None else (loop.turn + begun) / loop.turns
        whole = round(made / (turn + (begun if len(loops) > 1 else 1.0)) * turns)
    return whole if whole is not None and whole >= made else None


@lru_cache(64)
def _of_function(text: str, first: int) -> tuple[ast.For | ast.AsyncFor, ...]:
    """Return the loops of the function that begins on a line, 0 being the module; outer ones first."""
    tree = parsed(text)
    if tree is None:
        return ()
    root: ast.AST = tree
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    if first:
        for node in ast.walk(tree):
            if isinstance(node, functions):
                lines = [node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]
                if min(lines) == first:
                    root = node
                    break
        else:
            return ()
    found: list[ast.For | ast.AsyncFor] = []
    stack = list(ast.iter_child_nodes(root))
    while stack:
        node = stack.pop()
        if isinstance(node, (*functions, ast.ClassDef)):
            continue
        if isinstance(node, ast.For | ast.AsyncFor):
            found.append(node)
        stack.extend(ast.iter_child_nodes(node))
    return tuple(sorted(found, key=lambda node: node.lineno))


def _loops(frame: FrameType) -> list[ast.For | ast.AsyncFor]:
    code, line = frame.f_code, frame.f_lineno
    text = "".join(linecache.getlines(code.co_filename))
    first = code.co_firstlineno if code.co_flags & CO_NEWLOCALS else 0
    return [n for n in _of_function(text, first) if n.body[0].lineno <= line <= (n.body[-1].end_lineno or 0)]


def _loop(node: ast.For | ast.AsyncFor, frame: FrameType) -> Loop | None:
    turns = _length(node.iter, frame)
    return Loop(turns, _turn(node, frame))


def _turn(node: ast.For | ast.AsyncFor, frame: FrameType) -> int | None:
    """Return in which turn a loop over a range, or an enumeration, is."""
    call, target = node.iter, node.target
    while isinstance(call, ast.Call) and _called(call) in PASS_ON - {"enumerate", "reversed", "sorted"} and call.args:
        call = call.args[0]
    if not isinstance(call, ast.Call):
        return None
    name, first, step = _called(call), 0, 1
    if name == "enumerate":
        target = next(iter(target.elts), target) if isinstance(target, ast.Tuple) else target
        start = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "start"), None)
        if start is not None:
            known = _value(start, frame)
            if not isinstance(known, int):
                return None
            first = known
    elif name in ("range", "trange"):
        numbers = [_value(a, frame) for a in call.args]
        if not numbers or not all(isinstance(n, int) for n in numbers):
            return None
        first, step = (numbers[0] if len(numbers) > 1 else 0), (numbers[2] if len(numbers) > 2 else 1)
    else:
        return None
    at = _name(target.id, frame) if isinstance(target, ast.Name) else None
    return (at - first) // step if type(at) is int and step and (at - first) // step >= 0 else None


def _called(call: ast.Call) -> str:
    of = call.func
    return of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""


def _name(name: str, frame: FrameType) -> Any:
    for space in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in space:
            return space[name]
    return None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return what an expression stands for, where looking at variables is enough; None for any other."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _name(node.id, frame)
    if isinstance(node, ast.Attribute):
        return attributes(_value(node.value, frame)).get(node.attr)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        a, b = _value(node.left, frame), _value(node.right, frame)
        if type(a) is int and type(b) is int and (b or not isinstance(node.op, ast.FloorDiv)):
            return _OPERATORS[type(node.op)](a, b)
    if isinstance(node, ast.Call) and _called(node) == "len" and len(node.args) == 1:
        return length(_value(node.args[0], frame))
    if isinstance(node, ast.Call) and _called(node) == "int" and len(node.args) == 1:
        value = _value(node.args[0], frame)
        return int(value) if type(value) in (int, float) else None
    return None


def _length(node: ast.expr, frame: FrameType) -> int | None:
    """Return how many values an expression that is looped over gives."""
    if not isinstance(node, ast.Call):
        return length(_value(node, frame))
    name = _called(node)
    total = next((_value(k.value, frame) for k in node.keywords if k.arg == "total"), None)
    if type(total) is int:
        return total
    if name in ("range", "trange"):
        numbers: list[Any] = [_value(a, frame) for a in node.args]
        if not numbers or len(numbers) > 3 or any(type(n) is not int for n in numbers) or numbers[2:] == [0]:
            return None
        return len(range(*numbers))
    if name in PASS_ON and node.args:
        return _length(node.args[0], frame)
    if name == "zip" and node.args:
        lengths = [_length(a, frame) for a in node.args]
        return min(n for n in lengths if n is not None) if None not in lengths else None
    if name == "islice" and len(node.args) == 2:
        most, whole = _value(node.args[1], frame), _length(node.args[0], frame)
        return None if type(most) is not int else most if whole is None else min(most, whole)
    if name == "split" and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        rows, size = length(_value(node.func.value, frame)), _value(node.args[0], frame)
        return -(-rows // size) if rows is not None and type(size) is int and size > 0 else None
    return None


def length(value: Any) -> int | None:
    """Return how many values an object gives, if no code of the user's has to be run for the answer.

    >>> class Mine:
    ...     def __len__(self):
    ...         raise ValueError
    >>> length([1, 2]), length(range(5)), length(Mine())
    (2, 5, None)
    """
    if type(value) in (list, tuple, dict, set, range, str):
        return len(value)
    kind = type(value)
    if isinstance(value, Tensor) or kind.__module__ in ("numpy", "torch", "torch.nn.parameter"):
        shape: Any = getattr(value, "shape", ())
        return int(shape[0]) if len(shape) else None
    own = attributes(value)
    if kind.__name__.startswith(("tqdm", "Progress")):
        return own["total"] if type(own.get("total")) is int else None
    if kind.__name__ == "DataLoader" and kind.__module__.startswith(_LIBRARIES):
        return len(value) if _plain(own.get("dataset")) and _plain(own.get("batch_sampler")) else None
    return None


def _plain(value: Any) -> bool:
    """Return whether an object's length is a library's own affair, that of what it holds too."""
    kind = type(value)
    if kind in (list, tuple, dict, range, type(None)) or kind.__module__ == "numpy":
        return True
    if not kind.__module__.startswith(_LIBRARIES):
        return False
    inner = [attributes(value).get(name) for name in ("dataset", "data_source", "sampler")]
    return all(_plain(one) for one in inner if one is not None)
