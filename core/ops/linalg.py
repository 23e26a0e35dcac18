"""Matrix products."""

from __future__ import annotations

from typing import Any

from ..binding import bind
from ..errors import text
from ..op import operation
from ..tensor import Tensor


def _matmul_a(g: Tensor, b: Tensor, a_shape: tuple[int, ...]) -> Tensor:
    return matmul(g, b.mT).sum_to_size(a_shape)  # type: ignore[attr-defined, no-any-return]


def _matmul_b(g: Tensor, a: Tensor, b_shape: tuple[int, ...]) -> Tensor:
    return matmul(a.mT, g).sum_to_size(b_shape)  # type: ignore[attr-defined, no-any-return]


def _samples(rng: Any) -> list[Any]:
    shapes = [((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 1, 2, 3), (3, 3, 2))]
    return [((rng.uniform(-1, 1, a), rng.uniform(-1, 1, b)), {}) for a, b in shapes]


_matmul = operation("matmul", lambda xp, a, b: xp.matmul(a, b), inputs="a b", shape="(m,k),(k,n)->(m,n)",
                    vjp=(_matmul_a, _matmul_b), samples=_samples)  # fmt: skip


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product; of vectors the inner product, of stacks of matrices one product each.

    *Shapes*: ``(..., m, k) @ (..., k, n) -> (..., m, n)``, leading dimensions broadcast; a vector on the left is a row,
    on the right a column. *Raises*: RuntimeError where the inner sizes differ.

    >>> import core
    >>> core.matmul(core.tensor([[1.0, 2.0]]), core.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    a, b = input, other
    if not isinstance(b, Tensor) or not isinstance(a, Tensor):
        raise TypeError(f"matmul(): argument 'other' must be Tensor, not {type(b).__name__}")
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(text("both arguments to matmul need to be at least 1D, but they are "
                                f"{a.ndim}D and {b.ndim}D", op="matmul", remedy="x * y for a scalar"))  # fmt: skip
    if a._kind is not b._kind and a._kind.device is b._kind.device:
        raise RuntimeError(text(f"expected m1 and m2 to have the same dtype, but got: {a.dtype.name} != {b.dtype.name}",
                                op="matmul", remedy=f"x.to({a.dtype!r})"))  # fmt: skip
    if a._a.shape[-1] != b._a.shape[-2 if b.ndim > 1 else 0]:
        raise RuntimeError(
            text(
                f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a._a.shape))} and "
                f"{'x'.join(map(str, b._a.shape))})",
                op="matmul",
                came=f"{tuple(a._a.shape)} @ {tuple(b._a.shape)}",
                needed=f"equal inner sizes, not {a._a.shape[-1]} and {b._a.shape[-2 if b.ndim > 1 else 0]}",
                remedy="transpose one (.mT), or check the layer's in_features",
            )  # fmt: skip
        )
    if a.ndim > 1 and b.ndim > 1:
        return _matmul(a, b)  # type: ignore[no-any-return]
    row, column = a.ndim == 1, b.ndim == 1
    y = _matmul(a.reshape(1, -1) if row else a, b.reshape(-1, 1) if column else b)  # type: ignore[attr-defined]
    shape = tuple(y.shape)
    shape = shape[:-2] + (() if row else (shape[-2],)) + (() if column else (shape[-1],))
    return y.reshape(shape)  # type: ignore[no-any-return]


bind(matmul, "matmul")
Tensor.__matmul__ = matmul  # type: ignore[attr-defined]
Tensor.__rmatmul__ = lambda self, other: matmul(other, self)  # type: ignore[attr-defined]
