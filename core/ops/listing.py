"""Indices and pieces listed: combinations, unravelled indices, pieces that are no views, places of what is not 0."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np

from .. import backends
from ..base import dtypes
from ..base.errors import text
from ..base.shape import Size as Shape
from ..base.shape import broadcast_shapes as _broadcast
from ..declare.kinds import Dim, Ints, Size
from ..dispatch.publish import bind, public
from ..tensors.tensor import Tensor, from_array
from .gathering import nonzero
from .pieces import chunk, diag, narrow, split


@public(method=False)
def broadcast_shapes(*shapes: Size) -> Shape:
    """Return the shape that all broadcast to; a number counts as a shape of one dimension.

    *Raises*: RuntimeError where they do not.

    >>> import core
    >>> core.broadcast_shapes((3, 1), (4,))
    core.Size([3, 4])
    """
    return Shape(_broadcast(*[(s,) if isinstance(s, int) else tuple(s) for s in shapes], op="broadcast_shapes"))


def _chosen(n: int, r: int, with_replacement: bool) -> Any:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(choose(range(n), r)), np.int64).reshape(-1, r)


@lru_cache(16)
def _kept(n: int, r: int, with_replacement: bool) -> Any:
    rows = _chosen(n, r, with_replacement)
    rows.flags.writeable = False
    return rows


_FEW, _PAIRS = 64, 2  # what is kept: of so many elements so many


@public(method=False)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a vector, one a row.

    >>> import core
    >>> core.combinations(core.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(text(f"Expect a 1D vector, but got shape {list(input._a.shape)}", op="combinations"))
    if r < 0:
        raise RuntimeError(text(f"Expect a non-negative number, but got {r}", op="combinations"))
    if r == 0:
        return input.detach()[:0].clone()
    n = input._a.size
    rows = (_kept if n <= _FEW and r <= _PAIRS else _chosen)(n, int(r), bool(with_replacement))
    xp = backends.array_module(input.device.type)
    return input[from_array(xp.asarray(rows), input.device)]


@public()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return the elements of `input`, flattened, on the diagonal of a square matrix.

    >>> import core
    >>> core.diagflat(core.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag(input.reshape(-1), offset)


@public(method=False)
def unravel_index(indices: Tensor, shape: Size) -> tuple[Tensor, ...]:
    """Return the indices in each dimension of `shape` of places counted in row-major order.

    >>> import core
    >>> core.unravel_index(core.tensor([4]), (2, 3))
    (tensor([1]), tensor([1]))
    """
    if not isinstance(indices, Tensor):
        raise TypeError(f"unravel_index(): argument 'indices' must be Tensor, not {type(indices).__name__}")
    if indices.dtype.category != 1:
        raise TypeError(text("expected 'indices' to be integer dtype", op="unravel_index", came=f"{indices.dtype}"))
    sizes = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(text("'shape' cannot have negative values", op="unravel_index", came=f"{sizes}"))
    a, found = indices._a.astype(np.int64), []
    for d, n in enumerate(sizes):
        found.append(from_array(a // math.prod(sizes[d + 1 :]) % n, indices.device))
    return tuple(found)


@public()
def narrow_copy(input: Tensor, dim: Dim, start: int | Tensor, length: int) -> Tensor:
    """As `narrow`, a copy.

    >>> import core
    >>> core.narrow_copy(core.arange(5), 0, 1, 2)
    tensor([1, 2])
    """
    return narrow(input, dim, start, length).clone()


@public()
def unsafe_chunk(input: Tensor, chunks: int, dim: Dim = 0) -> tuple[Tensor, ...]:
    """As `chunk`; that the pieces may not be written in place is checked all the same.

    >>> import core
    >>> core.unsafe_chunk(core.arange(3), 3)[2]
    tensor([2])
    """
    return chunk(input, chunks, dim)


@public()
def unsafe_split(tensor: Tensor, split_size: Ints, dim: Dim = 0) -> tuple[Tensor, ...]:
    """As `split`; that the pieces may not be written in place is checked all the same.

    >>> import core
    >>> core.unsafe_split(core.arange(3), 2)[1]
    tensor([2])
    """
    return split(tensor, split_size, dim)


bind(unsafe_split, "unsafe_split_with_sizes")


@public()
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the first `size` indices where `input` is not 0, as rows; what is missing is `fill_value`.

    >>> import core
    >>> core.nonzero_static(core.tensor([0, 5]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(text(f"nonzero_static: 'size' must be an non-negative integer, got {size}",
                                op="nonzero_static"))  # fmt: skip
    found = nonzero(input)._a[:size]
    xp = backends.array_module(input.device.type)
    rows = xp.full((size, input.ndim), fill_value, dtypes.int64.numpy)
    rows[: found.shape[0]] = found
    return from_array(rows, input.device)
