"""Determinants and their logarithms."""

from __future__ import annotations

from typing import Any

from .. import return_types
from ..dispatch.declare import operation
from ..dispatch.publish import bind, public
from ..return_types import return_type
from ..tensors.tensor import Tensor
from .creation import eye
from .linalg import matmul
from .precision import rounded, wide
from .solving import _inv, check, linalg, matrices
from .spectral import svd
from .where import where


def _cofactors(x: Tensor) -> Tensor:
    """Return the derivative of the determinant of any matrix, a singular one too: with x = U S V it is
    det(U) det(V) conj(U) adj(S) conj(V)."""
    u, s, v = svd(x)
    n = s._a.shape[-1]
    others = where(eye(n, dtype=s.dtype, device=s.device) == 1, 1.0, s.unsqueeze(-2)).prod(-1)
    sign = (_det(u) * _det(v)).reshape(*x._a.shape[:-2], 1, 1)  # type: ignore[attr-defined]
    return sign * matmul(u.conj() * others.unsqueeze(-2), v.conj())  # type: ignore[attr-defined]


def _det_vjp(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    shape = (*y._a.shape, 1, 1)
    if bool((y._a != 0).all()):
        return (g * y).reshape(shape) * _inv(x).mT
    return g.reshape(shape) * _cofactors(x)


def _samples(rng: Any) -> list[Any]:
    return [(matrices(rng, (3, 3)), {}), (matrices(rng, (2, 2, 2)), {})]


_det = operation("det", lambda xp, x: rounded(xp.asarray(xp.linalg.det(wide(x))), x.dtype), vjp=_det_vjp,
                 label="linalg_det", samples=_samples, contiguous=True)  # fmt: skip


def _slogdet_forward(xp: Any, x: Any) -> Any:
    sign, logabsdet = xp.linalg.slogdet(wide(x))
    sign = xp.asarray(sign)
    return rounded(sign, x.dtype), rounded(xp.asarray(logabsdet), xp.zeros(0, x.dtype).real.dtype)


def _slogdet_vjp(g: tuple[Tensor, Tensor], x: Tensor, sign: Tensor) -> Tensor:
    of_sign, of_log = g
    if x.is_complex():
        turn = (of_sign.conj() * sign).imag  # type: ignore[attr-defined]
        of_log = of_log - 1j * turn
    return of_log.reshape(*x._a.shape[:-2], 1, 1) * _inv(x).mH


_slogdet = operation("slogdet", _slogdet_forward, outputs="sign logabsdet", returns=2, vjp=_slogdet_vjp,
                     label="linalg_slogdet", samples=_samples)  # fmt: skip
_slogdet.op.holomorphic = False  # type: ignore[attr-defined]


# The sign of a real determinant does not change with the matrix: it is on the graph, and no gradient passes.
_constant_sign = operation("determinant_sign", lambda xp, x: xp.sign(x), vjp=lambda g: None, label="linalg_slogdet",
                           samples=lambda rng: [((rng.uniform(0.5, 1, (2,)),), {})])  # fmt: skip


def _constant(sign: Tensor) -> Tensor:
    return sign if sign.is_complex() else _constant_sign(sign)  # type: ignore[no-any-return]


@linalg
def det(A: Tensor) -> Tensor:
    """Return the determinant of square matrices.

    >>> import core
    >>> core.linalg.det(core.tensor([[2.0, 1.0], [0.0, 3.0]]))
    tensor(6.)
    """
    check("det", A, square=True)
    return _det(A)


@linalg
def slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """Return the determinant as its sign (a complex number of length 1) and the logarithm of its absolute value.

    >>> import core
    >>> core.linalg.slogdet(core.tensor([[-1.0]])).sign
    tensor(-1.)
    """
    check("slogdet", A, square=True)
    sign, logabsdet = _slogdet(A)
    return return_type("linalg_slogdet", "sign logabsdet")(_constant(sign), logabsdet)


bind(det, "det")
bind(slogdet, "slogdet")


@public()
def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of the determinant; NaN where that is negative.

    >>> import core
    >>> core.logdet(core.tensor([[1.0]]))
    tensor(0.)
    """
    check("logdet", input, square=True)
    sign, logabsdet = _slogdet(input)
    return logabsdet + _constant(sign).log()
