"""Reductions: sum, mean, and what else makes one number of many."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..binding import public
from ..dtypes import dtype as Dtype
from ..op import operation
from ..shape import normalize_dims
from ..tensor import Tensor


def _kept(shape: tuple[int, ...], dim: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if i in dim else n for i, n in enumerate(shape))


def reduction_samples(rng: Any) -> list[Any]:
    """Argument sets of a reduction over `dim` with `keepdim`."""
    x = rng.uniform(-2, 2, (2, 3, 4))
    return [
        ((x,), {"dim": d, "keepdim": k}) for d, k in [((0, 1, 2), False), ((1,), False), ((2,), True), ((0, 2), True)]
    ]


def _sum_vjp(g: Tensor, x_shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> Tensor:
    return g.reshape(_kept(x_shape, dim)).expand(x_shape)  # type: ignore[attr-defined, no-any-return]


_sum = operation("sum", lambda xp, x, dim, keepdim: x.sum(axis=dim, keepdims=keepdim, dtype=x.dtype),
                 params={"dim": (), "keepdim": False}, vjp=_sum_vjp, samples=reduction_samples)  # fmt: skip


@public()
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """The sum over all elements, or over `dim` (one or several). Integers and bools sum to int64.

    *Shapes*: the dimensions in `dim` vanish, or become 1 with `keepdim`.

    >>> import core
    >>> core.sum(core.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    d = dtype or (dtypes.int64 if input.dtype.category < 2 else None)
    x = input if d is None else input.to(d)  # type: ignore[attr-defined]
    return _sum(x, dim=normalize_dims(dim, input.ndim, "sum"), keepdim=keepdim)


_ = np
