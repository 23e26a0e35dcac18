"""Look-ups and their reverse along one dimension: gather, scatter, index_select, index_add, masks, nonzero."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from .. import backends, native
from ..backends.accumulate import add_rows
from ..base import dtypes
from ..base.device import kind as kind_of
from ..base.errors import text
from ..base.scalars import element
from ..base.shape import broadcast_shapes, normalize_dim
from ..declare import op as declarations
from ..declare.kinds import Dim, Scalar
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.out import into
from ..dispatch.publish import public
from ..tensors.tensor import Tensor, from_array, was_read
from .creation import full
from .elementwise import scaled
from .indexing import _advanced, _index, _index_put
from .movement import to
from .views import expand, reshape
from .where import where

# -- the ops -----------------------------------------------------------------------------------------------------------


def along(xp: Any, index: Any, dim: int) -> tuple[Any, ...]:
    """Return the key that reads ``x[i, index[i, j], k]`` (for dim 1) at every place of `index`."""
    n = index.ndim
    key = [xp.arange(m).reshape((1,) * d + (m,) + (1,) * (n - 1 - d)) for d, m in enumerate(index.shape)]
    key[dim] = index
    return tuple(key)


def _region(index: Any) -> tuple[slice, ...]:
    return tuple(slice(0, m) for m in index.shape)


def _scatter(xp: Any, x: Any, index: Any, src: Any, dim: int) -> Any:
    out = x.copy()
    if index.size:
        out[along(xp, index, dim)] = src
    return out


def _scatter_add_forward(xp: Any, x: Any, index: Any, src: Any, dim: int) -> Any:
    out = xp.ascontiguousarray(x).copy().reshape(x.shape)
    if index.size:
        places, step = 0, 1
        for d in reversed(range(x.ndim)):
            places = places + along(xp, index, dim)[d] * step
            step *= x.shape[d]
        add_rows(xp, out.reshape(-1, 1), xp.broadcast_to(places, index.shape).reshape(-1), src.reshape(-1, 1))
    return out


def _samples(rng: Any) -> Any:
    x, src = rng.uniform(-2, 2, (3, 4)), rng.uniform(-2, 2, (2, 4))
    return x, np.array([[0, 2, 1, 0], [2, 0, 0, 1]]), src


_gather = operation("gather", lambda xp, x, index, dim: x[along(xp, index, dim)], inputs="x index", params={"dim": 0},
                    vjp=(lambda g, x_shape, index, dim: _gather_backward(g, index, shape=x_shape, dim=dim), None),
                    samples=lambda rng: [((_samples(rng)[0], _samples(rng)[1]), {"dim": 0})],
                    contiguous=True)  # fmt: skip
_gather_backward: Any = operation("gather_backward",
                             lambda xp, g_, index, shape, dim:
                             _scatter_add_forward(xp, xp.zeros(shape, g_.dtype), index, g_, dim),
                             inputs="g_ index", params={"shape": (), "dim": 0},
                             vjp=(lambda g, index, dim: _gather(g, index, dim=dim), None),
                             samples=lambda rng: [(_samples(rng)[:0:-1], {"shape": (3, 4), "dim": 0})])  # fmt: skip
_scatter_add = operation("scatter_add", _scatter_add_forward, inputs="x index src", params={"dim": 0},
                         vjp=(lambda g: g, None, lambda g, index, dim: _gather(g, index, dim=dim)),
                         samples=lambda rng: [(_samples(rng), {"dim": 0})])  # fmt: skip
_scatter_op: Any = operation(
    "scatter",
    _scatter,
    inputs="x index src",
    params={"dim": 0},
    vjp=(
        lambda g, index, dim: _scatter_op(g, index, _zero(g, index), dim=dim),
        None,
        lambda g, index, dim: _gather(g, index, dim=dim),
    ),
    samples=lambda rng: [((_samples(rng)[0], np.array([[0, 2, 1, 0], [2, 0, 0, 1]]), _samples(rng)[2]), {"dim": 0})],
)


def _zero(g: Tensor, index: Tensor) -> Tensor:
    xp = backends.array_module(g.device.type)
    return from_array(xp.zeros(index._a.shape, g._a.dtype), g.device)


if native.module is not None:
    native.module.set_index_kind(kind_of(dtypes.int64))


# -- along one dimension, an index an element --------------------------------------------------------------------------


def _checked(op: str, input: Tensor, dim: int, index: Tensor, src: Tensor | None = None) -> int:
    d = normalize_dim(dim, input.ndim, op)
    if not isinstance(index, Tensor):
        raise TypeError(f"{op}(): argument 'index' must be Tensor, not {type(index).__name__}")
    if index.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(text(f"{op}(): Expected dtype int32/int64 for index", op=op, came=f"{index.dtype}",
                                remedy="index.long()"))  # fmt: skip
    shape, at = input._a.shape, index._a.shape
    if max(len(shape), 1) != max(len(at), 1):
        raise RuntimeError(text("Index tensor must have the same number of dimensions as "
                                f"{'input' if op == 'gather' else 'self'} tensor", op=op,
                                came=f"index {tuple(at)}, input {tuple(shape)}"))  # fmt: skip
    if index.numel():
        for k in range(len(at)):
            if k != d and at[k] > shape[k]:
                raise RuntimeError(
                    text(
                        f"Size does not match at dimension {k} expected index {list(at)} to be no larger than self "
                        f"{list(shape)} apart from dimension {d}",
                        op=op,
                    )
                )
            if src is not None and at[k] > src._a.shape[k]:
                raise RuntimeError(
                    text(
                        f"Expected index {list(at)} to be no larger than self {list(shape)} apart from dimension "
                        f"{d} and to be no larger size than src {list(src._a.shape)}",
                        op=op,
                    )
                )
        _in_range(index, shape[d] if shape else 1, d, op, RuntimeError)
    return d


def _in_range(index: Tensor, n: int, dim: int, op: str, error: Any, phrase: str = "") -> None:
    """Raise for an index out of range. On a GPU this would have to wait for it, so there it is not asked."""
    a = index._a
    if not isinstance(a, np.ndarray) or not a.size or index.device.type == "meta":
        return
    if native.module is not None and native.module.indices_within(a, 0, n):  # one pass, without temporaries
        return
    low, high = int(a.min()), int(a.max())
    if low < 0 or high >= n:
        bad = high if high >= n else low
        raise error(text(phrase or f"index {bad} is out of bounds for dimension {dim} with size {n}", op=op,
                         came=f"an index {bad}", needed=f"0 to {n - 1}"))  # fmt: skip


def _raised(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(reshape(t, 1) if not t.ndim else t for t in tensors)


@public(home="index",
        fast=[Fast(op="gather(input, index, dim)", types={"input": "piece", "index": "index"},
                   check=("goes_along({input}, {dim}, {index})",))])  # fmt: skip
def gather(input: Tensor, dim: Dim, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """``y[i, j] = input[index[i, j], j]`` for dim 0, ``input[i, index[i, j]]`` for dim 1.

    *Shapes*: the result has the shape of `index`, which is nowhere larger than `input` but along `dim`.
    *Raises*: RuntimeError for shapes that do not go together or an index out of range.

    >>> import core
    >>> core.gather(core.tensor([[1, 2], [3, 4]]), 1, core.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    if isinstance(index, Tensor) and not index.numel():  # of no index PyTorch asks neither dtype nor dimensions
        normalize_dim(dim, input.ndim, "gather")
        y = reshape(reshape(input, -1)[:0], index._a.shape)
    else:
        d = _checked("gather", input, dim, index)
        x, i = _raised(input, index)
        y = _gather(x, i, dim=d)
        y = y if index.ndim else reshape(y, ())
    return into(out, y)


def _source(input: Tensor, index: Tensor, src: Any, op: str) -> Tensor:
    if not isinstance(src, Tensor):
        return full(index.shape, element(src, input.dtype, op), dtype=input.dtype, device=input.device)
    if src.dtype is not input.dtype:
        raise RuntimeError(text(f"{op}(): Expected self.dtype to be equal to src.dtype", op=op,
                                came=f"{input.dtype} and {src.dtype}", remedy="src.to(x.dtype)"))  # fmt: skip
    return src


@public(inplace=True, home="index",
        fast=[Fast(body="scattered(op.scatter, input, dim, index, src)",
                   types={"input": "piece", "index": "index"}, given=("src",),
                   check=("goes_along({input}, {dim}, {index})",))])  # fmt: skip
def scatter(
    input: Tensor,
    dim: Dim,
    index: Tensor,
    src: Tensor | Scalar | None = None,
    *,
    value: Scalar | None = None,
    reduce: str | None = None,
) -> Tensor:
    """Return a copy of `input` with ``y[index[i, j], j] = src[i, j]`` (for dim 0); `src` may be a number.

    Where places repeat the last one stays. *Raises*: RuntimeError as `gather`.

    >>> import core
    >>> core.scatter(core.zeros(3), 0, core.tensor([2, 0]), core.tensor([1.0, 5.0]))
    tensor([5., 0., 1.])
    """
    given: Any = value if src is None else src
    if reduce == "add":
        return scatter_add(input, dim, index, _source(input, index, given, "scatter"))
    if reduce == "multiply":
        return declarations.functions["scatter_reduce"](
            input, dim, index, _source(input, index, given, "scatter"), "prod"
        )
    if reduce is not None:
        raise RuntimeError(text(f"reduce argument must be either add or multiply, got {reduce!r}", op="scatter"))
    source = _source(input, index, given, "scatter")
    d = _checked("scatter", input, dim, index, source)
    x, i, s = _raised(input, index, source)
    y = _scatter_op(x, i, s[_region(i._a)] if s._a.shape != i._a.shape else s, dim=d)
    return y if input.ndim else reshape(y, ())


@public(inplace=True, home="index",
        fast=[Fast(body="scattered(op.scatter_add, input, dim, index, src)",
                   types={"input": "piece", "index": "index", "src": "piece"},
                   check=("goes_along({input}, {dim}, {index})",))])  # fmt: skip
def scatter_add(input: Tensor, dim: Dim, index: Tensor, src: Tensor) -> Tensor:
    """Return a copy of `input` with ``y[index[i, j], j] += src[i, j]`` (for dim 0); equal places add up, in order.

    >>> import core
    >>> core.scatter_add(core.zeros(2), 0, core.tensor([0, 0, 1]), core.tensor([1.0, 2.0, 3.0]))
    tensor([3., 3.])
    """
    source = _source(input, index, src, "scatter_add")
    d = _checked("scatter_add", input, dim, index, source)
    x, i, s = _raised(input, index, source)
    y = _scatter_add(x, i, s[_region(i._a)] if s._a.shape != i._a.shape else s, dim=d)
    return y if input.ndim else reshape(y, ())


@public(home="index", fast=[Fast(op="gather(input, indices, dim)", types={"input": "piece", "indices": "index"},
                                 given=("dim",), check=("goes_beside({input}, {dim}, {indices})",))])  # fmt: skip
def take_along_dim(input: Tensor, indices: Tensor, dim: Dim | None = None) -> Tensor:
    """As `gather`, with `indices` and `input` broadcast in the other dimensions; without `dim` on the flattened input.

    >>> import core
    >>> x = core.tensor([[3, 1], [2, 4]])
    >>> core.take_along_dim(x, core.tensor([[1], [0]]), dim=1)
    tensor([[1],
            [2]])
    """
    if dim is None:
        return gather(reshape(input, -1), 0, reshape(indices, -1))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            text(
                "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
                f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices",
                op="take_along_dim",
            )
        )
    d = normalize_dim(dim, input.ndim, "take_along_dim")
    rest = [tuple(1 if k == d else n for k, n in enumerate(t._a.shape)) for t in (input, indices)]
    shape = broadcast_shapes(*rest, op="take_along_dim")
    x, i = (expand(t, tuple(t._a.shape[d] if k == d else n for k, n in enumerate(shape))) for t in (input, indices))
    n = input._a.shape[d]
    if not isinstance(i._a, np.ndarray) or (i.device.type == "cpu" and i.numel() and int(i._a.min()) < 0):
        i = from_array(backends.array_module(i.device.type).where(i._a < 0, i._a + n, i._a), i.device)
    return gather(x, d, i)


# -- along one dimension, an index a slice -----------------------------------------------------------------------------


def _on(d: int, index: Tensor) -> list[Any]:
    return [None] * d + [index._a.reshape(-1)]


def _vector(op: str, input: Tensor, dim: int, index: Tensor) -> int:
    d = normalize_dim(dim, input.ndim, op)
    if index.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(text(f"{op}(): Expected dtype int32 or int64 for index", op=op, came=f"{index.dtype}"))
    if index.ndim > 1:
        raise IndexError(
            text(f"{op}(): Index is supposed to be a vector", op=op, came=f"shape {tuple(index._a.shape)}")
        )
    _in_range(index, input._a.shape[d] if input.ndim else 1, d, op, IndexError, "index out of range in self")
    return d


@public(home="index", state="quiet",
        fast=[Fast(body="slices_at(input, dim, index)", types={"input": "piece", "index": "index"},
                   check=("is_list_for({input}, {dim}, {index})",))])  # fmt: skip
def index_select(input: Tensor, dim: Dim, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of the slices at `index` along `dim`.

    *Raises*: IndexError for an index out of range, or that is no vector.

    >>> import core
    >>> core.index_select(core.arange(6).reshape(2, 3), 1, core.tensor([2, 0]))
    tensor([[2, 0],
            [5, 3]])
    """
    d = _vector("index_select", input, dim, index)
    x = reshape(input, 1) if not input.ndim else input
    y = _advanced(_index, x, (), _on(d, index))
    return into(out, reshape(y, ()) if not input.ndim else y)


def _with_slices(op: str, input: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    d = _vector(op, input, dim, index)
    want = tuple(index.numel() if k == d else n for k, n in enumerate(input._a.shape))
    if input.ndim and source._a.shape != want and source.ndim:
        raise RuntimeError(
            text(
                f"{op}(): the source must match the input but along dim {d}, where it has as many slices as there "
                "are indices",
                op=op,
                came=f"{tuple(source._a.shape)}",
                needed=f"{want}",
            )
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            text(
                f"{op}(): self and source expected to have the same dtype, but got (self) {input.dtype} and "
                f"(source) {source.dtype}",
                op=op,
            )
        )
    x = reshape(input, 1) if not input.ndim else input
    y = _advanced(_index_put, x, (source,), _on(d, index), accumulate=accumulate)
    return reshape(y, ()) if not input.ndim else y


@public(inplace=True, home="index", state="quiet",
        fast=[Fast(body="put_slices(input, dim, index, source, Py_True)",
                   types={"input": "piece", "index": "index", "source": "piece"},
                   check=("is_list_for({input}, {dim}, {index})",))])  # fmt: skip
def index_add(input: Tensor, dim: Dim, index: Tensor, source: Tensor, *, alpha: Scalar = 1) -> Tensor:
    """Return a copy of `input` with the slices of `source` added at `index`; equal places add up, in order.

    >>> import core
    >>> core.index_add(core.zeros(2), 0, core.tensor([0, 0]), core.tensor([1.0, 2.0]))
    tensor([3., 0.])
    """
    return _with_slices("index_add", input, dim, index, source if alpha == 1 else scaled(source, alpha), True)


@public(inplace=True, home="index", state="quiet",
        fast=[Fast(body="put_slices(input, dim, index, source, Py_False)",
                   types={"input": "piece", "index": "index", "source": "piece"},
                   check=("is_list_for({input}, {dim}, {index})",))])  # fmt: skip
def index_copy(input: Tensor, dim: Dim, index: Tensor, source: Tensor) -> Tensor:
    """Return a copy of `input` with the slices of `source` put at `index`.

    >>> import core
    >>> core.index_copy(core.zeros(2), 0, core.tensor([1]), core.tensor([5.0]))
    tensor([0., 5.])
    """
    return _with_slices("index_copy", input, dim, index, source, False)


@public(inplace=True, home="index", state="quiet",
        fast=[Fast(body="slices_filled(input, dim, index, value)", types={"input": "piece", "index": "index"},
                   raw=("value",), check=("is_list_for({input}, {dim}, {index})",))])  # fmt: skip
def index_fill(input: Tensor, dim: Dim, index: Tensor, value: Tensor | Scalar) -> Tensor:
    """Return a copy of `input` with the slices at `index` set to a number.

    >>> import core
    >>> core.index_fill(core.ones(3), 0, core.tensor([1]), 5)
    tensor([1., 5., 1.])
    """
    d, places = normalize_dim(dim, input.ndim, "index_fill"), index._a
    if isinstance(places, np.ndarray) and places.size and places.min() < 0:  # these count from the end
        index = from_array(np.where(places < 0, places + (input._a.shape[d] if input.ndim else 1), places))
    _vector("index_fill", input, dim, index)
    x = reshape(input, 1) if not input.ndim else input
    if not isinstance(value, Tensor):
        value = element(value, x.dtype, "index_fill")
        value = from_array(backends.array_module(x.device.type).full((), value, x._a.dtype), x.device)
    elif value.ndim:
        raise RuntimeError(text("index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                                f"{value.ndim} dimension(s).", op="index_fill"))  # fmt: skip
    elif value.dtype is not x.dtype and (value.dtype.category > 1 or x.dtype.category == 1):
        element(value.item(), x.dtype, "index_fill")  # RuntimeError for what the input's dtype does not hold
    if value.requires_grad:  # a place that is named twice is filled once, and so counts once in the value's gradient
        xp = backends.array_module(x.device.type)
        none, one = from_array(xp.zeros(x._a.shape[d], bool), x.device), from_array(xp.ones((), bool), x.device)
        hit = _advanced(_index_put, none, (one,), _on(0, index), accumulate=False)
        y = where(hit.reshape([-1 if k == d else 1 for k in range(x.ndim)]), to(value, x._kind), x)
    else:
        y = _advanced(_index_put, x, (to(value, x._kind),), _on(d, index), accumulate=False)
    return reshape(y, ()) if not input.ndim else y


@public()
def take(input: Tensor, index: Tensor) -> Tensor:
    """Return the elements of the flattened input at `index`, in the shape of `index`.

    >>> import core
    >>> core.take(core.tensor([[1, 2], [3, 4]]), core.tensor([0, 3]))
    tensor([1, 4])
    """
    return reshape(input, -1)[index]


_MASK = ("PyArray_TYPE({mask}) == NPY_BOOL",)
_TRUE_ROWS = [Fast(body="rows_of_true(input)", types={"input": "piece"}, check=("PyArray_TYPE({input}) == NPY_BOOL",))]

# -- masks -------------------------------------------------------------------------------------------------------------


@public(home="masks", state="quiet",
        fast=[Fast(body="masked_items(input, mask)", types=dict.fromkeys(("input", "mask"), "piece"),
                   check=_MASK)])  # fmt: skip
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the elements where `mask` is true, as a vector; both broadcast.

    >>> import core
    >>> core.masked_select(core.tensor([1, 2, 3]), core.tensor([True, False, True]))
    tensor([1, 3])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(text("masked_select: expected BoolTensor for mask", op="masked_select", came=f"{mask.dtype}",
                                remedy="mask.bool()"))  # fmt: skip
    shape = broadcast_shapes(input._a.shape, mask._a.shape, op="masked_select")
    return into(out, expand(input, shape)[expand(mask, shape)] if shape else reshape(input, 1)[reshape(mask, 1)])


@public(inplace=True, home="masks", state="quiet",
        fast=[Fast(body="filled_in_order(input, mask, source)", check=_MASK,
                   types=dict.fromkeys(("input", "mask", "source"), "piece"))])  # fmt: skip
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return a copy of `input` with the elements of `source`, in order, where `mask` is true.

    >>> import core
    >>> core.masked_scatter(core.zeros(3), core.tensor([True, False, True]), core.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(text("masked_scatter_ only supports boolean masks, but got mask with dtype "
                                f"{mask.dtype.scalar_type}", op="masked_scatter", remedy="mask.bool()"))  # fmt: skip
    if source.dtype is not input.dtype:
        raise RuntimeError(text("masked_scatter: expected self and source to have same dtypes but got"
                                f"{input.dtype.scalar_type} and {source.dtype.scalar_type}", op="masked_scatter",
                                remedy=f"source.to({input.dtype!r})"))  # fmt: skip
    shape = broadcast_shapes(input._a.shape, mask._a.shape, op="masked_scatter")
    full = expand(mask, shape)
    was_read("nonzero", mask)
    if source.numel() < (n := int(full._a.sum())):
        raise RuntimeError(text("Number of elements of source < number of ones in mask", op="masked_scatter",
                                came=f"{source.numel()} and {n}"))  # fmt: skip
    x = expand(input, shape)
    return _advanced(_index_put, x, (reshape(source, -1)[:n],), list(full._a.nonzero()), accumulate=False)


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True], out: Tensor | None = None) -> tuple[Tensor, ...]: ...
@public(home="index", state="quiet", fast=_TRUE_ROWS)
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """Return where `input` is not 0: the indices as rows, or with `as_tuple` a vector for each dimension.

    >>> import core
    >>> core.nonzero(core.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    was_read("nonzero", input)
    a = input._a
    xp = backends.array_module(input.device.type)
    found = a.reshape(1).nonzero() if as_tuple and not a.ndim else a.nonzero() if a.ndim else ()
    if as_tuple:
        return tuple(from_array(i, input.device) for i in found)
    if not a.ndim:
        rows = xp.zeros((int(bool(a)), 0), np.int64)
    else:
        rows = xp.stack(found, axis=1)
    y = from_array(rows, input.device)
    return into(out, y)


@public(home="index", state="quiet", fast=_TRUE_ROWS)
def argwhere(input: Tensor) -> Tensor:
    """Return where `input` is not 0, the indices as rows.

    >>> import core
    >>> core.argwhere(core.tensor([0, 5]))
    tensor([[1]])
    """
    return nonzero(input)
