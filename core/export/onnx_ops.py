"""ONNX's spelling of structured ops: one function an op, named by the decorator, which gives the name of its result.

It is called with the graph, the op's inputs (values, numbers, None) and its parameters by name. Several results are a
list, with None for one that ONNX does not give; it is an error only where somebody needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .ir import Sized, Value
from .onnx_graph import LAST, Graph, element, formula_in
from .onnx_views import full_key, on_diagonal, places, put_at
from .sizes import replaced

ROWS: dict[str, Callable[..., Any]] = {}


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note a function as the spelling of these ops."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        ROWS.update(dict.fromkeys(names, function))
        return function

    return note


def out_dtype(g: Graph, k: int = 0) -> str:
    """Return the dtype of a result of the present op."""
    assert g.node is not None
    found = g.node.outputs[k]
    return found.dtype if found is not None else "float32"


def wanted(g: Graph, k: int) -> bool:
    """Return whether somebody needs the result number `k` of the present op."""
    assert g.node is not None
    return k < len(g.node.outputs) and g.node.outputs[k] in g.used


# -- copies ------------------------------------------------------------------------------------------------------------


@row("contiguous", "clone", "piecewise", "constant", "move", "dropout")
def _same(g: Graph, x: Value, *others: Any, **params: Any) -> str:
    if params.get("p"):
        raise g.refuse("it draws random numbers", "module.eval()")
    return g.name(x)


@row("cast")
def _cast(g: Graph, x: Value, dtype: Any) -> str:
    if x.dtype == "bool" or dtype.name != "bool":
        return g.cast(x, dtype.name)
    return g("Not", g("Equal", x, g.like(0, x)))


@row("copy")
def _copy(g: Graph, x: Value, source: Value) -> str:
    return g("Expand", g.cast(source, x.dtype), g.shape_of(x))


@row("fill")
def _fill(g: Graph, x: Value, value: Any) -> str:
    return g("Expand", g.scalar(value, x.dtype), g.shape_of(x))


@row("cat")
def _cat(g: Graph, *tensors: Value, dim: int) -> str:
    return g("Concat", *(g.cast(t, out_dtype(g)) for t in tensors), axis=dim)


@row("stack")
def _stack(g: Graph, *tensors: Value, dim: int) -> str:
    return g("Concat", *(g("Unsqueeze", g.cast(t, out_dtype(g)), g.ints(dim)) for t in tensors), axis=dim)


@row("flip")
def _flip(g: Graph, x: Value, dims: Any) -> str:
    if not dims:
        return g.name(x)
    n = len(dims)
    return g("Slice", x, g.ints(*[-1] * n), g.ints(*[-LAST] * n), g.ints(*dims), g.ints(*[-1] * n))


@row("roll")
def _roll(g: Graph, x: Value, shifts: Any, dims: Any) -> str:
    y = g.name(x)
    for shift, dim in zip(shifts, dims, strict=True):
        cut = g("Sub", g.size_of(x, dim), g("Mod", g.ints(shift), g.size_of(x, dim)))
        tail = g("Slice", y, cut, g.ints(LAST), g.ints(dim))
        y = g("Concat", tail, g("Slice", y, g.ints(0), cut, g.ints(dim)), axis=dim)
    return y


@row("repeat")
def _repeat(g: Graph, x: Value, sizes: Any) -> str:
    y = g.name(x)
    if len(sizes) > len(x.shape):
        y = g("Unsqueeze", y, g.ints(*range(len(sizes) - len(x.shape))))
    return g("Tile", y, g.ints(*sizes))


@row("repeat_interleave")
def _repeat_interleave(g: Graph, x: Value, repeats: Any, dim: int) -> str:
    tiled = g("Tile", g("Unsqueeze", x, g.ints(dim + 1)),
              g.ints(*[1] * (dim + 1), repeats, *[1] * (len(x.shape) - dim - 1)))  # fmt: skip
    return g.reshape(tiled, [*x.shape[:dim], ("*", x.shape[dim], formula_in(repeats)), *x.shape[dim + 1 :]])


@row("constant_pad")
def _pad(g: Graph, x: Value, border: Any, value: float) -> str:
    pads = g.ints(*(a for a, _ in border), *(b for _, b in border))
    if x.dtype != "bool":
        return g("Pad", x, pads, g.like(value, x))
    return g("Cast", g("Pad", g("Cast", x, to=element("int32")), pads, g.constant(int(value), "int32")),
             to=element("bool"))  # fmt: skip


@row("tril")
def _tril(g: Graph, x: Value, diagonal: Any) -> str:
    return g("Trilu", x, g.scalar(diagonal, "int64"), upper=0)


@row("triu")
def _triu(g: Graph, x: Value, diagonal: Any) -> str:
    return g("Trilu", x, g.scalar(diagonal, "int64"), upper=1)


@row("diagonal_mask", "triangle_mask")
def _triangle(g: Graph, x: Value, n: Any, on: str = "diagonal") -> str:
    at = g.range(n)
    return g("Equal" if on == "diagonal" else "LessOrEqual", g("Unsqueeze", at, g.ints(1)), at)


row("diagonal_backward")(on_diagonal)


@row("one_hot_rows")
def _one_hot(g: Graph, index: Value, classes: Any) -> str:
    return g("Cast", g("Equal", g("Unsqueeze", index, g.ints(-1)), g.cast(g.range(classes), index.dtype, "int64")),
             to=element("int64"))  # fmt: skip


@row("mask_at")
def _mask_at(g: Graph, index: Value, dim: int, size: Any) -> str:
    shape = [1] * len(index.shape)
    shape[dim] = -1
    return g("Equal", index, g("Reshape", g.range(size), g.ints(*shape)))


# -- reductions --------------------------------------------------------------------------------------------------------


def reduced(g: Graph, op: str, x: str, dim: Any, keepdim: bool) -> str:
    """Return a reduction over the dimensions `dim`; over none it is the input."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return g(op, x, g.ints(*dims), keepdims=int(keepdim)) if dims else x


def how_many(g: Graph, x: Value, dims: Any, dtype: str) -> str:
    """Return how many elements these dimensions have, a number of this dtype."""
    formula: Any = 1
    for d in dims:
        formula = ("*", formula, x.shape[d]) if formula != 1 else x.shape[d]
    return g.scalar(evaluated(formula), dtype)


def evaluated(formula: Any) -> Any:
    """Return a formula with its constants computed."""
    return replaced(formula, {})


@row("sum", "mean", "prod", "amax", "amin")
def _reduction(g: Graph, x: Value, dim: Any, keepdim: bool) -> str:
    assert g.node is not None
    op = {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "amax": "ReduceMax", "amin": "ReduceMin"}
    dtype = out_dtype(g)
    inside = "int32" if dtype == "bool" else dtype
    return g.cast(reduced(g, op[g.node.op], g.cast(x, inside), dim, keepdim), dtype, inside)


@row("all", "any")
def _all(g: Graph, x: Value, dim: Any, keepdim: bool) -> str:
    assert g.node is not None
    truth = g.cast(g.cast(x, "bool"), "int32", "bool")
    op = "ReduceMin" if g.node.op == "all" else "ReduceMax"
    return g("Cast", reduced(g, op, truth, dim, keepdim), to=element("bool"))


@row("count_nonzero", "norm_count")
def _count(g: Graph, x: Value, dim: Any, keepdim: bool = False) -> str:
    there = g("Cast", g("Cast", x, to=element("bool")), to=element(out_dtype(g)))
    return reduced(g, "ReduceSum", there, dim, keepdim)


@row("argmax", "argmin")
def _argmax(g: Graph, x: Value, dim: int, keepdim: bool) -> str:
    assert g.node is not None
    if not x.shape:
        return g.constant(0, "int64")
    return g("ArgMax" if g.node.op == "argmax" else "ArgMin", x, axis=dim, keepdims=int(keepdim))


@row("max_dim", "min_dim")
def _max_dim(g: Graph, x: Value, dim: int, keepdim: bool) -> list[str]:
    assert g.node is not None
    stem = "Max" if g.node.op == "max_dim" else "Min"
    if not x.shape:
        return [g.name(x), g.constant(0, "int64")]
    at = g(f"Arg{stem}", x, axis=dim, keepdims=int(keepdim)) if wanted(g, 1) else ""
    return [reduced(g, f"Reduce{stem}", g.name(x), dim, keepdim), at]


@row("logsumexp")
def _logsumexp(g: Graph, x: Value, dim: Any, keepdim: bool) -> str:
    """The largest is taken off first; of -inf alone, 0 is."""
    top = reduced(g, "ReduceMax", g.name(x), dim, True)
    top = g("Where", g("IsInf", top), g.like(0, x), top)
    total = g("Log", reduced(g, "ReduceSum", g("Exp", g("Sub", x, top)), dim, keepdim))
    return g("Add", total, top if keepdim or not dim else g("Squeeze", top, g.ints(*dim)))


@row("var", "std")
def _var(g: Graph, x: Value, dim: Any, correction: float, keepdim: bool) -> str:
    assert g.node is not None
    off = g("Sub", x, reduced(g, "ReduceMean", g.name(x), dim, True))
    total = reduced(g, "ReduceSum", g("Mul", off, off), dim, keepdim)
    count = g("Sub", how_many(g, x, dim, x.dtype), g.like(correction, x))
    found = g("Div", total, g("Max", count, g.like(0, x)))
    return g("Sqrt", found) if g.node.op == "std" else found


@row("vector_norm")
def _norm(g: Graph, x: Value, p: float, dim: Any, keepdim: bool) -> str:
    size = g("Abs", x)
    if p in (math.inf, -math.inf):
        return reduced(g, "ReduceMax" if p > 0 else "ReduceMin", size, dim, keepdim)
    if p == 0:
        return _count(g, x, dim, keepdim)
    if p == 1:
        return reduced(g, "ReduceSum", size, dim, keepdim)
    if p == 2:
        return g("Sqrt", reduced(g, "ReduceSum", g("Mul", x, x), dim, keepdim))
    total = reduced(g, "ReduceSum", g("Pow", size, g.like(p, x)), dim, keepdim)
    return g("Pow", total, g.like(1 / p, x))


@row("softmax")
def _softmax(g: Graph, x: Value, dim: int) -> str:
    return g("Softmax", x, axis=dim) if x.shape else g("Exp", g("Sub", x, x))


@row("log_softmax")
def _log_softmax(g: Graph, x: Value, dim: int) -> str:
    return g("LogSoftmax", x, axis=dim) if x.shape else g("Sub", x, x)


@row("cumsum")
def _cumsum(g: Graph, x: Value, dim: int, reverse: bool) -> str:
    if not x.shape:
        return g.name(x)
    return g("CumSum", x, g.constant(dim, "int64"), reverse=int(reverse))


@row("cumprod", "logcumsumexp", "cummax", "cummin")
def _running(g: Graph, x: Value, dim: int) -> Any:
    """ONNX has CumSum alone: the others are a Scan, whose body takes one slice after the other."""
    assert g.node is not None
    op = g.node.op
    if wanted(g, 1):
        raise g.refuse("the places of running extrema are not written", "use the values alone")
    if not x.shape:
        return [g.name(x), None]
    start = {"cumprod": 1.0, "logcumsumexp": -math.inf, "cummax": -math.inf, "cummin": math.inf}[op]
    if not x.dtype.startswith("float") and op != "cumprod":
        raise g.refuse(f"of {x.dtype} it is not written", "x.float()")
    lead = [d for k, d in enumerate(x.shape) if k != dim]
    first = g("Expand", g.like(start, x), g.ints(*lead))
    helper, kind = g.helper, element(x.dtype)
    with g.scope() as nodes:
        before, each = g.names.fresh("before"), g.names.fresh("each")
        after = _step(g, op, before, each)
        result = g("Identity", after)
        body = helper.make_graph(nodes, g.names.fresh("running"),
                                 [helper.make_tensor_value_info(n, kind, None) for n in (before, each)],
                                 [helper.make_tensor_value_info(n, kind, None) for n in (after, result)])  # fmt: skip
    found = g.several("Scan", first, x, outputs=2, body=body, num_scan_inputs=1, scan_input_axes=[dim],
                      scan_output_axes=[dim])  # fmt: skip
    return [found[1], None]


def _step(g: Graph, op: str, before: str, each: str) -> str:
    if op == "logcumsumexp":
        top = g("Max", before, each)
        low = g("Min", before, each)
        apart = g("Exp", g("Sub", low, top))
        one = g("Exp", g("Sub", apart, apart))
        return g("Where", g("IsInf", top), top, g("Add", top, g("Log", g("Add", one, apart))))
    return g({"cumprod": "Mul", "cummax": "Max", "cummin": "Min"}[op], before, each)


@row("topk")
def _topk(g: Graph, x: Value, dim: int, k: Any, largest: bool) -> Any:
    if not x.shape:
        return [g.name(x), g.constant(0, "int64")]
    return g.several("TopK", x, g.ints(k), outputs=2, axis=dim, largest=int(largest), sorted=1)


@row("sort")
def _sort(g: Graph, x: Value, dim: int, descending: bool) -> Any:
    if not x.shape:
        return [g.name(x), g.constant(0, "int64")]
    dim %= len(x.shape)
    return g.several("TopK", x, g.size_of(x, dim), outputs=2, axis=dim, largest=int(descending), sorted=1)


@row("kthvalue")
def _kthvalue(g: Graph, x: Value, dim: int, k: Any) -> Any:
    found = g.several("TopK", x, g.ints(k), outputs=2, axis=dim, largest=0, sorted=1)
    return [g("Gather", part, g.ints(-1), axis=dim) for part in found]


@row("isclose")
def _isclose(g: Graph, a: Value, b: Value, rtol: float, atol: float, equal_nan: bool) -> str:
    same = g("Equal", a, b)
    if a.dtype == "bool":
        return same
    dtype = a.dtype if a.dtype.startswith("float") else "float64"
    x, y = g.cast(a, dtype), g.cast(b, dtype)
    if equal_nan:
        same = g("Or", same, g("And", g("IsNaN", x), g("IsNaN", y)))
    off = g("Abs", g("Sub", x, y))
    room = g("Add", g.constant(atol, dtype), g("Mul", g.constant(abs(rtol), dtype), g("Abs", y)))
    near = g("And", g("Less", off, g.constant(math.inf, dtype)), g("LessOrEqual", off, room))
    return g("Or", same, near)


@row("isin")
def _isin(g: Graph, x: Value, among: Value, invert: bool) -> str:
    each = g("Reshape", g.cast(among, x.dtype), g.ints(-1))
    same = g("Cast", g("Equal", g("Unsqueeze", x, g.ints(-1)), each), to=element("int32"))
    found = g("Cast", g("ReduceMax", same, g.ints(-1), keepdims=0), to=element("bool"))
    return g("Not", found) if invert else found


@row("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
def _bitwise(g: Graph, *operands: Value) -> str:
    assert g.node is not None
    name = g.node.op.removeprefix("bitwise_")
    given = [g.cast(x, out_dtype(g)) if isinstance(x, Value) else g.scalar(x, out_dtype(g)) for x in operands]
    return g(name.title() if out_dtype(g) == "bool" else f"Bitwise{name.title()}", *given)


# -- by index ----------------------------------------------------------------------------------------------------------


@row("embedding")
def _embedding(g: Graph, weight: Value, index: Value, **gradient: Any) -> str:
    return g("Gather", weight, index, axis=0)


@row("gather")
def _gather(g: Graph, x: Value, index: Value, dim: int) -> str:
    return g("GatherElements", x, index, axis=dim) if x.shape else g("Expand", x, g.shape_of(index))


@row("scatter", "scatter_add")
def _scatter(g: Graph, x: Value, index: Value, src: Value, dim: int) -> str:
    assert g.node is not None
    return g("ScatterElements", x, index, g.cast(src, x.dtype), axis=dim,
             reduction="add" if g.node.op == "scatter_add" else "none")  # fmt: skip


@row("scatter_reduce")
def _scatter_reduce(g: Graph, x: Value, index: Value, src: Value, dim: int, reduce: str, include_self: bool) -> str:
    known = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if reduce not in known:
        raise g.refuse(f"scatter_reduce by {reduce} is not written", "scatter_add of the values and of ones")
    base = g.name(x)
    if not include_self:
        start = {"sum": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}[reduce]
        if math.isinf(start) and not x.dtype.startswith("float"):
            raise g.refuse(f"of {x.dtype} without include_self it is not written", "x.float()")
        base = g("ScatterElements", x, index, g("Expand", g.like(start, x), g.shape_of(index)), axis=dim)
    return g("ScatterElements", base, index, src, axis=dim, reduction=known[reduce])


def _chosen(where: Any, rank: int) -> tuple[list[int], list[int], int]:
    """Return the indexed dimensions, the others, and where the index's dimensions stand in the result."""
    chosen = [d for d, there in enumerate(where) if there]
    rest = [d for d in range(rank) if d not in chosen]
    together = chosen == list(range(chosen[0], chosen[0] + len(chosen)))
    return chosen, rest, chosen[0] if together else 0


def _joint(g: Graph, indices: Any) -> tuple[str, int]:
    """Return the indices as one tensor with them along its last dimension, and how many dimensions come before."""
    given = [x for x in indices if x is not None]
    if len(given) == 1:
        return g("Unsqueeze", g.cast(given[0], "int64"), g.ints(-1)), len(given[0].shape)
    rank = max(len(x.shape) for x in given)
    whole = g.cast(given[0], "int64")
    for x in given[1:]:
        whole = g("Add", whole, g.cast(x, "int64"))
    shape = g("Shape", whole)
    parts = [g("Unsqueeze", g("Expand", g.cast(x, "int64"), shape), g.ints(-1)) for x in given]
    return g("Concat", *parts, axis=-1), rank


@row("index")
def _index(g: Graph, x: Value, *indices: Any, where: Any) -> str:
    chosen, rest, place = _chosen(where, len(x.shape))
    given = [i for i in indices if i is not None]
    if len(chosen) == 1:
        return g("Gather", x, given[0], axis=chosen[0])
    at, rank = _joint(g, given)
    found = g("GatherND", g.transpose(x, [*chosen, *rest]), at)
    order = list(range(rank, rank + len(rest)))
    order[place:place] = range(rank)
    return g.transpose(found, order)


def put_by_index(g: Graph, base: str, rank: int, values: str, indices: Any, where: Any, reduction: str) -> str:
    """Return `base` with `values`, which broadcast, at the places that indices name."""
    chosen, rest, place = _chosen(where, rank)
    at, lead = _joint(g, indices)
    moved = g.transpose(base, [*chosen, *rest])
    order = list(range(lead, lead + len(rest)))
    order[place:place] = range(lead)  # how the dimensions of `values` stand: back[k] of them is the k-th here
    back = [order.index(k) for k in range(len(order))]
    shape = [g("Shape", at, start=0, end=lead)] if lead else []
    shape += [g("Shape", moved, start=len(chosen), end=rank)] if rest else []
    there = g("Concat", *shape, axis=0) if shape else g.ints()
    turned = g("Gather", there, g.constant(order, "int64")) if order else there
    spread = g.transpose(g("Expand", values, turned), back)
    put = g("ScatterND", moved, at, spread, reduction=reduction)
    return g.transpose(put, [[*chosen, *rest].index(d) for d in range(rank)])


@row("index_put")
def _index_put(g: Graph, x: Value, values: Value, *indices: Any, where: Any, accumulate: bool) -> str:
    return put_by_index(g, g.name(x), len(x.shape), g.cast(values, x.dtype), indices, where,
                        "add" if accumulate else "none")  # fmt: skip


# -- gradients, which a training step holds ----------------------------------------------------------------------------


def _zeros(g: Graph, shape: Any, dtype: str) -> str:
    return g("Expand", g.constant(0, dtype), g.ints(*shape))


@row("slice_backward")
def _slice_backward(g: Graph, x: Value, shape: Any, key: Any) -> str:
    there = Value("", x.dtype, [formula_in(d) for d in shape])
    zeros = _zeros(g, shape, x.dtype)
    g.bind(there, zeros)
    at, _ = places(g, there, [("slice", {"key": tuple(full_key(key, len(shape)))}, None)])
    return put_at(g, zeros, at, g.name(x))


@row("gather_backward")
def _gather_backward(g: Graph, x: Value, index: Value, shape: Any, dim: int) -> str:
    return g("ScatterElements", _zeros(g, shape, x.dtype), index, x, axis=dim, reduction="add")


@row("index_backward")
def _index_backward(g: Graph, x: Value, *indices: Any, where: Any, shape: Any) -> str:
    return put_by_index(g, _zeros(g, shape, x.dtype), len(shape), g.name(x), indices, where, "add")


@row("embedding_backward")
def _embedding_backward(g: Graph, rows: Value, index: Value, count: Any, padding_idx: int,
                        scale_grad_by_freq: bool) -> str:  # fmt: skip
    if scale_grad_by_freq:
        raise g.refuse("scale_grad_by_freq is not written", "leave it out")
    width = rows.shape[-1]
    zeros = _zeros(g, [count, width], rows.dtype)
    at = g.reshape(index, [-1, 1])
    values = g("Reshape", rows, g.ints(-1, width))
    if padding_idx >= 0:
        keep = g("Not", g("Equal", at, g.constant(padding_idx, index.dtype)))
        values = g("Mul", values, g("Cast", keep, to=element(rows.dtype)))
    return g("ScatterND", zeros, g.cast(at, "int64", index.dtype), values, reduction="add")


def sized(formula: Any) -> Any:
    """Return a formula as an op's parameter holds it."""
    return Sized(formula) if isinstance(formula, tuple | str) else formula
