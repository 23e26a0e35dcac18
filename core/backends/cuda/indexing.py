"""Rows of look-ups and their reverse: embedding, index, index_put, gather, scatter, one-hot, unpooling.

What adds up does so in a fixed order: places are sorted (stably) and summed by segments, without atomics. An index out
of range is noted by the kernel and raised where the host next waits for the GPU (notes.py), under the interpreter at
once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import Row
from .faults import class_slot, index_slot
from .shared import array_library, empty, floating, name

_REAL = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
_SUMMED = tuple(n for n in _REAL if n not in ("uint8", "bool"))


def _real(x: Any, among: tuple[str, ...] = _REAL) -> str | None:
    return None if x.dtype.name in among else f"takes {', '.join(among)}, got {x.dtype}"


def _whole(*indices: Any) -> str | None:
    for i in indices:
        if i is not None and i.dtype.name not in ("int64", "int32"):
            return f"takes int64 and int32 indices, got {i.dtype}"
    return None


def _dense(a: Any) -> Any:
    return a if a.flags.c_contiguous else array_library().ascontiguousarray(a)


def _around(a: Any, dim: int, count: int = 1) -> Any:
    """Return an array as (outer, n, inner), n being the `count` dimensions from `dim` on."""
    shape = a.shape
    return _dense(a).reshape(
        math.prod(shape[:dim]), math.prod(shape[dim : dim + count]), math.prod(shape[dim + count :])
    )


def _sorted(places: Any) -> tuple[Any, Any]:
    """Return the places in order, and where each was: equal places keep theirs."""
    order = array_library().argsort(places, kind="stable")
    return places[order], order


def _add_up(rows: Any, places: Any, out: Any, add: bool, skip: int = -1) -> None:
    """``out[o, places[j]] += rows[o, j]``, all three-dimensional and dense."""
    from triton_kernels import segments

    if rows.size:
        segments.segment_sum(rows, *_sorted(places), out, add=add, skip=skip)


# -- a table's rows ----------------------------------------------------------------------------------------------------


def _embedding(weight: Any, index: Any, **_: Any) -> Any:
    from triton_kernels import indexing

    n, width = weight.shape
    out = empty((*index.shape, width), weight.dtype)
    indexing.take_forward(_dense(weight)[None], _dense(index).reshape(-1), out.reshape(1, index.size, width),
                          fault=index_slot("embedding", n))  # fmt: skip
    return out


def _embedding_sum(g: Any, index: Any, count: int, padding_idx: int) -> Any:
    width = g.shape[-1]
    out = array_library().zeros((count, width), g.dtype)
    if g.size:
        _add_up(_dense(g).reshape(1, -1, width), _dense(index).reshape(-1), out[None], False, padding_idx)
    return out


def _embedding_declines(g: Any, index: Any, scale_grad_by_freq: bool = False) -> str | None:
    return floating(g) or (None if index.dtype == np.int64 else f"takes int64 indices, got {index.dtype}") or (
        "does not scale by frequency" if scale_grad_by_freq else None)  # fmt: skip


# -- index tensors in brackets -----------------------------------------------------------------------------------------


class _Bracket:
    """What ``x[key]`` means: the places of the index tensors in their dimensions of x, merged into one."""

    def __init__(self, shape: tuple[int, ...], indices: tuple[Any, ...], where: tuple[bool, ...], op: str) -> None:
        from triton_kernels import indexing

        xp = array_library()
        given = [i for i in indices if i is not None]
        dims = [d for d, used in enumerate(where) if used]
        self.together = dims == list(range(dims[0], dims[-1] + 1))
        self.dims, self.count = dims, len(dims)
        rest = [d for d in range(len(shape)) if d not in dims]
        self.order = None if self.together else [*dims, *rest]  # apart: they go to the front, as in NumPy
        self.dim = dims[0] if self.together else 0
        self.moved = shape if self.order is None else tuple(shape[d] for d in self.order)
        self.index_shape = np.broadcast_shapes(*(i.shape for i in given))
        self.m = math.prod(self.index_shape)
        self.result = (*self.moved[: self.dim], *self.index_shape, *self.moved[self.dim + self.count :])
        self.places = None
        for d, i in zip(dims, given, strict=True):
            i = _dense(xp.broadcast_to(i, self.index_shape)).reshape(-1)
            out = empty((self.m,), np.int64)
            n = shape[d]
            indexing.place_step(self.places, i, n, out, fault=index_slot(op, n, d, low=-n))
            self.places = out

    def seen(self, x: Any, moved: bool = False) -> Any:
        """x as (outer, n, inner); `moved` where its dimensions are in order already."""
        return _around(x if moved or self.order is None else x.transpose(self.order), self.dim, self.count)

    def rows(self, values: Any) -> Any:
        """Something of the shape of ``x[key]`` as (outer, m, inner)."""
        return values.reshape(
            math.prod(self.result[: self.dim]), self.m, math.prod(self.moved[self.dim + self.count :])
        )

    def back(self, y: Any) -> Any:
        """Return (outer, n, inner) in the shape of x."""
        y = y.reshape(self.moved)
        return y if self.order is None else y.transpose(np.argsort(self.order).tolist())


def _index(x: Any, *indices: Any, where: tuple[bool, ...]) -> Any:
    from triton_kernels import indexing

    if where.count(True) == 1 and indices[0] is not None:
        d, i = where.index(True), indices[0]
        seen, n = _around(x, d), x.shape[d]
        out = empty((seen.shape[0], i.size, seen.shape[2]), x.dtype)
        indexing.take_forward(seen, _dense(i).reshape(-1), out, wrap=True, fault=index_slot("index", n, d, low=-n))
        return out.reshape(*x.shape[:d], *i.shape, *x.shape[d + 1 :])
    key = _Bracket(x.shape, indices, where, "index")
    seen = key.seen(x)
    out = empty((seen.shape[0], key.m, seen.shape[2]), x.dtype)
    indexing.take_forward(seen, key.places, out)
    return out.reshape(key.result)


def _index_backward(g: Any, *indices: Any, where: tuple[bool, ...], shape: tuple[int, ...]) -> Any:
    key = _Bracket(tuple(shape), indices, where, "index")
    rows = _dense(key.rows(g))
    out = array_library().zeros((rows.shape[0], math.prod(key.moved[key.dim : key.dim + key.count]), rows.shape[2]),
                                g.dtype)  # fmt: skip
    _add_up(rows, key.places, out, False)
    return key.back(out)


def _index_put(x: Any, values: Any, *indices: Any, where: tuple[bool, ...], accumulate: bool) -> Any:
    xp = array_library()
    key = _Bracket(x.shape, indices, where, "index_put_")
    out = key.seen(xp.array(x if key.order is None else x.transpose(key.order), order="C", copy=True), moved=True)
    values = _values(values, key.result)
    if accumulate:
        _add_up(_dense(key.rows(xp.broadcast_to(values, key.result))), key.places, out, True)
    else:
        _put_at(out, values, key)
    return key.back(out)


def _values(values: Any, shape: tuple[int, ...]) -> Any:
    """Leading 1s of what is assigned may go."""
    return values.reshape(values.shape[max(values.ndim - len(shape), 0) :])


def _put_at(out: Any, values: Any, key: _Bracket) -> None:
    from triton_kernels import indexing

    xp = array_library()
    if values.size == 1:  # it does not matter which of equal places comes last
        shape = (out.shape[0], key.m, out.shape[2])
        indexing.put_forward(xp.broadcast_to(values.reshape(()), shape), key.places, None, out)
    else:
        places, order = _sorted(key.places)
        indexing.put_forward(_dense(key.rows(xp.broadcast_to(values, key.result))), places, order, out)


def put_into(x: Any, values: Any, indices: tuple[Any, ...], where: tuple[bool, ...]) -> bool:
    """``x[key] = values`` in the memory of `x`, the last of equal places staying; False for what is not taken."""
    if _put_declines(x, values, indices, where, False) or not x.flags.c_contiguous:
        return False
    key = _Bracket(x.shape, indices, where, "index_put_")
    if key.order is not None:
        return False
    _put_at(key.seen(x), _values(values, key.result), key)
    return True


def _index_declines(x: Any, indices: tuple[Any, ...], shape: tuple[int, ...], where: tuple[bool, ...],
                    among: tuple[str, ...] = _REAL) -> str | None:  # fmt: skip
    given = [i for i in indices if i is not None]
    if not given:
        return "needs an index tensor"
    if any(used and not shape[d] for d, used in enumerate(where)):
        return "takes no empty dimension to index"
    try:
        np.broadcast_shapes(*(i.shape for i in given))
    except ValueError:
        return "takes index tensors that broadcast"
    return _real(x, among) or _whole(*given)


def _put_declines(
    x: Any, values: Any, indices: tuple[Any, ...], where: tuple[bool, ...], accumulate: bool
) -> str | None:
    if values.dtype != x.dtype:
        return f"takes one type, got {x.dtype} and {values.dtype}"
    return _index_declines(x, indices, x.shape, where, _SUMMED if accumulate else _REAL)


# -- an index an element -----------------------------------------------------------------------------------------------


def _within(a: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Return the part of `a` that an index of `shape` reaches, whole along `dim`, as (outer, n, inner)."""
    key = tuple(slice(None) if d == dim else slice(0, n) for d, n in enumerate(shape))
    return _around(a[key], dim)


def _gather(x: Any, index: Any, dim: int) -> Any:
    from triton_kernels import indexing

    at = _around(index, dim)
    out = empty(at.shape, x.dtype)
    indexing.gather_forward(_within(x, index.shape, dim), at, out,
                            fault=index_slot("gather", x.shape[dim], dim, RuntimeError))  # fmt: skip
    return out.reshape(index.shape)


def _places_along(shape: tuple[int, ...], index: Any, dim: int, op: str) -> Any:
    """Return the flat places of an index along `dim` in a dense array of `shape`, equal in the other dimensions."""
    from triton_kernels import indexing

    at = _around(index, dim)
    places = empty(at.shape, np.int64)
    indexing.along_places(at, shape[dim], places, fault=index_slot(op, shape[dim], dim, RuntimeError))
    return places.reshape(-1)


def _scattered(x: Any, index: Any, src: Any, dim: int, op: str, add: bool) -> Any:
    """Return a copy of x with `src` put at, or added to, the places of `index`."""
    from triton_kernels import indexing

    out = array_library().array(x, order="C", copy=True)
    if not index.size:
        return out
    part = tuple(slice(None) if d == dim else slice(0, n) for d, n in enumerate(index.shape))
    whole = out[part].shape == out.shape
    inner = out if whole else _dense(out[part])
    places = _places_along(inner.shape, index, dim, op)
    flat = inner.reshape(1, -1, 1)
    rows = _around(src, dim).reshape(1, -1, 1)
    if add:
        _add_up(rows, places, flat, True)
    else:
        indexing.put_forward(rows, *_sorted(places), flat)
    if not whole:
        out[part] = inner
    return out


def _gather_backward(g: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    return _scattered(array_library().zeros(shape, g.dtype), index, g, dim, "gather", True)


def _along_declines(x: Any, index: Any, src: Any = None, among: tuple[str, ...] = _REAL) -> str | None:
    if src is not None and src.dtype != x.dtype:
        return f"takes one type, got {x.dtype} and {src.dtype}"
    return _real(x, among) or _whole(index) or ("takes no 0-d tensors" if not index.ndim else None)


def _one_hot(index: Any, classes: int) -> Any:
    from triton_kernels import indexing

    out = empty((*index.shape, classes), np.int64)
    if out.size:
        indexing.one_hot_forward(_dense(index).reshape(-1), out.reshape(-1, classes),
                                 fault=class_slot("one_hot", classes))  # fmt: skip
    return out


# -- places that count through the last dimensions, as max_pool gives them ---------------------------------------------


def _pool_gather(x: Any, indices: Any, n: int) -> Any:
    from triton_kernels import indexing

    lead = x.ndim - n
    seen, at = _around(x, lead, n), _around(indices, lead, indices.ndim - lead)
    y = empty(at.shape, x.dtype)
    indexing.gather_forward(seen, at, y, fault=index_slot("max_unpool", seen.shape[1], error=RuntimeError))
    return y.reshape(indices.shape)


def _pool_scatter(x: Any, indices: Any, sizes: Any, add: bool) -> Any:
    from triton_kernels import indexing

    lead, count = x.shape[: x.ndim - len(sizes)], math.prod(sizes)
    out = array_library().zeros((*lead, *sizes), x.dtype)
    if x.size:
        at = _around(indices, len(lead), len(sizes))
        places = empty(at.shape, np.int64)
        indexing.along_places(at, count, places, fault=index_slot("max_unpool", count, error=RuntimeError))
        rows, flat = _dense(x).reshape(1, -1, 1), out.reshape(1, -1, 1)
        if add:
            _add_up(rows, places.reshape(-1), flat, False)
        else:
            indexing.put_forward(rows, *_sorted(places.reshape(-1)), flat)
    return out


ROWS = {
    "embedding": Row("take_kernel", name, _embedding, lambda weight, index, **_: _real(weight) or _whole(index)),
    "embedding.backward": Row("segment_sum_kernel", name,
                              lambda g, index, weight_shape, padding_idx, **_:
                              (_embedding_sum(g, index, weight_shape[0], padding_idx), None),
                              lambda g, index, scale_grad_by_freq, **_:
                              _embedding_declines(g, index, scale_grad_by_freq)),
    "embedding_backward": Row("segment_sum_kernel", name,
                              lambda g, index, count, padding_idx, **_: _embedding_sum(g, index, count, padding_idx),
                              lambda g, index, scale_grad_by_freq, **_:
                              _embedding_declines(g, index, scale_grad_by_freq)),
    "index": Row("take_kernel", name, _index,
                 lambda x, *indices, where: _index_declines(x, indices, x.shape, where)),
    "index_backward": Row("segment_sum_kernel", name, _index_backward,
                          lambda g, *indices, where, shape: _index_declines(g, indices, shape, where, _SUMMED)),
    "index_put": Row("put_kernel", name, _index_put,
                     lambda x, values, *indices, where, accumulate:
                     _put_declines(x, values, indices, where, accumulate)),
    "gather": Row("gather_kernel", name, _gather, lambda x, index, dim: _along_declines(x, index)),
    "gather_backward": Row("segment_sum_kernel", name, _gather_backward,
                           lambda g, index, shape, dim: _along_declines(g, index, among=_SUMMED)),
    "scatter_add": Row("segment_sum_kernel", name,
                       lambda x, index, src, dim: _scattered(x, index, src, dim, "scatter_add", True),
                       lambda x, index, src, dim: _along_declines(x, index, src, _SUMMED)),
    "scatter": Row("put_kernel", name, lambda x, index, src, dim: _scattered(x, index, src, dim, "scatter", False),
                   lambda x, index, src, dim: _along_declines(x, index, src)),
    "pool_gather": Row("gather_kernel", name, _pool_gather, lambda x, indices, n: _real(x) or _whole(indices)),
    "pool_scatter": Row("put_kernel", name, _pool_scatter, lambda x, indices, sizes, add:
                        "puts, and does not add" if add else _real(x) or _whole(indices)),
    "one_hot_rows": Row("one_hot_kernel", name, _one_hot, lambda index, classes: _whole(index)),
}  # fmt: skip
SUMS = {
    "pool_scatter": Row("segment_sum_kernel", name, _pool_scatter,
                        lambda x, indices, sizes, add: _real(x, _SUMMED) or _whole(indices)),
}  # fmt: skip
