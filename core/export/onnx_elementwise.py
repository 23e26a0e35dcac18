"""Elementwise ops in ONNX: the expression that each was traced into, primitive by primitive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.modes import no_grad
from ..declare import op as declarations
from ..declare.op import Elementwise
from ..dispatch.operands import promote
from ..tensors.tensor import from_array
from .ir import Node, Sized, Value
from .onnx_graph import Graph, formula_in, is_real

_DIRECT = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs", "sign": "Sign", "pow": "Pow",
    "maximum": "Max", "minimum": "Min", "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "and": "And", "or": "Or", "xor": "Xor", "not": "Not", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "sigmoid": "Sigmoid", "erf": "Erf", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin",
    "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "floor": "Floor", "ceil": "Ceil", "round": "Round", "isnan": "IsNaN", "isinf": "IsInf",
    "where": "Where",
}  # fmt: skip
_ON_BOOL = {"add": "Or", "mul": "And", "maximum": "Or", "minimum": "And", "eq": "Equal", "ne": "Xor"}
_OF_INTEGERS = {"floor", "ceil", "round", "trunc"}  # they change no integer


class _Made:
    """The primitives that ONNX has no op for, by those that it has; numbers are of the dtype of the expression."""

    def __init__(self, g: Graph, dtype: str) -> None:
        self.g, self.dtype = g, dtype
        self.whole = dtype not in ("float16", "bfloat16", "float32", "float64")

    def number(self, x: float) -> str:
        return self.g.constant(x, self.dtype)

    def ne(self, a: str, b: str) -> str:
        return self.g("Not", self.g("Equal", a, b))

    def isfinite(self, x: str) -> str:
        return self.g("Not", self.g("Or", self.g("IsNaN", x), self.g("IsInf", x)))

    def rsqrt(self, x: str) -> str:
        return self.g("Reciprocal", self.g("Sqrt", x))

    def erfc(self, x: str) -> str:
        return self.g("Sub", self.number(1), self.g("Erf", x))

    def exp2(self, x: str) -> str:
        return self.g("Pow", self.number(2), x)

    def log2(self, x: str) -> str:
        return self.g("Div", self.g("Log", x), self.number(math.log(2)))

    def log10(self, x: str) -> str:
        return self.g("Div", self.g("Log", x), self.number(math.log(10)))

    def expm1(self, x: str) -> str:
        """tanh(x / 2) * (exp(x) + 1), which cancels no digits at small x."""
        half = self.g("Tanh", self.g("Mul", x, self.number(0.5)))
        return self.g("Mul", half, self.g("Add", self.g("Exp", x), self.number(1)))

    def log1p(self, x: str) -> str:
        """log(1 + x) and, near 0, what the sum 1 + x lost: (x - (u - 1)) / u of u = 1 + x."""
        g, one = self.g, self.number(1)
        u = g("Add", x, one)
        plain = g("Log", u)
        lost = g("Div", g("Sub", x, g("Sub", u, one)), u)
        return g("Where", g("Less", g("Abs", x), self.number(0.5)), g("Add", plain, lost), plain)

    def trunc(self, x: str) -> str:
        return self.g("Mul", self.g("Sign", x), self.g("Floor", self.g("Abs", x)))

    def fmod(self, a: str, b: str) -> str:
        return self.g("Mod", a, b, fmod=1)

    def remainder(self, a: str, b: str) -> str:
        """What is left has the divisor's sign."""
        g = self.g
        if self.whole:
            return g("Mod", a, b)
        left, zero = g("Mod", a, b, fmod=1), self.number(0)
        turned = g("And", g("Not", g("Equal", left, zero)), g("Xor", g("Less", left, zero), g("Less", b, zero)))
        return g("Where", turned, g("Add", left, b), left)

    def floor_divide(self, a: str, b: str) -> str:
        g = self.g
        exact = g("Div", g("Sub", a, self.remainder(a, b)), b)
        if self.whole:
            return exact
        return g("Where", g("Equal", b, self.number(0)), g("Div", a, b), g("Round", exact))

    def hypot(self, a: str, b: str) -> str:
        """The larger times sqrt(1 + ratio^2), which overflows only where the result does."""
        g = self.g
        a, b = g("Abs", a), g("Abs", b)
        top, low = g("Max", a, b), g("Min", a, b)
        ratio = g("Div", low, top)
        scaled = g("Mul", top, g("Sqrt", g("Add", g("Mul", ratio, ratio), self.number(1))))
        found = g("Where", g("Equal", top, self.number(0)), top, scaled)
        return g("Where", g("Or", g("IsInf", a), g("IsInf", b)), self.number(math.inf), found)

    def _is_negative(self, x: str) -> str:
        """Below zero, or minus zero, whose reciprocal is minus infinity."""
        g, zero = self.g, self.number(0)
        return g("Or", g("Less", x, zero), g("Less", g("Reciprocal", x), zero))

    def copysign(self, a: str, b: str) -> str:
        sign = self.g("Where", self._is_negative(b), self.number(-1), self.number(1))
        return self.g("Mul", self.g("Abs", a), sign)  # a Where of both loses a zero's sign in ONNX Runtime

    def atan2(self, a: str, b: str) -> str:
        g = self.g
        up, side = g("Abs", a), g("Abs", b)
        equal = g("Where", g("Equal", up, self.number(0)), up, self.number(1))  # 0 / 0 counts as 0, inf / inf as 1
        angle = g("Atan", g("Where", g("Equal", up, side), equal, g("Div", up, side)))
        angle = g("Where", self._is_negative(b), g("Sub", self.number(math.pi), angle), angle)
        return self.copysign(angle, a)


def write_elementwise(g: Graph, node: Node) -> str:
    """Write an elementwise op and return the name of its result."""
    op = declarations.table[node.op]
    assert isinstance(op, Elementwise)
    program = op.program
    dtype = _dtype(op, node)
    known: dict[str, Any] = dict(node.params)
    bools = set()
    for name, x in zip(program.inputs, node.inputs, strict=True):
        if name in op.bools:
            known[name] = g.cast(x, "bool") if isinstance(x, Value) else g.constant(bool(x), "bool")
            bools.add(name)
        else:
            known[name] = g.cast(x, dtype) if isinstance(x, Value) else g.scalar(x, dtype)
    made = _Made(g, dtype)

    def operand(o: Any, as_bool: bool) -> str:
        found = known[o] if isinstance(o, str) else o
        return found if isinstance(found, str) else g.scalar(found, "bool" if as_bool else dtype)

    for st in program.statements:
        as_bool = any(isinstance(o, str) and o in bools for o in st.operands) and st.op != "where"
        given = [operand(o, as_bool or (st.op == "where" and st.is_bool)) for o in st.operands]
        known[st.target] = _primitive(made, st.op, given, dtype, as_bool, st.is_bool)
        if st.is_bool:
            bools.add(st.target)
    result = program.result
    out = node.outputs[0]
    assert out is not None
    return g.cast(operand(result, result in bools), out.dtype, "bool" if program.is_bool else dtype)


def _primitive(made: _Made, op: str, given: list[str], dtype: str, of_bools: bool, gives_bool: bool) -> str:
    g = made.g
    if op == "where" and gives_bool:
        condition, a, b = given
        return g("Or", g("And", condition, a), g("And", g("Not", condition), b))
    if of_bools and op not in ("and", "or", "xor", "not"):
        given, dtype = given, "bool"
    if dtype == "bool" and op in _ON_BOOL:
        return g(_ON_BOOL[op], *given)
    if dtype == "bool" and op in ("lt", "le", "gt", "ge"):
        given = [g.cast(x, "int32", "bool") for x in given]
    if made.whole and op in _OF_INTEGERS:
        return given[0]
    if made.whole and op in ("isnan", "isinf", "isfinite"):
        same = g("Equal", given[0], given[0])
        return same if op == "isfinite" else g("Not", same)
    if op in _DIRECT:
        return g(_DIRECT[op], *given)
    build: Callable[..., str] | None = getattr(made, op, None)
    if build is None:
        raise g.refuse(f"its primitive {op} has no ONNX spelling", "write it by other functions")
    return build(*given)


def _dtype(op: Elementwise, node: Node) -> str:
    """Return the dtype in which an op computes, by core's own promotion of tensors of the same kinds."""
    stands: list[Any] = []
    for x in node.inputs:
        if isinstance(x, Value):
            dtype = getattr(dtypes, "bool_" if x.dtype == "bool" else x.dtype)
            stands.append(from_array(np.zeros((1,) * len(x.shape), dtype.numpy)))
        elif isinstance(x, Sized):
            stands.append(1.0 if is_real(formula_in(x)) else 1)
        else:
            stands.append(x)
    with no_grad():
        kind, _ = promote(op, tuple(stands))
    return kind.dtype.name
