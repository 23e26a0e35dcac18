"""LU decompositions with partial pivoting, and Householder products."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

from .. import return_types
from ..base.errors import text, truth
from ..dispatch.publish import bind
from ..return_types import return_type
from ..tensors.tensor import Tensor
from .creation import eye
from .decomposition import declare
from .joining import cat
from .linalg import matmul
from .precision import rounded, wide
from .solving import LinAlgError, _triangular, check, constant, host, linalg, lu_in_place, matrices


def _lu_forward(xp: Any, x: Any) -> Any:
    a = np.array(host(wide(x)), order="C")
    pivots, info = lu_in_place(a)
    return xp.asarray(rounded(a, x.dtype)), xp.asarray(pivots), xp.asarray(info)


def permutation(pivots: Any, m: int) -> Any:
    """Return the permutation matrices P of ``A = P L U`` that rows exchanged in turn amount to."""
    stack = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.tile(np.arange(m), (len(stack), 1))
    at = np.arange(len(stack))
    for j in range(stack.shape[1]):
        other = stack[:, j] - 1
        order[at, j], order[at, other] = order[at, other].copy(), order[at, j].copy()
    return np.swapaxes(np.eye(m)[order], -1, -2).reshape(*pivots.shape[:-1], m, m)


def _lu_vjp(g: Any, LU: Tensor, pivots: Tensor) -> Tensor:
    """In the square part gA = P L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H; the rows below and the columns beyond are
    solutions of triangular systems."""
    m, n = LU._a.shape[-2:]
    k = min(m, n)
    square = LU.narrow(-2, 0, k).narrow(-1, 0, k)
    low = square.tril(-1) + eye(k, dtype=LU.dtype, device=LU.device)
    up = square.triu()
    gl, gu = g[0].narrow(-2, 0, k).narrow(-1, 0, k).tril(-1), g[0].narrow(-2, 0, k).narrow(-1, 0, k).triu()
    extra = None
    if m > n:  # the rows below are A U^-1
        below, arrived = LU.narrow(-2, k, m - k), g[0].narrow(-2, k, m - k)
        extra = _triangular(up, arrived.mH, upper=True).mH
        gu = gu - matmul(below.mH, extra).triu()
    elif n > m:  # the columns beyond are L^-1 A
        beyond, arrived = LU.narrow(-1, k, n - k), g[0].narrow(-1, k, n - k)
        extra = _triangular(low.mH, arrived, upper=True, unitriangular=True)
        gl = gl - matmul(extra, beyond.mH).tril(-1)
    phi = matmul(low.mH, gl).tril(-1) + matmul(gu, up.mH).triu()
    out = _triangular(low.mH, phi, upper=True, unitriangular=True)
    out = _triangular(up, out.mH, upper=True).mH
    if extra is not None:
        out = cat([out, extra], -2 if m > n else -1)
    P = constant(permutation(host(pivots._a), m).astype(LU.dtype.numpy), LU.device)
    return matmul(P, out)


_lu = declare("lu_factor", _lu_forward, outputs="LU pivots info", returns=3, vjp=_lu_vjp,
              samples=lambda rng: [(matrices(rng, s), {}) for s in ((3, 3), (4, 2), (2, 2, 3))])  # fmt: skip


@linalg
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> return_types.linalg_lu_factor_ex:
    """As `lu_factor`, and for each matrix its first zero pivot (0: none).

    >>> import core
    >>> core.linalg.lu_factor_ex(core.tensor([[0.0]])).info
    tensor(1, dtype=core.int32)
    """
    check("lu_factor_ex", A)
    if not pivot:
        raise RuntimeError(text("linalg.lu_factor: LU without pivoting is not implemented on the CPU",
                                op="linalg.lu_factor", remedy="pivot=True"))  # fmt: skip
    LU, pivots, info = _lu(A)
    if check_errors and bool(info._a.any()):
        k = int(info._a[info._a > 0].flat[0])
        raise LinAlgError(text(f"torch.linalg.lu_factor_ex: U[{k},{k}] is zero and using it on lu_solve would result "
                               "in a division by zero.", op="linalg.lu_factor_ex"))  # fmt: skip
    return return_type("linalg_lu_factor_ex", "LU pivots info")(LU, pivots, info)


@linalg
def lu_factor(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """L (below the diagonal, its own is 1) and U in one matrix, and which row each row was exchanged with, from 1.

    >>> import core
    >>> core.linalg.lu_factor(core.tensor([[1.0, 2.0], [2.0, 2.0]])).LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    LU, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return return_type("linalg_lu_factor", "LU pivots")(LU, pivots)


def _parts(LU: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m, n = LU._a.shape[-2:]
    k = min(m, n)
    low = LU.narrow(-1, 0, k).tril(-1) + constant(np.eye(m, k, dtype=LU.dtype.numpy), LU.device)
    P = constant(permutation(host(pivots._a), m).astype(LU.dtype.numpy), LU.device)
    return P, low, LU.narrow(-2, 0, k).triu()


@linalg
def lu(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu:
    """Return a permutation P, unit lower-triangular L and upper-triangular U with ``A = P @ L @ U``.

    >>> import core
    >>> core.linalg.lu(core.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    LU, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return return_type("linalg_lu", "P L U")(*_parts(LU, pivots))


@overload
def _torch_lu(A: Tensor, pivot: bool = True, get_infos: Literal[False] = False) -> tuple[Tensor, Tensor]: ...
@overload
def _torch_lu(A: Tensor, pivot: bool = True, *, get_infos: Literal[True]) -> tuple[Tensor, Tensor, Tensor]: ...
def _torch_lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """`linalg.lu_factor` by its old name; with `get_infos` also each matrix's first zero pivot (0: none).

    >>> import core
    >>> core.lu(core.tensor([[2.0]]))[0]
    tensor([[2.]])
    """
    truth("lu", "pivot", pivot, 2)
    LU, pivots, info = lu_factor_ex(A, pivot=pivot)
    return (LU, pivots, info) if get_infos else (LU, pivots)


_torch_lu.__name__ = _torch_lu.__qualname__ = "lu"
bind(_torch_lu, "lu", python=True)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> return_types.lu_unpack:
    """P, L and U from what `linalg.lu_factor` gives.

    >>> import core
    >>> core.lu_unpack(*core.linalg.lu_factor(core.tensor([[2.0]]))).U
    tensor([[2.]])
    """
    P, L, U = _parts(LU_data, LU_pivots)
    none = constant(np.zeros(0, LU_data.dtype.numpy), LU_data.device)
    return return_type("lu_unpack", "P L U")(
        P if unpack_pivots else none, L if unpack_data else none, U if unpack_data else none
    )


bind(lu_unpack, "lu_unpack", method=False)


@linalg
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Return the X with ``A @ X = B`` (or ``X @ A = B``, or A's adjoint), from what `lu_factor` gives.

    >>> import core
    >>> LU, pivots = core.linalg.lu_factor(core.tensor([[0.0, 2.0], [1.0, 0.0]]))
    >>> core.linalg.lu_solve(LU, pivots, core.tensor([[2.0], [3.0]]))
    tensor([[3.],
            [1.]])
    """
    check("lu_solve", LU, name="LU", square=True)
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    P, low, up = _parts(LU, pivots)
    if adjoint:
        X = _triangular(up.mH, B, upper=False)
        return matmul(P, _triangular(low.mH, X, upper=True, unitriangular=True))
    return _triangular(up, _triangular(low, matmul(P.mT, B), upper=False, unitriangular=True), upper=True)


def _torch_lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve` with the arguments in another order.

    >>> import core
    >>> core.lu_solve(core.tensor([[4.0]]), *core.linalg.lu_factor(core.tensor([[2.0]])))
    tensor([[2.]])
    """
    return lu_solve(LU_data, LU_pivots, b)


_torch_lu_solve.__name__ = _torch_lu_solve.__qualname__ = "lu_solve"
bind(_torch_lu_solve, "lu_solve")


@linalg
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """Return the first columns of the product of Householder reflections 1 - tau[i] v v^H, v the columns of A below a
    1.

    >>> import core
    >>> core.linalg.householder_product(core.tensor([[1.0], [0.0]]), core.tensor([2.0]))
    tensor([[-1.],
            [ 0.]])
    """
    check("householder_product", A, name="input")
    m, n = A._a.shape[-2:]
    k = tau._a.shape[-1]
    if m < n or n < k:
        raise RuntimeError(text("torch.linalg.householder_product: input.shape[-2] must be greater than or equal to "
                                "input.shape[-1]", op="linalg.householder_product"))  # fmt: skip
    Q = constant(np.eye(m, n, dtype=A.dtype.numpy), A.device)
    v = A.tril(-1) + Q
    for i in reversed(range(k)):
        column = v.narrow(-1, i, 1)
        Q = Q - tau.narrow(-1, i, 1).unsqueeze(-1) * matmul(column, matmul(column.mH, Q))
    return Q


bind(householder_product, "orgqr")
