"""Elements that move: joined, picked, put, sorted, repeated, made from numbers; and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..declare import expr
from ..declare import op as declarations
from ..declare.expr import s
from .ir import Sized
from .lower_views import diagonal, expand, permute, reshape, sliced
from .lowering import COPY, LOWERED, Builder, Size, lowers
from .plan import BYTES, Index, View, refused
from .polynomial import Count, Poly, product

_BELOW = expr.trace("below", lambda row, column, diagonal: column <= row + diagonal, ["row", "column"], ["diagonal"])
_ABOVE = expr.trace("above", lambda row, column, diagonal: column >= row + diagonal, ["row", "column"], ["diagonal"])
_STEPS = expr.trace("steps", lambda k, start, step: start + k * step, ["k", "start", "step"])
_CHOICE = expr.trace("choose", lambda c, a, b: s.where(c, a, b), ["c", "a", "b"], bools=["c"])
_ROW_TYPES = {"float32": "f32", "int64": "i64"}


def where(b: Builder, condition: Any, x: Any, y: Any) -> View:
    """Return x where the condition holds, else y."""
    dtype = next(v.dtype for v in (x, y) if isinstance(v, View))
    return b.ew(_CHOICE, condition, x, y, dtype=dtype)


# -- made from numbers -------------------------------------------------------------------------------------------------


@lowers("full")
def _full(b: Builder, node: Any, shape: Sequence[Count], value: Any, dtype: str) -> View:
    if isinstance(value, Poly | Sized):
        return b.ew(COPY, value, dtype=dtype, shape=tuple(shape))
    return fill_with(b, shape, value, dtype)


def fill_with(b: Builder, shape: Sequence[Count], value: Any, dtype: str) -> View:
    """Return one number, seen as many times as the shape has elements."""
    one = b.constant(np.full((), value, dtype))
    return View(one.buffer, tuple(shape), (0,) * len(shape))


@lowers("arange")
def _arange(b: Builder, node: Any, start: Any, end: Any, step: Any, dtype: str) -> View:
    n = node.outputs[0].shape[0]
    count = -((start - end) // step) if all(isinstance(x, int | Poly) for x in (start, end, step)) else b.counted(n)
    return b.ew(_STEPS, Index(0), start, step, dtype=dtype, shape=(count,))


@lowers("tril", "triu")
def _triangle(b: Builder, node: Any, x: View, diagonal: int) -> View:
    rank = len(x.shape)
    test = _BELOW if node.op == "tril" else _ABOVE
    kept = b.ew(test, Index(rank - 2), Index(rank - 1), params=(diagonal,), dtype="bool", kind="int64", shape=x.shape)
    return where(b, kept, x, 0)


@lowers("diagonal_mask")
def _diagonal_mask(b: Builder, node: Any, x: View, n: Count) -> View:
    return b.ew("eq", Index(0), Index(1), dtype="bool", kind="int64", shape=(n, n))


@lowers("one_hot_rows")
def _one_hot(b: Builder, node: Any, index: View, classes: Count) -> View:
    rows = View(index.buffer, (*index.shape, 1), (*index.strides, 0), index.offset)
    shape = (*index.shape, classes)
    same = b.ew("eq", rows, Index(len(index.shape)), dtype="bool", kind="int64", shape=shape)
    return b.copy(same, "int64")


@lowers("fill")
def _fill(b: Builder, node: Any, x: View, value: Any) -> View:
    return _full(b, node, x.shape, value, x.dtype)


@lowers("cast")
def _cast(b: Builder, node: Any, x: View, dtype: Any) -> View:
    name = node.outputs[0].dtype
    return x if name == x.dtype else b.copy(x, name)


@lowers("clone", "contiguous", "constant", "move", "piecewise")
def _clone(b: Builder, node: Any, x: View, *others: Any, **params: Any) -> View:
    """Return the value itself: no value of a program changes."""
    return x


@lowers("copy")
def _copy(b: Builder, node: Any, x: View, source: Any) -> View:
    if not isinstance(source, View):
        return _full(b, node, x.shape, source, x.dtype)
    source = expand(b, node, source, x.shape)
    return source if source.dtype == x.dtype else b.copy(source, x.dtype)


@lowers("put")
def _put(b: Builder, node: Any, base: View, values: Any, path: Any) -> View:
    out = b.new(base.shape, base.dtype)
    b.copy(base, out=out)
    place = out
    for name, step, which in path:
        found = LOWERED[name](b, _Step(name, node, which), place, **dict(step))
        place = found if which is None else found[which]
        if place.buffer is not out.buffer:
            raise refused(node, "a write through a view that is a copy", "write to the tensor itself")
    values = values if isinstance(values, View) else b.constant(np.asarray(values, base.dtype))
    b.copy(expand(b, node, values, place.shape), out=place)
    return out


class _Step:
    """A step of a path as a node."""

    def __init__(self, op: str, node: Any, which: int | None) -> None:
        self.op, self.line = op, node.line
        self.outputs = (None,) * ((which or 0) + 1)


# -- joined ------------------------------------------------------------------------------------------------------------


@lowers("cat")
def cat(b: Builder, node: Any, *tensors: View, dim: int) -> View:
    """Join along an axis."""
    dim %= len(tensors[0].shape)
    total: Count = 0
    for x in tensors:
        total = total + x.shape[dim]
    first = tensors[0].shape
    dtype = node.outputs[0].dtype if node.op in ("cat", "stack") else tensors[0].dtype
    out = b.new((*first[:dim], total, *first[dim + 1 :]), dtype, "cat")
    at: Count = 0
    for x in tensors:
        part = View(out.buffer, (*first[:dim], x.shape[dim], *first[dim + 1 :]), out.strides, at * out.strides[dim])
        b.copy(x, out=part)
        at = at + x.shape[dim]
    return out


@lowers("stack")
def _stack(b: Builder, node: Any, *tensors: View, dim: int) -> View:
    rank = len(tensors[0].shape) + 1
    dim %= rank
    wide = [View(x.buffer, (*x.shape[:dim], 1, *x.shape[dim:]), (*x.strides[:dim], 0, *x.strides[dim:]), x.offset)
            for x in tensors]  # fmt: skip
    return cat(b, node, *wide, dim=dim)


@lowers("constant_pad")
def pad(b: Builder, node: Any, x: View, border: Any, value: float) -> View:
    """Surround with a value, or cut off where the border is negative."""
    for n in (n for pair in border for n in pair if not isinstance(n, int)):
        b.check(0, "<=", n, "a border that depends on sizes adds")
    shape = [n + a + c for n, (a, c) in zip(x.shape, border, strict=True)]
    there = tuple(slice(_added(a), n - _added(c)) for n, (a, c) in zip(shape, border, strict=True))
    here = tuple(slice(_cut(a), n - _cut(c)) for n, (a, c) in zip(x.shape, border, strict=True))
    return _set_in(b, node, shape, value, sliced(b, node, x, here), lambda out: sliced(b, node, out, there))


def _added(border: Count) -> Count:
    return max(border, 0) if isinstance(border, int) else border


def _cut(border: Count) -> Count:
    return max(-border, 0) if isinstance(border, int) else 0


def _set_in(b: Builder, node: Any, shape: Sequence[Count], value: float, x: View,
            place: Callable[[View], View]) -> View:  # fmt: skip
    """Return an array of one number, with `x` in that view of it which `place` gives."""
    out = b.new(shape, x.dtype)
    b.ew(COPY, _full(b, node, shape, value, x.dtype), out=out)
    b.copy(x, out=place(out))
    return out


@lowers("roll")
def _roll(b: Builder, node: Any, x: View, shifts: Sequence[int], dims: Sequence[int]) -> View:
    if not dims:
        return reshape(b, node, _roll(b, node, reshape(b, node, x, (x.size,)), shifts, (0,)), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        n = x.shape[dim]
        k = shift % n if isinstance(n, int) else shift
        if not isinstance(n, int):
            b.check(abs(shift), "<=", n, "roll by at most the size")
        cut = n - k if not isinstance(k, int) or k >= 0 else -k
        before = (slice(None),) * (dim % len(x.shape))
        x = cat(b, node, sliced(b, node, x, (*before, slice(cut, None))), sliced(b, node, x, (*before, slice(0, cut))),
                dim=dim)  # fmt: skip
    return x


@lowers("slice_backward")
def _slice_backward(b: Builder, node: Any, g: View, shape: Any, key: Any) -> View:
    return _set_in(b, node, shape, 0, g, lambda out: sliced(b, node, out, key))


@lowers("diagonal_backward")
def _diagonal_backward(b: Builder, node: Any, g: View, shape: Any, offset: int, dim1: int, dim2: int) -> View:
    return _set_in(b, node, shape, 0, g, lambda out: diagonal(b, node, out, offset, dim1, dim2))


# -- picked and put ----------------------------------------------------------------------------------------------------


def _whole(b: Builder, x: View) -> View:
    return x if x.dtype == "int64" else b.copy(x, "int64")


def _places(b: Builder, node: Any, x: View, indices: Sequence[View], where_: Sequence[bool]) -> Any:
    """Return x with the indexed axes together, how many axes come before, the indices' shape, and the offsets."""
    if any(i.dtype in ("bool", "uint8") for i in indices):
        raise refused(node, "an index that is a mask", "core.where(mask, x, 0)")
    axes = [k for k, w in enumerate(where_) if w]
    lead = axes[0]
    if axes != list(range(lead, lead + len(axes))):
        x = b.dense(permute(b, node, x, axes + [k for k in range(len(x.shape)) if k not in axes]))
        lead = 0
    shape = b.broadcast([i.shape for i in indices])
    places = b.new((product(shape),), "int64", "places")
    step: Count = product(x.shape[lead + len(axes) :])
    for k in reversed(range(len(axes))):
        index = b.dense(expand(b, node, _whole(b, indices[k]), shape))
        n = x.shape[lead + k]
        b.call("add_places", Size(product(shape)), index, n, step, int(k == len(axes) - 1), places, writes=[places],
               title="places of an index", fails=True)  # fmt: skip
        step = step * n
    return x, lead, shape, places


@lowers("index")
def index(b: Builder, node: Any, x: View, *indices: View, where: Sequence[bool]) -> View:
    """Pick by whole-number indices."""
    given = [i for i in indices if i is not None]
    x, lead, shape, places = _places(b, node, b.dense(x), given, where)
    last = lead + len(given)
    out = b.new((*x.shape[:lead], *shape, *x.shape[last:]), x.dtype)
    b.call("take", BYTES[x.dtype], product(x.shape[:lead]), product(x.shape[lead:]), product(shape), places,
           product(x.shape[last:]), x, out, writes=[out])  # fmt: skip
    return out


@lowers("index_put")
def _index_put(b: Builder, node: Any, x: View, values: View, *indices: View, where: Sequence[bool],
               accumulate: bool) -> View:  # fmt: skip
    given = [i for i in indices if i is not None]
    axes = [k for k, w in enumerate(where) if w]
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise refused(node, "indices of axes that are apart", "permute before and after")
    out = b.new(x.shape, x.dtype)
    b.copy(x, out=out)
    _, lead, shape, places = _places(b, node, out, given, where)
    last = lead + len(given)
    values = b.dense(expand(b, node, values if values.dtype == x.dtype else b.copy(values, x.dtype),
                            (*x.shape[:lead], *shape, *x.shape[last:])))  # fmt: skip
    counts = (product(x.shape[:lead]), product(x.shape[lead:]), product(shape), places, product(x.shape[last:]))
    if accumulate:
        b.call(f"add_rows_{_typed(node, x)}", *counts, values, out, writes=[out])
    else:
        b.call("put_rows", BYTES[x.dtype], *counts, values, out, writes=[out])
    return out


@lowers("embedding")
def _embedding(b: Builder, node: Any, weight: View, i: View, padding_idx: int, scale_grad_by_freq: bool) -> View:
    weight, i = b.dense(weight), b.dense(i)
    out = b.new((*i.shape, weight.shape[1]), weight.dtype)
    whole = _whole(b, i)
    b.call("embed", BYTES[weight.dtype], i.size, weight.shape[0], weight.shape[1], weight, whole, out, writes=[out],
           title="embedding", fails=True)  # fmt: skip
    return out


def _typed(node: Any, x: View) -> str:
    if x.dtype not in _ROW_TYPES:
        raise refused(node, f"of {x.dtype}", "float32 or int64: .float() or .long() before")
    return _ROW_TYPES[x.dtype]


@lowers("gather")
def _gather(b: Builder, node: Any, x: View, i: View, dim: int) -> View:
    i = _whole(b, i)
    out = b.new(i.shape, x.dtype)
    dim %= max(1, len(x.shape))
    if not x.shape:
        x, i = (View(v.buffer, (1,), (1,), v.offset) for v in (x, i))
    b.call("gather", BYTES[x.dtype], len(i.shape), i.shape, dim, x.shape[dim], x, x.strides, i, i.strides, out,
           writes=[out], fails=True)  # fmt: skip
    return out


@lowers("scatter", "scatter_add", "scatter_reduce")
def _scatter(b: Builder, node: Any, x: View, i: View, src: View, dim: int, reduce: str = "",
             include_self: bool = True) -> View:  # fmt: skip
    kinds = {"scatter": "SCATTER_PUT", "scatter_add": "SCATTER_ADD"}
    by = {"sum": "SCATTER_ADD", "prod": "SCATTER_MUL", "amax": "SCATTER_MAX", "amin": "SCATTER_MIN"}
    kind = kinds.get(node.op) or by.get(reduce)
    if kind is None or not include_self:
        raise refused(node, f"reduce={reduce!r}, include_self={include_self}", "sum, prod, amax or amin of all")
    out = b.new(x.shape, x.dtype)
    b.copy(x, out=out)
    i, dim = _whole(b, i), dim % len(x.shape)
    b.call(f"scatter_{_typed(node, x)}", kind, len(i.shape), i.shape, dim, x.shape[dim], out, out.strides, i, i.strides,
           src, src.strides, writes=[out], fails=True)  # fmt: skip
    return out


# -- in order ----------------------------------------------------------------------------------------------------------


def _rows(b: Builder, node: Any, x: View, dim: int) -> tuple[View, list[int]]:
    """Return a dense copy with the axis last, and the order of the axes."""
    rank = max(1, len(x.shape))
    if not x.shape:
        x = View(x.buffer, (1,), (1,), x.offset)
    dim %= rank
    order = [d for d in range(rank) if d != dim] + [dim]
    if x.dtype not in _ROW_TYPES:
        x = b.copy(x, "int64" if not x.dtype.startswith("float") else "float32")
    return b.dense(permute(b, node, x, order)), order


def _back(b: Builder, node: Any, v: View, order: list[int]) -> View:
    return permute(b, node, v, [order.index(d) for d in range(len(order))])


@lowers("sort", "topk")
def _sort(b: Builder, node: Any, x: View, dim: int, descending: bool = False, k: Count | None = None,
          largest: bool = True) -> list[View]:  # fmt: skip
    if x.dtype == "float64":
        raise refused(node, "of float64", ".float() before")
    source, order = _rows(b, node, x, dim)
    n = source.shape[-1]
    outer = product(source.shape[:-1])
    down = int(largest if node.op == "topk" else descending)
    kept = n if k is None else k
    values, places = b.new((*source.shape[:-1], kept), source.dtype), b.new((*source.shape[:-1], kept), "int64")
    scratch = b.new((2 * n,), "int64", "order")
    b.call(f"sort_rows_{_typed(node, source)}", outer, n, kept, down, source, values, places, scratch,
           writes=[values, places, scratch])  # fmt: skip
    if not x.shape:
        return [View(v.buffer, (), ()) for v in (values, places)]
    found = [_back(b, node, v, order) for v in (values, places)]
    if values.dtype != x.dtype:
        found[0] = b.copy(found[0], x.dtype)
    return found


@lowers("argmax", "argmin", "max_dim", "min_dim")
def _extreme(b: Builder, node: Any, x: View, dim: Any, keepdim: bool) -> Any:
    if x.dtype == "float64":
        raise refused(node, "of float64", ".float() before")
    if dim is None or dim == ():
        shape = x.shape
        x = reshape(b, node, x, (x.size,))
        dim, keepdim = 0, keepdim and len(shape) == 1
    source, _ = _rows(b, node, x, dim)
    places = b.new(source.shape[:-1], "int64")
    values = b.new(source.shape[:-1], source.dtype)
    b.call(f"extremes_{_typed(node, source)}", product(source.shape[:-1]), source.shape[-1],
           int(node.op.startswith(("argmax", "max"))), source, values, places, writes=[values, places])  # fmt: skip

    def placed(v: View) -> View:
        if not x.shape:
            return View(v.buffer, (), ())
        if not keepdim:
            return v
        at = dim % len(x.shape)
        return View(v.buffer, (*v.shape[:at], 1, *v.shape[at:]), (*v.strides[:at], 0, *v.strides[at:]), v.offset)

    if node.op.startswith("arg"):
        return placed(places)
    values = values if values.dtype == x.dtype else b.copy(values, x.dtype)
    return [placed(values), placed(places)]


@lowers("cumsum", "cumprod")
def _running(b: Builder, node: Any, x: View, dim: int, reverse: bool = False) -> View:
    if not x.shape:
        return x
    source, order = _rows(b, node, x, dim)
    out = b.new(source.shape, source.dtype)
    b.call(f"running_{'sum' if node.op == 'cumsum' else 'product'}_{_typed(node, source)}",
           product(source.shape[:-1]), source.shape[-1], int(bool(reverse)), source, out, writes=[out])  # fmt: skip
    return _back(b, node, out, order)


# -- reductions --------------------------------------------------------------------------------------------------------


def _over(x: View, dim: Any) -> list[int]:
    dims = dim if isinstance(dim, tuple) else (dim,)
    return sorted({d % max(1, len(x.shape)) for d in dims})


def count_over(x: View, dim: Any) -> Count:
    """Return how many elements a reduction takes together."""
    return product(x.shape[d] for d in _over(x, dim)) if x.shape else 1


@lowers("sum", "amax", "amin", "prod")
def _reduce(b: Builder, node: Any, x: View, dim: Any, keepdim: bool) -> View:
    if not x.shape:
        return x if node.outputs[0].dtype == x.dtype else b.copy(x, node.outputs[0].dtype)
    dtype = node.outputs[0].dtype
    if dtype not in ("float32", "float64", "int64", "bool"):
        return b.copy(b.reduce({"amax": "max", "amin": "min"}.get(node.op, node.op), x, _over(x, dim), keepdim,
                               "int64"), dtype)  # fmt: skip
    return b.reduce({"amax": "max", "amin": "min"}.get(node.op, node.op), x, _over(x, dim), keepdim, dtype)


@lowers("any", "all")
def _any(b: Builder, node: Any, x: View, dim: Any, keepdim: bool) -> View:
    x = x if x.dtype == "bool" else b.ew("ne", x, 0)
    return x if not x.shape else b.reduce("max" if node.op == "any" else "min", x, _over(x, dim), keepdim, "bool")


def scaled(b: Builder, x: View, by: Any) -> View:
    """Return x divided by a number of elements."""
    return b.ew("mul", x, 1.0 / by if isinstance(by, int) and by else Sized(("/", 1.0, by)), dtype=x.dtype)


def mean_of(b: Builder, x: View, dim: Any, keepdim: bool) -> View:
    """Return the mean over axes."""
    if not x.shape:
        return x
    return scaled(b, b.reduce("sum", x, _over(x, dim), keepdim), count_over(x, dim))


@lowers("mean")
def _mean(b: Builder, node: Any, x: View, dim: Any, keepdim: bool) -> View:
    return mean_of(b, x, dim, keepdim)


@lowers("var", "std")
def _var(b: Builder, node: Any, x: View, dim: Any, correction: float, keepdim: bool) -> View:
    off = b.ew("sub", x, mean_of(b, x, dim, True))
    total = b.reduce("sum", b.ew("mul", off, off), _over(x, dim), keepdim)
    n = count_over(x, dim)
    left: Any = n - int(correction) if correction == int(correction) else Sized(("-", n, float(correction)))
    if isinstance(left, int) and left <= 0:
        left = 0.0
    spread = b.ew("true_divide", total, float(left) if isinstance(left, int) else left, dtype=x.dtype)
    return b.ew("sqrt", spread) if node.op == "std" else spread


@lowers("vector_norm")
def _norm(b: Builder, node: Any, x: View, p: float, dim: Any, keepdim: bool) -> View:
    size = b.ew("abs", x)
    if not x.shape:
        return size
    over = _over(x, dim)
    if p == 2:
        return b.ew("sqrt", b.reduce("sum", b.ew("mul", x, x), over, keepdim))
    if p == 1:
        return b.reduce("sum", size, over, keepdim)
    if math.isinf(p):
        return b.reduce("max" if p > 0 else "min", size, over, keepdim)
    if p == 0:
        return b.reduce("sum", b.copy(b.ew("ne", x, 0), x.dtype), over, keepdim)
    power = declarations.table["pow_scalar"].program  # type: ignore[attr-defined]
    total = b.reduce("sum", b.ew(power, size, params=(float(p),)), over, keepdim)
    return b.ew(power, total, params=(1 / float(p),))


@lowers("logsumexp")
def _logsumexp(b: Builder, node: Any, x: View, dim: Any, keepdim: bool) -> View:
    over = _over(x, dim)
    top = b.reduce("max", x, over, True)
    top = where(b, b.ew("isfinite", top), top, 0)
    total = b.reduce("sum", b.ew("exp", b.ew("sub", x, top)), over, True)
    y = b.ew("add", b.ew("log", total), top)
    if keepdim:
        return y
    return permute(b, node, y, [d for d in range(len(x.shape)) if d not in over])


_BITS = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
         "bitwise_not": "logical_not"}  # fmt: skip


@lowers(*_BITS)
def _bits(b: Builder, node: Any, *operands: Any) -> View:
    if any(isinstance(x, View) and x.dtype != "bool" for x in operands):
        raise refused(node, "of whole numbers", "of bool only: logical_and and the like")
    return b.ew(_BITS[node.op], *operands, dtype="bool")
