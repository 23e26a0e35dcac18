"""`script`: functions with `if`, `while` and `for` over tensors, as conditions and loops of a program.

The function's own source is rewritten: each branch and each body becomes a function of the names that it assigns, and
the statement a call that runs it. Where the test is a number of Python's, Python decides as before; where it is a
tensor and a program is being captured, both branches, or test and body once, become blocks of the program.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Sequence
from typing import Any

from ..base import syntax
from ..events import observe
from ..nn.modules.module import Module
from ..ops.creation import tensor
from ..tensors.tensor import Tensor
from .blocks import OWN, branches, loop
from .ir import ExportError
from .tape import Tape

_UNSET = type("Unset", (), {"__repr__": lambda self: "a name that is not set yet"})()


class ScriptError(ExportError):
    """What `script` does not take, with its line and column."""


def script(function: Any) -> Any:
    """Return a function, or a module's `forward`, whose control flow over tensors a program can have.

    Called, it does what it did. Given to `core.export` its ``if``, ``while`` and ``for`` over tensors, ``and``, ``or``
    and ``not`` in their tests, early ``return`` out of branches, ``break`` and ``continue`` become part of the program.
    Both branches have to give tensors of one shape and dtype, and a loop has to keep those of its values.

    Raises
    ------
    ScriptError
        With line and column, for a ``return`` inside a loop and for what no branch may do: ``yield``, ``global``,
        ``nonlocal``, ``del``, ``try``.

    >>> import core
    >>> @core.export.script
    ... def root(a):
    ...     r = a * 0.5
    ...     while (r * r - a).abs().max() > 1e-4:
    ...         r = 0.5 * (r + a / r)
    ...     return r
    >>> program = core.export(root, (core.tensor([2.0, 9.0]),))
    >>> core.allclose(program(core.tensor([16.0, 25.0])), core.tensor([4.0, 5.0]), rtol=1e-4)
    True
    """
    if isinstance(function, Module):
        return ScriptedModule(function)
    return rewritten(function)


class ScriptedModule(Module):
    """A module whose own `forward`, and those of the user's modules in it, are scripted."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module
        self._forwards = {}
        for part in module.modules():
            if not type(part).__module__.startswith(__package__.partition(".")[0] + "."):
                self._forwards[part] = types.MethodType(rewritten(type(part).forward), part)

        @functools.wraps(module.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:
            return self._run(*args, **kwargs)

        self.forward = forward  # type: ignore[method-assign]

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        for part, forward in self._forwards.items():
            part.forward = forward  # type: ignore[method-assign]
        try:
            return self.module(*args, **kwargs)
        finally:
            for part in self._forwards:
                del part.forward


def rewritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose control flow goes through this module."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
        first = inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        raise ScriptError(f"script needs the source of {function!r}, which is not there\n  remedy: a function written "
                          "in a file or a cell") from None  # fmt: skip
    tree = syntax.parse(source)
    ast.increment_lineno(tree, first - 1)
    target = tree.body[0]
    if not isinstance(target, ast.FunctionDef):
        raise ScriptError(f"script takes functions with a name, got {type(target).__name__}")
    target.decorator_list = []
    file = inspect.getsourcefile(function) or "<script>"
    _Rewrite(file).function(target)
    free = function.__code__.co_freevars
    # names of the closure become parameters of a function around it
    outer = _function(f"{OWN}outer", free, [target, ast.Return(ast.Name(target.name, ast.Load()))])
    module = ast.fix_missing_locations(ast.Module([outer], []))
    space: dict[str, Any] = {}
    known = _Globals(function.__globals__, {f"{OWN}{k}": v for k, v in _RUNTIME.items()})
    exec(compile(module, file, "exec"), known, space)
    made = space[f"{OWN}outer"](*(cell.cell_contents for cell in function.__closure__ or ()))
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return functools.update_wrapper(made, function, updated=())


class _Globals(dict[str, Any]):
    """The globals of a function as they are when they are asked for, and the names that scripts use."""

    def __init__(self, of: dict[str, Any], own: dict[str, Any]) -> None:
        super().__init__(own)
        self.of = of
        self["__builtins__"] = of.get("__builtins__", __builtins__)

    def __missing__(self, name: str) -> Any:
        return self.of[name]


def _arguments(names: Sequence[str]) -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], vararg=None, kwonlyargs=[], kw_defaults=[],
                         kwarg=None, defaults=[])  # fmt: skip


# -- the rewriting -----------------------------------------------------------------------------------------------------


class _Rewrite:
    """Rewrites one function; names that begin with `OWN` are its own."""

    def __init__(self, file: str) -> None:
        self.file, self.count = file, 0

    def refuse(self, node: Any, what: str, remedy: str) -> ScriptError:
        return ScriptError(f"script: {self.file} line {node.lineno}, column {node.col_offset + 1}: {what}\n"
                           f"  remedy: {remedy}")  # fmt: skip

    def fresh(self, what: str) -> str:
        self.count += 1
        return f"{OWN}{what}_{self.count}"

    def function(self, node: ast.FunctionDef) -> None:
        """Rewrite the body: every way through it ends with one result."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await | ast.Global | ast.Nonlocal | ast.Delete):
                raise self.refuse(inner, f"{type(inner).__name__.lower()} in a scripted function",
                                  "leave it out of the function that is scripted")  # fmt: skip
        result = f"{OWN}result"
        doc = node.body[:1] if ast.get_docstring(node) is not None else []
        parameters = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        body = self.block(node.body[len(doc) :], result, None)
        unset = _assigned(body) - set(parameters)
        start: list[ast.stmt] = [_assign(n, _name(f"{OWN}unset")) for n in sorted(unset)]
        start.append(_assign(result, ast.Constant(None)))
        node.body = [*doc, *start, *body, ast.Return(_name(result))]

    def block(self, body: Sequence[ast.stmt], result: str | None, going: str | None) -> list[ast.stmt]:
        """Return statements without `return`, `break` and `continue`: what follows one that may leave is run where it
        does not. `going` is the name of whether the loop around goes on, `result` that of the function's result."""
        out: list[ast.stmt] = []
        for k, statement in enumerate(body):
            rest = body[k + 1 :]
            if isinstance(statement, ast.Return):
                if result is None:
                    raise self.refuse(statement, "a return inside a loop", "break, and return behind the loop")
                out.append(
                    ast.copy_location(_assign(result, self.test(statement.value or ast.Constant(None))), statement)
                )
                return out
            if isinstance(statement, ast.Continue):
                return out
            if isinstance(statement, ast.Break):
                if going is None:
                    raise self.refuse(statement, "a break outside of a loop", "a loop around it")
                out.append(ast.copy_location(_assign(going, ast.Constant(False)), statement))
                return out
            if isinstance(statement, ast.If):
                if rest and _leaves(statement):
                    then = statement.body if _always_leaves(statement.body) else [*statement.body, *rest]
                    other = statement.orelse if _always_leaves(statement.orelse) else [*statement.orelse, *rest]
                    out += self.choice(statement, then, other, result, going)
                    return out
                out += self.choice(statement, statement.body, statement.orelse, result, going)
            elif isinstance(statement, ast.While | ast.For):
                out += self.loop(statement)
            elif isinstance(statement, ast.Try) and _leaves(statement):
                raise self.refuse(statement, "a way out of a try", "leave behind it")
            elif isinstance(statement, ast.With):
                if _leaves(statement):
                    raise self.refuse(statement, "a return, break or continue inside a with", "leave behind it")
                statement.body = self.block(statement.body, None, None)
                out.append(statement)
            else:
                out.append(_Tests(self).visit(statement))
        return out

    def test(self, node: ast.expr) -> ast.expr:
        """Return an expression whose conditions go through this module."""
        found: ast.expr = _Tests(self).visit(node)
        return found

    def choice(self, node: ast.If, then: Sequence[ast.stmt], other: Sequence[ast.stmt], result: str | None,
               going: str | None) -> list[ast.stmt]:  # fmt: skip
        test = self.test(node.test)
        a, b = self.block(then, result, going), self.block(other, result, going)
        names = sorted(_assigned(a) | _assigned(b))
        first, second = self.fresh("then"), self.fresh("other")
        call = self.call("if", node, [test, _name(first), _name(second)], names)
        return [_branch(first, names, a, node), _branch(second, names, b, node), call]

    def loop(self, node: ast.While | ast.For) -> list[ast.stmt]:
        if node.orelse:
            raise self.refuse(node, "else at a loop", "a condition behind it")
        going = self.fresh("going")
        body = self.block(node.body, None, going)
        leaves = any(isinstance(n, ast.Name) and n.id == going for s in body for n in ast.walk(s))
        names = sorted(_assigned(body) | ({going} if leaves else set()))
        begin: list[ast.stmt] = [_assign(going, ast.Constant(True))] if leaves else []
        if isinstance(node, ast.For):
            if not isinstance(node.target, ast.Name | ast.Tuple):
                raise self.refuse(node.target, "a loop over something else than a name", "a name, and an assignment")
            bound = self.fresh("item")
            body = [ast.copy_location(ast.Assign([node.target], _name(bound)), node), *body]
            names = sorted(set(names) | _assigned(body) - {bound})
            run = self.fresh("body")
            call = self.call(
                "for", node, [self.test(node.iter), _name(run), ast.Constant(going if leaves else None)], names
            )
            return [*begin, _branch(run, [bound, *names], body, node, names), call]
        test = self.test(node.test)
        if leaves:
            test = ast.Call(_name(f"{OWN}and"), [_lambda(_name(going)), _lambda(test)], [])
        check, run = self.fresh("test"), self.fresh("body")
        tested = _function(check, names, [ast.Return(test)])
        call = self.call("while", node, [_name(check), _name(run)], names)
        return [*begin, ast.copy_location(tested, node), _branch(run, names, body, node), call]

    def call(self, kind: str, node: ast.stmt, args: list[ast.expr], names: list[str]) -> ast.stmt:
        given = ast.Tuple([_name(n) for n in names], ast.Load())
        told = ast.Tuple([ast.Constant(n) for n in names], ast.Load())
        value = ast.Call(_name(f"{OWN}{kind}"), [*args, told, given], [])
        target = ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())
        made: ast.stmt = ast.Assign([target], value) if names else ast.Expr(value)
        return _located(made, node)


class _Tests(ast.NodeTransformer):
    """Conditions inside expressions: `a if test else b`, `and`, `or`, `not`."""

    def __init__(self, rewrite: _Rewrite) -> None:
        self.rewrite = rewrite

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`and` and `or`, whose second operand is asked for only where the first does not decide."""
        self.generic_visit(node)
        kind = "and" if isinstance(node.op, ast.And) else "or"
        found = node.values[0]
        for value in node.values[1:]:
            found = ast.copy_location(ast.Call(_name(f"{OWN}{kind}"), [_lambda(found), _lambda(value)], []), node)
        return found

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """`not`."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(ast.Call(_name(f"{OWN}not"), [node.operand], []), node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """`a if test else b`."""
        self.generic_visit(node)
        call = ast.Call(_name(f"{OWN}either"), [node.test, _lambda(node.body), _lambda(node.orelse)], [])
        return ast.copy_location(call, node)


def _located(node: Any, like: Any) -> Any:
    for inner in ast.walk(node):
        if not hasattr(inner, "lineno") and isinstance(inner, ast.expr | ast.stmt):
            ast.copy_location(inner, like)
    return node


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _lambda(body: ast.expr) -> ast.Lambda:
    return ast.Lambda(_arguments(()), body)


def _function(name: str, parameters: Sequence[str], body: Sequence[ast.stmt]) -> ast.FunctionDef:
    fields: dict[str, Any] = {"type_params": []} if sys.version_info >= (3, 12) else {}
    return ast.FunctionDef(name=name, args=_arguments(parameters), body=list(body), decorator_list=[], returns=None,
                           **fields)  # fmt: skip


def _branch(name: str, parameters: Sequence[str], body: list[ast.stmt], like: Any,
            gives: Sequence[str] | None = None) -> ast.FunctionDef:  # fmt: skip
    """Return a function of names that runs `body` and gives them as they are then."""
    last = ast.Return(ast.Tuple([_name(n) for n in (parameters if gives is None else gives)], ast.Load()))
    return ast.copy_location(_function(name, parameters, [*body, last]), like)


def _assigned(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that statements assign, those in functions of their own aside."""
    found: set[str] = set()
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not node.name.startswith(OWN):
                found.add(node.name)
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        stack.extend(ast.iter_child_nodes(node))
    return found


def _leaves(node: ast.stmt) -> bool:
    """Return whether a statement may leave the block that it stands in."""
    stack: list[tuple[ast.AST, bool]] = [(node, False)]
    while stack:
        found, in_loop = stack.pop()
        if isinstance(found, ast.Return) or (isinstance(found, ast.Break | ast.Continue) and not in_loop):
            return True
        if isinstance(found, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        inside = in_loop or isinstance(found, ast.For | ast.While)
        stack.extend((child, inside) for child in ast.iter_child_nodes(found))
    return False


def _always_leaves(body: Sequence[ast.stmt]) -> bool:
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Return | ast.Break | ast.Continue | ast.Raise):
        return True
    return isinstance(last, ast.If) and _always_leaves(last.body) and _always_leaves(last.orelse)


# -- what the rewritten function calls ---------------------------------------------------------------------------------


def _capturing(x: Any) -> Tape | None:
    """Return the tape that hears this thread, where `x` is a tensor of which it may make a block."""
    if not isinstance(x, Tensor):
        return None
    return next((o for o in observe.listening() if isinstance(o, Tape)), None)


def _if(test: Any, then: Any, other: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    tape = _capturing(test)
    if tape is None:
        return (then if test else other)(*values)  # type: ignore[no-any-return]
    return branches(tape, test, lambda: then(*values), lambda: other(*values), names, values)


def _either(test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    tape = _capturing(test)
    if tape is None:
        return then() if test else other()
    (found,) = branches(tape, test, lambda: (then(),), lambda: (other(),), ("the value",), (_UNSET,))
    return found


def _while(test: Any, body: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    first = test(*values)
    tape = _capturing(first)
    if tape is None:
        while first:
            values = body(*values)
            first = test(*values)
        return values
    return loop(tape, test, body, names, values)


def _for(items: Any, body: Any, going: str | None, names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    at = names.index(going) if going is not None else None
    tape = next((o for o in observe.listening() if isinstance(o, Tape)), None)
    if tape is not None and isinstance(items, Tensor):
        count = tensor(0)
        total = items.shape[0] * tensor(1)

        def more(k: Any, *held: Any) -> Any:
            open_ = k < total
            return open_ if at is None else _and(lambda: held[at], lambda: open_)

        def step(k: Any, *held: Any) -> Any:
            return (k + 1, *body(items[k], *held))

        return loop(tape, more, step, ("the counter", *names), (count, *values))[1:]
    for item in items:
        if at is not None and not _true(values[at], names[at]):
            break
        values = body(item, *values)
    return values


def _true(x: Any, name: str) -> bool:
    if _capturing(x) is not None:
        raise ExportError("cannot export this: a break that a tensor decides, out of a loop that Python counts\n"
                          "  remedy: loop over a tensor, or write while")  # fmt: skip
    return bool(x)


def _and(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    first = a()
    if _capturing(first) is None:
        return first and b() if not isinstance(first, Tensor) else (b() if first else first)
    second = b()
    return first.logical_and(second) if isinstance(second, Tensor) else (first if second else tensor(False))


def _or(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    first = a()
    if _capturing(first) is None:
        return first or b() if not isinstance(first, Tensor) else (first if first else b())
    second = b()
    return first.logical_or(second) if isinstance(second, Tensor) else (tensor(True) if second else first)


def _not(x: Any) -> Any:
    return x.logical_not() if _capturing(x) is not None else not x


_RUNTIME = {"if": _if, "either": _either, "while": _while, "for": _for, "and": _and, "or": _or, "not": _not,
            "unset": _UNSET}  # fmt: skip
