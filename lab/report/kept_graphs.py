"""Graphs that outlive their iteration: what the cell's variables hold at its end, however deep, that was computed with
a history.

A history dictionary of lists, a field of a dataclass, a list in a closure, a deque, tuples in a list: all are walked.
What grows from iteration to iteration is told from what belongs to the last one by counting: a list that is made anew
holds no more than one backward pass has gone through.
"""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ..recorder.cell_trace import Kept, Row, Trace
from ..recorder.observer import Recorder
from ..recorder.op_to_row import latest
from ..recorder.tensor_types import seen
from ..recorder.variable_names import attributes, is_module

OBJECTS = 20_000  # that are looked at
ITEMS = 4096  # of one container
DEEP = 6  # containers inside each other
FEW = 3  # tensors of one place that make a history
MANY = 16  # of which nothing has been trained, in a model that was not put into evaluation mode
NODES = 20_000
SEVERAL = {"grad", "split", "chunk", "unbind", "tensor_split", "unsafe_split"}  # ops that give several at once
PLAIN = (str, bytes, int, float, complex, bool, type(None), ModuleType, BuiltinFunctionType, range)


def kept(recorder: Recorder, space: Mapping[str, Any]) -> list[Kept]:
    """Find what keeps the graphs of several iterations alive, the most first."""
    trace = recorder.trace
    groups: dict[Any, dict[int, tuple[Any, Row, tuple[str, ...]]]] = {}
    for t, shape, path in _walk(trace, space):
        row = latest(t._node.tag)
        if row.__class__ is Row and row.token is recorder.fold.token:
            group = groups.setdefault((shape, row.op, row.chain), {})
            group[id(t)] = t, row, path
    found = []
    runs: dict[Any, int] = {}
    for row in trace.rows if groups else ():
        runs[row.op, row.chain] = runs.get((row.op, row.chain), 0) + row.count
    passes = max((g.count for g in trace.gradients.values()), default=0)
    for (_, op, chain), group in groups.items():
        held = list(group.values())
        rows = list(dict.fromkeys(row for _, row, _ in held))
        if len(held) < FEW or op in SEVERAL:
            continue
        reached = any(row.reached for row in rows)
        if reached and len(held) <= 2.5 * runs.get((op, chain), 0) / max(passes, 1):
            continue  # it is of the last iteration
        tensors = [t for t, _, _ in held]
        size, nodes = behind(tensors)
        scalars = all(not t._a.ndim for t in tensors)
        judged = all(_root(recorder, row.path) in trace.evaluated for row in rows)
        if not reached and not (size and (passes or scalars or judged or len(held) >= MANY)):
            continue
        size += sum(int(t._a.nbytes) for t in tensors)
        found.append(Kept(_common([path for _, _, path in held]), len(held), size, nodes, rows, reached, judged))
    return sorted(found, key=lambda k: (not k.reached, -k.count, -k.size))


def _common(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return what paths of one length have in common; "" where they differ."""
    return tuple(parts[0] if len(set(parts)) == 1 else "" for parts in zip(*paths, strict=True))


def _root(recorder: Recorder, path: int) -> int:
    while path and recorder.fold.paths[path][0]:
        path = recorder.fold.paths[path][0]
    return path


def _walk(trace: Trace, space: Mapping[str, Any]) -> Iterator[tuple[Any, tuple[str, ...], tuple[str, ...]]]:
    """Yield the tensors with a history that variables of the cell lead to: itself, its path without keys, its path."""
    names = dict.fromkeys(n.id for n in trace.nodes() if isinstance(n, ast.Name) and n.id in space)
    names |= dict.fromkeys(n.name for n in trace.nodes() if isinstance(n, ast.FunctionDef | ast.ClassDef))
    classes = {n.name for n in trace.nodes() if isinstance(n, ast.ClassDef)}
    queue: deque[tuple[Any, tuple[str, ...], tuple[str, ...], int]] = deque()
    for name in names:
        if not name.startswith("_") and name in space:
            queue.append((space[name], (name,), (name,), 0))
    known: set[int] = set()
    while queue and len(known) < OBJECTS:
        value, shape, path, depth = queue.popleft()
        if isinstance(value, PLAIN):
            continue
        t = seen(value)  # asked of its class: an object of the user's may answer to any name, and do something at it
        if t is not None:
            if t._requires_grad and t._node is not None:
                yield t, shape, path
            continue
        if id(value) in known:
            continue
        known.add(id(value))
        if depth < DEEP or is_module(value):
            for step, general, part in _parts(value, classes):
                onward = (step[1:],) if step.startswith("=") else (*path, step)  # a closure's variable by its name
                queue.append((part, (*shape, general), onward, depth + 1))


def _parts(value: Any, classes: set[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield what a value holds: how it is reached, the same without keys, and it."""
    if isinstance(value, list | tuple | deque | set | frozenset):
        yield from (("", "", item) for item, _ in zip(value, range(ITEMS), strict=False))
    elif isinstance(value, dict):
        items = zip(list(value.items()), range(ITEMS), strict=False)
        yield from ((repr(key) if isinstance(key, str) else "", "", item) for (key, item), _ in items)
    elif isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
        for name, cell in cells:
            try:
                yield "=" + name, "." + name, cell.cell_contents
            except ValueError:  # not bound yet
                continue
        given = value.__defaults__ or ()
        names = value.__code__.co_varnames[: value.__code__.co_argcount][-len(given) :] if given else ()
        yield from (("." + name, "." + name, item) for name, item in zip(names, given, strict=False))
        yield from (("." + name, "." + name, item) for name, item in vars(value).items())
    elif isinstance(value, MethodType):
        yield ".__self__", ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from (("", "", item) for item in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, type):
        if value.__name__ in classes:
            plain = (kv for kv in list(vars(value).items()) if not kv[0].startswith("__"))
            yield from (("." + name, "." + name, item) for name, item in plain)
    elif not (hasattr(type(value), "dtype") and hasattr(type(value), "shape")):
        yield from _attributes(value)


def _attributes(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the attributes that an object has itself."""
    for name, item in list(attributes(value).items())[:64]:
        if name not in ("_parameters", "_buffers", "param_groups", "_optimizer"):
            yield "." + name, "" if name == "_modules" else "." + name, item
    slots = getattr(type(value), "__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        if name in ("__dict__", "__weakref__"):
            continue
        try:
            yield "." + name, "." + name, object.__getattribute__(value, name)
        except AttributeError:  # not set yet, or of a mangled name
            continue


def behind(tensors: list[Any]) -> tuple[int, int]:
    """Return the bytes that the graphs of some tensors hold for their backward pass, each array once, and their
    nodes."""
    arrays: dict[int, Any] = {}
    known: set[Any] = set()
    stack = [t._node for t in tensors]
    while stack and len(known) < NODES:
        node = stack.pop()
        own = getattr(node, "made_by", node)  # another library's node is wrapped anew each time
        if node is None or own in known:
            continue
        known.add(own)
        for value in getattr(node, "saved", None) or ():
            if hasattr(value, "nbytes") and hasattr(value, "dtype"):
                arrays[id(value)] = value
        stack.extend(after for after, _ in getattr(node, "next_functions", ()))
    return sum(int(value.nbytes) for value in arrays.values()), len(known)
