"""The constants of a program that a launch's arguments come from, and other numbers in their place while it runs.

A wrapper that says ``BLOCK = 128``, allots ``cdiv(n, BLOCK)`` partial sums and launches with ``BLOCK`` is run with
another block by another number in that one place. Found are names that the calling function sets to a number, defaults
of its parameters, and numbers of its module or of a class or module that it asks (`Config.BLOCK`).
"""

from __future__ import annotations

import ast
import contextlib
import gc
import linecache
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .launches import Launch
from .space import Config


@dataclass(frozen=True)
class Constant:
    """Where a number is: `kind` is "local" (a name of a function), "default" (of a parameter) or "owned" (an attribute
    or a global). owner : the function, or what has the attribute."""

    kind: str
    owner: Any
    name: str
    value: int

    def put(self, value: Any, undo: contextlib.ExitStack) -> None:
        """Have another number in place of a default, an attribute or a global until `undo` is left."""
        if isinstance(self.owner, dict):
            undo.callback(self.owner.__setitem__, self.name, self.owner[self.name])
            self.owner[self.name] = value
        elif self.kind == "owned":
            undo.callback(setattr, self.owner, self.name, getattr(self.owner, self.name))
            setattr(self.owner, self.name, value)
        else:
            self._default(value, undo)

    def _default(self, value: Any, undo: contextlib.ExitStack) -> None:
        named = self.owner.__kwdefaults__ or {}
        if self.name in named:
            undo.callback(named.__setitem__, self.name, named[self.name])
            named[self.name] = value
            return
        code, before = self.owner.__code__, self.owner.__defaults__
        at = code.co_varnames.index(self.name) - (code.co_argcount - len(before))
        undo.callback(setattr, self.owner, "__defaults__", before)
        self.owner.__defaults__ = (*before[:at], value, *before[at + 1 :])


def constants_of(launch: Launch, config: Config) -> dict[str, list[Constant]]:
    """Return by argument the constants that a launch's values of a config's names come from; none where they are
    computed, or stand in the launch itself, on which nothing else then depends."""
    if launch.caller is None:
        return {}
    code, line, names = launch.caller
    function = _tree_of(code)
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)
             and n.lineno <= line <= (n.end_lineno or n.lineno)] if function else []  # fmt: skip
    owners = _functions_of(code, names)
    if not calls or not owners:
        return {}
    assert function is not None
    said = dict(zip(launch.kernel.arg_names, calls[0].args, strict=False))
    said |= {k.arg: k.value for k in calls[0].keywords if k.arg}
    found: dict[str, list[Constant]] = {}
    for name in config:
        value = launch.call.arguments.get(name) if launch.call else None
        if name in said and isinstance(value, int):
            places = [c for f in owners for c in _behind(said[name], f, function) if c.value == value]
            if places:
                found[name] = places
    return found


def _functions_of(code: types.CodeType, names: Mapping[str, Any]) -> list[types.FunctionType]:
    """Return the functions that a code is of: what its module has by its name, else who refers to it."""
    first, *rest = code.co_qualname.split(".")
    found = names.get(first)
    for each in rest:
        found = vars(found).get(each) if hasattr(found, "__dict__") else None
    while found is not None and getattr(found, "__code__", None) is not code:
        found = getattr(found, "__wrapped__", None) or getattr(found, "__func__", None)
    if found is not None:
        return [found]
    return [f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType)]


@contextlib.contextmanager
def replaced(constants: Mapping[str, list[Constant]], config: Config) -> Iterator[None]:
    """Within, a config's numbers stand in the place of the constants."""
    numbers: dict[types.FunctionType, dict[str, Any]] = {}
    with contextlib.ExitStack() as undo:
        for name, places in constants.items():
            for each in places:
                if each.kind == "local":
                    numbers.setdefault(each.owner, {})[each.name] = config[name]
                else:
                    each.put(config[name], undo)
        for function, changed in numbers.items():
            undo.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = _with_numbers(function.__code__, changed)
        yield


def _behind(said: ast.expr, function: types.FunctionType, tree: ast.FunctionDef) -> Iterator[Constant]:
    """Yield the constant that an expression of a function's is."""
    if isinstance(said, ast.Attribute):
        owner = _asked(said.value, function)
        if isinstance(vars(owner).get(said.attr) if hasattr(owner, "__dict__") else None, int):
            yield Constant("owned", owner, said.attr, getattr(owner, said.attr))
        return
    if not isinstance(said, ast.Name):
        return
    name = said.id
    numbers = [value for target, value in _assigned(tree) if target.id == name]
    if numbers:
        if all(isinstance(n, ast.Constant) and type(n.value) is int for n in numbers) and len(numbers) == 1:
            yield Constant("local", function, name, numbers[0].value)  # type: ignore[attr-defined]
        return
    code = function.__code__
    if name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        named, given = function.__kwdefaults__ or {}, function.__defaults__ or ()
        told = dict(zip(code.co_varnames[code.co_argcount - len(given) : code.co_argcount], given, strict=True)) | named
        if type(told.get(name)) is int:
            yield Constant("default", function, name, told[name])
    elif type(function.__globals__.get(name)) is int:
        yield Constant("owned", function.__globals__, name, function.__globals__[name])


def _asked(said: ast.expr, function: types.FunctionType) -> Any:
    """Return what a name, or a name of a name, is in a function's module; None for anything else."""
    if isinstance(said, ast.Name):
        return function.__globals__.get(said.id)
    return getattr(_asked(said.value, function), said.attr, None) if isinstance(said, ast.Attribute) else None


def _assigned(tree: ast.AST) -> Iterator[tuple[ast.Name, ast.expr]]:
    """Yield each name that is set, and what to."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            targets = [node.target]
        for target in targets:
            value = node.value  # type: ignore[attr-defined]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                pairs = list(zip(target.elts, value.elts, strict=True))
            else:
                pairs = [(target, ast.Set([]) if isinstance(node, ast.AugAssign) else value)]  # no number
            yield from ((t, v) for t, v in pairs if isinstance(t, ast.Name))


def _tree_of(code: types.CodeType) -> ast.FunctionDef | None:
    """Return the function that a code was made of."""
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return None
    return _function_in(tree, code)


def _function_in(tree: ast.AST, code: types.CodeType) -> ast.FunctionDef | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _with_numbers(code: types.CodeType, numbers: Mapping[str, Any]) -> types.CodeType:
    """Return a function's code with other numbers where names are set."""
    tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    function = _function_in(tree, code)
    assert function is not None
    for target, number in _assigned(function):
        if target.id in numbers and isinstance(number, ast.Constant):
            number.value = numbers[target.id]
    waiting = [compile(tree, code.co_filename, "exec", dont_inherit=True)]
    while waiting:
        made = waiting.pop()
        if made.co_qualname == code.co_qualname and made.co_firstlineno == code.co_firstlineno:
            return made
        waiting += [each for each in made.co_consts if isinstance(each, types.CodeType)]
    raise AssertionError(f"{code.co_qualname} is not in its file")
