"""Dimensions of nested tensors changed, divided and joined, and what an index gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.errors import text
from ..base.shape import normalize_dim
from ..tensors.tensor import Tensor
from .of_sequences import NestedTensor, made
from .padding import spread
from .pointwise import of_values
from .results import any_nested, back, inner_dim, nested_of, together, unsupported
from .structure import RaggedSize


def inside(func: Any, input: NestedTensor, *given: Any, dim: Any = None, **options: Any) -> Any:
    """Run what works along one dimension that is neither the batch nor ragged: ``f(x, ..., dim)``."""
    if dim is None and given and func.__name__ in ("chunk", "split") and len(given) > 1:
        *given, dim = given  # type: ignore[assignment]
    name, x = func.__name__, input
    dim = 0 if dim is None else dim
    if name == "chunk" and dim in (0, -x.ndim):
        return _batches(x, *given, **options)
    return back(func(x._held, *given, dim=inner_dim(name, x, dim) - 1, **options), x._structure, x._ragged)


def _batches(x: NestedTensor, chunks: int) -> tuple[NestedTensor, ...]:
    many = x.pieces()
    each = max(1, -(-len(many) // chunks))
    return tuple(nested_of(many[a : a + each], x._ragged) for a in range(0, len(many), each))


def glu(func: Any, input: NestedTensor, dim: int = -1) -> Any:
    return back(func(input._held, inner_dim("glu", input, dim) - 1), input._structure, input._ragged)


def narrow(func: Any, input: NestedTensor, dim: int, start: Any, length: int) -> Any:
    d = inner_dim("narrow", input, dim)
    return back(func(input._held, d - 1, start, length), input._structure, input._ragged)


def select(func: Any, input: NestedTensor, dim: int, index: int) -> Any:
    if normalize_dim(dim, input.ndim, "select") == 0:
        return piece(input, index)
    d = inner_dim("select", input, dim)
    return back(func(input._held, d - 1, index), input._structure, input._ragged - (d < input._ragged))


def piece(x: NestedTensor, index: int) -> Tensor:
    """Return one sequence."""
    s = x._structure
    k = normalize_index(index, s.batch)
    return x._held.narrow(x._ragged - 1, int(s.starts[k]), int(s.counts[k]))  # type: ignore[attr-defined, no-any-return]


def normalize_index(index: int, size: int) -> int:
    """Return an index counted from the front; IndexError where it is out of range."""
    if not -size <= index < size:
        raise IndexError(text(f"index {index} is out of bounds for dimension 0 with size {size}", op="getitem"))
    return index % size


def unbind(func: Any, input: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    if dim not in (0, -input.ndim):
        raise unsupported("unbind", "only supported for NestedTensor on dim=0", input)
    return tuple(input.pieces())


def getitem(func: Any, input: NestedTensor, index: Any) -> Any:
    x = input
    items = list(index) if isinstance(index, tuple) else [index]
    if any(not isinstance(i, int | slice | type(None) | type(...)) or isinstance(i, bool) for i in items):
        x.refused("getitem")
    if ... in items:
        at = items.index(...)
        items[at : at + 1] = [slice(None)] * (x.ndim - sum(i is not None for i in items) + 1)
    if items and isinstance(items[0], int):
        rest = tuple(items[1:])
        return piece(x, items[0])[rest] if rest else piece(x, items[0])  # type: ignore[index]
    if not items or items[0] is None:
        raise unsupported("unsqueeze", "not supported for NestedTensor on dim=0", x)
    d, ragged = 0, x._ragged
    for i in items:
        if i is None:
            ragged += d <= x._ragged
            continue
        if d in (0, x._ragged) and i != slice(None):
            raise unsupported("slice", f"not supported for NestedTensor on dim={d}" if not d else
                               "not supported for NestedTensor on ragged dim", x)  # fmt: skip
        ragged -= isinstance(i, int) and d < x._ragged
        d += 1
    return back(x._held[tuple(items[1:])], x._structure, ragged)  # type: ignore[index]


def transpose(func: Any, input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    a, b = (normalize_dim(d, input.ndim, "transpose") for d in (dim0, dim1))
    if a == b:
        return input
    if 0 in (a, b):
        raise unsupported("transpose", "Transpose is not supported on the batch dimension for jagged NT", input,
                           ValueError)  # fmt: skip
    ragged = {a: b, b: a}.get(input._ragged, input._ragged)
    return made(input._held.transpose(a - 1, b - 1), input._structure, ragged)  # type: ignore[attr-defined]


def permute(func: Any, input: NestedTensor, *dims: Any) -> NestedTensor:
    dims = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [normalize_dim(d, input.ndim, "permute") for d in dims]
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(text("permute(dims): the dims do not name each dimension once", op="permute", came=f"{dims}",
                                needed=f"each of 0 ... {input.ndim - 1} once"))  # fmt: skip
    if order[0] != 0:
        raise unsupported("permute", "Permute is not supported on the batch dimension for jagged NT", input,
                           ValueError)  # fmt: skip
    values = input._held.permute([d - 1 for d in order[1:]])  # type: ignore[attr-defined]
    return made(values, input._structure, order.index(input._ragged))


def unsqueeze(func: Any, input: NestedTensor, dim: int) -> NestedTensor:
    d = inner_dim("unsqueeze", input, dim, extra=1)
    return made(func(input._held, d - 1), input._structure, input._ragged + (d <= input._ragged))


def squeeze(func: Any, input: NestedTensor, dim: Any = None) -> NestedTensor:
    if dim is None:
        raise unsupported("squeeze", "needs a dim for NestedTensor", input)
    d = inner_dim("squeeze", input, dim)
    values = func(input._held, d - 1)
    gone = values.ndim < input._held.ndim and d < input._ragged
    return made(values, input._structure, input._ragged - gone)


def unflatten(func: Any, input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    d = inner_dim("unflatten", input, dim)
    values = func(input._held, d - 1, sizes)
    return made(values, input._structure, input._ragged + (len(sizes) - 1) * (d < input._ragged))


def flatten(func: Any, input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    a, b = (normalize_dim(d, input.ndim, "flatten") for d in (start_dim, end_dim))
    if a == 0:
        raise unsupported("flatten", "not supported for NestedTensor on dim=0", input)
    if a < b and a <= input._ragged <= b:
        raise unsupported("flatten", "not supported for NestedTensor on ragged dim", input)
    return made(func(input._held, a - 1, b - 1), input._structure, input._ragged - (b - a) * (b < input._ragged))


def view(func: Any, input: NestedTensor, *sizes: Any) -> Any:
    """Change the dimensions that are neither the batch nor ragged; the ragged one is its size, or -1."""
    x, name = input, func.__name__
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        if not isinstance(sizes[0], tuple | list):
            return of_values(func, x, *sizes)  # view(dtype)
        sizes = tuple(sizes[0])
    if not sizes or sizes[0] not in (x._structure.batch, -1):
        raise _cannot_view(name, x, sizes)
    shape, own = list(sizes[1:]), x._structure.size
    at = next((k for k, n in enumerate(shape) if n == own), None)
    at = next((k for k, n in enumerate(shape) if n == -1), None) if at is None else at
    if at is None or sum(isinstance(n, RaggedSize) for n in shape) > 1:
        raise _cannot_view(name, x, sizes)
    shape[at] = x._structure.total
    values: Any = func(x._held, shape)
    if math.prod(values.shape[:at]) != math.prod(x._held.shape[: x._ragged - 1]):
        raise _cannot_view(name, x, sizes)
    return made(values, x._structure, at + 1)


def _cannot_view(name: str, x: NestedTensor, sizes: Any) -> Exception:
    return RuntimeError(text(f"{name}(): cannot view shape {tuple(x.shape)} as {list(sizes)}", op=name,
                             needed=f"the batch {x._structure.batch} first, and -1 or x.size({x._ragged}) where the "
                             "ragged size stands", remedy="unflatten, flatten or transpose of the others"))  # fmt: skip


def expand(func: Any, input: NestedTensor, *sizes: Any) -> NestedTensor:
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes
    x, own = input, tuple(input.shape)
    if len(sizes) != x.ndim or any(sizes[d] not in (-1, own[d]) for d in (0, x._ragged)):
        raise RuntimeError(text(f"expand(): cannot expand shape {own} -> {tuple(sizes)}", op="expand",
                                needed="-1 or their own sizes for the batch and the ragged dimension"))  # fmt: skip
    inner = [-1 if k == x._ragged else n for k, n in enumerate(sizes)][1:]
    return made(x._held.expand(inner), x._structure, x._ragged)  # type: ignore[attr-defined]


def expand_as(func: Any, input: Any, other: Any) -> Any:
    if isinstance(input, NestedTensor):
        return expand(func, input, tuple(other.shape))
    x = other.compacted()
    return x.with_values(spread(input, x, "expand_as").expand(x._held.shape))


# -- several -----------------------------------------------------------------------------------------------------------


def cat(func: Any, tensors: Sequence[Any], dim: int = 0) -> NestedTensor:
    many = _only_nested("cat", tensors)
    d = inner_dim("cat", many[0], dim)
    many = together("cat", many)
    return many[0].with_values(func([t._held for t in many], d - 1))


def stack(func: Any, tensors: Sequence[Any], dim: int = 0) -> NestedTensor:
    many = together("stack", _only_nested("stack", tensors))
    d = inner_dim("stack", many[0], dim, extra=1)
    ragged = many[0]._ragged + (d <= many[0]._ragged)
    return made(func([t._held for t in many], d - 1), many[0]._structure, ragged)


def _only_nested(name: str, tensors: Sequence[Any]) -> list[NestedTensor]:
    if not all(isinstance(t, NestedTensor) for t in tensors):
        raise unsupported(name, "nested and dense tensors do not join", any_nested(tensors))
    return list(tensors)
