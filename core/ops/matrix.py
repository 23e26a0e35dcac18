"""Norms of vectors and matrices, condition, powers and the exponential."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.shape import normalize_dim, normalize_dims
from ..declare.kinds import Dims, Sizes
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import bind
from ..tensors.tensor import Tensor
from .creation import eye
from .joining import cat
from .linalg import matmul
from .moments import _norm
from .precision import rounded, wide
from .solving import LinAlgError, _inv, check, inv_ex, linalg, solve
from .spectral import svdvals

# -- norms -------------------------------------------------------------------------------------------------------------


def _cast(op: str, x: Tensor, dtype: Dtype | None) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"linalg_{op}(): argument 'self' (position 1) must be Tensor, not {type(x).__name__}")
    if x.dtype.category < 2:
        raise RuntimeError(text(f"linalg.{op}: Expected a floating point or complex tensor as input. Got "
                                f"{x.dtype.scalar_type}", op=f"linalg.{op}", remedy="x.float()"))  # fmt: skip
    return x if dtype is None else x.to(dtype)


def _count_forward(xp: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    return xp.asarray((x != 0).sum(axis=dim, keepdims=keepdim).astype(x.dtype))


# The "norm" of order 0: a number on the graph through which no gradient passes.
_count = operation("norm_count", _count_forward, params={"dim": (), "keepdim": False}, vjp=lambda g: None,
                   label="linalg_vector_norm",
                   samples=lambda rng: [((rng.uniform(0.5, 1, (2, 3)),), {"dim": (1,)})], contiguous=True)  # fmt: skip


@linalg
def vector_norm(x: Tensor, ord: float = 2, dim: Dims | None = None, keepdim: bool = False, *,
                dtype: Dtype | None = None) -> Tensor:  # fmt: skip
    """``(sum |x|^ord)^(1/ord)`` over all elements or over `dim`; inf the greatest |x|, -inf the least, 0 counts.

    >>> import core
    >>> core.linalg.vector_norm(core.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = _cast("vector_norm", x, dtype)
    x = x.abs() if x.is_complex() else x  # type: ignore[attr-defined]
    dims = normalize_dims(dim, x.ndim, "linalg.vector_norm")
    if ord < 0 and any(x._a.shape[d] == 0 for d in dims):
        raise RuntimeError(text(f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the "
                                "operation does not have an identity", op="linalg.vector_norm"))  # fmt: skip
    if ord == 0:
        return _count(x, dim=dims, keepdim=keepdim)  # type: ignore[no-any-return]
    return _norm(x, p=float(ord), dim=dims, keepdim=keepdim)  # type: ignore[no-any-return]


@partial(linalg, home="reduce",
         fast=[Fast(body="frobenius(op.vector_norm, A)", types={"A": "real"},
                    check=("PyArray_NDIM({A}) == 2",))])  # fmt: skip
def matrix_norm(A: Tensor, ord: float | str = "fro", dim: Sizes = (-2, -1), keepdim: bool = False, *,
                dtype: Dtype | None = None) -> Tensor:  # fmt: skip
    """Return the norm of matrices: "fro", "nuc" (the sum of the singular values), 2 or -2 (the greatest or least of
    them), 1 or -1 (of the sums of columns), inf or -inf (of those of rows).

    >>> import core
    >>> core.linalg.matrix_norm(core.tensor([[3.0, 4.0]])), core.linalg.matrix_norm(core.tensor([[3.0, 4.0]]), 1)
    (tensor(5.), tensor(4.))
    """
    x = _cast("matrix_norm", A, dtype)
    if x.ndim < 2:
        raise RuntimeError(text("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.",
                                op="linalg.matrix_norm", came=f"shape {tuple(x.shape)}"))  # fmt: skip
    if len(dim) != 2:
        raise RuntimeError(text("linalg.matrix_norm: dim must be a 2-tuple.", op="linalg.matrix_norm", came=f"{dim}"))
    row, column = (normalize_dim(d, x.ndim, "linalg.matrix_norm") for d in dim)
    if row == column:
        raise RuntimeError(text(f"linalg.matrix_norm: dims must be different. Got ({row}, {column})",
                                op="linalg.matrix_norm"))  # fmt: skip
    if ord == "fro":
        return vector_norm(x, 2, (row, column), keepdim)
    if ord not in ("nuc", 2, -2, 1, -1, math.inf, -math.inf):
        raise RuntimeError(text(f"linalg.matrix_norm: Order {ord} not supported.", op="linalg.matrix_norm",
                                needed='"fro", "nuc", inf, -inf, 1, -1, 2 or -2'))  # fmt: skip
    x = x.movedim((row, column), (-2, -1))  # type: ignore[attr-defined]
    if ord in ("nuc", 2, -2):
        parts = svdvals(x)
    else:
        assert not isinstance(ord, str)
        parts = x.abs().sum(-2 if abs(ord) == 1 else -1)  # type: ignore[attr-defined]
    y = parts.sum(-1) if isinstance(ord, str) else parts.amax(-1) if ord > 0 else parts.amin(-1)  # type: ignore[attr-defined]
    if keepdim:
        for d in sorted((row, column)):
            y = y.unsqueeze(d)
    return y  # type: ignore[no-any-return]


@linalg
def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: Dtype | None = None,
) -> Tensor:
    """Return the norm of a vector or of matrices, as `dim` or the number of dimensions says; 2 over everything by
    default.

    >>> import core
    >>> core.linalg.norm(core.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = _cast("norm", A, dtype)
    if ord is None:
        return vector_norm(x, 2, dim, keepdim)
    if dim is None and x.ndim not in (1, 2):
        raise RuntimeError(text("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                                f"{x.ndim}D.", op="linalg.norm", remedy="dim=(-2, -1), or one dim"))  # fmt: skip
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) == 2:
        return matrix_norm(x, ord, dims, keepdim)
    if isinstance(ord, str):
        raise RuntimeError(text(f"linalg.norm: If ord is a str, dim must be a 2-tuple, or the input 2D. Got {ord}",
                                op="linalg.norm"))  # fmt: skip
    return vector_norm(x, ord, dims, keepdim)


@linalg
def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """Return the condition number ``norm(A, p) * norm(inv(A), p)``: how much a solution magnifies an error.

    >>> import core
    >>> core.linalg.cond(core.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    check("cond", A)
    if p in (None, 2, -2):
        s = svdvals(A)
        return s.select(-1, -1) / s.select(-1, 0) if p == -2 else s.select(-1, 0) / s.select(-1, -1)
    check("cond", A, square=True)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise RuntimeError(text(f"linalg.cond got an invalid norm type: {p}", op="linalg.cond"))
    if p == "nuc":  # by the inverse's singular values, which a singular matrix has too
        s = svdvals(A)
        return s.sum(-1) * s.reciprocal().sum(-1)
    try:
        return matrix_norm(A, p) * matrix_norm(_inv(A), p)
    except LinAlgError:
        result = inv_ex(A)
        return matrix_norm(A, p) * matrix_norm(result.inverse, p).nan_to_num(math.inf)


# -- powers ------------------------------------------------------------------------------------------------------------


@linalg
def matrix_power(A: Tensor, n: int) -> Tensor:
    """Return a multiplied n times with itself; for n < 0 its inverse, -n times.

    >>> import core
    >>> core.linalg.matrix_power(core.tensor([[2.0]]), 3)
    tensor([[8.]])
    """
    if not isinstance(A, Tensor) or A.ndim < 2 or A._a.shape[-1] != A._a.shape[-2] or n < 0:
        check("matrix_power", A, square=True)
    base, left = (A, n) if n >= 0 else (_inv(A), -n)
    if n == 0:
        return A.clone().fill_(0) + eye(A._a.shape[-1], dtype=A.dtype, device=A.device)
    y: Tensor | None = None
    while left:
        if left & 1:
            y = base if y is None else matmul(y, base)
        left >>= 1
        if left:
            base = matmul(base, base)
    assert y is not None
    return y.clone() if n == 1 else y


bind(matrix_power, "matrix_power")

# Numerators of the diagonal Padé approximant of degree 13, and the norm up to which it is exact to double rounding:
# N. J. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
         10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0,
         1.0)  # fmt: skip
_THETA = 5.371920351148152


def _exp_forward(xp: Any, x: Any) -> Any:
    a = wide(x)
    a = a.astype(xp.result_type(a.dtype, xp.float64))  # the denominator's solution loses figures
    n = a.shape[-1]
    if not a.size:
        return x.copy()
    norm = float(xp.abs(a).sum(axis=-2).max())
    if not math.isfinite(norm):
        return xp.full_like(x, math.nan)
    squarings = max(0, math.ceil(math.log2(norm / _THETA))) if norm else 0
    a = a / 2**squarings
    one, b = xp.eye(n, dtype=a.dtype), _PADE
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    y = xp.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        y = y @ y
    return rounded(y, x.dtype)


def _exp_vjp(g: Tensor, x: Tensor) -> Tensor:
    """Return the block above the diagonal of exp([[A, G], [0, A]]) is the derivative in direction G (Mathias, 1996)."""
    n = x._a.shape[-1]
    above, below = cat([x.mT, g], -1), cat([x.mT * 0.0, x.mT], -1)
    return _exp(cat([above, below], -2)).narrow(-2, 0, n).narrow(-1, n, n)  # type: ignore[no-any-return]


_exp = operation("matrix_exp", _exp_forward, vjp=_exp_vjp, shape="(n,n)->(n,n)", label="linalg_matrix_exp",
                 samples=lambda rng: [((rng.uniform(-1, 1, s),), {}) for s in ((2, 2), (2, 2, 2))])  # fmt: skip


@linalg
def matrix_exp(A: Tensor) -> Tensor:
    """Return the exponential of square matrices, the sum of ``A^k / k!``.

    *Source*: N. J. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).

    >>> import core
    >>> core.linalg.matrix_exp(core.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    if A.dtype.name in ("float16", "bfloat16"):
        return matrix_exp(A.float()).to(A.dtype)  # type: ignore[attr-defined, no-any-return]
    check("matrix_exp", A, square=True)
    return _exp(A)  # type: ignore[no-any-return]


bind(matrix_exp, "matrix_exp")

# -- products of several, tensors as matrices --------------------------------------------------------------------------


def _best_order(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where to split every product of a chain for the fewest multiplications (Cormen et al., 15.2)."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            split[i, j] = i + int(np.argmin(costs))
            cost[i, j] = min(costs)
    return split


@linalg
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of several matrices, in the order that takes the fewest multiplications; the first and the
    last may be vectors.

    >>> import core
    >>> core.linalg.multi_dot([core.ones(1, 2), core.ones(2, 3), core.ones(3)])
    tensor([6.])
    """
    given = list(tensors)
    if len(given) < 2:
        raise RuntimeError(text(f"multi_dot(): expected at least 2 tensors but got {len(given)}",
                                op="linalg.multi_dot"))  # fmt: skip
    row, column = given[0].ndim == 1, given[-1].ndim == 1
    if row:
        given[0] = given[0].unsqueeze(0)
    if column:
        given[-1] = given[-1].unsqueeze(-1)
    for i, t in enumerate(given):
        if t.ndim != 2:
            raise RuntimeError(text(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D", op="linalg.multi_dot"))
    split = _best_order([given[0]._a.shape[0], *(t._a.shape[1] for t in given)])

    def product(i: int, j: int) -> Tensor:
        return given[i] if i == j else matmul(product(i, split[i, j]), product(split[i, j] + 1, j))

    y = product(0, len(given) - 1)
    y = y.squeeze(0) if row else y
    return y.squeeze(-1) if column else y


def chain_matmul(*matrices: Tensor) -> Tensor:
    """Return the product of several matrices, as `linalg.multi_dot`.

    >>> import core
    >>> core.chain_matmul(core.ones(1, 2), core.ones(2, 1))
    tensor([[2.]])
    """
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(matrices)


bind(chain_matmul, "chain_matmul", method=False)


@linalg
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse of a tensor as a linear map from its last to its first `ind` dimensions.

    >>> import core
    >>> core.linalg.tensorinv(core.eye(4).reshape(2, 2, 4)).shape
    core.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError(text("Expected a strictly positive integer for 'ind'", op="linalg.tensorinv"))
    left, right = tuple(A._a.shape[:ind]), tuple(A._a.shape[ind:])
    if math.prod(left) != math.prod(right):
        raise RuntimeError(text("Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape"
                                f"[:ind]), but got {math.prod(right)} != {math.prod(left)}",
                                op="linalg.tensorinv"))  # fmt: skip
    return _inv(A.reshape(math.prod(left), math.prod(right))).reshape((*right, *left))  # type: ignore[no-any-return]


@linalg
def tensorsolve(A: Tensor, B: Tensor, dims: Sizes | None = None) -> Tensor:
    """Return the X with ``tensordot(A, X, X.ndim) = B``; the dimensions `dims` of A are moved to its end before.

    >>> import core
    >>> core.linalg.tensorsolve(core.eye(4).reshape(2, 2, 4), core.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))  # type: ignore[attr-defined]
    out = tuple(A._a.shape[B.ndim :])
    if math.prod(out) != B.numel():
        raise RuntimeError(text("Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod("
                                f"self.shape[:other.ndim]), but got {math.prod(out)} != {B.numel()}",
                                op="linalg.tensorsolve"))  # fmt: skip
    return solve(A.reshape(B.numel(), B.numel()), B.reshape(-1)).reshape(out)
