"""LDL decompositions of symmetric matrices, positive or not: Bunch and Kaufman's, in LAPACK's form (sytf2, sytrs)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import return_types
from ..base.errors import text
from ..dispatch.declare import operation
from ..return_types import return_type
from ..tensors.tensor import Tensor
from .decomposition import declare
from .precision import rounded, wide
from .solving import LinAlgError, check, host, linalg, matrices

_ALPHA = (1 + math.sqrt(17)) / 8  # the growth of elements is least at this threshold (Bunch and Kaufman, 1977)


def _size(a: Any) -> Any:
    """Return the absolute value, as LAPACK measures complex numbers."""
    return np.abs(a.real) + np.abs(a.imag)


def _pivot(a: Any, k: int) -> tuple[int, int]:
    """Return the row to exchange and the size of the block, 1 or 2, at step k."""
    n, diagonal = len(a), float(_size(a[k, k]))
    below = _size(a[k + 1 :, k])
    if not below.size or max(diagonal, below.max()) == 0:
        return k, 1
    row = k + 1 + int(below.argmax())
    column = below.max()
    if diagonal >= _ALPHA * column:
        return k, 1
    largest = _size(a[row, k:row]).max()
    if row < n - 1:
        largest = max(largest, _size(a[row + 1 :, row]).max())
    if diagonal >= _ALPHA * column * (column / largest):
        return k, 1
    return (row, 1) if _size(a[row, row]) >= _ALPHA * largest else (row, 2)


def _exchange(a: Any, k: int, kk: int, kp: int, conj: Any) -> None:
    """Rows and columns kk and kp of the symmetric matrix whose lower triangle is in `a`."""
    a[kp + 1 :, [kk, kp]] = a[kp + 1 :, [kp, kk]]
    column = a[kk + 1 : kp, kk].copy()
    a[kk + 1 : kp, kk] = conj(a[kp, kk + 1 : kp])
    a[kp, kk + 1 : kp] = conj(column)
    a[kp, kk] = conj(a[kp, kk])
    a[kk, kk], a[kp, kp] = a[kp, kp], a[kk, kk]
    if kk > k:
        a[kk, k], a[kp, k] = a[kp, k], a[kk, k]


def _factor(a: Any, hermitian: bool) -> tuple[Any, int]:
    """One matrix in place; gives the pivots, negative for blocks of two, and the first zero on D's diagonal."""
    conj = np.conj if hermitian else lambda x: x
    n, k, info = len(a), 0, 0
    pivots = np.zeros(n, np.int32)
    while k < n:
        kp, size = _pivot(a, k)
        kk = k + size - 1
        if kp != kk:
            _exchange(a, k, kk, kp, conj)
        rest, block = slice(k + size, n), slice(k, k + size)
        if size == 1:
            pivots[k] = kp + 1
            if a[k, k] == 0:
                info = info or k + 1
            else:
                column = a[rest, k] / a[k, k]
                a[rest, rest] -= np.outer(column, conj(a[rest, k]))
                a[rest, k] = column
        else:
            pivots[block] = -(kp + 1)
            d = np.array([[a[k, k], conj(a[k + 1, k])], [a[k + 1, k], a[k + 1, k + 1]]])
            columns = a[rest, block] @ np.linalg.inv(d)
            a[rest, rest] -= columns @ conj(a[rest, block].T)
            a[rest, block] = columns
        k += size
    return pivots, info


def _factor_forward(xp: Any, x: Any, hermitian: bool) -> Any:
    a = np.array(host(wide(x)), order="C")
    a = np.tril(a)
    *batch, n, _ = a.shape
    stack = a.reshape(math.prod(batch), n, n)
    found = [_factor(one, hermitian) for one in stack]
    pivots = np.array([p for p, _ in found], np.int32).reshape(*batch, n)
    info = np.array([i for _, i in found], np.int32).reshape(batch)
    return xp.asarray(rounded(np.tril(stack).reshape(a.shape), x.dtype)), xp.asarray(pivots), xp.asarray(info)


_ldl = operation("ldl_factor", _factor_forward, params={"hermitian": False}, outputs="LD pivots info", returns=3,
                 label="linalg_ldl_factor", samples=lambda rng: [(matrices(rng, (3, 3)), {})])  # fmt: skip


def _solve(a: Any, pivots: Any, x: Any, hermitian: bool) -> None:
    """One system in place, forwards through L and D, backwards through the transpose of L."""
    conj = np.conj if hermitian else lambda y: y
    n, k, sizes = len(a), 0, []
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        last, other = k + size - 1, abs(int(pivots[k])) - 1
        x[[last, other]] = x[[other, last]]
        block, rest = slice(k, k + size), slice(k + size, n)
        x[rest] -= a[rest, block] @ x[block]
        if size == 1:
            x[k] /= a[k, k]
        else:
            d = np.array([[a[k, k], conj(a[k + 1, k])], [a[k + 1, k], a[k + 1, k + 1]]])
            x[block] = np.linalg.solve(d, x[block])
        sizes.append((k, size))
        k += size
    for k, size in reversed(sizes):
        block, rest = slice(k, k + size), slice(k + size, n)
        x[block] -= conj(a[rest, block].T) @ x[rest]
        last, other = k + size - 1, abs(int(pivots[k])) - 1
        x[[last, other]] = x[[other, last]]


def _solve_forward(xp: Any, LD: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    a, p, right = host(wide(LD)), host(pivots), host(wide(b))
    batch = np.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    count, n = math.prod(batch), a.shape[-1]
    out = np.array(np.broadcast_to(right, (*batch, *right.shape[-2:])), order="C")
    stack = out.reshape(count, *right.shape[-2:])
    lefts = np.broadcast_to(a, (*batch, n, n)).reshape(count, n, n)
    for one, left, pivot in zip(stack, lefts, np.broadcast_to(p, (*batch, n)).reshape(count, n), strict=True):
        _solve(left, pivot, one, hermitian)
    return xp.asarray(rounded(out, b.dtype))


def _solve_vjp(g: Tensor, LD: Tensor, pivots: Tensor, b_shape: Any, hermitian: bool) -> Tensor:
    """The adjoint of a Hermitian matrix is itself, that of a symmetric one its conjugate."""
    y = _ldl_solve(LD, pivots, g if hermitian else g.conj(), hermitian=hermitian)  # type: ignore[attr-defined]
    return (y if hermitian else y.conj()).sum_to_size(b_shape)  # type: ignore[no-any-return]


def _samples(rng: Any) -> list[Any]:
    a = rng.uniform(-1, 1, (4, 4))
    LD, pivots, _ = _factor_forward(np, a + a.T, False)
    return [((LD, pivots, rng.uniform(-1, 1, (4, 2))), {})]


_ldl_solve: Any = declare("ldl_solve", _solve_forward, inputs="LD pivots b", params={"hermitian": False},
                          vjp=(None, None, _solve_vjp), samples=_samples)  # fmt: skip


@linalg
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> return_types.linalg_ldl_factor_ex:
    """As `ldl_factor`, and for each matrix the first zero on the diagonal of D (0: none).

    >>> import core
    >>> core.linalg.ldl_factor_ex(core.tensor([[0.0]])).info
    tensor(1, dtype=core.int32)
    """
    check("ldl_factor_ex", A, square=True)
    LD, pivots, info = _ldl(A, hermitian=hermitian)
    if check_errors and info._a.any():
        k = int(info._a[info._a > 0].flat[0])
        raise LinAlgError(text("torch.linalg.ldl_factor_ex: The factorization could not be completed because the input "
                               f"matrix is singular (D[{k},{k}] is zero).", op="linalg.ldl_factor_ex"))  # fmt: skip
    return return_type("linalg_ldl_factor_ex", "LD pivots info")(LD, pivots, info)


@linalg
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:
    """L and D with ``A = L @ D @ L.mT`` (or ``L.mH``) of symmetric (Hermitian) matrices, and the rows exchanged.

    D has blocks of one and two. Of A the lower triangle is read; no gradient.

    >>> import core
    >>> core.linalg.ldl_factor(core.tensor([[4.0, 2.0], [2.0, 2.0]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    LD, pivots, _ = ldl_factor_ex(A, hermitian=hermitian)
    return return_type("linalg_ldl_factor", "LD pivots")(LD, pivots)


@linalg
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """Return the X with ``A @ X = B``, from what `ldl_factor` gives.

    >>> import core
    >>> LD, pivots = core.linalg.ldl_factor(core.tensor([[4.0, 2.0], [2.0, 2.0]]))
    >>> core.linalg.ldl_solve(LD, pivots, core.tensor([[6.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    check("ldl_solve", LD, name="LD", square=True)
    check("ldl_solve", B, name="B")
    if B._a.shape[-2] != LD._a.shape[-1]:
        raise RuntimeError(text("linalg.ldl_solve: Expected B to have as many rows as LD", op="linalg.ldl_solve",
                                came=f"{tuple(LD.shape)} and {tuple(B.shape)}"))  # fmt: skip
    return _ldl_solve(LD, pivots, B, hermitian=hermitian)  # type: ignore[no-any-return]
