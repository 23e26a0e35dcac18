"""Rows of a table of small numbers by index, widened as they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends import has_values
from ...base import dtypes
from ...base.errors import text
from ...dispatch.declare import operation
from ...dispatch.publish import public
from ...tensors.tensor import Tensor
from ..precision import rounded, wide
from .weights import _widened_int4


def _check(xp: Any, op: str, index: Any, n: int) -> None:
    if has_values(xp) and index.size and (int(index.min()) < 0 or int(index.max()) >= n):
        bad = int(index.min()) if int(index.min()) < 0 else int(index.max())
        raise IndexError(text("index out of range in self", op=op, came=f"index {bad}",
                              needed=f"0 to {n - 1}, the table's rows"))  # fmt: skip


def _int8_forward(xp: Any, weight: Any, index: Any, scale: Any) -> Any:
    _check(xp, "int8_embedding", index, weight.shape[0])
    of_rows = wide(scale)
    rows = xp.take(weight, index, axis=0).astype(of_rows.dtype)
    return rounded(rows * (xp.take(of_rows, index)[..., None] if scale.ndim else of_rows), scale.dtype)


def _int4_forward(xp: Any, weight: Any, index: Any, scale: Any, zero: Any) -> Any:
    _check(xp, "int4_embedding", index, weight.shape[0])
    at = index.reshape(-1)
    rows = _widened_int4(xp, *(xp.take(a, at, axis=0) for a in (weight, scale, zero)))
    return rounded(rows.reshape(*index.shape, 2 * weight.shape[1]), scale.dtype)


def _int8_samples(rng: Any) -> list[Any]:
    weight, scale = rng.integers(-128, 128, (4, 5), np.int8), rng.uniform(0.01, 0.02, 4)
    return [((weight, rng.integers(0, 4, shape), s), {})
            for shape, s in (((2, 3), scale), ((), scale), ((6,), np.asarray(0.5)))]  # fmt: skip


def _int4_samples(rng: Any) -> list[Any]:
    weight = rng.integers(0, 256, (4, 6), np.uint8)
    scale, zero = rng.uniform(0.1, 0.2, (4, 3)), rng.uniform(0, 15, (4, 3))
    return [((weight, rng.integers(0, 4, shape), scale, zero), {}) for shape in ((2, 3), (), (6,))]


_int8: Any = operation("int8_embedding", _int8_forward, inputs="weight index scale", samples=_int8_samples,
                       doc="Rows of a table of 8 bits by index, times their scales.")  # fmt: skip
_int4: Any = operation("int4_embedding", _int4_forward, inputs="weight index scale zero", samples=_int4_samples,
                       doc="Rows of a table of 4 bits by index, as numbers.")  # fmt: skip


def _index(op: str, indices: Any, weight: Any, kind: Any, *others: Any) -> Tensor:
    for name, t in (("indices", indices), ("weight", weight)):
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}(): argument '{name}' must be Tensor, not {type(t).__name__}")
    if indices.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            text("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
                 f"but got torch.{indices.dtype.scalar_type}Tensor instead (while checking arguments for {op})", op=op,
                 remedy="indices.long()"))  # fmt: skip
    if weight.dtype is not kind or weight.ndim != 2:
        raise RuntimeError(text(f"expected a table of {kind} in two dimensions", op=op,
                                came=f"weight of {weight.dtype} in {weight.ndim} dimensions"))  # fmt: skip
    if any(t.dtype is not others[0].dtype or t.dtype.category != 2 for t in others):
        raise RuntimeError(text("expected scales and zeros of one floating type", op=op,
                                came=", ".join(str(t.dtype) for t in others)))  # fmt: skip
    return indices if indices.dtype is dtypes.int64 else indices.to(dtypes.int64)


@public(method=False, namespace=None)
def int8_embedding(indices: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """Return the rows of a table of int8 that `indices` name, times their scales.

    *Shapes*: indices ``(...)`` of int64 or int32, weight ``(n, d)``, scale ``(n)`` or ``()`` -> ``(..., d)`` of the
    scale's type. *Raises*: IndexError for an index that is no row.

    >>> import core
    >>> from core.ops.quantised import int8_embedding
    >>> table = core.tensor([[2, 4], [1, -3]], dtype=core.int8)
    >>> int8_embedding(core.tensor([1]), table, core.tensor([1.0, 0.5]))
    tensor([[ 0.5000, -1.5000]])
    """
    op = "int8_embedding"
    index = _index(op, indices, weight, dtypes.int8, scale)
    if tuple(scale._a.shape) not in ((), (weight._a.shape[0],)):
        raise RuntimeError(text("expected a scale for each row, or one for all", op=op,
                                came=f"scale {tuple(scale.shape)}, weight {tuple(weight.shape)}"))  # fmt: skip
    return _int8(weight, index, scale)  # type: ignore[no-any-return]


@public(method=False, namespace=None)
def int4_embedding(indices: Tensor, weight: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Return the rows of a table of 4 bits that `indices` name, as numbers: ``(q - zero) * scale``.

    The table lies as the weight of `weight_int4_linear`: two q a byte, the first in the low half; a scale and a zero
    for each of the groups that a row is divided into.

    *Shapes*: indices ``(...)`` of int64 or int32, weight ``(n, d / 2)``, scale and zero ``(n, groups)`` -> ``(..., d)``
    of the scale's type. *Raises*: IndexError for an index that is no row.

    >>> import core
    >>> from core.ops.quantised import int4_embedding, quantised_int4
    >>> table = quantised_int4(core.tensor([[0.0, 15.0, 7.0, 1.0]]), group=4)
    >>> int4_embedding(core.tensor([0]), *table)
    tensor([[ 0., 15.,  7.,  1.]])
    """
    op = "int4_embedding"
    index = _index(op, indices, weight, dtypes.uint8, scale, zero)
    n, width = weight._a.shape[0], 2 * weight._a.shape[1]
    groups = scale._a.shape[-1] if scale.ndim else 0
    if tuple(scale._a.shape) != (n, groups) or zero._a.shape != scale._a.shape or not groups or width % groups:
        raise RuntimeError(text("expected a scale and a zero for each group of a row", op=op,
                                came=f"scale {tuple(scale.shape)}, zero {tuple(zero.shape)}, weight "
                                f"{tuple(weight.shape)}"))  # fmt: skip
    return _int4(weight, index, scale, zero)  # type: ignore[no-any-return]
