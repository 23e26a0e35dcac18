"""Places of sparse tensors: in order and once each, as COO and as compressed rows or columns, and with their zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import backends
from ..backends.sparse_array import flat, refuse, unflat
from ..base.device import device
from ..base.errors import text
from ..dispatch.sparse import SparseTensor, made
from ..ops.creation import zeros
from ..ops.gathering import index_add, nonzero
from ..ops.indexing import index_put
from ..tensors.tensor import Tensor, from_array

Names = {"strided": "Strided", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc"}


def library(x: Tensor) -> Any:
    """Return the array library of a tensor's device."""
    return backends.array_module(x._kind.device.type)


def places(a: Any, where: device) -> Tensor:
    """Return an array of places as a tensor of int64."""
    return from_array(a.astype(np.int64, copy=False), where)


def need(op: str, x: Any, *layouts: str, said: str) -> SparseTensor:
    """RuntimeError for a tensor of another layout, as PyTorch says it; else the tensor."""
    have = x._a.layout if isinstance(x, SparseTensor) else "strided"
    if have in layouts:
        return x  # type: ignore[no-any-return]
    remedy = "x.to_sparse()" if layouts == ("sparse_coo",) else "x.to_sparse_csr()" if have == "strided" else ""
    raise RuntimeError(text(f"{op} expected {said} tensor layout but got {Names.get(have, have)}", op=op,
                            came=f"a tensor of layout {have}", needed=" or ".join(layouts), remedy=remedy))  # fmt: skip


# -- COO ---------------------------------------------------------------------------------------------------------------


def coalesced(x: SparseTensor) -> SparseTensor:
    """Return the tensor with its places in order and once each; the values of equal ones are added, in their order."""
    x = as_coo(x)
    a = x._a
    if a.coalesced:
        return x
    index, values, xp, where = a.index[0], x._held, library(x), x.device
    n = index.shape[0]
    numbers = flat(xp, index, a.shape)
    once, group = xp.unique(numbers, return_inverse=True)
    group = group.reshape(-1)
    if len(once) == len(numbers):
        order = xp.argsort(numbers, kind="stable")
        index, held = index[:, order], values[places(order, where)]
    else:
        held = grouped_sum(values, group, len(once))
        index = unflat(xp, once, a.shape[:n])
    return made("sparse_coo", (places(index, where),), held, a.shape, True)


def grouped_sum(values: Tensor, group: Any, count: int) -> Tensor:
    """Return the sums of the values of each group, on the graph; truths are joined by or."""
    rest, where = tuple(values.shape[1:]), values.device
    if values.dtype.category == 0:
        return grouped_sum(values.long(), group, count) != 0  # type: ignore[attr-defined]
    out = zeros(count, *rest, dtype=values.dtype, device=where)
    return index_add(out, 0, places(group, where), values)


def dense(x: SparseTensor) -> Tensor:
    """Return all elements, zeros too, on the graph."""
    x = as_coo(x)
    index, n = x._places[0], x._a.index[0].shape[0]
    out = zeros(*x._a.shape, dtype=x.dtype, device=x.device)
    if x.dtype.category == 0:
        x = coalesced(x)
        index = x._places[0]
    if n == 0:
        return out + x._held.sum(0)  # type: ignore[attr-defined, no-any-return]
    if not x._held.numel() or not out.numel():
        return out + x._held.sum().to(x.dtype) if x.requires_grad else out  # type: ignore[attr-defined, no-any-return]
    return index_put(out, [index[k] for k in range(n)], x._held, accumulate=x.dtype.category != 0)


def sparse_of(x: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """Return a dense tensor's elements that are not zero (of hybrid ones: whole slices), on the graph."""
    n = x.ndim if sparse_dim is None else sparse_dim
    if not 0 <= n <= x.ndim or (n == 0 and x.ndim):
        raise RuntimeError(text(f"sparse_dim argument must be in [1,{x.ndim}] range, but {n} is given",
                                op="to_sparse"))  # fmt: skip
    there = x != 0  # type: ignore[comparison-overlap]
    if n < x.ndim:
        there = there.reshape(*x.shape[:n], math.prod(x.shape[n:])).any(-1)  # type: ignore[attr-defined]
    index = nonzero(there).t() if x.ndim else there.reshape(1, -1)[:, : int(there)].long()[:0]  # type: ignore[attr-defined]
    values = x[tuple(index[k] for k in range(n))] if n else x.reshape(1)[: int(there)]  # type: ignore[index, call-overload, attr-defined]
    return made("sparse_coo", (index.contiguous(),), values, x._a.shape, True)


# -- compressed rows and columns ---------------------------------------------------------------------------------------


def as_coo(x: SparseTensor) -> SparseTensor:
    """Return the tensor as COO; of compressed rows the places are in order."""
    a = x._a
    if a.layout == "sparse_coo":
        return x
    xp = library(x)
    ends, inner = a.index
    outer = xp.repeat(xp.arange(len(ends) - 1), xp.diff(ends).tolist() if xp is not np else np.diff(ends))
    index = xp.stack([outer, inner] if a.layout == "sparse_csr" else [inner, outer])
    in_order = a.layout == "sparse_csr" and _ascending(xp, flat(xp, index, a.shape))
    return made("sparse_coo", (places(index, x.device),), x._held, a.shape, in_order)


def _ascending(xp: Any, numbers: Any) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def compressed(x: SparseTensor, layout: str) -> SparseTensor:
    """Return a matrix as compressed rows or columns."""
    if x._a.layout == layout:
        return x
    if x.ndim != 2 or x._a.values.ndim != 1:
        raise RuntimeError(text(f"to_{layout}: Expected a matrix", op=f"to_{layout}", came=f"shape {tuple(x.shape)}",
                                needed="two sparse dimensions", remedy="x.to_sparse() for others"))  # fmt: skip
    x, by = coalesced(x), int(layout == "sparse_csc")
    index, values, xp = x._a.index[0], x._held, library(x)
    if by:
        order = xp.argsort(index[1], kind="stable")
        index, values = index[:, order], values[places(order, x.device)]
    ends = xp.zeros(x._a.shape[by] + 1, np.int64)
    ends[1:] = xp.cumsum(xp.bincount(index[by], minlength=x._a.shape[by]))
    return made(layout, (places(ends, x.device), places(index[1 - by].copy(), x.device)), values, x._a.shape)


def as_layout(x: SparseTensor, layout: str) -> SparseTensor:
    """Return the tensor in a layout of this module."""
    if layout == "sparse_coo":
        return as_coo(x)
    if layout not in ("sparse_csr", "sparse_csc"):
        refuse("to_" + layout, layout, x._a.shape)
    return compressed(x, layout)
