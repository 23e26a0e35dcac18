"""ONNX's ops that move, choose, make and place elements."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ..base import dtypes
from ..tensors.tensor import Tensor
from .table import DTYPES, FOREIGN, Call, F, as_array, axes_of, constant, ints, number, of_array, pairs, row, t


@row("Cast", foreign=True)
def _cast(call: Call, x: Any, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    if to in DTYPES and isinstance(x, Tensor):
        return x != 0 if to == 9 and x.dtype != dtypes.bool_ else x.to(DTYPES[to])
    a = as_array(x)
    if to in DTYPES:
        wide = a.astype(np.float32) if a.dtype.kind in "Vf" or a.dtype.itemsize == 1 else a
        return of_array(wide.astype(DTYPES[to].numpy))
    if to not in FOREIGN:
        raise call.refused(f"to ONNX's data type {to}", "a model of numbers")
    return into_foreign(a, FOREIGN[to], bool(saturate), round_mode)


def into_foreign(a: Any, kind: Any, saturate: bool, round_mode: str = "up") -> Any:
    """Return an array in a dtype that core has not. Small floats saturate: what is too large is the largest."""
    name = np.dtype(kind).name
    if not name.startswith("float"):
        if np.dtype(kind).itemsize == 1 and a.dtype.kind in "fV":
            a = a.astype(np.float32)
        if "int4" in name or "int2" in name:
            bits = int(name.removeprefix("u")[3:])
            whole = a.astype(np.int64)
            low = 0 if name.startswith("u") else -(1 << (bits - 1))
            return ((whole - low) % (1 << bits) + low).astype(kind)  # the bits that there are
        return a.astype(kind)
    a = a.astype(np.float32) if a.dtype != np.float64 else a
    top = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
    if name.startswith("float8_e8m0"):  # powers of two
        with np.errstate(divide="ignore"):
            power = np.log2(np.abs(a))
        power = {"up": np.ceil, "down": np.floor, "nearest": np.rint}[round_mode](power)
        return np.exp2(np.clip(power, -127, 127) if saturate else power).astype(kind)
    if saturate or name.startswith("float4"):
        a = np.where(np.isnan(a), a, np.clip(a, -top, top))
    return a.astype(kind)


@row("CastLike", foreign=True)
def _cast_like(call: Call, x: Any, like: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    return _cast(call, x, _number_of(like), saturate, round_mode)


def _number_of(x: Any) -> int:
    """Return ONNX's number of a value's data type."""
    if isinstance(x, Tensor):
        return next(n for n, d in DTYPES.items() if d == x.dtype)
    return next(n for n, d in FOREIGN.items() if np.dtype(d) == x.dtype)


@row("BitCast", foreign=True)
def _bit_cast(call: Call, x: Any, to: int) -> Any:
    kind = DTYPES[to].numpy if to in DTYPES else np.dtype(FOREIGN[to])
    a = as_array(x)
    return of_array(np.ascontiguousarray(a).view(kind).reshape(a.shape))


# -- shapes ------------------------------------------------------------------------------------------------------------


@row("Shape", foreign=True)
def _shape(call: Call, x: Any, start: int = 0, end: Any = None) -> Any:
    return constant(list(x.shape)[start:end], dtypes.int64, x if isinstance(x, Tensor) else None)


@row("Size", foreign=True)
def _size(call: Call, x: Any) -> Any:
    return constant(math.prod(x.shape), dtypes.int64)


@row("Reshape", foreign=True)
def _reshape(call: Call, x: Any, given: Any = None, shape: Any = None, allowzero: int = 0) -> Any:
    wanted = shape if given is None else ints(given)
    return x.reshape([x.shape[k] if n == 0 and not allowzero else n for k, n in enumerate(wanted)])


@row("Flatten")
def _flatten(call: Call, x: Any, axis: int = 1) -> Any:
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@row("Transpose", foreign=True)
def _transpose(call: Call, x: Any, perm: Any = None) -> Any:
    order = list(range(x.ndim))[::-1] if perm is None else perm
    return x.permute(order) if isinstance(x, Tensor) else x.transpose(order)


@row("Squeeze")
def _squeeze(call: Call, x: Any, given: Any = None, axes: Any = None) -> Any:
    """The axes are an input since opset 13."""
    found = axes_of(given, axes, x.ndim)
    return x.squeeze() if found is None else x.squeeze(tuple(found)) if found else x


@row("Unsqueeze")
def _unsqueeze(call: Call, x: Any, given: Any = None, axes: Any = None) -> Any:
    count = len(axes if given is None else ints(given))
    for axis in sorted(axes_of(given, axes, x.ndim + count) or []):
        x = x.unsqueeze(axis)
    return x


@row("Expand")
def _expand(call: Call, x: Any, shape: Any) -> Any:
    return x.expand(np.broadcast_shapes(tuple(x.shape), tuple(ints(shape))))


@row("Tile")
def _tile(call: Call, x: Any, repeats: Any, axis: Any = None) -> Any:
    return x.repeat(ints(repeats)) if x.ndim else x


@row("Concat")
def _concat(call: Call, *inputs: Any, axis: int = 1) -> Any:
    return t.cat(list(inputs), axis)


@row("Split")
def _split(call: Call, x: Any, given: Any = None, split: Any = None, axis: int = 0, num_outputs: Any = None) -> Any:
    """The sizes are an input since opset 13; without them the parts are even, the last one smaller."""
    sizes = split if given is None else ints(given)
    if sizes is None:
        whole, count = x.shape[axis], num_outputs or call.outputs
        each = -(-whole // count)
        sizes = [max(min(each, whole - k * each), 0) for k in range(count)]
    return tuple(x.split(sizes, axis))


@row("Slice")
def _slice(call: Call, x: Any, start: Any = None, end: Any = None, given: Any = None, steps: Any = None,
           starts: Any = None, ends: Any = None, axes: Any = None) -> Any:  # fmt: skip
    """The bounds are inputs since opset 10."""
    first, last = (starts if start is None else ints(start)), (ends if end is None else ints(end))
    where = axes_of(given, axes, x.ndim) or list(range(len(first)))
    by = [1] * len(first) if steps is None else ints(steps)
    for a, b, axis, step in zip(first, last, where, by, strict=True):
        n = x.shape[axis]
        if step > 0:
            x = x[(*(slice(None),) * axis, slice(a, b, step))]
        else:
            at = list(range(n))[slice(a, None if b < -n else b, step)]
            x = t.index_select(x, axis, constant(at, dtypes.int64, x))
    return x


@row("Pad")
def _pad(call: Call, x: Any, given: Any = None, value: Any = None, axes: Any = None, mode: str = "constant",
         pads: Any = None, paddings: Any = None) -> Any:  # fmt: skip
    """The pads are an input since opset 11, with a value; `axes` came with 18."""
    around = next((p for p in (pads, paddings) if p is not None), None) if given is None else ints(given)
    assert around is not None
    if axes is not None:
        where = axes_of(axes, None, x.ndim) or []
        whole = [0] * 2 * x.ndim
        for k, axis in enumerate(where):
            whole[axis], whole[x.ndim + axis] = around[k], around[len(where) + k]
        around = whole
    fill = 0 if value is None else value if not isinstance(value, Tensor) else number(value)
    if mode == "constant":
        return F.pad(x, pairs(around), value=fill)
    for axis in range(x.ndim):  # by places, so that any dimension may be reflected
        a, b = around[axis], around[x.ndim + axis]
        if a or b:
            kind = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode]
            inside = np.arange(x.shape[axis])[max(-a, 0) : x.shape[axis] - max(-b, 0)]
            at = np.pad(inside, (max(a, 0), max(b, 0)), mode=kind)  # type: ignore[call-overload]
            x = t.index_select(x, axis, constant(at, dtypes.int64, x))
    return x


@row("CenterCropPad")
def _center_crop_pad(call: Call, x: Any, shape: Any, axes: Any = None) -> Any:
    for axis, n in zip(range(x.ndim) if axes is None else axes, ints(shape), strict=True):
        axis, have = axis % x.ndim, x.shape[axis]
        if n < have:
            x = x.narrow(axis, (have - n) // 2, n)
        elif n > have:
            before = (n - have) // 2
            x = F.pad(x, [*[0, 0] * (x.ndim - axis - 1), before, n - have - before])
    return x


@row("DepthToSpace")
def _depth_to_space(call: Call, x: Any, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b, rest = blocksize, c // blocksize**2
    if mode == "CRD":
        return F.pixel_shuffle(x, b)
    return x.reshape((n, b, b, rest, h, w)).permute((0, 3, 4, 1, 5, 2)).reshape((n, rest, h * b, w * b))


@row("SpaceToDepth")
def _space_to_depth(call: Call, x: Any, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    parts = x.reshape((n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.permute(order).reshape((n, c * b * b, h // b, w // b))


@row("ReverseSequence")
def _reverse_sequence(call: Call, x: Any, lengths: Any, batch_axis: int = 1, time_axis: int = 0) -> Any:
    n, steps = x.shape[batch_axis], x.shape[time_axis]
    at = np.tile(np.arange(steps), (n, 1))
    for k, length in enumerate(ints(lengths)):
        at[k, :length] = np.arange(length)[::-1]
    rows = t.movedim(x, (batch_axis, time_axis), (0, 1))
    batch = constant(np.arange(n)[:, None], dtypes.int64, x)
    return t.movedim(rows[batch, constant(at, dtypes.int64, x)], (0, 1), (batch_axis, time_axis))


# -- by index ----------------------------------------------------------------------------------------------------------


def _from_front(index: Any, size: int) -> Any:
    """Return indices counted from the front."""
    return t.where(index < 0, index + size, index).to(dtypes.int64)


@row("Gather")
def _gather(call: Call, x: Any, index: Any, axis: int = 0) -> Any:
    axis %= x.ndim
    at = _from_front(index, x.shape[axis])
    found = t.index_select(x, axis, at.reshape(-1))
    return found.reshape([*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]])


@row("GatherElements")
def _gather_elements(call: Call, x: Any, index: Any, axis: int = 0) -> Any:
    return t.gather(x, axis, _from_front(index, x.shape[axis]))


@row("GatherND")
def _gather_nd(call: Call, x: Any, index: Any, batch_dims: int = 0) -> Any:
    """Index rows name elements or parts of `x`, within each of the first `batch_dims` dimensions."""
    depth = index.shape[-1]
    at = [_from_front(i, x.shape[batch_dims + k]) for k, i in enumerate(index.unbind(-1))]
    rank = index.ndim - 1
    before = [t.arange(x.shape[k], device=x.device).reshape([-1 if d == k else 1 for d in range(rank)])
              for k in range(batch_dims)]  # fmt: skip
    found = x[(*before, *at)]
    return found.reshape([*index.shape[:-1], *x.shape[batch_dims + depth :]])


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@row("ScatterElements", "Scatter")
def _scatter_elements(call: Call, x: Any, index: Any, updates: Any, axis: int = 0, reduction: str = "none") -> Any:
    at = _from_front(index, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, at, updates)
    return x.scatter_reduce(axis, at, updates, _REDUCE[reduction])


@row("ScatterND")
def _scatter_nd(call: Call, x: Any, index: Any, updates: Any, reduction: str = "none") -> Any:
    """The places as numbers of rows, so that every reduction is a scatter along one dimension."""
    depth = index.shape[-1]
    rows, width = math.prod(x.shape[:depth]), math.prod(x.shape[depth:])
    at = constant(0, dtypes.int64, x)
    for k, part in enumerate(index.unbind(-1)):
        at = at * x.shape[k] + _from_front(part, x.shape[k])
    at = at.reshape((-1, 1)).expand((-1, width))
    flat, values = x.reshape((rows, width)), updates.reshape((-1, width))
    if reduction == "none":
        return flat.scatter(0, at, values).reshape(x.shape)
    return flat.scatter_reduce(0, at, values, _REDUCE[reduction]).reshape(x.shape)


@row("TensorScatter")
def _tensor_scatter(call: Call, past: Any, update: Any, where: Any = None, axis: int = -2, mode: str = "linear") -> Any:
    axis %= past.ndim
    n, steps = past.shape[0], update.shape[axis]
    starts = np.zeros(n, np.int64) if where is None else np.array(ints(where))
    at = starts[:, None] + np.arange(steps)
    if mode == "circular":
        at = at % past.shape[axis]
    shape = [n, *[1] * (axis - 1), steps, *[1] * (past.ndim - axis - 1)]
    return past.scatter(axis, constant(at, dtypes.int64, past).reshape(shape).expand(update.shape), update)


@row("Compress")
def _compress(call: Call, x: Any, condition: Any, axis: Any = None) -> Any:
    if axis is None:
        x, axis = x.reshape(-1), 0
    at = np.flatnonzero(as_array(condition))
    return t.index_select(x, axis, constant(at, dtypes.int64, x))


@row("NonZero")
def _nonzero(call: Call, x: Any) -> Any:
    return t.nonzero(x).t()


@row("OneHot")
def _one_hot(call: Call, index: Any, depth: Any, values: Any, axis: int = -1) -> Any:
    n = int(number(depth))
    whole = index.to(dtypes.int64)
    at = t.where(whole < 0, whole + n, whole)
    hit = at.unsqueeze(-1) == t.arange(n, device=index.device)
    return t.movedim(t.where(hit, values[1], values[0]), -1, axis)


@row("TopK")
def _topk(call: Call, x: Any, given: Any = None, k: Any = None, axis: int = -1, largest: int = 1,
          sorted: int = 1) -> Any:  # fmt: skip
    """k is an input since opset 10. Of equal values the first comes first, as a stable sort has it."""
    count = k if given is None else number(given)
    found = t.sort(x, dim=axis, descending=bool(largest), stable=True)
    return found[0].narrow(axis, 0, count), found[1].narrow(axis, 0, count)


@row("Unique")
def _unique(call: Call, x: Any, axis: Any = None, sorted: int = 1) -> Any:
    a = as_array(x)
    values, first, inverse, counts = np.unique(a, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, inverse, counts = first[order], back[inverse], counts[order]
    return of_array(values), *(of_array(part.astype(np.int64)) for part in (first, inverse, counts))


@row("ArrayFeatureExtractor")
def _array_feature_extractor(call: Call, x: Any, index: Any) -> Any:
    return t.index_select(x, x.ndim - 1, index.reshape(-1)).reshape((-1, math.prod(index.shape)))


@row("Trilu")
def _trilu(call: Call, x: Any, k: Any = None, upper: int = 1) -> Any:
    return (t.triu if upper else t.tril)(x, 0 if k is None else number(k))


# -- made from numbers -------------------------------------------------------------------------------------------------


@row("Constant", foreign=True)
def _constant(call: Call, value: Any = None, value_float: Any = None, value_floats: Any = None, value_int: Any = None,
              value_ints: Any = None) -> Any:  # fmt: skip
    if value is not None:
        return value
    for given, dtype in ((value_float, dtypes.float32), (value_floats, dtypes.float32), (value_int, dtypes.int64),
                         (value_ints, dtypes.int64)):  # fmt: skip
        if given is not None:
            return constant(given, dtype)
    raise call.refused("it has no value, or one of texts")


@row("ConstantOfShape")
def _constant_of_shape(call: Call, shape: Any, value: Any = None) -> Any:
    if value is None:
        return t.zeros(ints(shape), dtype=dtypes.float32, device=shape.device)
    return t.full(ints(shape), number(value), dtype=value.dtype, device=shape.device)


@row("Range")
def _range(call: Call, start: Any, limit: Any, delta: Any) -> Any:
    """In the dtype of the numbers, as start + k * delta."""
    count = max(math.ceil((number(limit) - number(start)) / number(delta)), 0)
    return start + t.arange(count, device=start.device).to(start.dtype) * delta


@row("EyeLike")
def _eye_like(call: Call, x: Any, dtype: Any = None, k: int = 0) -> Any:
    kind = x.dtype if dtype is None else DTYPES[dtype]
    rows, columns = x.shape
    return constant(np.eye(rows, columns, k), kind, x)


@row("Dropout")
def _dropout(call: Call, x: Any, given: Any = None, training: Any = None, ratio: Any = None, is_test: int = 1,
             seed: Any = None) -> Any:  # fmt: skip
    """It drops only where the model says that it trains (an input since opset 12)."""
    p = (0.5 if ratio is None else ratio) if given is None else number(given)
    if training is None or not number(training) or not p:
        return x, t.ones(x.shape, dtype=dtypes.bool_, device=x.device)
    kept = t.rand(x.shape, device=x.device) >= p
    return t.where(kept, x / (1 - p), t.zeros_like(x)), kept


@row("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def _random(call: Call, like: Any = None, shape: Any = None, dtype: Any = None, seed: Any = None, low: float = 0.0,
            high: float = 1.0, mean: float = 0.0, scale: float = 1.0) -> Any:  # fmt: skip
    """core.manual_seed is what repeats them, not the model's seed."""
    kind = DTYPES[dtype] if dtype is not None else dtypes.float32 if like is None else like.dtype
    sizes = shape if like is None else like.shape
    if call.op.startswith("RandomUniform"):
        return (t.rand(sizes) * (high - low) + low).to(kind)
    return (t.randn(sizes) * scale + mean).to(kind)


@row("Bernoulli")
def _bernoulli(call: Call, x: Any, dtype: Any = None, seed: Any = None) -> Any:
    return t.bernoulli(x).to(x.dtype if dtype is None else DTYPES[dtype])
