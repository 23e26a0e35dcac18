"""The expressions of kernels' declarations (`core.declare.kernel`) in C."""

from __future__ import annotations

import ast

from .kernel import TYPES, Argument, Kernel

NUMBERS = {
    "f": "NPY_FLOAT",
    "d": "NPY_DOUBLE",
    "l": "NPY_INT64",
    "i": "NPY_INT32",
    "?": "NPY_BOOL",
    "b": "NPY_INT8",
    "B": "NPY_UINT8",
    "I": "NPY_UINT32",
    "F": "NPY_CFLOAT",
    "D": "NPY_CDOUBLE",
}
SUFFIXES = {"f": "f32", "d": "f64", "l": "i64", "F": "f32", "D": "f64"}
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Div: "/", ast.Mod: "%", ast.Eq: "==",
           ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.BitAnd: "&",
           ast.BitOr: "|", ast.LShift: "<<"}  # fmt: skip


class Expressions:
    """Turns the expressions of one kernel's declaration into C."""

    kernel: Kernel
    by_name: dict[str, Argument]
    where: dict[str, str]  # the object of each argument
    views: set[str]  # the arrays that are seen as they lie
    main: Argument | None  # the array that gives the type

    def c(self, text: str) -> str:
        """Return an expression of a declaration in C."""
        return self._expression(ast.parse(text.strip(), mode="eval").body)

    def _expression(self, e: ast.expr) -> str:
        match e:
            case ast.Constant(value=bool(v)):
                return str(int(v))
            case ast.Constant(value=str(v)):
                return f'"{v}"'
            case ast.Constant(value=None):
                return "NULL"
            case ast.Constant(value=int(v)) if v > 1 << 30:
                return f"{v}LL"
            case ast.Constant(value=v):
                return repr(v)
            case ast.Name(id=name):
                return name
            case ast.BinOp(left=a, op=op, right=b):
                return f"({self._expression(a)} {_BINARY[type(op)]} {self._expression(b)})"
            case ast.BoolOp(op=op, values=values):
                return f"({(' && ' if isinstance(op, ast.And) else ' || ').join(map(self._expression, values))})"
            case ast.UnaryOp(op=op, operand=a):
                return f"{'!' if isinstance(op, ast.Not) else '-'}{self._expression(a)}"
            case ast.IfExp(test=test, body=a, orelse=b):
                return f"({self._expression(test)} ? {self._expression(a)} : {self._expression(b)})"
            case ast.Compare(left=ast.Name() as a, ops=[op], comparators=[ast.Constant(value=None)]):
                return f"({self.where[a.id]} {'==' if isinstance(op, ast.Is) else '!='} Py_None)"
            case ast.Compare(left=a, ops=ops, comparators=others):
                all_of = [a, *others]
                pairs = [f"{self._expression(x)} {_BINARY[type(op)]} {self._expression(y)}"
                         for x, op, y in zip(all_of, ops, others, strict=False)]  # fmt: skip
                return f"({' && '.join(pairs)})"
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=at) if (
                name in self.by_name
            ):
                index = self._expression(at)
                return f"{name}_d[{name}_nd - {index[1:]}]" if index.startswith("-") else f"{name}_d[{index}]"
            case ast.Subscript(value=ast.Name(id=name), slice=at) if self._kind(name) == "needs":
                return f"is_needed({self.where[name]}, {self._expression(at)})"
            case ast.Subscript(value=ast.Name(id=name), slice=at):
                index = self._expression(at)
                return f"{name}[{name}_n - {index[1:]}]" if index.startswith("-") else f"{name}[{index}]"
            case ast.Attribute(value=ast.Name(id=name), attr=what):
                return self._attribute(name, what)
            case ast.Attribute(value=inner, attr=what):
                return f"{self._expression(inner)}.{what}"
            case ast.Subscript(value=inner, slice=at):
                return f"{self._expression(inner)}[{self._expression(at)}]"
            case ast.Call(func=f, args=args, keywords=keywords):
                return self._call(f, args, keywords)
        raise ValueError(f"{self.kernel.name}: {ast.unparse(e)} is no expression of a kernel's declaration")

    def _kind(self, name: str) -> str:
        return self.by_name[name].kind if name in self.by_name else ""

    def _attribute(self, name: str, what: str) -> str:
        if what == "view":
            self.views.add(name)
            return f"&{name}_v"
        known = {"ndim": f"{name}_nd", "shape": f"{name}_d", "size": f"PyArray_SIZE((PyArrayObject *){name}_o)",
                 "item": f"PyArray_ITEMSIZE((PyArrayObject *){name}_o)",
                 "type": f"PyArray_TYPE((PyArrayObject *){name}_o)",
                 "side_by_side": f"is_side_by_side({name}_o)",
                 "whole": f"PyArray_ISCARRAY_RO((PyArrayObject *){name}_o)"}  # fmt: skip
        return known[what] if name in self.by_name else f"{name}.{what}"

    def _call(self, f: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]) -> str:
        if isinstance(f, ast.Name) and f.id == "len" and isinstance(args[0], ast.Name):
            return f"{args[0].id}_n"
        if isinstance(f, ast.Name) and f.id == "address":
            return f"&{self._expression(args[0])}"
        if isinstance(f, ast.Name) and f.id == "struct":
            named = [f".{k.arg} = {self._expression(k.value)}" for k in keywords]
            return f"&({args[0].value}){{{', '.join([*map(self._expression, args[1:]), *named])}}}"  # type: ignore[attr-defined]
        if isinstance(f, ast.Name) and f.id == "list_of":
            return f"{{{', '.join(map(self._expression, args))}}}"
        if isinstance(f, ast.Name) and f.id == "indices":
            return f"(const int64_t *const[]){{{', '.join(map(self._expression, args))}}}"
        if isinstance(f, ast.Name) and f.id == "value":
            return f"({args[0].value}){{{', '.join(map(self._expression, args[1:]))}}}"  # type: ignore[attr-defined]
        given = ", ".join(map(self._expression, args))
        if isinstance(f, ast.Attribute) and f.attr == "T":
            stem = f.value.id  # type: ignore[attr-defined]
            assert self.main is not None, f"{self.kernel.name}: no array gives the type of {stem}"
            *first, last = [t for t in TYPES[self.main.type] if t in SUFFIXES]
            text = f"{stem}_{SUFFIXES[last]}({given})"
            for t in reversed(first):
                text = f"type_ == {NUMBERS[t]} ? {stem}_{SUFFIXES[t]}({given}) : {text}"
            return f"({text})"
        return f"{self._expression(f)}({given})"
