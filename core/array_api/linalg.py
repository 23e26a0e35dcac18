"""Linear algebra by the array API standard: ``xp.linalg``, and its four functions that ``xp`` has too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..dispatch.publish import namespaces
from ..tensors.tensor import Tensor
from .creation import named
from .manipulation import broadcast_arrays
from .promotion import together

_f, _linalg = namespaces[""], namespaces["linalg"]


def _unary(name: str) -> Callable[[Tensor], Any]:
    op = _linalg[name]

    def function(x: Tensor, /) -> Any:
        return op(x)

    return named(function, name, f"linalg.{name}")


det, eigh, eigvalsh, inv, slogdet, svdvals = map(_unary, ("det", "eigh", "eigvalsh", "inv", "slogdet", "svdvals"))


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Return the lower (`upper`: the upper) triangular factor of positive definite matrices.

    >>> import core.array_api as xp
    >>> xp.linalg.cholesky(4 * xp.eye(1))
    tensor([[2.]])
    """
    return _linalg["cholesky"](x, upper=upper)  # type: ignore[no-any-return]


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the cross products of vectors of three elements along an axis.

    >>> import core.array_api as xp
    >>> xp.linalg.cross(xp.asarray([1, 0, 0]), xp.asarray([0, 1, 0]))
    tensor([0, 0, 1])
    """
    return _linalg["cross"](*broadcast_arrays(*together(x1, x2)), dim=axis)  # type: ignore[no-any-return]


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Return the diagonals of matrices.

    >>> import core.array_api as xp
    >>> xp.linalg.diagonal(xp.eye(2))
    tensor([1., 1.])
    """
    return _linalg["diagonal"](x, offset=offset)  # type: ignore[no-any-return]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the matrix product.

    >>> import core.array_api as xp
    >>> xp.matmul(xp.asarray([1, 2]), xp.asarray([3, 4]))
    tensor(11)
    """
    return _f["matmul"](*together(x1, x2))  # type: ignore[no-any-return]


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Return the norms of matrices.

    >>> import core.array_api as xp
    >>> xp.linalg.matrix_norm(xp.asarray([[3.0, 4.0]]))
    tensor(5.)
    """
    return _linalg["matrix_norm"](x, ord, keepdim=keepdims)  # type: ignore[no-any-return]


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Return powers of square matrices, of their inverses for a negative `n`.

    >>> import core.array_api as xp
    >>> xp.linalg.matrix_power(2 * xp.eye(1), 3)
    tensor([[8.]])
    """
    return _linalg["matrix_power"](x, n)  # type: ignore[no-any-return]


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return how many singular values are above `rtol` times the greatest.

    >>> import core.array_api as xp
    >>> xp.linalg.matrix_rank(xp.ones((2, 2)))
    tensor(1)
    """
    return _linalg["matrix_rank"](x, rtol=rtol)  # type: ignore[no-any-return]


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Return the transposes of matrices. *Raises*: ValueError for fewer than two dimensions.

    >>> import core.array_api as xp
    >>> xp.matrix_transpose(xp.ones((4, 2, 3))).shape
    core.Size([4, 3, 2])
    """
    if x.ndim < 2:
        raise ValueError(text("matrices are required", op="matrix_transpose", came=f"shape {tuple(x.shape)}"))
    return _f["transpose"](x, -2, -1)  # type: ignore[no-any-return]


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the products of every element of a vector with every one of another.

    >>> import core.array_api as xp
    >>> xp.linalg.outer(xp.asarray([1, 2]), xp.asarray([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    return _f["outer"](*together(x1, x2))  # type: ignore[no-any-return]


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return pseudo-inverses, singular values up to `rtol` times the greatest being taken for 0.

    >>> import core.array_api as xp
    >>> xp.linalg.pinv(2 * xp.eye(1))
    tensor([[0.5000]])
    """
    return _linalg["pinv"](x, rtol=rtol)  # type: ignore[no-any-return]


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """Return orthonormal ``Q`` and upper triangular ``R`` with the product `x`.

    >>> import core.array_api as xp
    >>> xp.linalg.qr(xp.ones((3, 2))).Q.shape
    core.Size([3, 2])
    """
    return _linalg["qr"](x, mode)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the solution of ``x1 @ x = x2``; `x2` is a vector where it has one dimension, else matrices.

    >>> import core.array_api as xp
    >>> xp.linalg.solve(2 * xp.eye(2), xp.asarray([2.0, 4.0]))
    tensor([1., 2.])
    """
    a, b = together(x1, x2)
    if b.ndim == 1:  # a vector for each of the matrices
        return _linalg["solve"](a, b.unsqueeze(-1)).squeeze(-1)  # type: ignore[attr-defined,no-any-return]
    # PyTorch would read matrices with one dimension less than `a` as vectors
    return _linalg["solve"](a, b.reshape((1,) * (a.ndim - b.ndim) + tuple(b.shape)))  # type: ignore[attr-defined,no-any-return]


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Return singular vectors ``U``, values ``S`` and adjoint right vectors ``Vh``.

    >>> import core.array_api as xp
    >>> xp.linalg.svd(xp.ones((3, 2)), full_matrices=False).U.shape
    core.Size([3, 2])
    """
    return _linalg["svd"](x, full_matrices)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Return the sums of products over pairs of axes.

    >>> import core.array_api as xp
    >>> xp.tensordot(xp.ones((2, 3)), xp.ones((3, 4)), axes=1).shape
    core.Size([2, 4])
    """
    return _f["tensordot"](*together(x1, x2), axes)  # type: ignore[no-any-return]


def trace(x: Tensor, /, *, offset: int = 0, dtype: Dtype | None = None) -> Tensor:
    """Return the sums of the diagonals of matrices.

    >>> import core.array_api as xp
    >>> xp.linalg.trace(xp.eye(3))
    tensor(3.)
    """
    return _f["sum"](diagonal(x, offset=offset), -1, dtype=dtype)  # type: ignore[no-any-return]


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the dot products along an axis, of the conjugate of `x1` with `x2`.

    >>> import core.array_api as xp
    >>> xp.vecdot(xp.asarray([1, 2]), xp.asarray([3, 4]))
    tensor(11)
    """
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(text("the axes differ in length", op="vecdot", needed=f"the same along axis {axis}",
                              came=f"shapes {tuple(x1.shape)} and {tuple(x2.shape)}"))  # fmt: skip
    a, b = together(x1, x2)
    return _f["sum"](_f["conj"](a) * b, axis, dtype=a.dtype)  # type: ignore[no-any-return]


def vector_norm(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False,
                ord: float = 2) -> Tensor:  # fmt: skip
    """Return the norms of vectors along axes, of all elements where none is named.

    >>> import core.array_api as xp
    >>> xp.linalg.vector_norm(xp.asarray([3.0, 4.0]))
    tensor(5.)
    """
    if axis == ():
        return _linalg["vector_norm"](x.unsqueeze(-1), ord, -1)  # type: ignore[attr-defined,no-any-return]
    return _linalg["vector_norm"](x, ord, axis, keepdims)  # type: ignore[no-any-return]


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip
