"""The ops behind pooling: the greatest of each window and where it stood, sums of windows, and their transposes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ..backends.accumulate import add_rows
from ..backends.resample_tables import windows_of
from ..dispatch.declare import operation
from ..tensors.tensor import Tensor
from .precision import rounded, wide

Each = tuple[int, ...]


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def _framed(xp: Any, x: Any, sizes: Each, padding: Each, value: Any) -> Any:
    """Return the last dimensions of `x` brought to `sizes`: `padding` of `value` before, as much as is missing
    after."""
    n = len(sizes)
    have = x.shape[-n:]
    if have == sizes and not any(padding):
        return x
    out = xp.full((*x.shape[:-n], *sizes), value, x.dtype)
    ends = tuple(min(s, p + h) for s, p, h in zip(sizes, padding, have, strict=True))
    there = tuple(slice(p, e) for p, e in zip(padding, ends, strict=True))
    here = tuple(slice(0, e - p) for p, e in zip(padding, ends, strict=True))
    out[(..., *there)] = x[(..., *here)]
    return out


def _reach(kernel: Each, stride: Each, dilation: Each, out: Each) -> Each:
    return tuple((o - 1) * s + d * (k - 1) + 1 for k, s, d, o in zip(kernel, stride, dilation, out, strict=True))


# -- the greatest ------------------------------------------------------------------------------------------------------


def _max_forward(xp: Any, x: Any, kernel: Each, stride: Each, padding: Each, dilation: Each, out: Each) -> Any:
    n = len(kernel)
    framed = _framed(xp, x, _reach(kernel, stride, dilation, out), padding, _lowest(x.dtype))
    places = list(product(*(range(k) for k in kernel)))
    best: Any = None
    which: Any = None
    for j, at in enumerate(places):
        key = tuple(
            slice(a * d, a * d + (o - 1) * s + 1, s) for a, d, o, s in zip(at, dilation, out, stride, strict=True)
        )
        part = framed[(..., *key)]
        if best is None:
            best = part.copy()
            which = xp.zeros(best.shape, xp.uint8 if len(places) < 256 else xp.int32)
        else:
            newer = (part > best) | ((part != part) & (best == best))  # a NaN is greater than all
            xp.copyto(best, part, where=newer)
            which[newer] = j
    index = xp.zeros((), xp.int64)
    for i, (m, d, s, p, o) in enumerate(zip(x.shape[-n:], dilation, stride, padding, out, strict=True)):
        steps = xp.asarray([at[i] * d for at in places])[which]
        row = (xp.arange(o) * s - p).reshape(-1, *(1,) * (n - 1 - i)) + steps
        # a window of nothing but padding and -inf has the place of its first tap that is inside
        index = index * m + xp.minimum(xp.where(row < 0, row % d, row), m - 1)
    return best, xp.broadcast_to(index, best.shape) if index.shape != best.shape else index


def _max_samples(rng: Any) -> list[Any]:
    def x(*shape: int) -> Any:
        return rng.permutation(math.prod(shape)).reshape(shape) / 7.0  # no ties

    return [
        ((x(1, 2, 4, 4),), {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1), "out": (2, 2)}),
        ((x(2, 4, 5),), {"kernel": (2, 3), "stride": (1, 2), "padding": (1, 1), "dilation": (2, 1), "out": (4, 3)}),
        ((x(2, 1, 5),), {"kernel": (3,), "stride": (2,), "padding": (1,), "dilation": (1,), "out": (3,)}),
        (
            (x(1, 3, 2, 4),),
            {"kernel": (2, 2, 2), "stride": (1, 1, 2), "padding": (0,) * 3, "dilation": (1,) * 3, "out": (2, 1, 2)},
        ),
    ]


def _max_vjp(g: Any, indices: Tensor, x_shape: Each, kernel: Each, stride: Each, padding: Each, dilation: Each,
             out: Each) -> Tensor:  # fmt: skip
    """The windows are of use to a row that gathers; the places alone are enough here."""
    return _scatter_flat(g[0], indices, sizes=x_shape[-len(out) :], add=True)


_max_pool = operation(
    "max_pool",
    _max_forward,
    params={"kernel": (), "stride": (), "padding": (), "dilation": (), "out": ()},
    outputs="y indices",
    returns=2,
    vjp=(_max_vjp,),
    samples=_max_samples,
    piecewise=True,
    doc="The greatest element of each window over the last dimensions, and its place among all of them.",
)


def _adaptive_forward(xp: Any, x: Any, out: Each) -> Any:
    n = len(out)
    sizes = x.shape[-n:]
    tables = []
    for m, o in zip(sizes, out, strict=True):
        first, end = windows_of(m, o)
        most = int((end - first).max()) if o else 0
        tables.append(xp.asarray(np.minimum(first[:, None] + np.arange(most), end[:, None] - 1)))
    best = where = None
    for at in product(*(range(t.shape[1]) for t in tables)):
        flat, part = xp.zeros((), xp.int64), x
        for i, (a, t, m) in enumerate(zip(at, tables, sizes, strict=True)):
            flat = flat * m + t[:, a].reshape(-1, *(1,) * (n - 1 - i))
            part = xp.take(part, t[:, a], axis=i - n)
        if best is None:
            best, where = part.copy(), xp.broadcast_to(flat, part.shape).copy()
        else:
            newer = (part > best) | ((part != part) & (best == best))
            xp.copyto(best, part, where=newer)
            xp.copyto(where, xp.broadcast_to(flat, part.shape), where=newer)
    if best is None:
        best = xp.zeros((*x.shape[:-n], *out), x.dtype)
        where = xp.zeros(best.shape, xp.int64)
    return best, where


_adaptive_max_pool = operation(
    "adaptive_max_pool",
    _adaptive_forward,
    params={"out": ()},
    outputs="y indices",
    returns=2,
    vjp=(lambda g, indices, x_shape, out: _scatter_flat(g[0], indices, sizes=x_shape[-len(out) :], add=True),),
    samples=lambda rng: [((rng.permutation(30).reshape(2, 3, 5) / 7.0,), {"out": o}) for o in [(2, 3), (2,), (4, 7)]],
    piecewise=True,
    doc="As max_pool, with windows that share the input out evenly.",
)


def _flat(xp: Any, a: Any, n: int) -> Any:
    return xp.ascontiguousarray(a).reshape(math.prod(a.shape[: a.ndim - n]), -1)


def _scatter_forward(xp: Any, x: Any, indices: Any, sizes: Each, add: bool) -> Any:
    n = len(sizes)
    rows, places = _flat(xp, x, n), _flat(xp, indices, n)
    y = xp.zeros((rows.shape[0], math.prod(sizes)), wide(rows[:0]).dtype)
    places = places + xp.arange(rows.shape[0])[:, None] * y.shape[1]
    if add:
        add_rows(xp, y.reshape(-1, 1), places.reshape(-1), wide(rows).reshape(-1, 1))
    else:
        y.reshape(-1)[places] = rows
    return rounded(y, x.dtype).reshape(*x.shape[: x.ndim - n], *sizes)


def _gather_forward(xp: Any, x: Any, indices: Any, n: int) -> Any:
    return xp.take_along_axis(_flat(xp, x, n), _flat(xp, indices, n), 1).reshape(indices.shape)


def _gather_vjp(g: Tensor, indices: Tensor, x_shape: Each, n: int) -> Tensor:
    return _scatter_flat(g, indices, sizes=x_shape[-n:], add=True)


_INDEX = np.array([[[0, 3], [5, 2]], [[4, 1], [0, 3]]])
_gather_flat = operation(
    "pool_gather",
    _gather_forward,
    inputs="x indices",
    params={"n": 2},
    vjp=(_gather_vjp, None),
    samples=lambda rng: [((rng.uniform(-1, 1, (2, 2, 3)), _INDEX), {"n": 2})],
    doc="The elements at the given places, which count through the last n dimensions.",
)
_scatter_flat: Any = operation(
    "pool_scatter",
    _scatter_forward,
    inputs="x indices",
    params={"sizes": (), "add": True},
    vjp=(lambda g, indices, sizes: _gather_flat(g, indices, n=len(sizes)), None),
    samples=lambda rng: [((rng.uniform(-1, 1, (2, 2, 2)), _INDEX), {"sizes": (2, 3), "add": a}) for a in (True, False)],
    label="max_unpool",
    piecewise=True,
    doc="Zeros of the given sizes with the elements put, or added, at the given places.",
)

# -- sums --------------------------------------------------------------------------------------------------------------


def _along(axis: int, ndim: int, key: slice) -> tuple[Any, ...]:
    return (slice(None),) * (ndim + axis) + (key,)


def _sum_forward(xp: Any, x: Any, kernel: Each, stride: Each, padding: Each, out: Each) -> Any:
    dtype, n = x.dtype, len(kernel)
    y = _framed(xp, wide(x), _reach(kernel, stride, (1,) * n, out), padding, 0)
    for i, (k, s, o) in enumerate(zip(kernel, stride, out, strict=True)):  # one dimension after the other
        parts = [y[_along(i - n, y.ndim, slice(a, a + (o - 1) * s + 1, s))] for a in range(k)]
        total = parts[0] + parts[1] if k > 1 else parts[0].copy()
        for part in parts[2:]:
            total += part
        y = total
    return rounded(y, dtype)


def _spread_forward(xp: Any, x: Any, kernel: Each, stride: Each, padding: Each, sizes: Each) -> Any:
    dtype, n = x.dtype, len(kernel)
    y = wide(x)
    for i, (k, s) in enumerate(zip(kernel, stride, strict=True)):
        o = y.shape[i - n]
        shape = list(y.shape)
        shape[i - n] = (o - 1) * s + k
        wider = xp.zeros(shape, y.dtype)
        for a in range(k):
            wider[_along(i - n, y.ndim, slice(a, a + (o - 1) * s + 1, s))] += y
        y = wider
    ends = tuple(min(p + m, h) for p, m, h in zip(padding, sizes, y.shape[-n:], strict=True))
    y = y[(..., *(slice(p, e) for p, e in zip(padding, ends, strict=True)))]
    return rounded(xp.ascontiguousarray(_framed(xp, y, sizes, (0,) * n, 0)), dtype)


_WINDOWS: list[dict[str, Each]] = [
    {"kernel": (2, 2), "stride": (2, 1), "padding": (0, 1)},
    {"kernel": (3,), "stride": (2,), "padding": (1,)},
    {"kernel": (1, 2), "stride": (3, 2), "padding": (0, 0)},
]
_OUT = [(2, 5), (3,), (2, 2)]

_window_sum = operation(
    "window_sum",
    _sum_forward,
    params={"kernel": (), "stride": (), "padding": (), "out": ()},
    vjp=lambda g, x_shape, kernel, stride, padding: _window_spread(
        g, kernel=kernel, stride=stride, padding=padding, sizes=x_shape[-len(kernel) :]
    ),
    samples=lambda rng: [
        ((rng.uniform(-1, 1, (2, 4, 4)),), {**w, "out": o}) for w, o in zip(_WINDOWS, _OUT, strict=True)
    ],
    label="avg_pool",
    piecewise=True,
    contiguous=True,
    doc="The sum of each window over the last dimensions.",
)
_window_spread: Any = operation(
    "window_spread",
    _spread_forward,
    params={"kernel": (), "stride": (), "padding": (), "sizes": ()},
    vjp=lambda g, x_shape, kernel, stride, padding: _window_sum(
        g, kernel=kernel, stride=stride, padding=padding, out=x_shape[-len(kernel) :]
    ),
    samples=lambda rng: [
        ((rng.uniform(-1, 1, (2, *o)),), {**w, "sizes": (4, 4)[: len(o)]}) for w, o in zip(_WINDOWS, _OUT, strict=True)
    ],
    label="avg_pool_backward",
    doc="Each element added to all places of its window.",
)
