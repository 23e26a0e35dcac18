"""What Triton's interpreter takes otherwise than its compiler does, in the text of a kernel: mended as it is rewritten.

``a and b`` and ``not a`` of blocks are elementwise to the compiler, where Python would ask for one truth and give
``b``: a mask would lose its rows. The variable of a loop is a number to the interpreter and has no ``.to(tl.int64)``,
as the compiler's has; a constant parameter is its value and has no `value`. A function that was copied under another
name is found by that name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import triton.language as tl
from triton.runtime import interpreter as it


class Index(int):
    """The variable of a loop: a number that can be cast as a tensor can, and so can what is computed from it.

    >>> Index(3) * 2 + 1
    7
    """

    dtype = tl.int32

    def to(self, dtype: Any, *args: Any, **named: Any) -> Any:
        return it.interpreter_semantic.to_tensor(int(self)).to(dtype, *args, **named)

    cast = to


def _kept(name: str) -> Callable[..., Any]:
    compute = getattr(int, name)

    def operator(self: Index, *others: Any) -> Any:
        if any(isinstance(each, float) for each in others):  # a tensor to the compiler, which can be cast too
            return getattr(it.interpreter_semantic.to_tensor(int(self)), name)(*others)
        found = compute(self, *others)
        return Index(found) if type(found) is int else found

    return operator


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    for _each in (f"__{_name}__", f"__r{_name}__"):
        setattr(Index, _each, _kept(_each))
Index.__neg__ = _kept("__neg__")  # type: ignore[method-assign]


def indices(given: Any) -> Iterator[Any]:
    """Yield what a loop goes over, the numbers of a range as indices."""
    return map(Index, given) if isinstance(given, range) else given


def both(*values: Callable[[], Any]) -> Any:
    """Return ``a and b and ...``."""
    return _chained("__and__", False, values)


def either(*values: Callable[[], Any]) -> Any:
    """Return ``a or b or ...``."""
    return _chained("__or__", True, values)


def _chained(name: str, ends: bool, values: tuple[Callable[[], Any], ...]) -> Any:
    found = values[0]()
    for value in values[1:]:
        if _is_block(found):
            found = getattr(_truth(found), name)(_truth(value()))
        elif bool(found) is ends:
            return found
        else:
            found = value()
    return found


def negated(value: Any) -> Any:
    """Return ``not a``."""
    return value == 0 if _is_block(value) else not value


def _is_block(value: Any) -> bool:
    return isinstance(value, tl.tensor) and value.type.is_block()


def _truth(value: Any) -> Any:
    """Return whether something is true, elementwise."""
    if isinstance(value, tl.tensor):
        return value if value.dtype == tl.int1 else value != 0
    return it.interpreter_semantic.to_tensor(bool(value))


def value_of(given: Any) -> Any:
    """Return what a constant parameter stands for."""
    return given.value if isinstance(given, tl.constexpr) else given


_CALLED = {"_IndicesOfLoop": indices, "_BothOf": both, "_EitherOf": either, "_Negated": negated, "_ValueOf": value_of}


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _later(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(args=nothing, body=value)


def _binds(node: ast.AST) -> bool:
    """Return whether an expression gives a name a value, which would be lost within a function of its own."""
    return any(isinstance(each, ast.NamedExpr) for each in ast.walk(node))


def install() -> None:
    """Have kernels rewritten so."""
    kind = it.ASTTransformer

    def boolean(self: Any, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        if _binds(node):
            return node
        name = "_BothOf" if isinstance(node.op, ast.And) else "_EitherOf"
        return ast.copy_location(_call(name, *map(_later, node.values)), node)

    def unary(self: Any, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return ast.copy_location(_call("_Negated", node.operand), node) if isinstance(node.op, ast.Not) else node

    def loop(self: Any, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.iter = ast.copy_location(_call("_IndicesOfLoop", node.iter), node.iter)
        return node

    def attribute(self: Any, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        known = isinstance(node.value, ast.Name) and node.value.id in getattr(self, "constant", ())
        return ast.copy_location(_call("_ValueOf", node.value), node) if known and node.attr == "value" else node

    def function(self: Any, node: ast.FunctionDef) -> ast.FunctionDef:
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        self.constant = {a.arg for a in given if a.annotation and "constexpr" in ast.unparse(a.annotation)}
        self.generic_visit(node)
        return node

    stock = it.FunctionRewriter._compile_and_exec

    def defined(self: Any, tree: ast.Module) -> Any:
        next(each for each in tree.body if isinstance(each, ast.FunctionDef)).name = self.fn.__name__
        return stock(self, tree)

    it.FunctionRewriter._compile_and_exec = defined
    kind.visit_BoolOp, kind.visit_UnaryOp, kind.visit_For = boolean, unary, loop
    kind.visit_Attribute, kind.visit_FunctionDef = attribute, function
    for name, value in _CALLED.items():
        setattr(it, name, value)  # a rewritten kernel sees what the interpreter's module has
