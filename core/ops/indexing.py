"""Indexing: ``x[...]`` and ``x[...] = ...`` with numbers, slices, masks and index tensors.

It goes in two steps, as in PyTorch: numbers, slices, ``None`` and ``...`` first, which give a view; then the index
tensors and masks on that view, which copy. (NumPy would count a number beside an index array as an index array.)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends, native
from ..backends import cuda
from ..backends.accumulate import add_at
from ..base import dtypes
from ..base.errors import text
from ..base.modes import state as mode
from ..base.scalars import element
from ..base.shape import broadcast_shapes
from ..base.source import here, warn
from ..declare.kinds import Data, Index
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.inplace import make_writeable, write
from ..dispatch.publish import bind_operator, offer, public
from ..events import observe
from ..tensors.tensor import Tensor, from_array, storage_of, was_read
from .joining import stack
from .movement import copy_, set_chosen, to
from .view_ops import _select, _slice
from .views import reshape

MOST = 8  # index tensors in one bracket
_NAMES = tuple(f"i{k}" for k in range(MOST))
_INPUTS = " ".join(n + "?" for n in _NAMES)
_NONE = (None,) * MOST

# -- the ops: `where` says for each dimension whether the next index tensor stands there ------------------------------


def _key(where: tuple[bool, ...], indices: Any) -> tuple[Any, ...]:
    given = iter(indices)
    return tuple(next(given) if here_ else slice(None) for here_ in where)


def _index_samples(rng: Any) -> list[Any]:
    x, none = rng.uniform(-2, 2, (3, 4, 2)), (None,) * (MOST - 1)
    i, j = np.array([[0, 2, 0], [1, 1, -1]]), np.array([3, 0, 3])
    return [
        ((x, i, *none), {"where": (True,)}),
        ((x, j, *none), {"where": (False, True)}),
        ((x, i, j, *none[1:]), {"where": (True, True)}),
        ((x, i, j % 2, *none[1:]), {"where": (True, False, True)}),
    ]


def _index_put_samples(rng: Any) -> list[Any]:
    out = []
    for (x, *indices), params in _index_samples(rng):
        values = rng.uniform(-2, 2, x[_key(params["where"], [i for i in indices if i is not None])].shape)
        out.append(((x, values, *indices), {**params, "accumulate": True}))
    x, (i, *none) = rng.uniform(-2, 2, (3, 4)), (np.array([2, 0]), *(None,) * (MOST - 1))
    return [*out, ((x, rng.uniform(-2, 2, (2, 4)), i, *none), {"where": (True,), "accumulate": False})]


def _index_forward(xp: Any, x: Any, *indices: Any, where: tuple[bool, ...]) -> Any:
    if where.count(True) == 1:
        return xp.take(x, indices[0], axis=where.index(True))  # faster than brackets, and in row-major order
    return xp.ascontiguousarray(x[_key(where, indices)])


def _index_backward_forward(xp: Any, g: Any, *indices: Any, where: tuple[bool, ...], shape: tuple[int, ...]) -> Any:
    out = xp.zeros(shape, g.dtype)
    add_at(xp, out, _key(where, indices), g)
    return out


def _index_put_forward(xp: Any, x: Any, values: Any, *indices: Any, where: tuple[bool, ...], accumulate: bool) -> Any:
    out, key = x.copy(), _key(where, indices)
    if accumulate:
        shape = xp.broadcast_to(xp.zeros((), bool), x.shape)[key].shape
        add_at(xp, out, key, xp.broadcast_to(values, shape))
    else:
        out[key] = values
    return out


def _index_vjp(
    g: Any, x_shape: Any, where: Any, i0: Any, i1: Any, i2: Any, i3: Any, i4: Any, i5: Any, i6: Any, i7: Any
) -> Any:
    return _index_backward(g, i0, i1, i2, i3, i4, i5, i6, i7, where=where, shape=x_shape)


def _index_backward_vjp(
    g: Any, where: Any, i0: Any, i1: Any, i2: Any, i3: Any, i4: Any, i5: Any, i6: Any, i7: Any
) -> Any:
    return _index(g, i0, i1, i2, i3, i4, i5, i6, i7, where=where)


def _put_x_vjp(
    g: Any, where: Any, accumulate: bool, i0: Any, i1: Any, i2: Any, i3: Any, i4: Any, i5: Any, i6: Any, i7: Any
) -> Any:
    if accumulate:
        return g
    zero = from_array(backends.array_module(g.device.type).zeros((), g._a.dtype), g.device)
    return _index_put(g, zero, i0, i1, i2, i3, i4, i5, i6, i7, where=where, accumulate=False)


def _put_values_vjp(
    g: Any, where: Any, values_shape: Any, i0: Any, i1: Any, i2: Any, i3: Any, i4: Any, i5: Any, i6: Any, i7: Any
) -> Any:
    return _index(g, i0, i1, i2, i3, i4, i5, i6, i7, where=where).sum_to_size(values_shape)


_index = operation("index", _index_forward, inputs="x " + _INPUTS, params={"where": ()}, vjp=(_index_vjp, *_NONE),
                   samples=_index_samples)  # fmt: skip
_index_backward = operation("index_backward", _index_backward_forward, inputs="g_ " + _INPUTS,
                            params={"where": (), "shape": ()}, vjp=(_index_backward_vjp, *_NONE),
                            samples=lambda rng: [((rng.uniform(-2, 2, (2, 4)), np.array([1, 1]), *_NONE[1:]),
                                                  {"where": (True,), "shape": (3, 4)})])  # fmt: skip
_index_put = operation("index_put", _index_put_forward, inputs="x values " + _INPUTS,
                       params={"where": (), "accumulate": False}, vjp=(_put_x_vjp, _put_values_vjp, *_NONE),
                       samples=_index_put_samples)  # fmt: skip


# -- reading what stands in the brackets -------------------------------------------------------------------------------


def _as_index(item: Any, x: Tensor) -> Any:
    """One thing in the brackets: an int, slice, None, Ellipsis, bool, or an integer array on the device of `x`."""
    if item is None or item is Ellipsis or item.__class__ is int or item.__class__ is bool:
        return item
    if isinstance(item, slice):
        if item.step is not None and operator.index(item.step) <= 0:
            raise ValueError(text("step must be greater than zero", op="index", came=f"{item}",
                                  remedy="x.flip(dim) reverses"))  # fmt: skip
        try:
            return slice(*(None if v is None else operator.index(v) for v in (item.start, item.stop, item.step)))
        except TypeError:
            raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    if isinstance(item, Tensor):
        if item.dtype.category > 1 or item.dtype in (dtypes.int8, dtypes.int16):
            raise IndexError(
                text(
                    "tensors used as indices must be long, int, byte or bool tensors",
                    op="index",
                    came=f"a tensor of {item.dtype}",
                    remedy="index.long(), or a comparison",
                )
            )
        if item.ndim == 0 and (item.dtype is dtypes.bool_ or not observe.wanted("as ops")):
            return bool(item) if item.dtype is dtypes.bool_ else int(item._a)
        if item.dtype is dtypes.uint8:
            warn(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
            )
        return (to(item, device=x.device) if item.device is not x.device else item)._a
    if isinstance(item, list | tuple | range):
        item = [int(v) if isinstance(v, Tensor) and v.ndim == 0 and v.dtype is not dtypes.bool_ else v for v in item]
        if any(isinstance(v, Tensor) for v in item):
            return _as_index(stack(item), x)
        try:
            item = np.asarray(item) if len(item) else np.zeros(0, np.int64)
        except ValueError:
            raise IndexError(
                text("the lists in an index must be of equal length", op="index", came=repr(item))
            ) from None
    if isinstance(item, np.ndarray):
        if item.dtype.kind not in "iub":
            raise IndexError(
                text(
                    "tensors used as indices must be long, int, byte or bool tensors",
                    op="index",
                    came=f"an array of {item.dtype}",
                )
            )
        return backends.array_module(x.device.type).asarray(item) if item.ndim else item.item()
    if isinstance(item, np.bool_):
        return bool(item)
    if isinstance(item, str):
        raise TypeError(text("new(): invalid data type 'str'", op="index", came=repr(item)))
    try:
        return operator.index(item)
    except TypeError:
        phrase = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices"
        raise IndexError(text(f"{phrase} (got {type(item).__name__})", op="index")) from None


def _stands_for_tuple(index: list[Any]) -> bool:
    """Return whether a list in the brackets means several indices, as in old NumPy: ``x[[[0, 1], [1, 0]]]`` is
    ``x[[0, 1], [1, 0]]``."""
    return any(
        i is None or i is Ellipsis or isinstance(i, slice | list | tuple) or (isinstance(i, Tensor) and i.ndim)
        for i in index
    )


def _is_mask(a: Any) -> bool:
    return a.dtype == np.bool_ or a.dtype == np.uint8


def _parse(x: Tensor, index: Any) -> tuple[tuple[Any, ...] | None, list[Any]]:
    """Return the key of the basic step (None: nothing to do) and, for every dimension after it, an integer array or
    None."""
    if not isinstance(index, tuple):
        index = tuple(index) if isinstance(index, list) and _stands_for_tuple(index) else (index,)
    items = [_as_index(i, x) for i in index]
    shape = x._a.shape
    used = sum(
        i.ndim if hasattr(i, "ndim") and _is_mask(i) else 0 if i is None or i is Ellipsis or isinstance(i, bool) else 1
        for i in items
    )
    dots = sum(1 for i in items if i is Ellipsis)
    if used > len(shape):
        if not shape:
            raise IndexError(
                text(
                    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
                    "C++ to convert a 0-dim tensor to a number",
                    op="index",
                )
            )
        raise IndexError(text(f"too many indices for tensor of dimension {len(shape)}", op="index",
                              came=f"{used} indices for shape {tuple(shape)}"))  # fmt: skip
    if not dots:
        items.append(Ellipsis)
    key: list[Any] = []
    arrays: list[Any] = []
    at, plain = 0, True  # the dimension of x, and whether the basic step changes anything
    for item in items:
        if item is None:
            key.append(None)
            arrays.append(None)
            plain = False
        elif item is Ellipsis:
            rest, used = len(shape) - used, len(shape)  # a second ... stands for nothing
            key += [slice(None)] * rest
            arrays += [None] * rest
            at += rest
        elif isinstance(item, bool):
            key.append(None)
            arrays.append(np.zeros(int(item), np.int64))
            plain = False
        elif isinstance(item, int):
            if not -shape[at] <= item < shape[at]:
                raise IndexError(
                    text(
                        f"index {item} is out of bounds for dimension {at} with size {shape[at]}",
                        op="index",
                        came=f"shape {tuple(shape)}",
                    )
                )
            key.append(item)
            at += 1
            plain = False
        elif isinstance(item, slice):
            key.append(item)
            arrays.append(None)
            plain = plain and item == slice(None)
            at += 1
        elif _is_mask(item):
            for k in range(item.ndim):
                if item.shape[k] != shape[at + k]:
                    raise IndexError(
                        text(
                            f"The shape of the mask {list(item.shape)} at index {k} does not match the shape of "
                            f"the indexed tensor {list(shape)} at index {at + k}",
                            op="index",
                        )
                    )
            was_read("nonzero", None)
            key += [slice(None)] * item.ndim
            arrays += list(item.nonzero())
            at += item.ndim
        else:
            key.append(slice(None))
            arrays.append(item)
            at += 1
    return None if plain else (*key, Ellipsis), arrays


def _plain_key(shape: tuple[int, ...], index: Any) -> tuple[tuple[Any, ...], bool] | None:
    """Return the key of numbers in range and of slices without a step, and whether it selects alone: most of what is
    written. None for anything else, and where nothing changes."""
    items = index if index.__class__ is tuple else (index,)
    if len(items) > len(shape):
        return None
    single, changes = True, False
    for item, n in zip(items, shape, strict=False):
        if item.__class__ is int:
            if not -n <= item < n:
                return None
            changes = True
        elif item.__class__ is slice and item.step is None:
            for edge in (item.start, item.stop):
                if edge is not None:
                    if edge.__class__ is not int:
                        return None
                    changes, single = True, False
        else:
            return None
    return ((*items, Ellipsis), single) if changes else None


def _basic(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    single = all(isinstance(k, int) or k is Ellipsis or (isinstance(k, slice) and k == slice(None)) for k in key)
    return (_select if single else _slice)(x, key=key)


def _tensors(x: Tensor, arrays: list[Any]) -> tuple[tuple[bool, ...], list[Tensor | None]]:
    """Return the `where` of an index op and its index tensors, filled up with None."""
    where = tuple(a is not None for a in arrays)
    while where and not where[-1]:
        where = where[:-1]
    given = [from_array(a, x.device) for a in arrays if a is not None]
    if len(given) > MOST:
        raise IndexError(
            text(f"at most {MOST} index tensors can stand in one bracket", op="index", came=f"{len(given)}")
        )
    return where, [*given, *(None,) * (MOST - len(given))]


def _explained(x: Tensor, arrays: list[Any], error: Exception) -> Exception:
    """PyTorch's words for what NumPy refused."""
    shapes = [list(a.shape) for a in arrays if a is not None]
    try:
        broadcast_shapes(*shapes)
    except RuntimeError:
        return IndexError(text("shape mismatch: indexing tensors could not be broadcast together with shapes "
                               + ", ".join(map(str, shapes)), op="index"))  # fmt: skip
    for d, a in enumerate(arrays):
        n = x._a.shape[d]
        if a is not None and a.size and not (a.min() >= -n and a.max() < n):
            bad = int(a.max() if a.max() >= n else a.min())
            return IndexError(text(f"index {bad} is out of bounds for dimension {d} with size {n}", op="index",
                                   came=f"an index tensor of shape {list(a.shape)}"))  # fmt: skip
    return error


def _advanced(op: Any, x: Tensor, values: tuple[Tensor, ...], arrays: list[Any], **params: Any) -> Tensor:
    where, tensors = _tensors(x, arrays)
    try:
        return op(x, *values, *tensors, where=where, **params)
    except (IndexError, ValueError) as e:
        raise _explained(x, arrays, e) from None


def getitem(self: Tensor, index: Index) -> Tensor:
    """``x[index]``: a view for numbers, slices, None and ...; a copy for index tensors, lists and masks.

    >>> import core
    >>> x = core.arange(6).reshape(2, 3)
    >>> x[:, [0, 2]]
    tensor([[0, 2],
            [3, 5]])
    """
    if mode.batch is not None and (found := mode.batch.index(self, index)) is not NotImplemented:
        return found  # type: ignore[no-any-return]
    if index.__class__ is int and self._a.ndim:
        n = self._a.shape[0]
        if -n <= index < n:
            return _select(self, key=(index, Ellipsis))
    if (plain := _plain_key(self._a.shape, index)) is not None:
        return (_select if plain[1] else _slice)(self, key=plain[0])
    key, arrays = _parse(self, index)
    advanced = any(a is not None for a in arrays)
    if key is not None:
        self = _basic(self, key)
    elif not advanced:
        return _slice(self, key=(Ellipsis,))
    return _advanced(_index, self, (), arrays) if advanced else self


def setitem(self: Tensor, index: Index, value: Data) -> None:
    """``x[index] = value``, with the gradient to both; `value` broadcasts and is cast.

    *Raises*: RuntimeError where it does not broadcast, or for a leaf that requires a gradient.
    """
    graph = mode.enabled and self.requires_grad
    if (graph or observe.wanted("as ops")) and isinstance(value, int | float) and set_chosen(self, index, value):
        return
    key, arrays = _parse(self, index)
    target = self if key is None else _basic(self, key)
    if not isinstance(value, Tensor):
        xp = backends.array_module(self.device.type)
        if isinstance(value, int | float | complex | np.generic):
            value = element(value, self.dtype, "fill_")
        value = from_array(xp.asarray(value).astype(self.dtype.numpy), self.device)
    elif value._kind is not self._kind:
        value = to(value, self._kind)
    if any(a is not None for a in arrays):
        _put(target, value, arrays, False, "index_put_")
    else:
        while value.ndim > target.ndim and value._a.shape[0] == 1:  # leading 1s of the value may go
            value = reshape(value, tuple(value._a.shape[1:]))
        copy_(target, value)


def _put(target: Tensor, values: Tensor, arrays: list[Any], accumulate: bool, name: str) -> Tensor:
    """Write `values` into the places of index arrays: straight into the memory where no gradient is wanted."""
    _check_values(target, values, arrays)
    as_op = accumulate or mode.batch or observe.wanted("as ops")
    if as_op or (mode.enabled and (target.requires_grad or values.requires_grad)):
        return write(target, name, lambda x: _advanced(_index_put, x, (values,), arrays, accumulate=accumulate))
    where, _ = _tensors(target, arrays)
    try:
        if not getattr(target._a.flags, "writeable", True):
            make_writeable(target, name)
        given = [a for a in arrays if a is not None]
        if not (target.is_cuda and _kernel_put(target, values, given, where)):
            target._a[_key(where, given)] = values._a
    except (IndexError, ValueError) as e:
        raise _explained(target, arrays, e) from None
    storage_of(target).wrote(name, here(3))
    return target


def _kernel_put(target: Tensor, values: Tensor, given: list[Any], where: tuple[bool, ...]) -> bool:
    return cuda.indexing.put_into(target._a, values._a, tuple(given), where)


def _check_values(x: Tensor, values: Tensor, arrays: list[Any]) -> None:
    if not values.ndim:  # it goes everywhere, and what is wrong with the index the op says
        return
    where, _ = _tensors(x, arrays)
    try:
        shape = np.broadcast_to(np.zeros((), bool), x._a.shape)[
            _key(where, [np.empty(a.shape, np.int8) * 0 for a in arrays if a is not None])].shape  # fmt: skip
    except (IndexError, ValueError) as e:
        raise _explained(x, arrays, e) from None
    have = values._a.shape
    if (len(have) > len(shape) and have[: len(have) - len(shape)] != (1,) * (len(have) - len(shape))) or any(
            n not in (1, m) for n, m in zip(reversed(have), reversed(shape), strict=False)):  # fmt: skip
        phrase = (f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result of "
                  f"shape {list(shape)}")  # fmt: skip
        raise RuntimeError(text(phrase, op="index_put_"))


def _given(input: Tensor, indices: Any) -> list[Any]:
    """Return the index arrays of `index_put`, one a leading dimension; a mask counts for as many as it has."""
    for k, i in enumerate(indices):
        if not isinstance(i, Tensor):
            raise TypeError(
                text(f"expected Tensor as element {k} in argument 0, but got {type(i).__name__}", op="index_put")
            )
    key, arrays = _parse(input, tuple(indices))
    if key is not None:
        raise IndexError(text("index_put takes index tensors only", op="index_put", came=f"{indices!r}"))
    return arrays


@public()
def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """``input[indices] = values``, or ``+=`` with `accumulate`, where equal places add up.

    >>> import core
    >>> i = core.tensor([0, 0, 1])
    >>> core.zeros(2).index_put_((i,), core.tensor([1.0, 2.0, 3.0]), accumulate=True)
    tensor([3., 3.])
    """
    return _put(input, to(values, input._kind), _given(input, indices), accumulate, "index_put_")


@public(home="index", state="quiet",
        fast=[Fast(body="put_at(input, indices, values, accumulate)", types={"input": "piece", "values": "piece"},
                   raw=("indices",))])  # fmt: skip
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """As `index_put_`, on a copy.

    >>> import core
    >>> core.index_put(core.zeros(2), (core.tensor([1]),), core.tensor(5.0))
    tensor([0., 5.])
    """
    arrays = _given(input, indices)
    _check_values(input, values, arrays)
    return _advanced(_index_put, input, (to(values, input._kind),), arrays, accumulate=accumulate)


Tensor.__getitem__ = offer(  # type: ignore[method-assign]
    getitem,
    method=True,
    namespace=None,
    home="views",
    state="quiet",
    fast=[Fast(body="picked(self, index)", types={"self": "any"})])  # fmt: skip
bind_operator("getitem", Tensor.__getitem__)
Tensor.__setitem__ = offer(  # type: ignore[method-assign]
    setitem,
    method=True,
    namespace=None,
    home="setitem",
    state="any",
    fast=[Fast(body="assigned(self, index, value)", types={"self": "any"})])  # fmt: skip
if native.module is not None:
    native.module.set_setitem()  # native/binding/calls/inplace.c takes what is plain
