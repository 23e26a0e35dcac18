"""Sizes as polynomials of the sizes of a run, so that equal ones are seen to be equal, and as C writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .sizes import Formula

Count: TypeAlias = Any  # int | Poly
_Monomial: TypeAlias = tuple[Any, ...]  # names, and quotients that are no polynomial, in order


class Quotient:
    """A whole quotient or a remainder that no polynomial says."""

    __slots__ = ("left", "right", "symbol")

    def __init__(self, symbol: str, left: Count, right: Count) -> None:
        self.symbol, self.left, self.right = symbol, left, right

    def __repr__(self) -> str:
        sides = [f"({x})" if isinstance(x, Poly) and len(x.terms) > 1 else str(x) for x in (self.left, self.right)]
        return f"({sides[0]} {self.symbol} {sides[1]})"

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: Any) -> bool:
        return str(self) > str(other)


class Poly:
    """A sum of products of sizes; constants are plain ints.

    >>> n = Poly({("n",): 1})
    >>> (n + 1) * 4 - 4 * n
    4
    >>> (n * n + n) // n
    n + 1
    >>> (n + 1) // 2
    ((n + 1) // 2)
    """

    __slots__ = ("_key", "terms")

    def __init__(self, terms: Mapping[_Monomial, int]) -> None:
        self.terms = dict(sorted(terms.items(), key=_order))
        self._key = tuple(self.terms.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __add__(self, other: Count) -> Count:
        total = dict(self.terms)
        for m, k in _terms(other).items():
            total[m] = total.get(m, 0) + k
        return _plain(total)

    def __neg__(self) -> Count:
        return self * -1

    def __sub__(self, other: Count) -> Count:
        return self + (-other)

    def __rsub__(self, other: Count) -> Count:
        return -self + other

    def __mul__(self, other: Count) -> Count:
        total: dict[_Monomial, int] = {}
        for m, k in self.terms.items():
            for n, j in _terms(other).items():
                both = tuple(sorted(m + n, key=str))
                total[both] = total.get(both, 0) + k * j
        return _plain(total)

    def __floordiv__(self, other: Count) -> Count:
        exact = divided(self, other)
        return _atom("//", self, other) if exact is None else exact

    def __rfloordiv__(self, other: Count) -> Count:
        return _atom("//", other, self)

    def __mod__(self, other: Count) -> Count:
        return _atom("%", self, other) if divided(self, other) is None else 0

    def __rmod__(self, other: Count) -> Count:
        return _atom("%", other, self)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        parts = []
        for m, k in self.terms.items():
            sign, size = ("-" if k < 0 else "+"), abs(k)
            factors = [str(a) for a in m] + ([str(size)] if size != 1 or not m else [])
            parts.append(f"{sign} {'*'.join(factors)}")
        said = " ".join(parts)
        return said[2:] if said.startswith("+ ") else said[0] + said[2:]


def _order(term: tuple[_Monomial, int]) -> Any:
    return -len(term[0]), [str(a) for a in term[0]]


def _terms(x: Count) -> dict[_Monomial, int]:
    return x.terms if isinstance(x, Poly) else {(): int(x)}


def _plain(terms: dict[_Monomial, int]) -> Count:
    kept = {m: k for m, k in terms.items() if k}
    if not kept:
        return 0
    return kept[()] if len(kept) == 1 and () in kept else Poly(kept)


def _atom(symbol: str, left: Count, right: Count) -> Poly:
    return Poly({(Quotient(symbol, left, right),): 1})


def divided(x: Count, by: Count) -> Count | None:
    """Return the exact quotient of two polynomials; None where there is none.

    >>> n, m = Poly({("n",): 1}), Poly({("m",): 1})
    >>> divided(n * m * 6, n * 2), divided(n + 1, 2)
    (m*3, None)
    """
    if by == 0:
        return None
    rest, quotient = x, 0
    divisor = next(iter(_terms(by).items()))
    for _ in range(100):
        if rest == 0:
            return quotient
        m, k = next(iter(_terms(rest).items()))
        left = list(m)
        if k % divisor[1] or any(m.count(a) < divisor[0].count(a) for a in divisor[0]):
            return None
        for a in divisor[0]:
            left.remove(a)
        step = _plain({tuple(left): k // divisor[1]})
        quotient, rest = quotient + step, rest - step * by
    return None


def product(counts: Any) -> Count:
    """Return the product of sizes."""
    total: Count = 1
    for n in counts:
        total = total * n
    return total


def polynomial(formula: Formula, size_of: Callable[[Any, int], Count]) -> Count:
    """Return a whole-number formula as a polynomial. Raise KeyError for "/" and what else is no whole number."""
    if isinstance(formula, str):
        return Poly({(formula,): 1})
    if not isinstance(formula, tuple):
        return int(formula)
    if formula[0] == "size":
        return size_of(formula[1], formula[2])
    left, right = (polynomial(part, size_of) for part in formula[1:])
    if formula[0] == "**" and isinstance(right, int) and right >= 0:
        return product([left] * right)
    return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
            "//": lambda: left // right, "%": lambda: left % right}[formula[0]]()  # fmt: skip


def valued(x: Count, sizes: Mapping[str, int]) -> int:
    """Return the number that a polynomial is at these sizes."""
    total = 0
    for m, k in _terms(x).items():
        for a in m:
            k *= sizes[a] if isinstance(a, str) else _quotient(a, sizes)
        total += k
    return total


def _quotient(a: Quotient, sizes: Mapping[str, int]) -> int:
    left, right = valued(a.left, sizes), valued(a.right, sizes)
    if right == 0:
        return 0
    return left // right if a.symbol == "//" else left % right


def c_text(x: Count, around: bool = False) -> str:
    """Return a polynomial as C writes it, in brackets where asked and needed.

    >>> c_text(Poly({("n",): 4, (): -1}))
    'n * 4 - 1'
    """
    if not isinstance(x, Poly):
        return str(x)
    parts = []
    for m, k in x.terms.items():
        factors = [a if isinstance(a, str) else _c_quotient(a) for a in m]
        if abs(k) != 1 or not m:
            factors.append(str(abs(k)))
        parts.append(("- " if k < 0 else "+ ") + " * ".join(factors))
    said = " ".join(parts)
    said = said[2:] if said.startswith("+ ") else "-" + said[2:]
    return f"({said})" if around and (len(x.terms) > 1 or said.startswith("-")) else said


def _c_quotient(a: Quotient) -> str:
    function = "whole_quotient" if a.symbol == "//" else "whole_remainder"
    return f"{function}({c_text(a.left)}, {c_text(a.right)})"


def names_in(x: Count) -> set[str]:
    """Return the names of the sizes that a polynomial depends on."""
    found: set[str] = set()
    for m in _terms(x):
        for a in m:
            found |= {a} if isinstance(a, str) else names_in(a.left) | names_in(a.right)
    return found
