"""Joining and rearranging with a copy: cat, stack, repeat, flip, roll, triangles, grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import backends
from ..base import dtypes
from ..base.errors import text
from ..base.shape import as_shape, broadcast_shapes, normalize_dim
from ..declare.kinds import Dim, Dims, Ints, Size, Sizes, Tensors
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.operands import need_tensors
from ..dispatch.out import into
from ..dispatch.publish import public
from ..tensors.tensor import Tensor, from_array
from .creation import arange
from .movement import in_a_format, to
from .pieces import _atleast, narrow, unbind
from .view_ops import samples
from .views import expand, permute, reshape, unsqueeze

# -- joins -------------------------------------------------------------------------------------------------------------


def _cat_vjp(g: Tensor, tensors_shape: Any, dim: int, needs: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
    at, out = 0, []
    for shape, need in zip(tensors_shape, needs, strict=True):
        out.append(narrow(g, dim, at, shape[dim]) if need else None)
        at += shape[dim]
    return tuple(out)


def _stack_vjp(g: Tensor, dim: int) -> tuple[Tensor, ...]:
    return unbind(g, dim)


def _three(shapes: Any) -> Any:
    return lambda rng: [(tuple(rng.uniform(-2, 2, shape) for shape in shapes), {"dim": 1})]


_cat = operation(
    "cat",
    lambda xp, *tensors, dim: xp.ascontiguousarray(xp.concatenate(tensors, axis=dim)),  # NumPy keeps column order
    inputs="tensors*",
    params={"dim": 0},
    vjp=_cat_vjp,
    samples=_three([(2, 1), (2, 3), (2, 2)]),
)
_stack = operation("stack", lambda xp, *tensors, dim: xp.ascontiguousarray(xp.stack(tensors, axis=dim)),
                   inputs="tensors*", params={"dim": 0}, vjp=_stack_vjp, samples=_three([(2, 3)] * 3))  # fmt: skip


def _listed(tensors: Any, op: str) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        raise TypeError(f"{op}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor\n"
                        f"  remedy: core.{op}([x, y])")  # fmt: skip
    out = list(tensors)
    for i, t in enumerate(out):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(t).__name__}\n  op: {op}")
    if not out and op != "cat":
        raise RuntimeError(text(f"{op} expects a non-empty TensorList", op=op))
    if not out:
        raise ValueError(text(f"{op}(): expected a non-empty list of Tensors", op=op))
    return out


def _of_one_dtype(tensors: Sequence[Tensor]) -> list[Tensor]:
    dimmed = [t.dtype for t in tensors if t.ndim]
    found = dtypes.result_type(dimmed, [t.dtype for t in tensors if not t.ndim], [])
    return [t if t.dtype is found else to(t, found) for t in tensors]


@public(
    "concat",
    "concatenate",
    method=False,
    home="cat_stack",
    state="any",
    fast=[Fast(body="joined_along(tensors, dim, OP_CAT)")],
)
def cat(tensors: Tensors, dim: Dim = 0, *, out: Tensor | None = None) -> Tensor:
    """Return the tensors one after another along `dim`; in all other dimensions their sizes agree.

    *Raises*: RuntimeError where they do not.

    >>> import core
    >>> core.cat([core.tensor([1, 2]), core.tensor([3])])
    tensor([1, 2, 3])
    """
    many = _listed(tensors, "cat")
    shape, known = many[0]._a.shape, many[0]._kind
    if len(shape) > 0 and out is None and shape != (0,):
        for t in many:
            if t._kind is not known or t._a.shape != shape:
                break
        else:  # tensors all alike are the most frequent, and need no more questions
            return _cat(*many, dim=normalize_dim(dim, len(shape), "cat"))
    for i, t in enumerate(many):
        if not t.ndim:
            raise RuntimeError(text(f"zero-dimensional tensor (at position {i}) cannot be concatenated", op="cat",
                                    remedy="core.stack, or x.reshape(1)"))  # fmt: skip
    # PyTorch lets an empty vector stand among tensors of any shape
    some = [t for t in many if t._a.shape != (0,)] or many[:1]
    d = normalize_dim(dim, some[0].ndim, "cat")
    first = some[0]._a.shape
    for i, t in enumerate(some):
        shape = t._a.shape
        if len(shape) != len(first):
            raise RuntimeError(text(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}",
                                    op="cat", came=f"{tuple(first)} and {tuple(shape)}"))  # fmt: skip
        for k in range(len(first)):
            if k != d and shape[k] != first[k]:
                raise RuntimeError(
                    text(
                        f"Sizes of tensors must match except in dimension {d}. Expected size {first[k]} but "
                        f"got size {shape[k]} for tensor number {i} in the list.",
                        op="cat",
                        came=f"{tuple(first)} and {tuple(shape)}",
                    )
                )
    if len(some) < len(many) and first != (
        0,
    ):  # the empty vectors join too: they have gradients, and their dtypes count
        nothing = (*first[:d], 0, *first[d + 1 :])
        many = [reshape(t, nothing) if t._a.shape == (0,) else t for t in many]
    return _into(out, _cat(*_of_one_dtype(many), dim=d))


def _into(out: Tensor | None, result: Tensor) -> Tensor:
    if out is None:
        return result
    return into(out, result)


@public(
    method=False,
    home="cat_stack",
    state="any",
    fast=[Fast(body="joined_along(tensors, dim, OP_STACK)", ndim={"dim": "tensors_t.ndim + 1"})],
)
def stack(tensors: Tensors, dim: Dim = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape side by side in a new dimension.

    *Shapes*: n of ``(a, b)`` -> ``(n, a, b)`` for dim 0. *Raises*: RuntimeError for unequal shapes.

    >>> import core
    >>> core.stack([core.tensor([1, 2]), core.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    many = _listed(tensors, "stack")
    first = many[0]._a.shape
    for i, t in enumerate(many):
        if t._a.shape != first:
            raise RuntimeError(text(f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                                    f"{list(t._a.shape)} at entry {i}", op="stack"))  # fmt: skip
    return _into(out, _stack(*_of_one_dtype(many), dim=normalize_dim(dim, len(first) + 1, "stack")))


@public(method=False, home="cat_stack", state="any", fast=[
    Fast(body="joined_along(tensors, tensors_t.ndim > 1, OP_CAT)", check=("tensors_t.ndim > 0",))
])  # fmt: skip
def hstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Return the tensors side by side: along dim 1, vectors along dim 0."""
    many = [_atleast(1)(t) for t in _listed(tensors, "hstack")]
    return cat(many, 0 if many[0].ndim == 1 else 1, out=out)


@public(method=False)
def column_stack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Return the tensors side by side along dim 1, vectors as columns.

    >>> import core
    >>> core.column_stack([core.tensor([1, 2]), core.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    many = [reshape(t, (t.numel(), 1)) if t.ndim < 2 else t for t in _listed(tensors, "column_stack")]
    return cat(many, 1, out=out)


@public("row_stack", method=False, home="cat_stack", state="any",
        fast=[Fast(body="joined_along(tensors, 0, OP_CAT)", check=("tensors_t.ndim > 1",))])  # fmt: skip
def vstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Return the tensors one below another, vectors as rows."""
    return cat([_atleast(2)(t) for t in _listed(tensors, "vstack")], 0, out=out)


@public(method=False)
def dstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Return the tensors one behind another, along dim 2."""
    return cat([_atleast(3)(t) for t in _listed(tensors, "dstack")], 2, out=out)


# -- copies in another order -------------------------------------------------------------------------------------------

_flip: Any = operation("flip", lambda xp, x, dims: xp.flip(x, dims).copy(), params={"dims": ()},
                  vjp=lambda g, dims: _flip(g, dims=dims), samples=samples({"dims": (0, 2)}))  # fmt: skip
_roll: Any = operation("roll", lambda xp, x, shifts, dims: xp.roll(x, shifts, dims), params={"shifts": (), "dims": ()},
                  vjp=lambda g, shifts, dims: _roll(g, shifts=tuple(-k for k in shifts), dims=dims),
                  samples=samples({"shifts": (1, -2), "dims": (0, 2)}, {"shifts": (-1,), "dims": (1,)}))  # fmt: skip
_tril: Any = operation(
    "tril",
    lambda xp, x, diagonal: xp.tril(x, diagonal),
    params={"diagonal": 0},
    vjp=lambda g, diagonal: _tril(g, diagonal=diagonal),
    samples=samples({"diagonal": 0}, {"diagonal": -1}),
    contiguous=True,
)
_triu: Any = operation(
    "triu",
    lambda xp, x, diagonal: xp.triu(x, diagonal),
    params={"diagonal": 0},
    vjp=lambda g, diagonal: _triu(g, diagonal=diagonal),
    samples=samples({"diagonal": 0}, {"diagonal": 1}),
    contiguous=True,
)
_repeat = operation(
    "repeat",
    lambda xp, x, sizes: xp.tile(x, sizes),
    params={"sizes": ()},
    vjp=lambda g, x_shape, sizes: _repeat_vjp(g, x_shape, sizes),
    samples=samples({"sizes": (2, 1, 3, 2)}),
)
_repeat_interleave = operation("repeat_interleave", lambda xp, x, repeats, dim: xp.repeat(x, repeats, dim),
                               params={"repeats": 1, "dim": 0},
                               vjp=lambda g, x_shape, repeats, dim:
                               g.reshape((*x_shape[: dim + 1], repeats, *x_shape[dim + 1 :])).sum(dim + 1),
                               samples=samples({"repeats": 2, "dim": 1}))  # fmt: skip


def _repeat_vjp(g: Tensor, x_shape: tuple[int, ...], sizes: tuple[int, ...]) -> Tensor:
    lead = len(sizes) - len(x_shape)
    shape = (1,) * lead + tuple(x_shape)
    apart = reshape(g, tuple(n for pair in zip(sizes, shape, strict=True) for n in pair))
    total = apart.sum(tuple(range(0, 2 * len(sizes), 2))) if sizes else apart
    return reshape(total, x_shape)


@public(home="index", fast=[Fast(body="flipped(op.flip, input, order, dims)", types={"input": "piece"}, raw=("dims",))])
def flip(input: Tensor, *order: Size, dims: Dims | None = None) -> Tensor:
    """Return a copy with the order along `dims` reversed.

    >>> import core
    >>> core.flip(core.tensor([1, 2, 3]), [0])
    tensor([3, 2, 1])
    """
    given = as_shape(order if dims is None else (dims,))
    full = tuple(normalize_dim(d, input.ndim, "flip") for d in given)
    if len(set(full)) < len(full):
        raise RuntimeError(
            text(f"dim {full[0]} appears multiple times in the list of dims", op="flip", came=f"{given}")
        )
    return _flip(input, dims=full if input.ndim else ())


@public()
def fliplr(input: Tensor) -> Tensor:
    """Return a copy with the columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError(text("Input must be >= 2-d.", op="fliplr"))
    return _flip(input, dims=(1,))


@public()
def flipud(input: Tensor) -> Tensor:
    """Return a copy with the rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError(text("Input must be >= 1-d.", op="flipud"))
    return _flip(input, dims=(0,))


@public()
def rot90(input: Tensor, k: int = 1, dims: Sizes = (0, 1)) -> Tensor:
    """`input` turned by 90 degrees k times, from the first of `dims` towards the second.

    >>> import core
    >>> core.rot90(core.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(text(f"expected total rotation dims == 2, but got dims = {len(dims)}", op="rot90"))
    if input.ndim < 2:
        raise RuntimeError(text(f"expected total dims >= 2, but got total dims = {input.ndim}", op="rot90"))
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == input.ndim:
        raise RuntimeError(text(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = "
                                f"{dims[1]}", op="rot90"))  # fmt: skip
    a, b = (normalize_dim(d, input.ndim, "rot90") for d in dims)
    if k % 4 == 1:
        return _flip(input, dims=(b,)).transpose(a, b)
    if k % 4 == 3:
        return _flip(input, dims=(a,)).transpose(a, b)
    return _flip(input, dims=(a, b) if k % 4 == 2 else ())


@public(
    home="index",
    fast=[Fast(body="rolled(op.roll, input, shifts, dims)", types={"input": "piece"}, raw=("shifts", "dims"))],
)
def roll(input: Tensor, shifts: Ints, dims: Dims | None = None) -> Tensor:
    """`input` with its elements moved on by `shifts` along `dims`; what leaves at the end comes in at the start.

    >>> import core
    >>> core.roll(core.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    steps = as_shape(shifts if isinstance(shifts, tuple | list) else (shifts,))
    if dims is None or dims == () or dims == []:
        if len(steps) != 1:
            raise RuntimeError(text(f"shifts and dimensions must align. shifts: {len(steps)}, dims:0", op="roll"))
        return reshape(_roll(reshape(input, -1), shifts=steps, dims=(0,)), tuple(input._a.shape))
    where = as_shape(dims if isinstance(dims, tuple | list) else (dims,))
    if len(steps) != len(where):
        raise RuntimeError(
            text(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(where)}", op="roll")
        )
    return _roll(in_a_format(input), shifts=steps, dims=tuple(normalize_dim(d, input.ndim, "roll") for d in where))


@public(namespace=None)
def repeat(input: Tensor, *sizes: Size, repeats: Sizes | None = None) -> Tensor:
    """`input` laid out that many times along each dimension, as a copy.

    >>> import core
    >>> core.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    times = as_shape(sizes if repeats is None else (repeats,))
    if len(times) < input.ndim:
        raise RuntimeError(
            text(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
                op="repeat",
                came=f"{times} for shape {tuple(input._a.shape)}",
            )
        )
    return _repeat(input, sizes=times)


@public()
def tile(input: Tensor, *sizes: Size, dims: Dims | None = None) -> Tensor:
    """As `repeat`, for fewer numbers than dimensions too: they are those of the last dimensions.

    >>> import core
    >>> core.tile(core.tensor([[1], [2]]), (2,))
    tensor([[1, 1],
            [2, 2]])
    """
    times = as_shape(sizes if dims is None else (dims,))
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


@public()
def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: Dim | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every element along `dim` (of the flattened input if None) `repeats` times in a row.

    >>> import core
    >>> core.repeat_interleave(core.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:  # PyTorch's other form: index i `input[i]` times in a row
        return repeat_interleave(arange(input.numel(), device=input.device), input)  # type: ignore[attr-defined]
    x = reshape(input, -1) if dim is None else input
    d = 0 if dim is None else normalize_dim(dim, input.ndim, "repeat_interleave")
    if isinstance(repeats, Tensor):
        from .gathering import index_select

        n = x._a.shape[d]
        if repeats.numel() not in (1, n):
            raise RuntimeError(
                text(
                    "repeats must have the same size as input along dim, but got repeats.size(0) = "
                    f"{repeats.numel()} and input.size({d}) = {n}",
                    op="repeat_interleave",
                )
            )
        xp = backends.array_module(x.device.type)
        times = repeats._a.reshape(-1).tolist() * (n if repeats.numel() == 1 != n else 1)
        return index_select(x, d, from_array(xp.repeat(xp.arange(n), times), x.device))
    if repeats < 0:
        raise RuntimeError(text("repeats has to be non-negative", op="repeat_interleave", came=f"{repeats}"))
    return _repeat_interleave(x, repeats=int(repeats), dim=d)


def _triangle(name: str, raw: Any, which: str) -> None:
    def function(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
        if input.ndim < 2:
            raise RuntimeError(text(f"{name}: input tensor must have at least 2 dimensions", op=name))
        return _into(out, raw(input, diagonal=diagonal))

    function.__name__ = function.__qualname__ = name
    result = "[[1., 0.],\n            [1., 1.]]" if name == "tril" else "[[1., 1.],\n            [0., 1.]]"
    function.__doc__ = (
        f"The {which} triangle of every matrix, zeros elsewhere; `diagonal` counts upwards.\n\n"
        f"    >>> import core\n    >>> core.{name}(core.ones(2, 2))\n    tensor({result})\n    "
    )
    plain = Fast(op=f"{name}(input, diagonal)", types={"input": "piece"}, check=("PyArray_NDIM({input}) >= 2",))
    public(inplace=True, home="index", fast=[plain])(function)


_triangle("tril", _tril, "lower")
_triangle("triu", _triu, "upper")

# -- several at once ---------------------------------------------------------------------------------------------------


@public(method=False)
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of the tensors, all stretched to their common shape.

    >>> import core
    >>> [tuple(t.shape) for t in core.broadcast_tensors(core.ones(3, 1), core.ones(2))]
    [(3, 2), (3, 2)]
    """
    many: Any = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    shape = broadcast_shapes(*(t._a.shape for t in many), op="broadcast_tensors")
    return tuple(expand(t, shape) for t in many)


@public(method=False)
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Grids of coordinates: the k-th result varies along dimension k ("xy": the first two exchanged).

    >>> import core
    >>> a, b = core.meshgrid(core.tensor([1, 2]), core.tensor([3, 4, 5]), indexing="ij")
    >>> b
    tensor([[3, 4, 5],
            [3, 4, 5]])
    """
    many: Any = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    if indexing not in ("ij", "xy"):
        raise RuntimeError(text("meshgrid: indexing must be one of \"xy\" or \"ij\", but received: " + str(indexing),
                                op="meshgrid"))  # fmt: skip
    if any(t.ndim > 1 for t in many):
        raise RuntimeError(text("Expected 0D or 1D tensor in the tensor list but got: "
                                f"{next(t for t in many if t.ndim > 1).ndim}D", op="meshgrid"))  # fmt: skip
    shape = tuple(t.numel() for t in many)
    n = len(shape)
    grids = [expand(reshape(t, (-1,) + (1,) * (n - 1 - k)), shape) for k, t in enumerate(many)]
    if indexing == "xy" and n > 1:
        order = (1, 0, *range(2, n))
        grids = [permute(g, order) for g in grids]
    return tuple(grids)


@public(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one a row.

    >>> import core
    >>> core.cartesian_prod(core.tensor([1, 2]), core.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    need_tensors("cartesian_prod", ["tensors"] * len(tensors), tensors)
    if len(tensors) == 1:
        return tensors[0]
    return cat([unsqueeze(reshape(g, -1), 1) for g in meshgrid(*tensors)], 1)
