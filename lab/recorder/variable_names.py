"""What the user calls a tensor or a module: "model.0.weight", "Ws[2]", "x", looked up in the user's own variables."""

from __future__ import annotations

import ast
import functools
import weakref
from collections.abc import Iterator, Mapping
from inspect import CO_NEWLOCALS
from itertools import islice
from types import FrameType
from typing import Any

from core.base import syntax
from core.base.source import is_ours
from core.tensors.tensor import Tensor

from .tensor_types import seen

LOOKUPS = 2000  # scans of the variables that one recording may cost; later leaves stay without a name
SCANS = 32  # times that the modules are read anew for a parameter which was not in them
ITEMS = 512  # how far into a list names are looked for


def is_module(value: Any) -> bool:
    """Return whether a value is a module, without importing the package of modules."""
    kind = type(value)  # an exported program has parameters, and no modules
    return callable(getattr(kind, "named_parameters", None)) and callable(getattr(kind, "named_modules", None))


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes that an object has itself; no code of its class is asked, which may do something at it."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return own if isinstance(own, dict) else {}


def spaces(frame: FrameType | None, ours: str) -> list[Mapping[str, Any]]:
    """Return the variables the user's frames see, the outermost (the cell's own) first."""
    found: list[Mapping[str, Any]] = []
    program: Mapping[str, Any] | None = None  # a task of asyncio's or a thread has no frame of the cell above it
    while frame is not None and len(found) < 32:
        if program is None and frame.f_globals.get("__name__") == "__main__":
            program = frame.f_globals
        name = frame.f_code.co_filename
        if not is_ours(name) and not name.startswith(ours):
            found.append(frame.f_locals)
            if not frame.f_code.co_flags & CO_NEWLOCALS:
                break
        frame = frame.f_back
    if program is not None and all(space is not program for space in found):
        found.append(program)
    return found[::-1]


class Names:
    """Names of tensors and modules, found in the variables and remembered.

    >>> import core
    >>> names = Names()
    >>> W = [core.ones(2), core.ones(2)]
    >>> names.of(W[1], [{"Ws": W, "last": W[1]}])
    'Ws[1]'
    """

    def __init__(self) -> None:
        self.modules: dict[int, str] = {}
        self.left = LOOKUPS
        self._scans = SCANS
        self._members: dict[int, dict[int, tuple[Any, str]]] = {}  # root -> tensor -> (weak reference to it, path)
        self._known: dict[int, tuple[Any, str]] = {}  # tensor -> (weak reference, name), of modules that ran
        self._sizes: dict[int, int] = {}  # root -> how many modules it contains

    def of(self, t: Any, where: list[Mapping[str, Any]]) -> str:
        """Return the name of a tensor: through a module, a list or a dict before a bare variable; "" if it has none."""
        if self.left <= 0:
            return ""
        self.left -= 1
        for find in (self._in_module, _in_container, _as_variable, _as_attribute):
            for space in where:
                name = find(t, space)
                if name:
                    return name
        return ""

    def known(self, t: Any) -> str:
        """Return the name of a tensor of a module that has run; "" of any other."""
        found = self._known.get(id(t))
        return found[1] if found is not None and found[0]() is t else ""

    def forget(self, t: Any) -> None:
        """Hold no weak reference to a tensor."""
        for known in (self._known, *self._members.values()):
            known.pop(id(t), None)

    def module(self, module: Any, where: list[Mapping[str, Any]]) -> str:
        """Return the name of a module, with those of all that it contains noted."""
        known = self.modules.get(id(module))
        if known is not None:
            return known
        for space in where:
            for variable, root in self.roots(space):
                for path, inner in root.named_modules():
                    if inner is module:
                        self.note(root, variable)
                        return f"{variable}.{path}" if path else variable
        return ""

    def note(self, root: Any, variable: str) -> None:
        """Remember what all modules inside `root` are called, and their tensors."""
        for key, (held, path) in _members(root).items():
            self._known.setdefault(key, (held, f"{variable}.{path}"))
        for path, inner in root.named_modules():
            self.modules.setdefault(id(inner), f"{variable}.{path}" if path else variable)

    def roots(self, space: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Variables that are modules, those that contain most first, so that a part is called after its whole."""
        found = [(f"{name}[{key!r}]", v) for name, kept in _variables(space) for key, v in _modules_in(kept)]
        found += [(name, v) for name, v in _variables(space) if is_module(v)]
        found = [(name, v) for name, v in found if "_modules" in vars(v)]  # not one that is being copied right now
        for _, root in found:
            if id(root) not in self._sizes:
                self._sizes[id(root)] = sum(1 for _ in root.named_modules())
        return sorted(found, key=lambda pair: -self._sizes[id(pair[1])])

    def _in_module(self, t: Any, space: Mapping[str, Any]) -> str:
        roots = self.roots(space)
        for again in (False, True):
            for variable, root in roots:
                if again or id(root) not in self._members:
                    self._members[id(root)] = _members(root)
                found = self._members[id(root)].get(id(t))
                if found is not None and found[0]() is t:
                    return f"{variable}.{found[1]}"
            # a parameter that nobody knows may have come since its module was read
            if not (roots and t.requires_grad and not t._is_view() and t.is_leaf and self._scans):
                break
            self._scans -= 1
        return ""


def _modules_in(kept: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the modules in a plain list or dictionary, whose names tell more than that of a loop's variable."""
    if isinstance(kept, list | tuple):
        if kept and is_module(kept[0]):
            yield from ((k, v) for k, v in enumerate(kept[:ITEMS]) if is_module(v))
    elif isinstance(kept, dict) and 0 < len(kept) <= ITEMS and is_module(next(iter(kept.values()))):
        yield from ((k, v) for k, v in kept.items() if is_module(v))


def _variables(space: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return (
        (k, v)
        for k, v in list(space.items())
        if isinstance(k, str) and not k.startswith("_") and k not in ("In", "Out")
    )


def _members(root: Any) -> dict[int, tuple[Any, str]]:
    """Return the tensors of a module by their identity."""
    found: dict[int, tuple[Any, str]] = {}
    for listed in ("named_parameters", "named_buffers"):
        for path, p in getattr(root, listed, lambda: ())():
            found.setdefault(id(p), (weakref.ref(p), path))
    for path, p in _unlisted(root):
        found.setdefault(id(p), (weakref.ref(p), path))
    return found


def _unlisted(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a module keeps as a plain tensor, or in a plain list or dictionary: parameters() leaves it out."""
    for above, module in root.named_modules():
        for attribute, value in list(vars(module).items()):
            if attribute.startswith("_"):
                continue
            begin = f"{above}.{attribute}" if above else attribute
            if _trains(value):
                yield begin, value
            if not isinstance(value, list | tuple | dict):
                continue
            for key, item in islice(value.items() if isinstance(value, dict) else enumerate(value), ITEMS):
                if is_module(item):
                    yield from ((f"{begin}[{key!r}].{path}", p) for path, p in item.named_parameters())
                elif _trains(item):
                    yield f"{begin}[{key!r}]", item


def _trains(value: Any) -> bool:
    """Return whether a value is a tensor that gets a gradient of its own."""
    return seen(value) is not None and bool(value.requires_grad) and bool(value.is_leaf)


def _in_container(t: Any, space: Mapping[str, Any]) -> str:
    for variable, value in _variables(space):
        if isinstance(value, list | tuple):
            for i, item in enumerate(islice(value, ITEMS)):
                if item is t:
                    return f"{variable}[{i}]"
                if isinstance(item, list | tuple):
                    for j, inner in enumerate(islice(item, 16)):
                        if inner is t:
                            return f"{variable}[{i}][{j}]"
        elif isinstance(value, dict) and len(value) <= ITEMS:
            for key, item in value.items():
                if item is t:
                    return f"{variable}[{key!r}]"
    return ""


def _as_variable(t: Any, space: Mapping[str, Any]) -> str:
    return next((name for name, value in _variables(space) if value is t), "")


def _as_attribute(t: Any, space: Mapping[str, Any]) -> str:
    for variable, value in _variables(space):
        if isinstance(value, Tensor | type) or callable(value):
            continue
        for attribute, item in list(attributes(value).items())[:64]:
            if item is t:
                return f"{variable}.{attribute}"
            if isinstance(item, list | tuple):
                for i, inner in enumerate(islice(item, ITEMS)):
                    if inner is t:
                        return f"{variable}.{attribute}[{i}]"
    return ""


def operand(code: str, position: int) -> str:
    """Return the text of an op's operand, read from the expression that called it; "" where that is not plain to see.

    >>> operand("x @ self.W", 1), operand("core.matmul(a, b)", 0), operand("h.exp()", 0)
    ('self.W', 'a', 'h')
    """
    try:
        tree = syntax.expression(code.strip())
    except (SyntaxError, ValueError):
        return ""
    parts: list[ast.expr] = []
    if isinstance(tree, ast.BinOp):
        parts = [tree.left, tree.right]
        if any(isinstance(part, ast.Constant) for part in parts):  # 2 * x and x * 2 reach the op alike
            parts = [part for part in parts if not isinstance(part, ast.Constant)] * 2
    elif isinstance(tree, ast.UnaryOp):
        parts = [tree.operand]
    elif isinstance(tree, ast.Compare):
        parts = [tree.left, *tree.comparators]
    elif isinstance(tree, ast.Subscript):
        parts = [tree.value]
    elif isinstance(tree, ast.Call):
        of = tree.func
        method = isinstance(of, ast.Attribute) and not (isinstance(of.value, ast.Name) and of.value.id in _PACKAGES)
        parts = [*([of.value] if method and isinstance(of, ast.Attribute) else []), *tree.args]
    if position >= len(parts):
        return ""
    text = ast.unparse(parts[position])
    return text if len(text) <= 24 and not isinstance(parts[position], ast.Constant) else ""


_PACKAGES = {"core", "torch", "F", "np", "nn", "functional"}


_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
              ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip


def assigned(source: str, block: int | None = None) -> set[str]:
    """Return the variables that a cell's own statements assign, at its top level; or those of the `with` block that
    begins on line `block`.

    >>> sorted(assigned("x = [i for i in z]\\nfor k in y:\\n    (a, b) = k\\ndef f():\\n    hidden = 1"))
    ['a', 'b', 'k', 'x']
    >>> assigned("x = 1\\nwith open(x) as f:\\n    y = 2", block=2)
    {'y'}
    """
    return set(_assigned(source, block))


@functools.lru_cache(2)  # asked several times of each cell
def _assigned(source: str, block: int | None) -> frozenset[str]:
    try:
        tree = syntax.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    found: set[str] = set()
    stack: list[ast.AST] = list(tree.body if block is None else _with_block(tree, block))
    while stack:
        node = stack.pop()
        if isinstance(node, _OWN_SCOPE):
            continue
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                found.add(node.id)
            continue
        stack.extend(ast.iter_child_nodes(node))
    return frozenset(found)


def _with_block(tree: ast.Module, line: int) -> list[ast.stmt]:
    """Return the statements of the innermost `with` that begins on a line (or goes over it); none if there is no
    such."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith) and node.lineno <= line <= node.body[0].lineno
    ]
    return max(found, key=lambda node: node.lineno).body if found else []
