"""Sizes that are known only when a program runs: formulas of them, and integers that remember theirs.

A formula is an int, the name of a size (``"batch"``), or a tuple of an operator and formulas: ``("*", "batch", 64)``.
``("size", value, axis)`` is the size of a value of the program where no formula of the named sizes says it.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, TypeAlias

from ..base.source import is_ours

Formula: TypeAlias = Any  # int | str | tuple[str, Formula, ...]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "/": operator.truediv, "**": operator.pow,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_BINDING = {"**": 3, "*": 2, "//": 2, "%": 2, "/": 2, "+": 1, "-": 1}

Size: TypeAlias = Callable[[Any, int], int]


def evaluate(formula: Formula, sizes: Mapping[str, int], size_of: Size | None = None) -> Any:
    """Return the number that a formula is at these sizes; `size_of` answers for ``("size", value, axis)``.

    >>> evaluate(("+", ("*", "batch", 4), 1), {"batch": 3})
    13
    """
    if isinstance(formula, str):
        return sizes[formula]
    if not isinstance(formula, tuple):
        return formula
    if formula[0] == "size":
        if size_of is None:
            raise KeyError(formula)
        return size_of(formula[1], formula[2])
    return _OPERATORS[formula[0]](*(evaluate(part, sizes, size_of) for part in formula[1:]))


def written(formula: Formula, name: Callable[[Any], str] = str, around: int = 0) -> str:
    """Return a formula as Python writes it.

    >>> written(("*", ("+", "batch", 1), 4))
    '(batch + 1)*4'
    """
    if not isinstance(formula, tuple):
        return str(formula)
    if formula[0] == "size":
        return f"{name(formula[1])}.shape[{formula[2]}]"
    binding = _BINDING[formula[0]]
    left, right = written(formula[1], name, binding), written(formula[2], name, binding + 1)
    space = " " if binding == 1 else ""
    said = f"{left}{space}{formula[0]}{space}{right}"
    return f"({said})" if binding < around else said


def leaves(formula: Formula) -> set[Any]:
    """Return the names and the ``("size", value, axis)`` that a formula asks for.

    >>> sorted(leaves(("*", "batch", ("+", "time", 1))))
    ['batch', 'time']
    """
    if isinstance(formula, str):
        return {formula}
    if not isinstance(formula, tuple):
        return set()
    if formula[0] == "size":
        return {formula}
    return set().union(*(leaves(part) for part in formula[1:]))


def replaced(formula: Formula, known: Mapping[Any, Formula]) -> Formula:
    """Return a formula with what stands for ``("size", value, axis)`` put in its place, and its constants computed."""
    if not isinstance(formula, tuple):
        return formula
    if formula[0] == "size":
        return known.get(formula, formula)
    parts = tuple(replaced(part, known) for part in formula[1:])
    if all(isinstance(part, int | float) for part in parts):
        return _OPERATORS[formula[0]](*parts)
    if formula[0] == "*" and 1 in parts:
        return parts[1] if parts[0] == 1 else parts[0]
    return (formula[0], *parts)


def alike(a: Formula, b: Formula) -> bool:
    """Return whether two formulas give the same at many sizes; not where one asks for the size of a value.

    >>> alike(("*", "n", 2), ("+", "n", "n")), alike(("%", "n", 7), 3)
    (True, False)
    """
    if a == b:
        return True
    names = sorted(leaves(a) | leaves(b), key=repr)
    if not all(isinstance(name, str) for name in names):
        return False
    for k in range(1, 100):
        at = {name: 1 + (k * (2 * i + 1) + i * i) % 127 for i, name in enumerate(names)}
        try:
            if evaluate(a, at) != evaluate(b, at):
                return False
        except ArithmeticError:
            continue
    return True


def fitted(numbers: Sequence[int], sizes: Sequence[Mapping[str, int]]) -> Formula | None:
    """Return the formula that gives `numbers`, one a run, from the sizes of those runs; None where none was found.

    It is a constant, or a product of sizes times a number plus a number. There are more runs than such a formula has
    numbers, so that a wrong one does not fit by chance alone.

    >>> fitted([9, 21, 45], [{"n": 2}, {"n": 5}, {"n": 11}])
    ('+', ('*', 'n', 4), 1)
    """
    if all(n == numbers[0] for n in numbers):
        return numbers[0]
    names = list(sizes[0])
    for count in range(1, len(names) + 1):
        for chosen in combinations(names, count):
            products = []
            for at in sizes:
                product = 1
                for name in chosen:
                    product *= at[name]
                products.append(product)
            found = _line(products, numbers)
            if found is not None:
                return _spelled(chosen, *found)
    return None


def _line(x: Sequence[int], y: Sequence[int]) -> tuple[Fraction, int] | None:
    """Return slope and constant of the line through all points, where there is one with a whole constant."""
    other = next((k for k, v in enumerate(x) if v != x[0]), None)
    if other is None:
        return None
    up, along = y[other] - y[0], x[other] - x[0]
    if any(up * (a - x[0]) != along * (b - y[0]) for a, b in zip(x, y, strict=True)):
        return None
    slope = Fraction(up, along)
    constant = y[0] - slope * x[0]
    if constant.denominator != 1:
        return None
    return slope, int(constant)


def _spelled(names: Sequence[str], slope: Fraction, constant: int) -> Formula:
    product: Formula = names[0]
    for name in names[1:]:
        product = ("*", product, name)
    if slope.numerator != 1:
        product = ("*", product, slope.numerator)
    if slope.denominator != 1:
        product = ("//", product, slope.denominator)
    return product if not constant else ("+", product, constant) if constant > 0 else ("-", product, -constant)


# -- integers that remember their formula ------------------------------------------------------------------------------

compared: Callable[[str, Formula, Formula, bool], None] | None = None
"""What is told of every comparison of such integers, while a program is captured."""
computed: Callable[[Any, Formula], None] | None = None
"""What is told of every number that is computed from them, with its formula."""
looked_up: Callable[[], None] | None = None
"""What is asked where the user's code looks such an integer up in a table: a dict, a set, `lru_cache`."""


def formula_of(x: Any) -> Formula:
    """Return the formula of a number: its own, or itself."""
    return getattr(x, "formula", x)


class Dim(int):
    """A size of a tensor while a program is captured: an int that remembers how it came about."""

    formula: Formula

    def __new__(cls, value: int, formula: Formula) -> Dim:
        self = super().__new__(cls, value)
        self.formula = formula
        return self

    def __reduce__(self) -> Any:
        return int, (int(self),)

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        if looked_up is not None and not is_ours(sys._getframe(1).f_code.co_filename):
            looked_up()
        return int.__hash__(self)


class Real(float):
    """A float that was computed from sizes, with its formula."""

    formula: Formula

    def __new__(cls, value: float, formula: Formula) -> Real:
        self = super().__new__(cls, value)
        self.formula = formula
        return self

    def __reduce__(self) -> Any:
        return float, (float(self),)


def _arithmetic(symbol: str, own: type, swapped: bool) -> Callable[[Any, Any], Any]:
    plain = getattr(own, _dunder(symbol, swapped))

    def method(self: Any, other: Any) -> Any:
        if type(other) not in (int, float, Dim, Real):
            return plain(self, other)
        a, b = (other, self) if swapped else (self, other)
        result = _OPERATORS[symbol](*(float(v) if isinstance(v, float) else int(v) for v in (a, b)))
        formula = (symbol, formula_of(a), formula_of(b))
        if computed is not None:
            computed(result, formula)
        if isinstance(result, int):
            return Dim(result, formula)
        return Real(result, formula) if isinstance(result, float) else result

    return method


def _comparison(symbol: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (float(v) if isinstance(v, float) else int(v) for v in (self, other))
        result = COMPARISONS[symbol](a, b)
        if compared is not None:
            compared(symbol, formula_of(self), formula_of(other), result)
        return result

    return method


def _dunder(symbol: str, swapped: bool) -> str:
    name = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "/": "truediv", "**": "pow"}[symbol]
    return f"__{'r' if swapped else ''}{name}__"


for _class in (Dim, Real):
    _base = int if _class is Dim else float
    for _symbol in _OPERATORS:
        for _swapped in (False, True):
            setattr(_class, _dunder(_symbol, _swapped), _arithmetic(_symbol, _base, _swapped))
    _class.__neg__ = lambda self: 0 - self  # type: ignore
for _symbol, _name in zip(COMPARISONS, ("lt", "le", "gt", "ge", "eq", "ne"), strict=True):
    setattr(Dim, f"__{_name}__", _comparison(_symbol))


def _ratio(formula: Formula) -> tuple[Formula, Formula] | None:
    """Return a formula of fractions as one of whole numbers over another; None where it is none.

    >>> _ratio(("*", ("/", "n", 2), 0.75))
    (('*', 'n', 3), ('*', 2, 4))
    """
    if isinstance(formula, float):
        exact = Fraction(formula)
        return (exact.numerator, exact.denominator) if exact.denominator <= 1 << 10 else None
    if not isinstance(formula, tuple) or formula[0] not in ("+", "-", "*", "/"):
        return formula, 1
    one, other = _ratio(formula[1]), _ratio(formula[2])
    if one is None or other is None:
        return None
    (a, b), (c, d) = one, other
    if formula[0] == "/":
        c, d = d, c
    if formula[0] in ("*", "/"):
        return _times(a, c), _times(b, d)
    return (formula[0], _times(a, d), _times(c, b)), _times(b, d)


def _times(a: Formula, b: Formula) -> Formula:
    return b if a == 1 else a if b == 1 else ("*", a, b)


def _whole(x: Real, number: int, up: bool = False) -> int:
    """Return the whole number below a fraction of sizes, or above it, with its formula where there is one."""
    parts = _ratio(x.formula)
    if parts is None:
        return number
    formula = ("//", *parts) if not up else ("-", 0, ("//", ("-", 0, parts[0]), parts[1]))
    if computed is not None:
        computed(number, formula)
    return Dim(number, formula)


Real.__floor__ = lambda self: _whole(self, math.floor(float(self)))  # type: ignore
Real.__ceil__ = lambda self: _whole(self, math.ceil(float(self)), True)  # type: ignore
Real.__trunc__ = lambda self: _whole(self, int(float(self)))  # type: ignore
Real.__int__ = lambda self: int(_whole(self, int(float(self))))  # type: ignore
