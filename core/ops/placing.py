"""Copies with a part replaced, scatter with a reduction, and views by explicit strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import text
from ..base.shape import normalize_dim
from ..declare.kinds import Dim, Sizes
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..tensors.tensor import Tensor, from_array
from .gathering import _checked, _raised, _region, _scatter_add_forward, along, gather, scatter_add
from .indexing import index_put_
from .movement import copy_, to
from .pieces import diagonal, select, tensor_split
from .precision import rounded, wide
from .view_ops import _slice
from .views import expand, reshape
from .where import where

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]  # shape, strides and offset in elements

# -- views by strides --------------------------------------------------------------------------------------------------


def _root(a: Any) -> Any:
    """Return the array that owns the memory of `a`."""
    while True:
        base = a.base
        if not isinstance(base, type(a)):  # between a view by strides and what it views NumPy puts an object of its own
            base = getattr(base, "base", None)
        if not isinstance(base, type(a)):
            return a
        a = base


def _address(a: Any) -> int:
    return int(a.ctypes.data if isinstance(a, np.ndarray) else a.data.ptr)


def storage_offset(input: Tensor) -> int:
    """Return how many elements into its memory the first element of `input` lies."""
    a = input._a
    return (_address(a) - _address(_root(a))) // a.itemsize


def _reaches(geometry: Geometry) -> int:
    """One more than the greatest place in memory that is read; 0 for no element."""
    shape, stride, offset = geometry
    return 0 if 0 in shape else 1 + offset + sum((n - 1) * st for n, st in zip(shape, stride, strict=True))


def _strided_forward(xp: Any, x: Any, size: Any, stride: Any, offset: int, own: Any) -> Any:
    root = _root(x)
    flat = root if root.ndim == 1 else root.reshape(-1)
    return xp.lib.stride_tricks.as_strided(flat[offset:], size, tuple(st * x.itemsize for st in stride))


def _places(xp: Any, geometry: Geometry) -> Any:
    shape, stride, offset = geometry
    at = xp.full((), offset, xp.int64)
    for d, (n, st) in enumerate(zip(shape, stride, strict=True)):
        at = at + (xp.arange(n) * st).reshape([-1 if k == d else 1 for k in range(len(shape))])
    return xp.broadcast_to(at, shape)


def _restride_forward(xp: Any, x: Any, source: Geometry, target: Geometry) -> Any:
    n = max(_reaches(source), _reaches(target))
    at, values = _places(xp, source).reshape(-1), wide(x).reshape(-1)
    flat = xp.bincount(at, values.real.astype(np.float64), minlength=n)
    if x.dtype.kind == "c":
        flat = flat + 1j * xp.bincount(at, values.imag.astype(np.float64), minlength=n)
    return flat[_places(xp, target)].astype(x.dtype)


def _as_strided_vjp(g: Tensor, x_shape: Any, size: Any, stride: Any, offset: int, own: Any) -> Tensor:
    return _restride(g, source=(size, stride, offset), target=(x_shape, *own))  # type: ignore[no-any-return]


_OWN = ((12, 4, 1), 0)
_as_strided = operation(
    "as_strided",
    _strided_forward,
    params={"size": (), "stride": (), "offset": 0, "own": ((), 0)},
    vjp=_as_strided_vjp,
    view=True,
    samples=lambda rng: [((rng.uniform(-2, 2, (2, 3, 4)),),
                          {"size": (3, 3), "stride": (2, 1), "offset": 4, "own": _OWN})],
)  # fmt: skip
_restride: Any = operation(
    "restride",
    _restride_forward,
    params={"source": (), "target": ()},
    vjp=lambda g, source, target: _restride(g, source=target, target=source),
    samples=lambda rng: [
        ((rng.uniform(-2, 2, (3, 3)),), {"source": ((3, 3), (2, 1), 1), "target": ((4, 2), (2, 1), 0)})
    ],
    doc="x added into memory by one set of strides and read by another.",
)


@public()
def as_strided(input: Tensor, size: Sizes, stride: Sizes, storage_offset: int | None = None) -> Tensor:
    """Return a view of the memory of `input` with any shape, strides and offset, counted in elements.

    *Raises*: RuntimeError for negative strides, or where the view would reach out of the memory.

    >>> import core
    >>> core.as_strided(core.arange(6), (2, 2), (1, 2), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    shape, step = tuple(int(n) for n in size), tuple(int(n) for n in stride)
    own = globals()["storage_offset"](input)
    offset = own if storage_offset is None else int(storage_offset)
    if len(shape) != len(step):
        raise RuntimeError(text("mismatch in length of strides and shape", op="as_strided", came=f"{shape} and {step}"))
    if any(st < 0 for st in step):
        raise RuntimeError(text("as_strided: Negative strides are not supported at the moment, got strides: "
                                f"{list(step)}", op="as_strided"))  # fmt: skip
    root = _root(input._a)
    if not root.flags.c_contiguous:  # memory that NumPy laid out; a copy is in order
        return as_strided(input.contiguous(), shape, step, storage_offset)
    needed, have = _reaches((shape, step, offset)) * input._a.itemsize, root.size * input._a.itemsize
    if needed > have or offset < 0:
        raise RuntimeError(
            text(
                f"setStorage: sizes {list(shape)}, strides {list(step)}, storage offset {offset}, and itemsize "
                f"{input._a.itemsize} requiring a storage size of {needed} "
                f"are out of bounds for storage of size {have}",
                op="as_strided",
            )
        )
    return _as_strided(input, size=shape, stride=step, offset=offset, own=(input.stride(), own))  # type: ignore[no-any-return]


# -- a part replaced ---------------------------------------------------------------------------------------------------


def _written(op: str, y: Tensor, part: Tensor, src: Tensor) -> Tensor:
    if part._a.shape != src._a.shape:
        raise RuntimeError(
            text(
                "expected src to have a size equal to the slice of self. src size = "
                f"{list(src._a.shape)}, slice size = {list(part._a.shape)}",
                op=op,
            )
        )
    copy_(part, src)
    return y


@public()
def select_scatter(input: Tensor, src: Tensor, dim: Dim, index: int) -> Tensor:
    """Return a copy of `input` with `src` as the slice at `index` along `dim`.

    >>> import core
    >>> core.select_scatter(core.zeros(2, 2), core.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    y = input.clone()
    return _written("select_scatter", y, select(y, dim, index), src)


@public()
def slice_scatter(input: Tensor, src: Tensor, dim: Dim = 0, start: int | None = None, end: int | None = None,
                  step: int = 1) -> Tensor:  # fmt: skip
    """Return a copy of `input` with `src` as its part from `start` to `end` along `dim`.

    >>> import core
    >>> core.slice_scatter(core.zeros(4), core.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    y = input.clone()
    d = normalize_dim(dim, input.ndim, "slice_scatter")
    return _written("slice_scatter", y, _slice(y, key=(*(slice(None),) * d, slice(start, end, step))), src)


@public()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: Dim = 0, dim2: Dim = 1) -> Tensor:
    """Return a copy of `input` with `src` as the diagonal of two dimensions.

    >>> import core
    >>> core.diagonal_scatter(core.zeros(2, 2), core.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    y = input.clone()
    return _written("diagonal_scatter", y, diagonal(y, offset, dim1, dim2), src)


@public()
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sizes, stride: Sizes, storage_offset: int | None = None
) -> Tensor:
    """Return a copy of `input` with `src` at the places that `as_strided` would read: places in the memory of `input`,
    of which a view does not show all.

    >>> import core
    >>> core.as_strided_scatter(core.zeros(4), core.ones(2), (2,), (2,), 1)
    tensor([0., 1., 0., 1.])
    """
    if not _root(input._a).flags.c_contiguous:  # memory that NumPy laid out
        input = input.contiguous()
    own = (tuple(input._a.shape), tuple(input.stride()), globals()["storage_offset"](input))
    there = (tuple(int(n) for n in size), tuple(int(n) for n in stride),
             own[2] if storage_offset is None else int(storage_offset))  # fmt: skip
    as_strided(input, *there)  # whatever is wrong with the sizes is told here
    memory = as_strided(input, (max(_reaches(own), _reaches(there)),), (1,), 0).clone()
    _written("as_strided_scatter", memory, as_strided(memory, *there), src)
    return as_strided(memory, *own).clone()


# -- scatter with a reduction ------------------------------------------------------------------------------------------

_START = {"sum": 0, "mean": 0, "prod": 1}
_UFUNC = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}


def _reduce_forward(xp: Any, x: Any, index: Any, src: Any, dim: int, reduce: str, include_self: bool) -> Any:
    if not index.size:
        return x.copy()
    w, source, key = wide(x).copy(), wide(src), along(xp, index, dim)
    if not include_self:
        if reduce in _START:
            w[key] = _START[reduce]
        else:
            lowest, highest = (-np.inf, np.inf) if w.dtype.kind == "f" else _range(w.dtype)
            w[key] = lowest if reduce == "amax" else highest
    if reduce in _UFUNC:
        getattr(xp, _UFUNC[reduce]).at(w, tuple(xp.broadcast_arrays(*key)), source)
        return rounded(w, x.dtype)
    w = _scatter_add_forward(xp, w, index, source, dim)
    if reduce == "mean":
        ones = xp.ones(index.shape, w.dtype)
        start = xp.ones_like(w) if include_self else xp.zeros_like(w)
        counts = xp.maximum(_scatter_add_forward(xp, start, index, ones, dim), 1)
        w = w / counts if w.dtype.kind == "f" else xp.floor_divide(w, counts)
    return rounded(w, x.dtype)


def _range(d: Any) -> tuple[Any, Any]:
    return (False, True) if d.kind == "b" else (np.iinfo(d).min, np.iinfo(d).max)


def _reduce_vjp(g: Tensor, x: Tensor, index: Tensor, src: Tensor, y: Tensor, dim: int, reduce: str,
                include_self: bool) -> tuple[Tensor | None, ...]:  # fmt: skip
    def back(t: Tensor) -> Tensor:
        return gather(t, dim, index)

    if reduce == "sum":
        to_x, to_src = g, back(g)
    elif reduce == "mean":
        start = x.detach() * 0.0 + (1.0 if include_self else 0.0)
        share = g / scatter_add(start, dim, index, src.detach() * 0.0 + 1.0).clamp(min=1)
        to_x, to_src = share, back(share)
    elif reduce == "prod":
        to_x, to_src = _product_gradients(g, x, index, src, y, dim, include_self)
    else:
        mine = (x.detach() == y.detach()).to(g.dtype)
        hit = (src.detach() == back(y.detach())).to(g.dtype)
        mine = mine if include_self else mine.scatter(dim, index, 0.0)
        share = g / scatter_add(mine, dim, index, hit).clamp(min=1)
        to_x, to_src = mine * share, hit * back(share)
    return to_x if include_self else to_x.scatter(dim, index, 0.0), None, to_src


def _product_gradients(g: Tensor, x: Tensor, index: Tensor, src: Tensor, y: Tensor, dim: int,
                       include_self: bool) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Each factor's gradient is the product of the others; a factor of 0 is replaced by 1 to find it."""
    x_zero, src_zero = x.detach() == 0, src.detach() == 0
    ones = where(x_zero, 1.0, x)
    to_x = g * _scatter_reduce(ones, index, src, dim=dim, reduce="prod", include_self=include_self) / ones
    zeros = gather(scatter_add(x.detach() * 0.0, dim, index, src_zero.to(g.dtype)), dim, index)
    single = src_zero & (zeros == 1)
    others = _scatter_reduce(x, index, where(single, 1.0, src), dim=dim, reduce="prod", include_self=include_self)
    plain = gather(g * y, dim, index) / where(src_zero, 1.0, src)
    return to_x, where(single, gather(g * others, dim, index), plain)


def _reduce_samples(rng: Any) -> list[Any]:
    x, src = rng.permutation(12).reshape(3, 4) / 5.0 + 0.31, rng.permutation(8).reshape(2, 4) / 3.0 + 0.1
    index = np.array([[0, 2, 1, 0], [0, 0, 1, 2]])
    return [((x, index, src), {"dim": 0, "reduce": r, "include_self": k})
            for r in ("sum", "prod", "mean", "amax", "amin") for k in (True, False)]  # fmt: skip


_scatter_reduce: Any = operation("scatter_reduce", _reduce_forward, inputs="x index src",
                                 params={"dim": 0, "reduce": "sum", "include_self": True}, vjp=_reduce_vjp,
                                 samples=_reduce_samples)  # fmt: skip


@public(inplace=True, home="index",
        fast=[Fast(body="reduced_into(op.scatter_reduce, input, dim, index, src, reduce, include_self)",
                   types={"input": "piece", "index": "index", "src": "piece"}, raw=("reduce",),
                   check=("goes_along({input}, {dim}, {index})",))])  # fmt: skip
def scatter_reduce(input: Tensor, dim: Dim, index: Tensor, src: Tensor, reduce: str, *,
                   include_self: bool = True) -> Tensor:  # fmt: skip
    """Return a copy of `input` with the elements of `src` reduced into the places that `index` names along `dim`.

    `reduce` is "sum", "prod", "mean", "amax" or "amin"; without `include_self` the input's own elements there do not
    count. *Raises*: RuntimeError as `scatter`.

    >>> import core
    >>> x, i = core.tensor([1.0, 2.0]), core.tensor([0, 0, 1])
    >>> core.scatter_reduce(x, 0, i, core.tensor([3.0, 4.0, 5.0]), "mean", include_self=False)
    tensor([3.5000, 5.0000])
    """
    if reduce not in (*_START, *_UFUNC):
        raise RuntimeError(text("reduce argument must be either sum, prod, mean, amax or amin, got " + str(reduce),
                                op="scatter_reduce"))  # fmt: skip
    if src.dtype is not input.dtype:
        raise RuntimeError(text("scatter(): Expected self.dtype to be equal to src.dtype", op="scatter_reduce",
                                came=f"{input.dtype} and {src.dtype}", remedy="src.to(x.dtype)"))  # fmt: skip
    d = _checked("scatter_reduce", input, dim, index, src)
    x, i, s = _raised(input, index, src)
    s = s[_region(i._a)] if s._a.shape != i._a.shape else s
    y = _scatter_reduce(x, i, s, dim=d, reduce=reduce, include_self=bool(include_self))
    return y if input.ndim else reshape(y, ())


@public(inplace=True)
def index_reduce(input: Tensor, dim: Dim, index: Tensor, source: Tensor, reduce: str, *,
                 include_self: bool = True) -> Tensor:  # fmt: skip
    """Return a copy of `input` with the slices of `source` reduced into those at `index`: "prod", "mean", "amax" or
    "amin".

    >>> import core
    >>> core.index_reduce(core.ones(2), 0, core.tensor([0, 0]), core.tensor([2.0, 3.0]), "prod")
    tensor([6., 1.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(text("index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
                                f"{reduce}.", op="index_reduce"))  # fmt: skip
    d = normalize_dim(dim, input.ndim, "index_reduce")
    if not input.ndim:
        many = index_reduce(reshape(input, 1), 0, index, reshape(source, -1), reduce, include_self=include_self)
        return reshape(many, ())  # type: ignore[no-any-return]
    rows = index.reshape([-1 if k == d else 1 for k in range(input.ndim)])
    return scatter_reduce(input, d, expand(rows, source._a.shape), source, reduce, include_self=include_self)


@public()
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Write `source` to the places `index` of the flattened tensor, adding with `accumulate`.

    >>> import core
    >>> core.zeros(2, 2).put_(core.tensor([1, 2]), core.tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [6., 0.]])
    """
    if source.numel() != index.numel():
        raise RuntimeError(
            text(
                "put_(): Expected source and index to have the same number of elements, but got source "
                f"with {source.numel()} elements, index with {index.numel()} elements",
                op="put_",
            )
        )
    flat = input.view(-1) if input.is_contiguous() else None
    if flat is not None:
        index_put_(flat, (index.reshape(-1),), to(source.reshape(-1), input._kind), accumulate)
        return input
    places = np.unravel_index(np.asarray(index._a.reshape(-1)) % input.numel(), input._a.shape)
    keys = tuple(from_array(np.asarray(p), input.device) for p in places)
    return index_put_(input, keys, to(source.reshape(-1), input._kind), accumulate)


@public()
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """As `put_`, on a copy.

    >>> import core
    >>> core.put(core.zeros(3), core.tensor([1]), core.tensor([5.0]))
    tensor([0., 5., 0.])
    """
    return put_(input.clone(), index, source, accumulate)


# -- pieces along one dimension ----------------------------------------------------------------------------------------


def _split(name: str, least: int, dim: Any) -> Any:
    def function(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
        if input.ndim < least:
            raise RuntimeError(text(f"torch.{name} requires a tensor with at least {least} dimension"
                                    f"{'s' if least > 1 else ''}, but got a tensor with {input.ndim} dimensions!",
                                    op=name))  # fmt: skip
        d = dim(input.ndim)
        n = input._a.shape[d]
        if isinstance(indices_or_sections, int) and (indices_or_sections < 1 or n % indices_or_sections):
            raise RuntimeError(
                text(
                    f"torch.{name} attempted to split along dimension {d}, but the size of the dimension {n} is not "
                    f"divisible by the split_size {indices_or_sections}!",
                    op=name,
                )
            )
        return tensor_split(input, indices_or_sections, d)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        "Views of pieces along the dimension that the name says: a number of equal ones, or those that begin at the "
        f"given indices.\n\n    >>> import core\n    >>> len(core.{name}(core.ones(2, 2, 2), 2))\n    2\n    "
    )
    return function


hsplit = public()(_split("hsplit", 1, lambda n: 0 if n == 1 else 1))
vsplit = public()(_split("vsplit", 2, lambda n: 0))
dsplit = public()(_split("dsplit", 3, lambda n: 2))
