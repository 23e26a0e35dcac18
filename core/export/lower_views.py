"""Views in a plan: other shapes, strides and offsets of a buffer. They cost nothing, but for a reshape of what does not
lie in order, which copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .lowering import Builder, is_static, lowers
from .plan import View, _parts, _split_strides, refused, row_major
from .polynomial import Count, product


@lowers("permute")
def permute(b: Builder, node: Any, x: View, dims: Sequence[int]) -> View:
    """Put the axes in another order."""
    dims = [d % len(x.shape) for d in dims]
    return View(x.buffer, tuple(x.shape[d] for d in dims), tuple(x.strides[d] for d in dims), x.offset)


@lowers("transpose")
def transpose(b: Builder, node: Any, x: View, dim0: int, dim1: int) -> View:
    """Exchange two axes."""
    dims = list(range(len(x.shape)))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return permute(b, node, x, dims)


@lowers("t")
def _t(b: Builder, node: Any, x: View) -> View:
    return permute(b, node, x, list(range(len(x.shape)))[::-1])


@lowers("squeeze")
def _squeeze(b: Builder, node: Any, x: View, dims: Any) -> View:
    gone = {d % len(x.shape) for d in (dims if isinstance(dims, tuple) else (dims,))}
    kept = [d for d in range(len(x.shape)) if d not in gone]
    return permute(b, node, x, kept)


@lowers("unsqueeze")
def unsqueeze(b: Builder, node: Any, x: View, dim: int) -> View:
    """Add an axis of one."""
    dim %= len(x.shape) + 1
    return View(x.buffer, (*x.shape[:dim], 1, *x.shape[dim:]), (*x.strides[:dim], 0, *x.strides[dim:]), x.offset)


@lowers("expand")
def expand(b: Builder, node: Any, x: View, shape: Sequence[Count]) -> View:
    """Broadcast to a shape."""
    lead = len(shape) - len(x.shape)
    sizes: list[Count] = list(shape[:lead])
    strides: list[Count] = [0] * lead
    for n, own, stride in zip(shape[lead:], x.shape, x.strides, strict=True):
        stays = own == n or (isinstance(n, int) and n == -1)
        if not stays and own != 1:
            b.check(own, "==", n, "expand")
        sizes.append(own if isinstance(n, int) and n == -1 else n)
        strides.append(0 if own == 1 else stride)
    return View(x.buffer, tuple(sizes), tuple(strides), x.offset)


@lowers("view", "reshape")
def reshape(b: Builder, node: Any, x: View, shape: Sequence[Count]) -> View:
    """Give the elements another shape; copy them first where no strides do."""
    shape = list(shape)
    if any(isinstance(n, int) and n == -1 for n in shape):
        at = next(k for k, n in enumerate(shape) if isinstance(n, int) and n == -1)
        shape[at] = x.size // product(n for k, n in enumerate(shape) if k != at)
    if tuple(shape) == x.shape:
        return x
    if x.size != product(shape):
        b.check(x.size, "==", product(shape), "as many elements")
        x = b.dense(x)
        return View(x.buffer, tuple(shape), row_major(shape), x.offset)
    strides = _restrided(x, [n for n in shape if n != 1])
    if strides is None:
        x = b.copy(x)
        return View(x.buffer, tuple(shape), row_major(shape), x.offset)
    left = iter(strides)
    return View(x.buffer, tuple(shape), tuple(0 if n == 1 else next(left) for n in shape), x.offset)


def _restrided(x: View, shape: list[Count]) -> tuple[Count, ...] | None:
    if x.is_contiguous():
        return row_major(shape)
    sizes: list[Count] = []
    strides: list[Count] = []
    for n, stride in zip(x.shape, x.strides, strict=True):
        if n == 1:
            continue
        if sizes and strides[-1] == stride * n:
            sizes[-1], strides[-1] = sizes[-1] * n, stride
        else:
            sizes.append(n)
            strides.append(stride)
    parts = _parts(tuple(sizes), tuple(shape))
    return None if parts is None else _split_strides(tuple(strides), parts)


@lowers("slice", "select")
def sliced(b: Builder, node: Any, x: View, key: Any) -> View:
    """Take what brackets of numbers, slices, None and ... say."""
    key = key if isinstance(key, tuple) else (key,)
    used = sum(k is not None and k is not Ellipsis for k in key)
    rest = [slice(None)] * (len(x.shape) - used)
    at = next((i for i, k in enumerate(key) if k is Ellipsis), len(key))
    key = (*key[:at], *rest, *key[at + 1 :])
    shape: list[Count] = []
    strides: list[Count] = []
    offset, axis = x.offset, 0
    for k in key:
        if k is None:
            shape.append(1)
            strides.append(0)
            continue
        n, stride = x.shape[axis], x.strides[axis]
        axis += 1
        if not isinstance(k, slice):
            place = n + k if isinstance(k, int) and k < 0 else k
            b.check(place, "<", n, "an index is in range")
            b.check(0, "<=", place, "an index is in range")
            offset = offset + place * stride
            continue
        first, count, step = _bounds(b, node, k, n)
        offset = offset + first * stride
        shape.append(count)
        strides.append(stride * step)
    return View(x.buffer, tuple(shape), tuple(strides), offset)


def _bounds(b: Builder, node: Any, k: slice, n: Count) -> tuple[Count, Count, int]:
    """Return the first place, how many there are, and the step of a slice of an axis of n."""
    step = 1 if k.step is None else k.step
    if not isinstance(step, int):
        raise refused(node, "a slice whose step depends on sizes", "a constant step")
    if is_static(n, k.start, k.stop):
        places = range(n)[k]
        return (places.start if len(places) else 0), len(places), step
    if step < 1:
        raise refused(node, "a slice backwards of an axis that varies", "flip")
    first = 0 if k.start is None else n + k.start if isinstance(k.start, int) and k.start < 0 else k.start
    stop = n if k.stop is None else n + k.stop if isinstance(k.stop, int) and k.stop < 0 else k.stop
    b.check(0, "<=", first, "a slice begins inside")
    b.check(first, "<=", stop, "a slice ends after it begins")
    b.check(stop, "<=", n, "a slice ends inside")
    count = stop - first if step == 1 else (stop - first + (step - 1)) // step
    return first, count, step


@lowers("unbind")
def unbind(b: Builder, node: Any, x: View, dim: int) -> list[View]:
    """Take the parts along an axis one by one."""
    dim %= len(x.shape)
    shape, strides = x.shape[:dim] + x.shape[dim + 1 :], x.strides[:dim] + x.strides[dim + 1 :]
    return [View(x.buffer, shape, strides, x.offset + k * x.strides[dim]) for k in range(len(node.outputs))]


@lowers("split")
def split(b: Builder, node: Any, x: View, sizes: Sequence[Count], dim: int) -> list[View]:
    """Take pieces along an axis."""
    dim %= len(x.shape)
    found, at = [], x.offset
    for n in sizes:
        found.append(View(x.buffer, (*x.shape[:dim], n, *x.shape[dim + 1 :]), x.strides, at))
        at = at + n * x.strides[dim]
    return found


@lowers("diagonal")
def diagonal(b: Builder, node: Any, x: View, offset: int, dim1: int, dim2: int) -> View:
    """See the elements of a diagonal, as the last axis."""
    dim1, dim2 = dim1 % len(x.shape), dim2 % len(x.shape)
    key: list[Any] = [slice(None)] * len(x.shape)
    key[dim2 if offset >= 0 else dim1] = slice(abs(offset), None)
    x = sliced(b, node, x, tuple(key))
    m, n = x.shape[dim1], x.shape[dim2]
    wider = m - n
    if not is_static(wider):
        raise refused(node, "the diagonal of a matrix whose sizes vary apart", "a square matrix")
    count = n if wider >= 0 else m
    rest = [d for d in range(len(x.shape)) if d not in (dim1, dim2)]
    return View(x.buffer, (*(x.shape[d] for d in rest), count),
                (*(x.strides[d] for d in rest), x.strides[dim1] + x.strides[dim2]), x.offset)  # fmt: skip


@lowers("unfold")
def _unfold(b: Builder, node: Any, x: View, dim: int, size: int, step: int) -> View:
    dim %= len(x.shape)
    count = (x.shape[dim] - size) // step + 1
    return View(x.buffer, (*x.shape[:dim], count, *x.shape[dim + 1 :], size),
                (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim]), x.offset)  # fmt: skip


@lowers("as_strided")
def _as_strided(b: Builder, node: Any, x: View, size: Any, stride: Any, offset: int, own: Any) -> View:
    if not x.is_whole():
        raise refused(node, "strides over a view", "as_strided of a whole tensor")
    return View(x.buffer, tuple(size), tuple(stride), offset)


@lowers("flip")
def _flip(b: Builder, node: Any, x: View, dims: Sequence[int]) -> View:
    """Read backwards: a view here, whose strides may be negative."""
    strides, offset = list(x.strides), x.offset
    for d in dims:
        d %= len(x.shape)
        offset = offset + (x.shape[d] - 1) * strides[d]
        strides[d] = -strides[d]
    return View(x.buffer, x.shape, tuple(strides), offset)


@lowers("repeat")
def _repeat(b: Builder, node: Any, x: View, sizes: Sequence[Count]) -> View:
    x = View(x.buffer, (1,) * (len(sizes) - len(x.shape)) + x.shape, (0,) * (len(sizes) - len(x.shape)) + x.strides,
             x.offset)  # fmt: skip
    shape = [n for r, m in zip(sizes, x.shape, strict=True) for n in (r, m)]
    strides = [n for st in x.strides for n in (0, st)]
    return reshape(b, node, View(x.buffer, tuple(shape), tuple(strides), x.offset),
                   tuple(r * m for r, m in zip(sizes, x.shape, strict=True)))  # fmt: skip


@lowers("repeat_interleave")
def _interleave(b: Builder, node: Any, x: View, repeats: Count, dim: int) -> View:
    dim %= len(x.shape)
    wide = View(x.buffer, (*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :]),
                (*x.strides[: dim + 1], 0, *x.strides[dim + 1 :]), x.offset)  # fmt: skip
    return reshape(b, node, wide, (*x.shape[:dim], x.shape[dim] * repeats, *x.shape[dim + 1 :]))
