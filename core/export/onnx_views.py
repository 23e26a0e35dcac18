"""Views in ONNX, and writes through them.

A view is written for a tensor by its name and its number of dimensions, since a write through views takes the same
views of the places of the elements: ScatterElements then puts the values there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .ir import Node, Sized, Value
from .onnx_graph import LAST, Graph, formula_in


class View(NamedTuple):
    """How a view op is written (`write(g, x, rank, **params)` gives a name, or names where it has several results),
    and how many dimensions its result has (`rank(rank, **params)`)."""

    write: Callable[..., Any]
    rank: Callable[..., int]


def _view(g: Graph, x: str, rank: int, shape: Any) -> str:
    return g.reshape(x, shape)


def _expand(g: Graph, x: str, rank: int, shape: Any) -> str:
    return g("Expand", x, g.ints(*shape))


def _permute(g: Graph, x: str, rank: int, dims: Any) -> str:
    return g.transpose(x, [d % rank for d in dims])


def _transpose(g: Graph, x: str, rank: int, dim0: int, dim1: int) -> str:
    order = list(range(rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.transpose(x, order)


def _t(g: Graph, x: str, rank: int) -> str:
    return g.transpose(x, list(range(rank))[::-1])


def _squeeze(g: Graph, x: str, rank: int, dims: Any) -> str:
    return g("Squeeze", x, g.ints(*dims)) if len(dims) else x


def _unsqueeze(g: Graph, x: str, rank: int, dim: int) -> str:
    return g("Unsqueeze", x, g.ints(dim))


def _bracket(g: Graph, x: str, rank: int, key: Any) -> str:
    """x[key] of slices, numbers, None and an ellipsis: one Slice, one Squeeze, one Unsqueeze."""
    starts, ends, axes, steps, dropped, added = [], [], [], [], [], []
    axis = out = 0
    items = full_key(key, rank)
    for item in items:
        if item is None:
            added.append(out)
            out += 1
            continue
        if isinstance(item, slice):
            if item != slice(None):
                starts.append(0 if item.start is None else item.start)
                ends.append(LAST if item.stop is None else item.stop)
                axes.append(axis)
                steps.append(1 if item.step is None else item.step)
            out += 1
        else:
            starts.append(item)
            ends.append(_after(item))
            axes.append(axis)
            steps.append(1)
            dropped.append(axis)
        axis += 1
    if axes:
        x = g("Slice", x, g.ints(*starts), g.ints(*ends), g.ints(*axes), g.ints(*steps))
    if dropped:
        x = g("Squeeze", x, g.ints(*dropped))
    return g("Unsqueeze", x, g.ints(*added)) if added else x


def _after(item: Any) -> Any:
    """Return the end of the slice that holds one element; that of the last has none."""
    formula = formula_in(item)
    if isinstance(formula, int):
        return formula + 1 if formula != -1 else LAST
    return Sized(("+", formula, 1))


def full_key(key: Any, rank: int) -> list[Any]:
    """Return the items of a key, one for each dimension and each new one."""
    items = list(key) if isinstance(key, tuple) else [key]
    taken = sum(1 for item in items if item is not None and item is not Ellipsis)
    rest = [slice(None)] * (rank - taken)
    where = next((k for k, item in enumerate(items) if item is Ellipsis), None)
    if where is None:
        return items + rest
    return items[:where] + rest + items[where + 1 :]


def _bracket_rank(rank: int, key: Any) -> int:
    return sum(1 for item in full_key(key, rank) if item is None or isinstance(item, slice))


def _split(g: Graph, x: str, rank: int, sizes: Any, dim: int) -> list[str]:
    return g.several("Split", x, g.ints(*sizes), outputs=len(sizes), axis=dim)


def _unbind(g: Graph, x: str, rank: int, dim: int) -> list[str]:
    count = len(g.node.outputs) if g.node is not None and g.node.op == "unbind" else None
    if count is None:
        raise g.refuse("it writes through unbind", "write x[k] instead")
    return [g("Gather", x, g.constant(k, "int64"), axis=dim) for k in range(count)]


def _diagonal(g: Graph, x: str, rank: int, offset: int, dim1: int, dim2: int) -> str:
    """The places of a diagonal are an arithmetic sequence among the elements of the two dimensions."""
    rest = [d for d in range(rank) if d not in (dim1, dim2)]
    rows, columns = g.size_of(x, dim1), g.size_of(x, dim2)
    cut = g("Sub", columns if offset >= 0 else rows, g.ints(abs(offset)))
    count = g("Max", g("Min", *((rows, cut) if offset >= 0 else (cut, columns))), g.ints(0))
    first = g.ints(offset) if offset >= 0 else g("Mul", columns, g.ints(-offset))
    scalar = g("Squeeze", count, g.ints(0))
    steps = g("Range", g.constant(0, "int64"), scalar, g.constant(1, "int64"))
    at = g("Add", g("Mul", steps, g("Add", columns, g.ints(1))), first)
    moved = g.transpose(x, [*rest, dim1, dim2])
    lead = [g("Shape", moved, start=0, end=len(rest))] if rest else []
    flat = g("Reshape", moved, g("Concat", *lead, g("Mul", rows, columns), axis=0), allowzero=1)
    return g("Gather", flat, at, axis=len(rest))


def _unfold(g: Graph, x: str, rank: int, dim: int, size: int, step: int) -> str:
    count = g("Add", g("Div", g("Sub", g.size_of(x, dim), g.ints(size)), g.ints(step)), g.ints(1))
    starts = g("Range", g.constant(0, "int64"), g("Squeeze", count, g.ints(0)), g.constant(1, "int64"))
    at = g("Add", g("Unsqueeze", g("Mul", starts, g.ints(step)), g.ints(1)), g.constant(list(range(size)), "int64"))
    order = [d for d in range(rank + 1) if d != dim + 1]
    return g.transpose(g("Gather", x, at, axis=dim), [*order, dim + 1])


VIEWS = {
    "view": View(_view, lambda rank, shape: len(shape)),
    "expand": View(_expand, lambda rank, shape: len(shape)),
    "permute": View(_permute, lambda rank, dims: rank),
    "transpose": View(_transpose, lambda rank, dim0, dim1: rank),
    "t": View(_t, lambda rank: rank),
    "squeeze": View(_squeeze, lambda rank, dims: rank - len(dims)),
    "unsqueeze": View(_unsqueeze, lambda rank, dim: rank + 1),
    "select": View(_bracket, _bracket_rank),
    "slice": View(_bracket, _bracket_rank),
    "split": View(_split, lambda rank, sizes, dim: rank),
    "unbind": View(_unbind, lambda rank, dim: rank - 1),
    "diagonal": View(_diagonal, lambda rank, offset, dim1, dim2: rank - 1),
    "unfold": View(_unfold, lambda rank, dim, size, step: rank + 1),
}


def write_view(g: Graph, node: Node) -> Any:
    """Write a view op and return the name of its result, or of each."""
    (x,) = node.inputs
    return VIEWS[node.op].write(g, g.name(x), len(x.shape), **node.params)


def places(g: Graph, x: Value, path: Sequence[Any]) -> tuple[str, int]:
    """Return the numbers of the elements of `x` to which views lead, in the shape of the last, and its dimensions."""
    count = g("Size", x)
    at = g("Reshape", g("Range", g.constant(0, "int64"), count, g.constant(1, "int64")), g.shape_of(x), allowzero=1)
    rank = len(x.shape)
    for name, step, which in path:
        params = dict(step)
        if name not in VIEWS:
            raise g.refuse(f"it writes through {name}", "write by core.where, or to a part in brackets")
        found = VIEWS[name].write(g, at, rank, **params)
        at = found if which is None else found[which]
        rank = VIEWS[name].rank(rank, **params)
    return at, rank


def put_at(g: Graph, base: Value | str, at: str, values: str, reduction: str = "none") -> str:
    """Return `base` with `values` at the places `at`, which broadcast to them."""
    flat = g("Reshape", base, g.ints(-1))
    spread = g("Expand", values, g("Shape", at))
    kept = g("ScatterElements", flat, g("Reshape", at, g.ints(-1)), g("Reshape", spread, g.ints(-1)), axis=0,
             reduction=reduction)  # fmt: skip
    return g("Reshape", kept, g.shape_of(base), allowzero=1)


def write_put(g: Graph, node: Node) -> str:
    """Write a write through views: the values go to the places that the views have."""
    base, values = node.inputs
    at, _ = places(g, base, node.params["path"])
    return put_at(g, base, at, g.cast(values, base.dtype))


def on_diagonal(g: Graph, x: Value, shape: Any, offset: int, dim1: int, dim2: int) -> str:
    """Write `x` on a diagonal of zeros of a shape."""
    rank = len(shape)
    dim1, dim2 = dim1 % rank, dim2 % rank
    rows, columns = shape[dim1], shape[dim2]
    # along the longer way of the diagonal's axis, then seen in all rows or columns
    along, count = (0, rows) if offset >= 0 else (1, columns)
    long = g("Sub", g.ints(count), g("Gather", g.shape_of(x), g.ints(-1), axis=0))
    lead = g.ints(*[0] * (rank - 1))
    wide = g("Pad", x, g("Concat", lead, g.ints(*[0] * (rank - 2)), long, axis=0), g.like(0, x))
    on = g("Equal", g("Add", g("Unsqueeze", g.range(rows), g.ints(1)), g.ints(offset)), g.range(columns))
    y = g("Where", on, g("Unsqueeze", wide, g.ints(rank - 1 - along)), g.like(0, x))
    rest = iter(range(rank - 2))
    return g.transpose(y, [rank - 2 if d == dim1 else rank - 1 if d == dim2 else next(rest) for d in range(rank)])
