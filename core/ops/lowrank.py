"""Decompositions of low rank by random projection, and products with the Q of a QR decomposition in LAPACK's form."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import return_types
from ..base.errors import text
from ..dispatch.declare import operation
from ..dispatch.publish import bind, public
from ..random import randn
from ..return_types import return_type
from ..tensors.tensor import Tensor
from .linalg import matmul
from .precision import rounded, wide
from .solving import check, host, matrices

from .decomposition import qr as _linalg_qr  # isort: skip
from .creation import eye
from .spectral import svd


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> return_types.svd_lowrank:
    """U, S, V with ``A = U @ diag(S) @ V.mT`` nearly, of rank q: the decomposition of A on a random subspace.

    `niter` passes of subspace iteration sharpen it; M is taken from A before. *Source*: N. Halko, P. Martinsson and
    J. Tropp, "Finding structure with randomness" (2009), algorithm 5.1.

    >>> import core
    >>> core.svd_lowrank(core.ones(4, 3), q=2)[1].shape
    core.Size([2])
    """
    if not isinstance(A, Tensor):
        raise TypeError(f"svd_lowrank(): argument 'A' (position 1) must be Tensor, not {type(A).__name__}")
    A = A if M is None else A - M
    m, n = A._a.shape[-2:]
    rank = 6 if q is None else q
    wide_one = m < n
    A = A.mH if wide_one else A
    Q = _linalg_qr(matmul(A, randn(A._a.shape[-1], rank, dtype=A.dtype, device=A.device))).Q
    for _ in range(2 if niter is None else niter):
        Q = _linalg_qr(matmul(A, _linalg_qr(matmul(A.mH, Q)).Q)).Q
    U, S, Vh = svd(matmul(Q.mH, A))
    left, right = matmul(Q, U), Vh.mH
    return return_type("svd_lowrank", "U S V")(*((right, S, left) if wide_one else (left, S, right)))


bind(svd_lowrank, "svd_lowrank", method=False, python=True)


@public(method=False, python=True)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> return_types.svd_lowrank:
    """Return the q first principal components of the rows of A: U, S, V of A, centred by default.

    >>> import core
    >>> core.pca_lowrank(core.eye(4), q=2)[2].shape
    core.Size([4, 2])
    """
    m, n = A._a.shape[-2:]
    rank = min(6, m, n) if q is None else q
    if not 0 <= rank <= min(m, n):
        raise ValueError(text(f"q(={rank}) must be non-negative integer and not greater than min(m, n)={min(m, n)}",
                              op="pca_lowrank"))  # fmt: skip
    if niter < 0:
        raise ValueError(text(f"niter(={niter}) must be non-negative integer", op="pca_lowrank"))
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, rank, niter)  # type: ignore[attr-defined]


def _geqrf_forward(xp: Any, x: Any) -> Any:
    h, tau = np.linalg.qr(host(wide(x)), mode="raw")
    return xp.asarray(rounded(np.swapaxes(h, -1, -2).copy(), x.dtype)), xp.asarray(rounded(tau, x.dtype))


_geqrf = operation("geqrf", _geqrf_forward, outputs="a tau", returns=2,
                   samples=lambda rng: [(matrices(rng, (3, 2)), {})])  # fmt: skip


@public()
def geqrf(input: Tensor) -> return_types.geqrf:
    """LAPACK's QR decomposition: R on and above the diagonal, below it the Householder vectors of Q, and their scales.

    >>> import core
    >>> core.geqrf(core.tensor([[3.0], [4.0]])).a[0].abs()
    tensor([5.])
    """
    check("geqrf", input, name="input")
    return return_type("geqrf", "a tau")(*_geqrf(input))


@public()
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Return the product of `other` with the whole Q of which `geqrf` gave the Householder vectors, or with its
    adjoint.

    >>> import core
    >>> a, tau = core.geqrf(core.tensor([[3.0], [4.0]]))
    >>> core.ormqr(a, tau, core.tensor([[3.0], [4.0]]), transpose=True).abs()[0]
    tensor([5.])
    """
    check("ormqr", input, name="input")
    if not left:
        return ormqr(input, tau, other.mH, True, not transpose).mH
    m, k = input._a.shape[-2], tau._a.shape[-1]
    if other._a.shape[-2] != m:
        raise RuntimeError(text("torch.ormqr: other.shape[-2] must be equal to input.shape[-2]", op="ormqr",
                                came=f"{tuple(input.shape)} and {tuple(other.shape)}"))  # fmt: skip
    v = input.tril(-1).narrow(-1, 0, k) + eye(m, k, dtype=input.dtype, device=input.device)
    y = other
    for i in range(k) if transpose else reversed(range(k)):
        column, scale = v.narrow(-1, i, 1), tau.narrow(-1, i, 1).unsqueeze(-1)
        scale = scale.conj() if transpose else scale  # type: ignore[attr-defined]
        y = y - scale * matmul(column, matmul(column.mH, y))
    return y
