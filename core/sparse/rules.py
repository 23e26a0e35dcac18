"""What ops make of sparse tensors: by the property of the op where there is one, else by a rule of its own.

An elementwise op of one tensor that maps 0 to 0 is one of the values alone: whether it does is tried, not listed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.sparse_array import refuse, unflat
from ..base import dtypes
from ..base.errors import text
from ..declare import op as declarations
from ..declare.op import Elementwise, Operation
from ..dispatch import elementwise, structured
from ..dispatch.sparse import SparseTensor, connect, made
from ..ops.creation import zeros
from ..ops.indexing import index_put
from ..tensors.tensor import Tensor, wrap
from .pattern import as_coo, as_layout, coalesced, grouped_sum, library, places
from .products import product, runs

_f = declarations.functions
LINEAR = {"neg", "real", "imag", "conj", "cast"}  # f(a + b) = f(a) + f(b): equal places need not be brought together


def _first(args: Any) -> SparseTensor:
    return next(a for a in args if isinstance(a, SparseTensor))


# -- elementwise -------------------------------------------------------------------------------------------------------


def run_map(op: Elementwise, args: tuple[Any, ...], params: Any) -> Any:
    """Run an elementwise op of which an operand is sparse."""
    rule = MAPS.get(op.name)
    if rule is not None:
        return rule(op, args)
    x = _first(args)
    if len([a for a in args if isinstance(a, Tensor)]) == 1 and x is args[0]:
        like = zeros(1, dtype=x.dtype)
        at_zero = elementwise.call_map(op, (like, *args[1:]), params)
        if not at_zero._a.any():
            whole = x if op.name in LINEAR else coalesced(x)
            return _back(x, whole.with_values(elementwise.call_map(op, (whole._held, *args[1:]), params)))
    return refuse(op.label, x._a.layout, x._a.shape)


def _back(like: SparseTensor, y: SparseTensor) -> SparseTensor:
    return as_layout(y, like._a.layout)


def _number(a: Any) -> bool:
    """Return whether an operand is one number, the same for all elements."""
    return not isinstance(a, Tensor) or (a.ndim == 0 and not isinstance(a, SparseTensor))


def _mul(op: Elementwise, args: tuple[Any, ...]) -> Any:
    a, b = args
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if _number(b):
        return a.with_values(elementwise.call_map(op, (a._held, b)))
    if isinstance(b, SparseTensor):
        return _back(a, _common(op, a, b))
    return _back(a, _with_dense(op, a, b))


def _div(op: Elementwise, args: tuple[Any, ...]) -> Any:
    a, b = args
    if not isinstance(a, SparseTensor) or not _number(b):
        shape = list(b._a.shape) if isinstance(b, Tensor) else []
        phrase = f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        raise RuntimeError(text(phrase, op=op.label, remedy="x * (1 / y), or x.to_dense() / y"))
    return a.with_values(elementwise.call_map(op, (a._held, b)))


def _with_dense(op: Elementwise, a: SparseTensor, b: Tensor) -> SparseTensor:
    """Return the values with those of a dense tensor that stand at their places."""
    x = as_coo(a)
    other: Any = b if b._a.shape == a._a.shape else b.expand(a._a.shape)  # type: ignore[attr-defined]
    index = x._places[0]
    at = other[tuple(index[k] for k in range(index.shape[0]))]
    return x.with_values(elementwise.call_map(op, (x._held, at)))


def _common(op: Elementwise, a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Return the products at the places that both have."""
    _same_shape(op, a, b)
    x, y, xp = coalesced(a), coalesced(b), library(a)
    (left, mine), (right, theirs) = (_numbers(t) for t in (x, y))
    n = x._a.index[0].shape[0]
    if y._a.index[0].shape[0] != n:
        refuse(op.label, "sparse_coo", b._a.shape)
    both, i, j = (np.intersect1d(left, right, assume_unique=True, return_indices=True) if xp is np
                  else _intersection(xp, left, right))  # fmt: skip
    values = elementwise.call_map(op, (x._held[places(mine[i], a.device)], y._held[places(theirs[j], a.device)]))
    index = places(unflat(xp, both, a._a.shape[:n]), a.device)
    return made("sparse_coo", (index,), values, a._a.shape, True)


def _intersection(xp: Any, left: Any, right: Any) -> tuple[Any, Any, Any]:
    both = xp.intersect1d(left, right)
    return both, xp.searchsorted(left, both), xp.searchsorted(right, both)


def _numbers(x: SparseTensor) -> tuple[Any, Any]:
    """Return the row-by-row numbers of a tensor's places, and how they are numbered themselves."""
    xp, index, n = library(x), x._a.index[0], 0
    for k in range(index.shape[0]):
        n = n * x._a.shape[k] + index[k]
    return n, xp.arange(index.shape[1])


def _same_shape(op: Elementwise, a: Tensor, b: Tensor) -> None:
    if a._a.shape != b._a.shape:
        raise RuntimeError(text(f"{op.label}: expected 'self' and 'other' to have same size, but self has size "
                                f"{list(a._a.shape)} while other has size {list(b._a.shape)}", op=op.label,
                                remedy="to_dense() broadcasts"))  # fmt: skip


def _add(op: Elementwise, args: tuple[Any, ...]) -> Any:
    """Add or subtract: sparse with sparse joins the places, dense with sparse is dense."""
    a, b = args
    if not isinstance(b, SparseTensor):
        raise RuntimeError(text("add(sparse, dense) is not supported. Use add(dense, sparse) instead.", op=op.label,
                                came=f"a tensor of layout {a._a.layout} and a dense one or a number",
                                remedy="dense + sparse, or x.to_dense() + y"))  # fmt: skip
    if not isinstance(a, SparseTensor):
        if not isinstance(a, Tensor) or a.ndim < b.ndim:
            refuse(op.label, b._a.layout, b._a.shape)
        _same_shape(op, a, b)
        y = coalesced(b) if op.name == "sub" or b.dtype.category == 0 else as_coo(b)
        if not y._held.numel():
            return a + y._held.sum() if b.requires_grad else a.clone()  # type: ignore[attr-defined]
        values = -y._held if op.name == "sub" else y._held  # type: ignore[operator]
        index, kind = y._places[0], dtypes.promote_types(a.dtype, b.dtype)
        return index_put(a.to(kind), [index[k] for k in range(index.shape[0])], values.to(kind), accumulate=True)  # type: ignore[attr-defined]
    _same_shape(op, a, b)
    if a._a.layout != "sparse_coo" or b._a.layout != "sparse_coo":
        return _back(a, coalesced(_joined(op, as_coo(a), as_coo(b))))
    if a._a.coalesced and b._a.coalesced:
        return coalesced(_joined(op, a, b))
    if a._a.index[0].shape == b._a.index[0].shape and (a._a.index[0] == b._a.index[0]).all():
        return a.with_values(elementwise.call_map(op, (a._held, b._held)))
    return _joined(op, a, b)


def _joined(op: Elementwise, a: SparseTensor, b: SparseTensor) -> SparseTensor:
    xp = library(a)
    if a._a.index[0].shape[0] != b._a.index[0].shape[0]:
        refuse(op.label, "sparse_coo", b._a.shape)
    kind = dtypes.promote_types(a.dtype, b.dtype)
    values = -b._held if op.name == "sub" else b._held  # type: ignore[operator]
    held = _f["cat"]([a._held.to(kind), values.to(kind)])  # type: ignore[attr-defined]
    index = xp.concatenate([a._a.index[0], b._a.index[0]], 1)
    return made("sparse_coo", (places(index, a.device),), held, a._a.shape)


def _pow(op: Elementwise, args: tuple[Any, ...]) -> Any:
    x, exponent = args
    if not isinstance(x, SparseTensor) or isinstance(exponent, Tensor) or exponent <= 0:
        return refuse(op.label, _first(args)._a.layout, _first(args)._a.shape)
    whole = coalesced(x)
    return _back(x, whole.with_values(elementwise.call_map(op, (whole._held, exponent))))


MAPS: dict[str, Callable[[Elementwise, tuple[Any, ...]], Any]] = {
    "mul": _mul, "true_divide": _div, "add": _add, "sub": _add, "pow": _pow,
}  # fmt: skip


# -- structured --------------------------------------------------------------------------------------------------------


def run_operation(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a structured op of which an operand is sparse."""
    rule = RULES.get(op.name)
    found = None if rule is None else rule(op, tensors, params)
    if found is None:
        x = _first(tensors)
        refuse(op.label, x._a.layout, x._a.shape)
    return found


def _of_values(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Ops that take every element by itself, and keep the places."""
    x = tensors[0]
    y = x.with_values(structured.call_operation(op, (x._held,), params))
    if op.name == "clone":
        return made(x._a.layout, tuple(p.clone() for p in x._places), y._held, x._a.shape, x._a.coalesced)
    if y.device is not x.device:
        return made(x._a.layout, tuple(p.to(y.device) for p in x._places), y._held, x._a.shape, x._a.coalesced)
    return y


def _matmul(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    return product(*tensors)


def _sum(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    (x,) = tensors
    dims = tuple(params["dim"])
    n = as_coo(x)._a.index[0].shape[0]
    if len(dims) == x.ndim or (not dims and x.ndim == 0):
        total = x._held.sum()
        return total.reshape((1,) * x.ndim) if params["keepdim"] else total
    if params["keepdim"]:
        return None
    return summed(coalesced(x), [d for d in range(n) if d in dims], [d - n for d in dims if d >= n])


def summed(x: SparseTensor, sparse: list[int], inner: list[int]) -> Tensor:
    """Return the sum over sparse dimensions and over those of the values; dense where no sparse one is left."""
    values: Any = x._held.sum([d + 1 for d in inner]) if inner else x._held  # type: ignore[attr-defined]
    index, n = x._a.index[0], x._a.index[0].shape[0]
    kept = [d for d in range(n) if d not in sparse]
    if not kept:
        return values.sum(0)  # type: ignore[no-any-return]
    shape = (*(x._a.shape[d] for d in kept), *values.shape[1:])
    return coalesced(made("sparse_coo", (places(index[kept], x.device),), values, shape, not sparse and x._a.coalesced))


def _permuted(x: SparseTensor, order: tuple[int, ...]) -> Any:
    y, n = as_coo(x), as_coo(x)._a.index[0].shape[0]
    if sorted(order[:n]) != list(range(n)):  # places and values would have to be exchanged
        return None
    values: Any = y._held.permute(0, *(d - n + 1 for d in order[n:]))  # type: ignore[attr-defined]
    shape = tuple(x._a.shape[d] for d in order)
    index = places(y._a.index[0][list(order[:n])], x.device)
    moved = made("sparse_coo", (index,), values, shape, x._a.coalesced and list(order[:n]) == list(range(n)))
    if x._a.layout == "sparse_coo":
        return moved
    other = {"sparse_csr": "sparse_csc", "sparse_csc": "sparse_csr"}[x._a.layout]
    return as_layout(moved, other if order == (1, 0) else x._a.layout)


def _transpose(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    (x,) = tensors
    order = list(range(x.ndim))
    a, b = (0, x.ndim - 1) if op.name == "t" else (params["dim0"], params["dim1"])
    order[a], order[b] = order[b], order[a]
    return _permuted(x, tuple(order))


def _permute(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    return _permuted(tensors[0], tuple(params["dims"]))


def _unsqueeze(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    x, d = as_coo(tensors[0]), params["dim"]
    index, xp = x._a.index[0], library(x)
    n = index.shape[0]
    shape = (*x._a.shape[:d], 1, *x._a.shape[d:])
    if d > n:
        return made("sparse_coo", x._places, x._held.unsqueeze(d - n + 1), shape, x._a.coalesced)  # type: ignore[attr-defined]
    wider = xp.concatenate([index[:d], xp.zeros((1, index.shape[1]), index.dtype), index[d:]])
    return made("sparse_coo", (places(wider, x.device),), x._held, shape, x._a.coalesced)


def _select(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """``x[i]``, ``x[i, j]``, ``x[:, j]``: the slices at single places of sparse dimensions."""
    x = as_coo(tensors[0])
    key = [k for k in params["key"] if k is not Ellipsis]
    n = x._a.index[0].shape[0]
    if len(key) > n or not all(isinstance(k, int) or k == slice(None) for k in key):
        return None
    at = {d: k % x._a.shape[d] for d, k in enumerate(key) if isinstance(k, int)}
    index, xp = x._a.index[0], library(x)
    there = xp.ones(index.shape[1], bool)
    for d, k in at.items():
        there &= index[d] == k
    which = places(xp.nonzero(there)[0], x.device)
    kept = [d for d in range(n) if d not in at]
    values: Any = x._held[which]
    if not kept:
        return values.sum(0)
    shape = (*(x._a.shape[d] for d in kept), *x._a.shape[n:])
    return made("sparse_coo", (places(index[kept][:, which._a], x.device),), values, shape, x._a.coalesced)


def _unbind(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    x, before = tensors[0], (slice(None),) * params["dim"]
    found = [_select(op, (x,), {"key": (*before, k)}) for k in range(x._a.shape[params["dim"]])]
    return None if any(y is None for y in found) else tuple(found)


def _cat(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    if not all(isinstance(t, SparseTensor) for t in tensors):
        raise RuntimeError(text("Concatenating sparse tensors, but a dense tensor was found", op="cat",
                                remedy="to_sparse() or to_dense() to make them alike"))  # fmt: skip
    many, d = [as_coo(t) for t in tensors], params["dim"]
    xp, n = library(many[0]), many[0]._a.index[0].shape[0]
    shape = list(many[0]._a.shape)
    if d >= n or any(t._a.index[0].shape[0] != n for t in many):
        return None
    indices, start = [], 0
    for t in many:
        index = t._a.index[0].copy()
        index[d] += start
        start += t._a.shape[d]
        indices.append(index)
    shape[d] = start
    return made("sparse_coo", (places(xp.concatenate(indices, 1), many[0].device),), _f["cat"]([t._held for t in many]),
                shape)  # fmt: skip


def _stack(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    return _f["cat"]([t.unsqueeze(params["dim"]) for t in tensors], params["dim"])


def _index(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """``x.index_select(d, i)`` of a sparse dimension: a slice for each place, as often as it is named."""
    x, where = coalesced(tensors[0]), params["where"]
    index, xp, n = x._a.index[0], library(x), x._a.index[0].shape[0]
    if sum(map(bool, where)) != 1 or where.index(True) >= n or len([t for t in tensors[1:] if t is not None]) != 1:
        return None
    d = where.index(True)
    wanted = next(t for t in tensors[1:] if t is not None)._a % max(x._a.shape[d], 1)
    order = xp.argsort(index[d], kind="stable")
    line = index[d][order]
    starts, ends = xp.searchsorted(line, wanted, "left"), xp.searchsorted(line, wanted, "right")
    which, at = runs(xp, starts, ends - starts)
    picked = order[at]
    moved = index[:, picked]
    moved[d] = which
    shape = (*x._a.shape[:d], len(wanted), *x._a.shape[d + 1 :])
    return made("sparse_coo", (places(moved, x.device),), x._held[places(picked, x.device)], shape)


def _norm(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Norms over all elements: zeros add nothing to them."""
    (x,) = tensors
    if len(params.get("dim", ())) not in (0, x.ndim) or params.get("keepdim"):
        return None
    p = params.get("p", params.get("ord", 2))
    return coalesced(x)._held.reshape(-1).norm(p) if p > 0 else None  # type: ignore[attr-defined, operator]


def _any(op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
    (x,) = tensors
    if params.get("keepdim") or len(params["dim"]) not in (0, x.ndim):
        return None
    return coalesced(x)._held.any()  # type: ignore[attr-defined]


RULES: dict[str, Callable[[Operation, tuple[Any, ...], dict[str, Any]], Any]] = {
    "clone": _of_values, "cast": _of_values, "move": _of_values, "matmul": _matmul, "sum": _sum, "t": _transpose,
    "transpose": _transpose, "permute": _permute, "unsqueeze": _unsqueeze, "select": _select, "cat": _cat,
    "stack": _stack,
    "unbind": _unbind, "norm": _norm, "vector_norm": _norm, "any": _any,
    "index": _index,
}  # fmt: skip
connect(run_map, run_operation)


def constant(a: Any, like: Tensor) -> Tensor:
    """Return an array as a tensor of the kind of another, outside the graph."""
    return wrap(np.broadcast_to(a, like._a.shape) if isinstance(a, np.generic) else a, like._kind)


__all__ = ["constant", "grouped_sum", "run_map", "run_operation"]
