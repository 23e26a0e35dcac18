"""Sums of products, said by subscripts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..base.errors import text
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .creation import eye
from .precision import rounded, wide

_SUBSCRIPTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # of numbers, in their order
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _forward(xp: Any, *tensors: Any, equation: str) -> Any:
    left, _, out = equation.partition("->")
    terms = left.split(",")
    contracted = any(c not in out and not all(c in n for n in terms) for c in left if c != ",")  # else one pass does
    y = xp.einsum(equation, *[wide(t) for t in tensors], optimize=len(tensors) > 1 + (not contracted))
    return rounded(xp.array(y, order="C"), tensors[0].dtype)


def _vjp(g: Tensor, tensors: tuple[Tensor, ...], equation: str, needs: tuple[bool, ...]) -> list[Tensor | None]:
    """Return the gradient of an operand: the same sum with g in its place. Letters that it has alone are stretched
    over."""
    left, _, out = equation.partition("->")
    terms = left.split(",")
    result: list[Tensor | None] = []
    for i, (term, t) in enumerate(zip(terms, tensors, strict=True)):
        if not needs[i]:
            result.append(None)
            continue
        others = [(terms[j], tensors[j]) for j in range(len(terms)) if j != i]
        known = set(out).union(*(set(n) for n, _ in others))
        found = "".join(c for c in term if c in known)
        gi = _einsum(g, *[x for _, x in others], equation=",".join([out, *(n for n, _ in others)]) + "->" + found)
        alone = gi.reshape(tuple(gi._a.shape[found.index(c)] if c in found else 1 for c in term))
        full = tuple(max(n, m) for n, m in zip(t._a.shape, alone._a.shape, strict=True))
        result.append(alone.expand(full).sum_to_size(tuple(t._a.shape)))
    return result


def _samples(rng: Any) -> list[Any]:
    def u(*shape: int) -> Any:
        return rng.uniform(-1, 1, shape)

    return [
        ((u(2, 3), u(3, 4)), {"equation": "ij,jk->ik"}),
        ((u(2, 3, 4), u(2, 4, 2)), {"equation": "bij,bjk->bki"}),
        ((u(2, 3),), {"equation": "ij->j"}),
        ((u(3), u(4), u(3, 4)), {"equation": "i,j,ij->"}),
        ((u(2, 3), u(1, 3)), {"equation": "ij,ij->i"}),
    ]


_einsum = operation("einsum", _forward, inputs="tensors*", params={"equation": ""}, vjp=_vjp, samples=_samples,
                    doc="A sum of products; no letter occurs twice in one operand.")  # fmt: skip


@lru_cache(1024)
def _letters(equation: str, ndims: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Return the operands' and the output's letters; an ellipsis is given letters of its own."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    for c in (left + out).replace("...", "").replace(",", ""):
        if c not in _LETTERS:
            raise RuntimeError(
                text(
                    f"einsum(): invalid subscript given at index {equation.find(c)} in the equation string, "
                    "subscripts must be in [a-zA-Z]",
                    op="einsum",
                    came=equation,
                )
            )
    if len(terms) != len(ndims):
        few = len(ndims) < len(terms)
        raise RuntimeError(
            text(
                f"einsum(): {'fewer' if few else 'more'} operands were provided than specified in the equation",
                op="einsum",
                came=f"{len(ndims)} operands for {equation!r}",
            )
        )
    free = [c for c in _LETTERS if c not in equation]
    widest = max((d - len(n) + 3 for n, d in zip(terms, ndims, strict=True) if "..." in n), default=0)
    dots = "".join(free[:widest])
    for i, (n, ndim) in enumerate(zip(terms, ndims, strict=True)):
        have = len(n.replace("...", ""))
        if "..." in n and have <= ndim:
            terms[i] = n.replace("...", dots[len(dots) - (ndim - have) :])
        elif have != ndim:
            raise RuntimeError(
                text(
                    f"einsum(): the number of subscripts in the equation ({have}) does not match the number of "
                    f"dimensions ({ndim}) for operand {i} and no ellipsis was given",
                    op="einsum",
                    came=equation,
                )
            )
    if arrow:
        out = out.replace("...", dots)
    else:
        every = "".join(terms)
        out = dots + "".join(sorted(c for c in set(every) if every.count(c) == 1 and c not in dots))
    for c in out:
        if out.count(c) > 1:
            raise RuntimeError(
                text(f"einsum(): output subscript {c} appears more than once in the output", op="einsum", came=equation)
            )
        if not any(c in n for n in terms):
            raise RuntimeError(
                text(
                    f"einsum(): output subscript {c} does not appear in the equation for any input operand",
                    op="einsum",
                    came=equation,
                )
            )
    return tuple(terms), out


def _check(terms: list[str], tensors: list[Tensor], equation: str) -> None:
    sizes: dict[str, int] = {}
    for i, (n, t) in enumerate(zip(terms, tensors, strict=True)):
        for c, size in zip(n, t._a.shape, strict=True):
            seen = sizes.get(c, 1)
            if seen not in (1, size) and size != 1:
                raise RuntimeError(
                    text(
                        f"einsum(): subscript {c} has size {size} for operand {i} which does not broadcast with "
                        f"previously seen size {seen}",
                        op="einsum",
                        came=equation,
                    )
                )
            sizes[c] = max(seen, size) if 0 not in (seen, size) else 0
    first = tensors[0].dtype
    for t in tensors[1:]:
        if t.dtype is not first:
            raise RuntimeError(
                text(f"expected scalar type {first.scalar_type} but found {t.dtype.scalar_type}", op="einsum")
            )


def _of_sublists(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the equation and the tensors of a call with a list of numbers after each tensor, and perhaps one for the
    output. *Raises*: ValueError for a number that is none of 0 to 51."""

    def letters(numbers: Sequence[Any]) -> str:
        wrong = [n for n in numbers if n is not Ellipsis and not 0 <= int(n) < len(_LETTERS)]
        if wrong:
            raise ValueError(text(f"einsum(): expected subscripts to be within the range [0, 52), got {wrong[0]}",
                                  op="einsum"))  # fmt: skip
        return "".join("..." if n is Ellipsis else _SUBSCRIPTS[int(n)] for n in numbers)

    pairs, rest = given[: len(given) // 2 * 2], given[len(given) // 2 * 2 :]
    equation = ",".join(map(letters, pairs[1::2])) + ("->" + letters(rest[0]) if rest else "")
    return (equation, *pairs[::2])


def _sums_items(terms: list[str], out: str, tensors: list[Any]) -> bool:
    """Return whether two operands of one shape and the same letters are multiplied item by item, and summed."""
    kept = "".join(c for c in terms[0] if c in out)
    return (len(terms) == 2 and kept == out != terms[0] and tensors[0]._a.shape == tensors[1]._a.shape
            and tensors[0]._a.size > 0 and tensors[0].dtype.name in ("float32", "float64"))  # fmt: skip


@public(
    method=False,
    home="einsum",
    fast=[Fast(body="product_by_letters(op.einsum, op.sum, equation, operands)", raw=("operands",))],
)
def einsum(equation: str | Tensor, *operands: Tensor | Sequence[Any]) -> Tensor:
    """Sums of products by Einstein's convention: letters that the output lacks are summed over.

    Numbers may stand for letters: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    >>> import core
    >>> core.einsum("ij,jk->ik", core.tensor([[1.0, 2.0]]), core.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    if isinstance(equation, Tensor):
        written, *operands = _of_sublists((equation, *operands))  # type: ignore[assignment]
    else:
        written = equation
    listed = len(operands) == 1 and isinstance(operands[0], list | tuple)
    tensors: list[Any] = list(operands[0] if listed else operands)
    if not tensors:
        raise ValueError("einsum(): must provide at least one operand\n  op: einsum")
    found, out = _letters(written, tuple([t.ndim for t in tensors]))
    terms = list(found)
    doubled = [i for i, n in enumerate(terms) if len(set(n)) < len(n)]
    free = [c for c in _LETTERS if c not in "".join(terms)] if doubled else []
    for i in doubled:  # a letter twice in one operand is its diagonal: a product with the identity
        for c in sorted(set(terms[i])):
            while terms[i].count(c) > 1:
                other = free.pop()
                at = terms[i].rindex(c)
                terms[i] = terms[i][:at] + other + terms[i][at + 1 :]
                terms.append(c + other)
                tensors.append(eye(tensors[i]._a.shape[at], dtype=tensors[i].dtype, device=tensors[i].device))
    _check(terms, tensors, written)
    if len(tensors) == 1 and len(out) == len(terms[0]):  # the dimensions in another order: a view, as in PyTorch
        return tensors[0].permute([terms[0].index(c) for c in out])  # type: ignore[no-any-return]
    if terms[0] == terms[-1] and _sums_items(terms, out, tensors):  # native/binding/calls/einsum.c does so too
        return (tensors[0] * tensors[1]).sum([d for d, c in enumerate(terms[0]) if c not in out])  # type: ignore[no-any-return]
    return _einsum(*tensors, equation=",".join(terms) + "->" + out)
