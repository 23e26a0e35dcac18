"""The CPU's rows of einsum where it is a product of matrices, or of stacks of them, and of its gradients."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .. import native
from ..declare.kernel import kernel
from . import Row

c: Any = native.module
_MOST = 8  # letters of a term
_THIN = 4096  # multiplications up to which a product with a vector is made here


@lru_cache(256)
def _product(a: str, b: str, out: str) -> bool:
    """Return whether the terms are a product: one letter of rows, columns and of what is summed at most, a stack's
    first."""
    only = [[n for n in mine if n not in other] for mine, other in ((a, b), (b, a))]
    shared = [n for n in a if n in b]
    stack = [n for n in shared if n in out]
    return (max(map(len, (a, b, out))) <= _MOST and all(len(o) <= 1 and all(n in out for n in o) for o in only)
            and len(shared) - len(stack) <= 1 and set(out[: len(stack)]) == set(stack))  # fmt: skip


def _why_not(a: Any, a_term: str, b: Any, b_term: str, out: str) -> str | None:
    if a.dtype.char not in "fd" or a.dtype != b.dtype:
        return f"takes one floating type, got {a.dtype} and {b.dtype}"
    if not _product(a_term, b_term, out):
        return "takes products of matrices and of stacks of them"
    sizes = dict(zip(a_term, a.shape, strict=True))
    if not a.size or not b.size or any(sizes.get(n, m) != m for n, m in zip(b_term, b.shape, strict=True)):
        return "takes operands that have items and do not broadcast"
    thin = [m for term, t in ((a_term, a), (b_term, b)) for n, m in zip(term, t.shape, strict=True)
            if n in out and (n not in a_term or n not in b_term)]  # fmt: skip
    if (len(thin) < 2 or min(thin) < 2) and a.size * (b.size // max(1, _common(a_term, a, b_term))) > _THIN:
        return f"takes products with a vector of up to {_THIN} multiplications"
    return None


def _common(a_term: str, a: Any, b_term: str) -> int:
    """Return how many items the letters of both terms count through."""
    n = 1
    for letter, size in zip(a_term, a.shape, strict=True):
        n *= size if letter in b_term else 1
    return n


def _terms(equation: str) -> tuple[str, str, str] | None:
    left, _, out = equation.partition("->")
    terms = left.split(",")
    return (terms[0], terms[1], out) if len(terms) == 2 else None


def _declines(*tensors: Any, equation: str) -> str | None:
    terms = _terms(equation)
    if terms is None:
        return f"takes two operands, got {len(tensors)}"
    return _why_not(tensors[0], terms[0], tensors[1], terms[1], terms[2])


def _backward_declines(g: Any, tensors: Any, equation: str, needs: Any) -> str | None:
    terms = _terms(equation)
    if terms is None:
        return f"takes two operands, got {len(tensors)}"
    sizes: dict[str, int] = {}
    for term, t in zip((*terms[:2], terms[2]), (*tensors, g), strict=True):
        if any(sizes.setdefault(n, m) != m for n, m in zip(term, t.shape, strict=True)):
            return "takes operands that do not broadcast"
    for k in range(2):
        if needs[k] and (why := _why_not(g, terms[2], tensors[1 - k], terms[1 - k], terms[k])) is not None:
            return why
    return None if g.dtype == tensors[0].dtype == tensors[1].dtype else "takes one floating type"


kernel(
    "einsum",
    "a: real[...] strided, b: real[...] strided, equation: text",
    plan="einsum_plan: einsum_planned(address(plan), equation, a.view, b.view)",
    gives="y: real[plan]",
    call="gemm_stack.T(address(plan.product), None, y)",
    fails="memory",
    quiet="plan.product.work > 65536",
)
kernel(
    "einsum.backward",
    "g: real[...] strided, tensors: (real[*a] strided, real[*b] strided), equation: text, needs: needs",
    plan="einsum_plans: einsum_backward_planned(plan.of, equation, g.view, tensors0.view, tensors1.view,"
    " needs[0], needs[1])",
    gives="ga: real[*a] if needs[0], gb: real[*b] if needs[1]",
    call="einsum_backward.T(plan.of, ga, gb)",
    fails="memory",
    quiet="(plan.of[0].product.work if needs[0] else plan.of[1].product.work) > 65536",
    takes=("needs[0] or needs[1]",),
)
rows = {
    "einsum": Row("einsum_forward", "C", lambda a, b, equation: c.entries["einsum"](a, b, equation), _declines),
    "einsum.backward": Row("einsum_backward", "C",
                           lambda g, tensors, equation, needs: c.entries["einsum.backward"](
                               g, tensors, equation, needs),
                           _backward_declines),
}  # fmt: skip
