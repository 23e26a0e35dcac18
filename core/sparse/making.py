"""Making sparse tensors: from places and values, and from dense tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import layouts
from ..base.dtypes import int64
from ..base.errors import text
from ..base.modes import state as mode
from ..dispatch.sparse import SparseTensor, made
from ..ops.creation import as_tensor, empty
from ..tensors.tensor import Tensor


def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Sequence[int] | None = None, *, dtype: Any = None,
                      device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None, is_coalesced: bool | None = None) -> Tensor:  # fmt: skip
    """Return a sparse tensor of values at places; values at equal places add up.

    indices : ``(sparse_dim, nnz)``, a column a value. values : ``(nnz, *dense dimensions)``; on the graph if they are.
    size : by default what the greatest places ask for. ``sparse_coo_tensor(size)`` has no values yet.
    is_coalesced : a promise that the places are in order and once each.

    *Raises*: RuntimeError for as many values as there are no places, or places outside of `size`.

    >>> import core
    >>> core.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:
        shape = _sizes(size if size is not None else indices)
        index, held = empty(len(shape), 0, dtype=int64, device=device), empty(0, dtype=dtype, device=device)
    else:
        held = as_tensor(values, dtype=dtype, device=device)
        index = as_tensor(indices, device=device if device is not None else held.device).detach().long()  # type: ignore[attr-defined]
        held, index = _arranged(held, index)
        shape = _size(index, held, size)
    return _finished("sparse_coo", (index,), held, shape, requires_grad, bool(is_coalesced))


def _sizes(size: Any) -> tuple[int, ...]:
    """Return a size as a tuple. *Raises*: TypeError for what is none."""
    size = (size,) if isinstance(size, int) else size
    plain = isinstance(size, Sequence) and not isinstance(size, str)
    if not plain or not all(isinstance(n, int | np.integer) for n in size):
        raise TypeError(text("sparse_coo_tensor(): argument 'size' must be tuple of ints, not "
                             f"{type(size).__name__}", op="sparse_coo_tensor", came=f"{size!r:.60}"))  # fmt: skip
    return tuple(int(n) for n in size)


def _arranged(held: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    if index.ndim != 2:
        raise RuntimeError(text("indices must be sparse_dim x nnz, but got: " + str(list(index.shape)),
                                op="sparse_coo_tensor", needed="two dimensions"))  # fmt: skip
    if held.ndim == 0:
        held = held.reshape(1)  # type: ignore[attr-defined]
    if held.shape[0] != index.shape[1]:
        raise RuntimeError(text("indices and values must have same nnz, but got nnz from indices: "
                                f"{index.shape[1]}, nnz from values: {held.shape[0]}", op="sparse_coo_tensor",
                                came=f"indices {tuple(index.shape)}, values {tuple(held.shape)}"))  # fmt: skip
    return held, index


def _size(index: Tensor, held: Tensor, size: Any) -> tuple[int, ...]:
    at, n, rest = index._a, index.shape[0], tuple(held.shape[1:])
    least = [int(row.min()) if row.size else 0 for row in at]
    most = [int(row.max()) + 1 if row.size else 0 for row in at]
    for d, low in enumerate(least):
        if low < 0:
            raise RuntimeError(text(f"found negative index {low} for dim {d}", op="sparse_coo_tensor"))
    if size is None:
        return (*most, *rest)
    shape = tuple(int(s) for s in size)
    if len(shape) != n + len(rest):
        raise RuntimeError(text("'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
                                f"{len(shape)}, sparse_dim = {n}, dense_dim = {len(rest)}",
                                op="sparse_coo_tensor"))  # fmt: skip
    for d, high in enumerate(most):
        if high > shape[d]:
            raise RuntimeError(text("size is inconsistent with indices: for dim "
                                    f"{d}, size is {shape[d]} but found index {high - 1}", op="sparse_coo_tensor",
                                    needed=f"places from 0 to {shape[d] - 1}"))  # fmt: skip
    if shape[n:] != rest:
        raise RuntimeError(text(f"values has incorrect size, expected {[held.shape[0], *shape[n:]]}, got "
                                f"{list(held.shape)}", op="sparse_coo_tensor"))  # fmt: skip
    return shape


def _finished(layout: str, places: tuple[Tensor, ...], held: Tensor, shape: Sequence[int], requires_grad: bool,
              coalesced: bool = False) -> SparseTensor:  # fmt: skip
    """Return the tensor: on the graph where its values are, else a leaf of its own."""
    if held.requires_grad and mode.enabled and not requires_grad:
        held = held.view(held.shape)  # type: ignore[attr-defined] # the values are a leaf of theirs
    else:
        held = held.detach().requires_grad_(requires_grad)
    return made(layout, places, held, shape, coalesced)


def _of_compressed(layout: str, ends: Any, inner: Any, values: Any, size: Any, dtype: Any, device: Any,
                   requires_grad: bool) -> Tensor:  # fmt: skip
    op = layout + "_tensor"
    held = as_tensor(values, dtype=dtype, device=device)
    where = device if device is not None else held.device
    ends, inner = (as_tensor(i, device=where).detach().long() for i in (ends, inner))  # type: ignore[attr-defined]
    if ends.ndim != 1 or inner.ndim != 1 or held.ndim != 1:
        raise RuntimeError(text(f"{op}: batches of matrices and blocks of values are not taken", op=op,
                                came=f"indices {tuple(inner.shape)}, values {tuple(held.shape)}",
                                needed="three vectors", remedy="one sparse tensor a matrix"))  # fmt: skip
    e, i = ends._a, inner._a
    if i.shape[0] != held.shape[0]:
        raise RuntimeError(text("number of elements in indices and values must be the same", op=op,
                                came=f"{i.shape[0]} and {held.shape[0]}"))  # fmt: skip
    if not e.size or int(e[0]) != 0 or int(e[-1]) != i.shape[0] or bool((e[1:] < e[:-1]).any()):
        raise RuntimeError(text("`compressed_indices` must start with 0, not fall, and end with the number of values",
                                op=op, came=f"{e.tolist()!s:.80}", needed=f"0, ..., {i.shape[0]}"))  # fmt: skip
    by_rows = layout == "sparse_csr"
    if size is None:
        pair = (len(e) - 1, int(i.max()) + 1 if i.size else 0)
        shape = pair if by_rows else pair[::-1]
    else:
        shape = tuple(int(s) for s in size)  # type: ignore[assignment]
        lines, width = (shape if by_rows else shape[::-1]) if len(shape) == 2 else (-1, -1)
        if lines != len(e) - 1 or (i.size and not (int(i.min()) >= 0 and int(i.max()) < width)):
            raise RuntimeError(text(f"{op}: size is inconsistent with indices", op=op, came=f"size {shape}",
                                    needed=f"{len(e) - 1} {'rows' if by_rows else 'columns'} and room for the "
                                    "indices"))  # fmt: skip
    return _finished(layout, (ends, inner), held, shape, requires_grad)


def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, *,
                      dtype: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """Return a matrix by its rows: the values of row i are those from ``crow_indices[i]`` to ``crow_indices[i + 1]``.

    *Raises*: RuntimeError for indices that do not fit one another or `size`.

    >>> import core
    >>> core.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    return _of_compressed("sparse_csr", crow_indices, col_indices, values, size, dtype, device, requires_grad)


def sparse_csc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[int] | None = None, *,
                      dtype: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
                      check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """Return a matrix by its columns, as `sparse_csr_tensor` by its rows.

    >>> import core
    >>> core.sparse_csc_tensor([0, 1, 2], [1, 0], [3.0, 4.0], (2, 2)).to_dense()
    tensor([[0., 4.],
            [3., 0.]])
    """
    return _of_compressed("sparse_csc", ccol_indices, row_indices, values, size, dtype, device, requires_grad)


def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any,
                             size: Sequence[int] | None = None, *, dtype: Any = None, layout: Any = None,
                             device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
                             check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """Return a matrix by its rows or columns, as `layout` says: ``core.sparse_csr`` or ``core.sparse_csc``.

    >>> import core
    >>> core.sparse_compressed_tensor([0, 1], [0], [5.0], layout=core.sparse_csr).to_dense()
    tensor([[5.]])
    """
    if layout not in (layouts.sparse_csr, layouts.sparse_csc):
        raise RuntimeError(text(f"expected sparse compressed tensor layout but got {layout}",
                                op="sparse_compressed_tensor", needed="core.sparse_csr or core.sparse_csc",
                                remedy="core.sparse_coo_tensor for places of every dimension"))  # fmt: skip
    return _of_compressed(layout.name, compressed_indices, plain_indices, values, size, dtype, device, requires_grad)
