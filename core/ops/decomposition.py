"""Decompositions of matrices: Cholesky, QR, LU. NumPy's LAPACK is the engine.

Gradients are those of S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions with
application in optimum experimental design" (2010), and I. Murray, "Differentiation of the Cholesky decomposition"
(2016), for complex numbers too, and written in ops, so that they have gradients themselves.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .. import return_types
from ..autograd.function import Function
from ..base.errors import text, truth
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import bind, public
from ..return_types import return_type
from ..tensors.tensor import Tensor
from .creation import eye
from .joining import cat
from .linalg import matmul
from .precision import rounded, wide
from .solving import LinAlgError, _triangular, check, constant, host, linalg, matrices, single, square_matrices
from .where import where


def declare(name: str, forward: Any, **how: Any) -> Any:
    """Return an op on matrices whose vjp says the complex gradient outright."""
    made = operation(name, forward, label=f"linalg_{name}", **how)
    made.op.holomorphic = False  # type: ignore[attr-defined]
    return made


def hermitian(xp: Any, a: Any, mirror: str) -> Any:
    """Return what a decomposition of a symmetric matrix sees: one triangle is read, or the mean of both is taken.

    The gradient is symmetric, as is that of the mean; of one triangle it holds along symmetric changes only."""
    return (a + xp.conj(xp.swapaxes(a, -1, -2))) / 2 if mirror == "both" else a


def positive(rng: Any, *shape: int) -> Any:
    """Symmetric positive-definite matrices for samples."""
    a = rng.uniform(-1, 1, shape)
    return a @ np.swapaxes(a, -1, -2) + np.diag(np.arange(1.0, shape[-1] + 1))


def _lower(x: Tensor) -> Tensor:
    """Return the lower triangle with half the diagonal."""
    return (x.tril() + x.tril(-1)) * 0.5


# -- Cholesky ----------------------------------------------------------------------------------------------------------


def _cholesky_forward(xp: Any, x: Any, mirror: str) -> Any:
    a = hermitian(xp, wide(x), mirror)
    try:
        return rounded(xp.linalg.cholesky(a), x.dtype)
    except np.linalg.LinAlgError:
        orders = _bad_minors(host(a)).reshape(-1)
        at = int(np.argmax(orders > 0))
        raise LinAlgError(
            text(f"{single('cholesky', a, at)}The factorization could not be completed because the input is not "
                 f"positive-definite (the leading minor of order {orders[at]} is not positive-definite).",
                 op="linalg.cholesky", remedy="a + eps * torch.eye(n), or linalg.cholesky_ex to see which fail")
        ) from None  # fmt: skip


def _bad_minors(a: Any) -> Any:
    """For every matrix the order of the first leading minor that is not positive, 0 where all are."""
    n = a.shape[-1]
    out = []
    for one in a.reshape(math.prod(a.shape[:-2]), n, n):
        k = 0
        try:
            np.linalg.cholesky(one)
        except np.linalg.LinAlgError:
            k = 1
            while k < n and _positive(one[:k, :k]):
                k += 1
        out.append(k)
    return np.array(out, np.int32).reshape(a.shape[:-2])


def _positive(a: Any) -> bool:
    try:
        np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return False
    return True


def _cholesky_vjp(g: Tensor, y: Tensor) -> Tensor:
    phi = _lower(matmul(y.mH, g))
    back = _triangular(y.mH, phi + phi.mH, upper=True)
    return _triangular(y.mH, back.mH, upper=True).mH * 0.5


_cholesky = declare("cholesky", _cholesky_forward, params={"mirror": "L"}, vjp=_cholesky_vjp,
                    samples=lambda rng: [((positive(rng, *s),), {"mirror": "both"})
                                         for s in ((3, 3), (2, 2, 2))])  # fmt: skip


@partial(linalg, fast=[Fast(op="cholesky(A, word.L)", types={"A": "real"}, check=(square_matrices("A"),))])
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Return the lower-triangular L with ``A = L @ L.mH`` of positive-definite matrices, or the upper ``L.mH``.

    Only the triangle asked for is read. *Raises*: LinAlgError where A is not positive-definite. *Source*: LAPACK potrf.

    >>> import core
    >>> core.linalg.cholesky(core.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    check("cholesky", A, square=True)
    return _cholesky(A.mH).mH if upper else _cholesky(A)


@linalg
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> return_types.linalg_cholesky_ex:
    """As `cholesky`, with the order of the first minor that is not positive (0: none) in place of an error.

    NaN stands for the factor of a matrix that has none.

    >>> import core
    >>> core.linalg.cholesky_ex(core.tensor([[-1.0]])).info
    tensor(1, dtype=core.int32)
    """
    check("cholesky_ex", A, square=True)
    info = constant(_bad_minors(host(A.mH._a if upper else A._a)), A.device)
    bad = (info != 0).reshape(*info.shape, 1, 1)
    if bool(bad.any()):  # type: ignore[attr-defined]
        if check_errors:
            cholesky(A, upper=upper)
        sound = cholesky(where(bad, eye(A._a.shape[-1], dtype=A.dtype), A), upper=upper)
        L = where(bad, float("nan"), sound)
    else:
        L = cholesky(A, upper=upper)
    return return_type("linalg_cholesky_ex", "L info")(L, info)


@public()
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """Return the X with ``A @ X = B``, from A's Cholesky factor L.

    >>> import core
    >>> core.cholesky_solve(core.tensor([[4.0]]), core.tensor([[2.0]]))
    tensor([[1.]])
    """
    check("cholesky_solve", L, name="L", square=True)
    if L.requires_grad:
        return _CholeskySolve.apply(B, L, upper)  # type: ignore[no-any-return, no-untyped-call]
    return _solved(B, L, upper)


def _solved(B: Tensor, L: Tensor, upper: bool) -> Tensor:
    low = L.mH if upper else L
    return _triangular(low.mH, _triangular(low, B, upper=False), upper=True)  # type: ignore[no-any-return]


class _CholeskySolve(Function):
    """`cholesky_solve` with PyTorch's gradient for the factor: that of A at A = L Lᴴ, a whole matrix, which is not cut
    down to the triangle that the solution reads."""

    @staticmethod
    def forward(ctx: Any, B: Tensor, L: Tensor, upper: bool) -> Tensor:
        X = _solved(B, L, upper)
        ctx.save_for_backward(L, X)
        ctx.upper, ctx.shapes = upper, (tuple(B.shape), tuple(L.shape))
        return X

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        L, X = ctx.saved_tensors
        gB = cholesky_solve(g, L, ctx.upper)
        both = matmul(gB, X.mH)
        both = both + both.mH
        gL = matmul(L, both) if ctx.upper else matmul(both, L)
        return gB.sum_to_size(ctx.shapes[0]), -gL.sum_to_size(ctx.shapes[1]), None


@public()
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """Return the inverse of the matrix whose Cholesky factor is L.

    >>> import core
    >>> core.cholesky_inverse(core.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    check("cholesky_inverse", L, name="L", square=True)
    return cholesky_solve(eye(L._a.shape[-1], dtype=L.dtype, device=L.device), L, upper)


# -- QR ----------------------------------------------------------------------------------------------------------------


def _qr_forward(xp: Any, x: Any, mode: str) -> Any:
    if mode == "r":
        return xp.zeros((0,), x.dtype), rounded(xp.linalg.qr(wide(x), mode="r"), x.dtype)
    q, r = xp.linalg.qr(wide(x), mode=mode)
    return rounded(q, x.dtype), rounded(r, x.dtype)


def _qr_vjp(g: tuple[Tensor, Tensor], Q: Tensor, R: Tensor, x_shape: Any, mode: str) -> Tensor:
    gq, gr = g
    m, n = x_shape[-2:]
    if mode == "r":
        raise RuntimeError(text("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
                                "use linalg.qr(A, mode='reduced') if you are going to require gradients.",
                                op="linalg.qr"))  # fmt: skip
    if mode == "complete" and m > n:
        raise RuntimeError(text("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.",
                                op="linalg.qr", remedy="mode='reduced'"))  # fmt: skip
    if m >= n:
        return _square_qr(gq, gr, Q, R)
    left, right = R.narrow(-1, 0, m), R.narrow(-1, m, n - m)  # the columns past the square are Q @ right
    beyond = gr.narrow(-1, m, n - m)
    head = _square_qr(gq + matmul(Q, matmul(right, beyond.mH)), gr.narrow(-1, 0, m), Q, left)
    return cat([head, matmul(Q, beyond)], -1)


def _square_qr(gq: Tensor, gr: Tensor, Q: Tensor, R: Tensor) -> Tensor:
    low = matmul(R, gr.triu().mH) - matmul(gq.mH, Q)
    low = _lower(low)
    return _triangular(R, (gq + matmul(Q, low + low.mH)).mH, upper=True).mH


_qr = declare(
    "qr", _qr_forward, params={"mode": "reduced"}, outputs="Q R", returns=2, vjp=_qr_vjp,
    samples=lambda rng: [(matrices(rng, s), {"mode": m}) for s, m in
                         [((3, 3), "reduced"), ((4, 2), "reduced"), ((2, 2, 3), "reduced"), ((2, 3), "complete")]],
)  # fmt: skip


_ReturnQR = return_type("linalg_qr", "Q R")


@partial(linalg, python=True,
         fast=[Fast(op="qr(A, word.reduced)", types={"A": "real"}, check=("PyArray_NDIM({A}) >= 2",),
                    result="linalg_qr")])  # fmt: skip
def qr(A: Tensor, mode: str = "reduced") -> return_types.linalg_qr:
    """Q with orthonormal columns and upper-triangular R with ``A = Q @ R``; mode "reduced", "complete" or "r".

    *Source*: LAPACK geqrf.

    >>> import core
    >>> core.linalg.qr(core.tensor([[3.0], [4.0]])).R.abs()
    tensor([[5.]])
    """
    check("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(text(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
                                "or 'complete'", op="linalg.qr"))  # fmt: skip
    return _ReturnQR(*_qr(A, mode=mode))


def _torch_cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Return the Cholesky factor of positive-definite matrices, `linalg.cholesky`.

    >>> import core
    >>> core.cholesky(core.tensor([[4.0]]))
    tensor([[2.]])
    """
    return cholesky(input, upper=upper)  # type: ignore[no-any-return]


def _torch_qr(input: Tensor, some: bool = True) -> return_types.qr:
    """Q and R with ``input = Q @ R``, `linalg.qr`; not `some`, the complete Q.

    >>> import core
    >>> core.qr(core.tensor([[2.0]])).R.abs()
    tensor([[2.]])
    """
    truth("qr", "some", some, 2)
    return return_type("qr", "Q R")(*qr(input, "reduced" if some else "complete"))


_torch_cholesky.__name__ = _torch_cholesky.__qualname__ = "cholesky"
_torch_qr.__name__ = _torch_qr.__qualname__ = "qr"
bind(_torch_cholesky, "cholesky")
bind(_torch_qr, "qr")
