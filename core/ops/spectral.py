"""Singular values, eigenvalues, and what is made of them: pseudo-inverse, rank, least squares.

Gradients as in M. B. Giles (2008), section 3, and, for complex matrices, J. Wan and S. Zhang, "Automatic
differentiation for complex valued SVD" (2019). Where singular or eigenvalues coincide, the vectors have no gradient (it
is infinite or NaN); the values still have theirs.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .. import return_types
from ..base import dtypes
from ..base.errors import text, truth
from ..declare.signature import Fast
from ..dispatch.publish import bind, public
from ..return_types import return_type
from ..tensors.tensor import Tensor
from .creation import eye
from .decomposition import declare, hermitian, positive
from .linalg import matmul
from .precision import rounded, wide
from .solving import LinAlgError, _solve, check, constant, host, linalg, matrices, one_dtype, square_matrices
from .where import where


def _given(g: Tensor) -> bool:
    """Return whether a gradient came for an output: the engine puts zeros where none did."""
    return g._requires_grad or bool(g._a.any())


def _finite(op: str, a: Any, phrase: str = "", error: type[RuntimeError] = LinAlgError) -> Any:
    """Return the array, for LAPACK: with infinities in it some of its loops never end, and cannot be interrupted."""
    if not np.isfinite(host(a)).all():
        phrase = phrase or (f"linalg.{op}: The algorithm failed to converge because the input matrix contained "
                            "non-finite values.")  # fmt: skip
        raise error(
            text(phrase, op=f"linalg.{op}", remedy="look for the first NaN or infinity; x.isfinite() says where")
        )
    return a


def _apart(x: Tensor, values: Tensor) -> Tensor:
    """x[i, j] / (values[j] - values[i]), 0 on the diagonal."""
    diagonal = eye(values._a.shape[-1], dtype=dtypes.bool_, device=x.device)
    gap = values.unsqueeze(-2) - values.unsqueeze(-1)
    return where(diagonal, 0.0, x / where(diagonal, 1.0, gap))


def _sample_thin(rng: Any) -> list[Any]:
    return [(matrices(rng, s), {"full_matrices": False}) for s in ((3, 3), (4, 2), (2, 2, 3))]


# -- singular values ---------------------------------------------------------------------------------------------------


def _svd_forward(xp: Any, x: Any, full_matrices: bool) -> Any:
    u, s, v = xp.linalg.svd(_finite("svd", wide(x)), full_matrices=full_matrices)
    return rounded(u, x.dtype), rounded(s, xp.zeros(0, x.dtype).real.dtype), rounded(v, x.dtype)


def _svd_vjp(g: Any, U: Tensor, S: Tensor, Vh: Tensor, full_matrices: bool) -> Tensor:
    gu, gs, gv = g
    m, n, k = U._a.shape[-2], Vh._a.shape[-1], S._a.shape[-1]
    has_u, has_v = _given(gu), _given(gv)
    if full_matrices and (gu.narrow(-1, k, m - k)._a.any() or gv.narrow(-2, k, n - k)._a.any()):
        raise RuntimeError(text("svd_backward: the columns of U and the rows of Vh beyond the singular values are any "
                                "that complete a basis, and have no gradient", op="linalg.svd",
                                remedy="linalg.svd(A, full_matrices=False)"))  # fmt: skip
    if full_matrices:
        U, gu, Vh, gv = U.narrow(-1, 0, k), gu.narrow(-1, 0, k), Vh.narrow(-2, 0, k), gv.narrow(-2, 0, k)
    middle = gs.diag_embed().to(U.dtype)
    squares = S * S
    if has_u:
        around = matmul(U.mH, gu)
        around = around - around.mH
        middle = middle + _apart(around, squares) * S.unsqueeze(-2)
        if U.is_complex():  # the phase that U and V share
            middle = middle + (around.diagonal(0, -2, -1) / (2.0 * S)).diag_embed()
    if has_v:
        across = matmul(Vh, gv.mH)
        across = across - across.mH
        middle = middle + S.unsqueeze(-1) * _apart(across, squares)
    out = matmul(matmul(U, middle), Vh)
    if has_u and m > k:
        beside = gu / S.unsqueeze(-2)
        out = out + matmul(beside - matmul(U, matmul(U.mH, beside)), Vh)
    if has_v and n > k:
        beside = gv / S.unsqueeze(-1)
        out = out + matmul(U, beside - matmul(matmul(beside, Vh.mH), Vh))
    return out


_svd = declare(
    "svd", _svd_forward, params={"full_matrices": True}, outputs="U S Vh", returns=3, vjp=_svd_vjp, samples=_sample_thin
)


def svd(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the thin decomposition, for use in other ops."""
    return _svd(A, full_matrices=False)  # type: ignore[no-any-return]


def _linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> return_types.linalg_svd:
    """U, S, Vh with ``A = U @ diag(S) @ Vh``, the singular values S descending; `driver` chooses a GPU library's way.

    *Source*: LAPACK gesdd.

    >>> import core
    >>> core.linalg.svd(core.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    check("svd", A)
    return return_type("linalg_svd", "U S Vh")(*_svd(A, full_matrices=full_matrices))


_linalg_svd.__name__ = _linalg_svd.__qualname__ = "svd"
linalg(_linalg_svd)


@partial(linalg, home="reduce", python=True,
         fast=[Fast(body="result_of(op.svd, A, Py_False, 1)", types={"A": "real"},
                    check=("PyArray_NDIM({A}) >= 2",))])  # fmt: skip
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Return the singular values, descending.

    >>> import core
    >>> core.linalg.svdvals(core.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor([2., 1.])
    """
    check("svdvals", A)
    return svd(A)[1]


def _torch_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> return_types.svd:
    """U, S, V with ``input = U @ diag(S) @ V.mH``; `linalg.svd` gives V.mH.

    >>> import core
    >>> core.svd(core.tensor([[3.0], [4.0]])).S
    tensor([5.])
    """
    truth("svd", "some", some, 2)
    truth("svd", "compute_uv", compute_uv, 3)
    check("svd", input)
    U, S, Vh = _svd(input, full_matrices=not some)
    if not compute_uv:
        U, Vh = U.detach() * 0, Vh.detach() * 0
    return return_type("svd", "U S V")(U, S, Vh.mH)


_torch_svd.__name__ = _torch_svd.__qualname__ = "svd"
bind(_torch_svd, "svd")


# -- eigenvalues -------------------------------------------------------------------------------------------------------


def _eigh_forward(xp: Any, x: Any, mirror: str) -> Any:
    values, vectors = xp.linalg.eigh(hermitian(xp, wide(x), mirror), UPLO="L" if mirror == "both" else mirror)
    return rounded(values, xp.zeros(0, x.dtype).real.dtype), rounded(vectors, x.dtype)


def _eigh_vjp(g: Any, L: Tensor, V: Tensor) -> Tensor:
    gl, gv = g
    middle = gl.diag_embed().to(V.dtype)
    if _given(gv):
        middle = middle + _apart(matmul(V.mH, gv), L)
    out = matmul(matmul(V, middle), V.mH)
    return (out + out.mH) * 0.5


_eigh = declare("eigh", _eigh_forward, params={"mirror": "L"}, outputs="L V", returns=2, vjp=_eigh_vjp,
                samples=lambda rng: [((positive(rng, *s),), {"mirror": "both"})
                                     for s in ((3, 3), (2, 2, 2))])  # fmt: skip


@linalg
def eigh(A: Tensor, UPLO: str = "L") -> return_types.linalg_eigh:
    """Return the eigenvalues, ascending, and eigenvectors of symmetric (Hermitian) matrices; of A one triangle is read.

    >>> import core
    >>> core.linalg.eigh(core.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check("eigh", A, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(text(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}", op="linalg.eigh"))
    return return_type("linalg_eigh", "eigenvalues eigenvectors")(*_eigh(A, mirror=UPLO.upper()))


@partial(linalg, home="reduce",
         fast=[Fast(body="result_of(op.eigh, A, word.L, 0)", types={"A": "real"},
                    check=(square_matrices("A"),))])  # fmt: skip
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of symmetric (Hermitian) matrices, ascending.

    >>> import core
    >>> core.linalg.eigvalsh(core.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    return eigh(A, UPLO)[0]  # type: ignore[no-any-return]


_NO_EIG = "torch.linalg.eig: input tensor should not contain infs or NaNs."


def _eig_forward(xp: Any, x: Any) -> Any:
    values, vectors = np.linalg.eig(host(_finite("eig", wide(x), _NO_EIG, RuntimeError)))
    to = np.result_type(wide(x).dtype, np.complex64)
    return xp.asarray(values.astype(to)), xp.asarray(vectors.astype(to))


def _eig_vjp(g: Any, x: Tensor, L: Tensor, V: Tensor) -> Tensor:
    gl, gv = g
    middle = gl.diag_embed()
    if _given(gv):
        around = matmul(V.mH, gv)
        length = around.diagonal(0, -2, -1).real  # type: ignore[attr-defined]
        middle = middle + _apart(around - matmul(V.mH, V) * length.unsqueeze(-2), L.conj())  # type: ignore[attr-defined]
    return _solve(V.mH, matmul(middle, V.mH)).to(x.dtype)


_eig = declare("eig", _eig_forward, outputs="L V", returns=2, vjp=_eig_vjp,
               samples=lambda rng: [(matrices(rng, (3, 3)), {}), (matrices(rng, (2, 2, 2)), {})])  # fmt: skip


@linalg
def eig(A: Tensor) -> return_types.linalg_eig:
    """Return the complex eigenvalues and eigenvectors of square matrices, in no particular order.

    >>> import core
    >>> core.linalg.eig(core.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.imag.abs()
    tensor([1., 1.])
    """
    check("eig", A, square=True)
    return return_type("linalg_eig", "eigenvalues eigenvectors")(*_eig(A))


@linalg
def eigvals(A: Tensor) -> Tensor:
    """Return the complex eigenvalues of square matrices, in no particular order.

    >>> import core
    >>> core.linalg.eigvals(core.tensor([[2.0]]))
    tensor([2.+0.j])
    """
    return eig(A)[0]  # type: ignore[no-any-return]


# -- pseudo-inverse, rank ----------------------------------------------------------------------------------------------


def _cutoff(xp: Any, s: Any, shape: Any, atol: Any, rtol: Any) -> Any:
    """Return the singular values above this count; PyTorch's defaults. A tolerance is a number, or an array (...,
    1)."""
    atol = 0.0 if atol is None else atol
    if rtol is None:
        rtol = xp.where(xp.asarray(atol) > 0, 0.0, max(shape[-2:]) * float(xp.finfo(s.dtype).eps))
    largest = s.max(axis=-1, keepdims=True, initial=0)
    return xp.maximum(largest * rtol, atol)


def _pinv_forward(xp: Any, x: Any, atol: float | None, rtol: float | None, hermitian: bool) -> Any:
    if hermitian:  # the lower triangle alone counts; the singular values are the eigenvalues' sizes
        values, vectors = xp.linalg.eigh(_finite("eigh", wide(x)), UPLO="L")
        sizes = xp.abs(values)
        large = sizes > _cutoff(xp, sizes, x.shape, atol, rtol)
        inverse = xp.where(large, 1 / xp.where(large, values, 1), 0)
        return rounded((vectors * inverse[..., None, :]) @ xp.conj(xp.swapaxes(vectors, -1, -2)), x.dtype)
    u, s, v = xp.linalg.svd(_finite("svd", wide(x)), full_matrices=False)
    large = s > _cutoff(xp, s, x.shape, atol, rtol)
    inverse = xp.where(large, 1 / xp.where(large, s, 1), 0)
    turned = xp.conj(xp.swapaxes(v, -1, -2)) * inverse[..., None, :]
    return rounded(turned @ xp.conj(xp.swapaxes(u, -1, -2)), x.dtype)


def _pinv_vjp(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """G. H. Golub and V. Pereyra (1973), equation 4.12."""
    yh, gh = y.mH, g.mH
    first = matmul(gh, matmul(y, yh))
    last = matmul(matmul(yh, y), gh)
    return first - matmul(x, matmul(y, first)) + last - matmul(matmul(last, y), x) - matmul(yh, matmul(g, yh))


_pinv = declare("pinv", _pinv_forward, params={"atol": None, "rtol": None, "hermitian": False}, vjp=_pinv_vjp,
                samples=lambda rng: [(matrices(rng, s), {}) for s in ((3, 3), (3, 2), (2, 2, 3))])  # fmt: skip


def _tolerance(x: Any) -> Any:
    """Return a tolerance as a number, or as an array (..., 1) of one for each matrix of a batch."""
    if not isinstance(x, Tensor):
        return x
    return host(x._a)[..., None] if x.ndim else x.item()


@linalg
def pinv(
    A: Tensor, *, atol: float | Tensor | None = None, rtol: float | Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """Return the Moore-Penrose pseudo-inverse; singular values up to ``max(atol, rtol * the largest)`` count as 0.

    >>> import core
    >>> core.linalg.pinv(core.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    check("pinv", A, square=hermitian)
    return _pinv(A, atol=_tolerance(atol), rtol=_tolerance(rtol), hermitian=hermitian)  # type: ignore[no-any-return]


@public()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the Moore-Penrose pseudo-inverse, `linalg.pinv` with ``rtol=rcond``.

    >>> import core
    >>> core.pinverse(core.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return pinv(input, rtol=rcond)


@linalg
def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return how many singular values are above ``max(atol, rtol * the largest)``.

    >>> import core
    >>> core.linalg.matrix_rank(core.tensor([[1.0, 1.0], [1.0, 1.0]]))
    tensor(1)
    """
    check("matrix_rank", A, name="input", square=hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    s = host(eigvalsh(A.detach()).abs()._a if hermitian else svdvals(A.detach())._a)  # type: ignore[attr-defined]
    large = s > _cutoff(np, s, A._a.shape, _tolerance(atol), _tolerance(rtol))
    return constant(np.asarray(large.sum(-1), np.int64), A.device)


# -- least squares -----------------------------------------------------------------------------------------------------


def _lstsq_forward(xp: Any, a: Any, b: Any, rtol: float | None) -> Any:
    wide_a, wide_b = _finite("lstsq", wide(a)), _finite("lstsq", wide(b))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = xp.broadcast_to(wide_a, (*batch, *a.shape[-2:])).reshape(math.prod(batch), *a.shape[-2:])
    right = xp.broadcast_to(wide_b, (*batch, *b.shape[-2:])).reshape(math.prod(batch), *b.shape[-2:])
    out = xp.empty((len(left), a.shape[-1], b.shape[-1]), wide_b.dtype)
    for i in range(len(left)):
        out[i] = xp.linalg.lstsq(left[i], right[i], rcond=rtol)[0]
    return rounded(out.reshape(*batch, *out.shape[1:]), b.dtype)


def _lstsq_vjp(g: Tensor, a: Tensor, b: Tensor, a_shape: Any, b_shape: Any, rtol: float | None, needs: Any) -> Any:
    inverse = _pinv(a, rtol=rtol)
    ga = _pinv_vjp(matmul(g, b.mH), a, inverse).sum_to_size(a_shape) if needs[0] else None
    return ga, matmul(inverse.mH, g).sum_to_size(b_shape)


_lstsq = declare(
    "lstsq", _lstsq_forward, inputs="a b", params={"rtol": None}, vjp=_lstsq_vjp,
    samples=lambda rng: [((*matrices(rng, s), rng.uniform(-1, 1, (s[-2], 2))), {})
                         for s in ((3, 2), (2, 3, 3), (2, 3))],
)  # fmt: skip


_Lstsq = return_type("linalg_lstsq", "solution residuals rank singular_values")


@partial(linalg, home="matmul",
         fast=[Fast(body="least_squares(A, B)", types={"A": "real", "B": "real"}, result="linalg_lstsq")])  # fmt: skip
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> return_types.linalg_lstsq:
    """Return the X of least ``|A @ X - B|``, and of those the one of least norm; with residuals, rank and singular
    values.

    The residuals are there for tall A of full rank and a `driver` other than the default "gelsy"; "gelsd" and "gelss"
    give the singular values.

    >>> import core
    >>> core.linalg.lstsq(core.tensor([[1.0], [1.0]]), core.tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """
    check("lstsq", A, name="input")
    one_dtype("lstsq", A, B)
    driver = driver or "gelsy"
    if driver not in ("gelsy", "gels", "gelsd", "gelss"):
        raise RuntimeError(text("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)",
                                op="linalg.lstsq", came=repr(driver)))  # fmt: skip
    m, n = A._a.shape[-2:]
    vector = A.ndim - 1 == B.ndim and A._a.shape[:-1] == B._a.shape
    b = B.unsqueeze(-1) if vector else B
    if b.ndim < 2 or b._a.shape[-2] != m:
        raise RuntimeError(text("torch.linalg.lstsq: input.size(-2) should match other.size(-2)", op="linalg.lstsq",
                                came=f"{tuple(A.shape)} and {tuple(B.shape)}"))  # fmt: skip
    X = _lstsq(A, b, rtol=rcond)
    rank = matrix_rank(A, rtol=rcond)
    none = constant(np.zeros(0, np.zeros(0, A._a.dtype).real.dtype), A.device)
    residuals = none
    if driver != "gelsy" and m > n and bool((rank._a == n).all()):
        off = (matmul(A, X) - b).abs()  # type: ignore[attr-defined]
        residuals = (off * off).sum(-2)
    if driver == "gels":
        rank = constant(np.zeros(0, np.int64), A.device)
    return _Lstsq(
        X.squeeze(-1) if vector else X, residuals, rank, svdvals(A.detach()) if driver in ("gelsd", "gelss") else none
    )
