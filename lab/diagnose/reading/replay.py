"""What statements outside of the recording gave, computed once more: plain functions of NumPy and of the tensors'
library on the values that the user's variables still hold.

Nothing of the user's is changed: only functions of a list run, none that draws, writes in place or prints, and the
user's own functions are followed statement by statement. What else a statement does is not known (`Unknown`).
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from core.base import modes
from core.events import observe

from ...recorder.cell_trace import Trace
from ...recorder.user_files import is_users
from ..finding import last_line
from .pure import (
    ATTRIBUTES,
    BUILTINS,
    LIBRARIES,
    OPERATORS,
    PURE,
    TURNS,
    VIEWS,
    appended,
    data,
    in_place,
    is_tensor,
    stored,
)
from .sources import Function, Source, called, names_in, own_nodes, sources

LARGEST = 1 << 22  # values of one result
VALUES = 1 << 25  # of all results
STEPS = 20_000  # expressions in all
DEEP = 8  # functions that call each other


class Unknown(Exception):
    """What an expression gives cannot be told without running the user's code."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Thing:
    """An object of a class of the user's, as far as the statements of its methods are known."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.held: dict[str, Any] = {}


class Replay:
    """The statements at the top of the program that some variables come from, run once more."""

    def __init__(self, trace: Trace, source: Source) -> None:
        self.trace, self.source = trace, source
        self.names: Mapping[str, Any] = trace.space
        self.inside: list[Source] = [source]
        self.known: dict[str, Any] = {}
        self.own: set[int] = set()
        self.kept: list[Any] = []
        self.left, self.values_left = STEPS, VALUES
        self.bound: dict[str, list[int]] = {}
        self.statements = source.program.body
        for k, statement in enumerate(self.statements):
            for name in stored(statement):
                self.bound.setdefault(name, []).append(k)
        self.at = 0

    # -- what is told of it --------------------------------------------------------------------------------------------

    def made(self, node: ast.AST, result: Any, given: list[Any]) -> Any:
        """Note an expression's result, of what it was given; return what stands for it."""
        return result

    def appended(self, values: list[Any], item: Any) -> None:
        """Note that a list has become longer."""

    def kept_value(self, name: str, value: Any) -> Any:
        """Return what stands for a value that a variable of the user's holds."""
        return value.detach() if is_tensor(value) and value.requires_grad else value

    def unknown(self, statement: ast.stmt, name: str, value: Any) -> Any:
        """Return what stands for the value that a variable has kept of a statement that cannot be run again."""
        return value

    # -- statements ----------------------------------------------------------------------------------------------------

    def run(self, wanted: set[str]) -> dict[str, Any]:
        """Run the statements that some variables come from, in their order; return what is known of these."""
        with observe.muted(), modes.no_grad(), np.errstate(all="ignore"):
            for k in self.relevant(wanted):
                self.at = k
                self.statement(self.statements[k], self.known)
        return {name: self.known[name] for name in wanted if name in self.known}

    def now(self, node: ast.expr) -> Any:
        """Return what an expression gave, of variables that still hold what it read; None where nobody can tell."""
        around = (k for k, one in enumerate(self.statements) if one.lineno <= node.lineno <= last_line(one))
        self.at = next(around, len(self.statements))
        try:
            with observe.muted(), modes.no_grad(), np.errstate(all="ignore"):
                return self.value(node, {})
        except Exception:  # also what a function refuses
            return None

    def relevant(self, wanted: set[str]) -> list[int]:
        """Return the numbers of the statements that variables come from."""
        found, wanted = [], set(wanted)
        for k in range(len(self.statements) - 1, -1, -1):
            statement = self.statements[k]
            if isinstance(statement, Function | ast.ClassDef | ast.Import | ast.ImportFrom):
                continue
            if wanted & stored(statement):
                found.append(k)
                wanted |= {n.id for n in own_nodes(statement) if isinstance(n, ast.Name)}
        return found[::-1]

    def statement(self, node: ast.stmt, env: dict[str, Any]) -> None:
        """Run one statement as far as it is known what it does."""
        try:
            self._statement(node, env)
        except (_Return, KeyboardInterrupt):
            raise
        except Exception:  # also what a function refuses
            self._forget(node, env)

    def _forget(self, node: ast.stmt, env: dict[str, Any]) -> None:
        for name in stored(node):
            env.pop(name, None)
            if env is self.known and self.bound.get(name, [])[-1:] == [self.at] and data(self.names.get(name)):
                env[name] = self.unknown(node, name, self.names[name])
            else:
                env[name] = Unknown
        for target in (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)):
            thing = env.get(getattr(target.value, "id", ""))
            if isinstance(thing, Thing):
                thing.held.pop(target.attr, None)

    def _statement(self, node: ast.stmt, env: dict[str, Any]) -> None:
        if isinstance(node, ast.Assign):
            value = self.value(node.value, env)
            for target in node.targets:
                self._bind(target, value, env)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, self.value(node.value, env), env)
        elif isinstance(node, ast.AugAssign):
            before = ast.copy_location(_loaded(node.target), node)
            whole = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
            self._bind(node.target, self.value(whole, env), env)
        elif isinstance(node, ast.Return):
            raise _Return(None if node.value is None else self.value(node.value, env))
        elif isinstance(node, ast.If):
            for inner in node.body if self._true(node.test, env) else node.orelse:
                self.statement(inner, env)
        elif isinstance(node, ast.For) and not node.orelse:
            for item in self._items(node.iter, env):
                self._bind(node.target, item, env)
                for inner in node.body:
                    self.statement(inner, env)
        elif isinstance(node, ast.With):
            for inner in node.body:
                self.statement(inner, env)
        elif isinstance(node, ast.Expr) and (changed := in_place(node.value)) is not None:
            name, call = changed
            env[name] = self.value(call, env)
        elif isinstance(node, ast.Expr) and (longer := appended(node.value)) is not None:
            self._append(longer[0], self.value(longer[1], env), env)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if called(node.value) != "print":  # it may change what it is given
                env.update(dict.fromkeys(names_in(node.value) & env.keys(), Unknown))
        elif stored(node):
            raise Unknown

    def _append(self, name: ast.Name, item: Any, env: dict[str, Any]) -> None:
        base = self.value(name, env)
        if not isinstance(base, list):
            raise Unknown
        if id(base) not in self.own:
            base = env[name.id] = list(base)
            self.kept.append(base)
            self.own.add(id(base))
        base.append(item)
        self.appended(base, item)

    def _true(self, test: ast.expr, env: dict[str, Any]) -> bool:
        value = self.value(test, env)
        return bool(value)

    def _items(self, node: ast.expr, env: dict[str, Any]) -> list[Any]:
        value = self.value(node, env)
        items = list(value) if not hasattr(value, "__len__") or len(value) <= TURNS else None
        if items is None or len(items) > TURNS:
            raise Unknown
        for item in items:
            self.made(node, item, [value])
        return items

    def _bind(self, target: ast.expr, value: Any, env: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            items = list(value)
            if len(items) != len(target.elts):
                raise Unknown
            for one, item in zip(target.elts, items, strict=True):
                self.made(target, item, [value])
                self._bind(one, item, env)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            base = self.value(target.value, env)
            if id(base) not in self.own:  # a copy, once: the user's stays as it is
                copied = base.clone() if hasattr(base, "clone") else base.copy()
                self.kept.append(copied)
                self.own.add(id(copied))
                self.made(target, copied, [base])
                base = env[target.value.id] = copied
            base[self.value(target.slice, env)] = value
            self.made(target, base, [value, base])
        elif isinstance(target, ast.Attribute) and isinstance(thing := self.value(target.value, env), Thing):
            thing.held[target.attr] = value
        else:
            raise Unknown

    # -- expressions ---------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, env: dict[str, Any]) -> Any:
        """Return what an expression gives; raise `Unknown` where that is not known."""
        self.left -= 1
        if self.left < 0:
            raise Unknown
        look = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if look is None:
            raise Unknown
        return look(node, env)

    def _of_constant(self, node: ast.Constant, env: dict[str, Any]) -> Any:
        return node.value

    def _of_name(self, node: ast.Name, env: dict[str, Any]) -> Any:
        if node.id in env:
            if env[node.id] is Unknown:
                raise Unknown
            return env[node.id]
        value = self.names.get(node.id, BUILTINS.get(node.id, Unknown))
        if isinstance(value, ModuleType | FunctionType | BuiltinFunctionType | type) or node.id in BUILTINS:
            return value
        later = [k for k in self.bound.get(node.id, ()) if k >= self.at]
        if later and self.names is self.trace.space:
            raise Unknown
        if plain(type(value)):
            return value
        if not data(value):
            raise Unknown
        return self.kept_value(node.id, value)

    def _of_attribute(self, node: ast.Attribute, env: dict[str, Any]) -> Any:
        base = self.value(node.value, env)
        if isinstance(base, ModuleType):
            found = getattr(base, node.attr)
            if base.__name__.partition(".")[0] not in LIBRARIES:
                raise Unknown
            return found
        if isinstance(base, Thing) or plain(type(base)):
            held = base.held if isinstance(base, Thing) else vars(base)
            if not data(held.get(node.attr, Unknown)) and not isinstance(held.get(node.attr), Thing):
                raise Unknown
            return held[node.attr] if isinstance(base, Thing) else self.kept_value(node.attr, held[node.attr])
        if node.attr not in ATTRIBUTES:
            raise Unknown
        return self.made(node, getattr(base, node.attr), [base])

    def _of_call(self, node: ast.Call, env: dict[str, Any]) -> Any:
        named = {k.arg: self.value(k.value, env) for k in node.keywords if k.arg is not None}
        if len(named) != len(node.keywords) or "out" in named or any(isinstance(a, ast.Starred) for a in node.args):
            raise Unknown
        args = [self.value(a, env) for a in node.args]
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, env)
            if isinstance(base, Thing) or plain(type(base)):
                return self._method(node, base, node.func.attr, args, named)
            function = getattr(base, node.func.attr)
            allowed = node.func.attr in PURE or (isinstance(base, dict) and node.func.attr in VIEWS)
            of_library = isinstance(base, ModuleType) and base.__name__.partition(".")[0] in LIBRARIES
            if not of_library and isinstance(base, ModuleType):
                return self._followed(node, function, args, named)
            if node.func.attr == "sort" and not of_library and not is_tensor(base):  # in place
                raise Unknown
            if not allowed or not (of_library or data(base) or isinstance(base, str)):
                raise Unknown
            given = [*([] if of_library else [base]), *args, *named.values()]
        else:
            function = self.value(node.func, env)
            if isinstance(function, FunctionType):
                return self._followed(node, function, args, named)
            if isinstance(function, Thing) or plain(type(function)):
                return self._method(node, function, "__call__", args, named)
            if isinstance(function, type) and plain(function):
                thing = Thing(function)
                if "__init__" in vars(function):
                    self._method(node, thing, "__init__", args, named)
                return thing
            if function not in BUILTINS.values() and not (
                getattr(function, "__module__", "").partition(".")[0] in LIBRARIES and called(node) in PURE
            ):
                raise Unknown
            given = [*args, *named.values()]
        return self.made(node, self.limited(self.call(node, function, args, named)), given)

    def call(self, node: ast.Call, function: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """Call a function of the list."""
        return function(*args, **named)

    def _method(self, node: ast.Call, thing: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        """Return what a method of an object of the user's gives."""
        function = vars(thing.kind if isinstance(thing, Thing) else type(thing)).get(name)
        if not isinstance(function, FunctionType):
            raise Unknown
        return self._followed(node, function, [thing, *args], named)

    def _followed(self, node: ast.Call, function: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """Return what a function of the user's gives, its statements one by one."""
        found = [(s, n) for s in sources(self.trace) for n in s.nodes if isinstance(n, ast.FunctionDef)
                 and n.name == getattr(function, "__name__", "") and _same(n, function)]  # fmt: skip
        found.sort(key=lambda pair: pair[1].lineno != function.__code__.co_firstlineno)  # of several of one name
        if not found or len(self.inside) > DEEP or found[0][1].args.vararg or found[0][1].args.kwarg:
            raise Unknown
        source, definition = found[0]
        places = [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)]
        env = dict(zip(places, args, strict=False)) | named
        values = function.__defaults__ or ()
        for name, value in [*zip(places[len(places) - len(values) :], values, strict=True),
                            *(function.__kwdefaults__ or {}).items()]:  # fmt: skip
            env.setdefault(name, value)
        if set(env) != {*places, *(a.arg for a in definition.args.kwonlyargs)}:
            raise Unknown
        before = self.names
        self.names = function.__globals__
        self.inside.append(source)
        try:
            for statement in definition.body:
                self.statement(statement, env)
        except _Return as returned:
            return returned.value
        finally:
            self.names = before
            self.inside.pop()
        return None

    def limited(self, value: Any) -> Any:
        """Return a result if it is not too large to go on with."""
        size = math.prod(getattr(value, "shape", ()) or ())
        self.values_left -= size
        if size > LARGEST or self.values_left < 0:
            raise Unknown
        self.kept.append(value)
        return value

    def _of_binop(self, node: ast.BinOp, env: dict[str, Any]) -> Any:
        left, right = self.value(node.left, env), self.value(node.right, env)
        return self.made(node, self.limited(OPERATORS[type(node.op)](left, right)), [left, right])

    def _of_unaryop(self, node: ast.UnaryOp, env: dict[str, Any]) -> Any:
        value = self.value(node.operand, env)
        return self.made(node, self.limited(OPERATORS[type(node.op)](value)), [value])

    def _of_compare(self, node: ast.Compare, env: dict[str, Any]) -> Any:
        if len(node.ops) != 1 or type(node.ops[0]) not in OPERATORS:
            raise Unknown
        return OPERATORS[type(node.ops[0])](self.value(node.left, env), self.value(node.comparators[0], env))

    def _of_boolop(self, node: ast.BoolOp, env: dict[str, Any]) -> Any:
        value = None
        for part in node.values:
            value = self.value(part, env)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _of_ifexp(self, node: ast.IfExp, env: dict[str, Any]) -> Any:
        return self.value(node.body if self._true(node.test, env) else node.orelse, env)

    def _of_subscript(self, node: ast.Subscript, env: dict[str, Any]) -> Any:
        base = self.value(node.value, env)
        if not data(base):
            raise Unknown
        return self.made(node, self.limited(base[self.value(node.slice, env)]), [base])

    def _of_slice(self, node: ast.Slice, env: dict[str, Any]) -> Any:
        return slice(*(None if part is None else self.value(part, env) for part in (node.lower, node.upper, node.step)))

    def _of_tuple(self, node: ast.Tuple, env: dict[str, Any]) -> Any:
        items = tuple(self.value(part, env) for part in node.elts)
        return self.made(node, self.limited(items), list(items))

    def _of_list(self, node: ast.List, env: dict[str, Any]) -> Any:
        items = [self.value(part, env) for part in node.elts]
        return self.made(node, self.limited(items), items)

    def _of_dict(self, node: ast.Dict, env: dict[str, Any]) -> Any:
        if any(key is None for key in node.keys):
            raise Unknown
        items = [self.value(part, env) for part in node.values]
        found = {self.value(k, env): v for k, v in zip(node.keys, items, strict=True) if k is not None}
        return self.made(node, self.limited(found), items)

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp, env: dict[str, Any]) -> Any:
        loop = node.generators[0]
        if len(node.generators) > 1:
            raise Unknown
        inner, items = dict(env), []
        for item in self._items(loop.iter, env):
            self._bind(loop.target, item, inner)
            if all(self._true(test, inner) for test in loop.ifs):
                items.append(self.value(node.elt, inner))
        return self.made(node, self.limited(items), items)

    _of_generatorexp = _of_listcomp


def plain(kind: type) -> bool:
    """Return whether a class is one of the user's that is built on nothing else."""
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return kind.__mro__[1:] == (object,) and module is not None and not issubclass(kind, Replay | Thing | Source) and (
        kind.__module__ == "__main__" or (file is not None and is_users(file)))  # fmt: skip


def _loaded(target: ast.expr) -> ast.expr:
    """The same variable or item, as it is read."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    raise Unknown


def _same(node: ast.FunctionDef, function: Any) -> bool:
    """Whether a function was made by a definition: its arguments are the same."""
    code = getattr(function, "__code__", None)
    places = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    return code is not None and list(code.co_varnames[: code.co_argcount]) == places
