"""The op behind interpolation and adaptive means: every output is a weighted sum of few inputs, one dimension after the
other; and its transpose, by the same tables turned round."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..dispatch.declare import operation
from .pool_ops import windows_of
from .precision import rounded, wide

_DENSE = 12  # taps from which on a matrix product is faster than so many additions


def _scale(n: int, out: int, align: bool, factor: float | None) -> float:
    """How far one step in the output goes in the input."""
    if align:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / factor if factor else n / out


def _nearest(n: int, out: int, exact: bool, factor: float | None) -> Any:
    # in float32, as PyTorch computes it, so that the same element is chosen at the edges of rounding
    step = np.float32(1.0 / factor) if factor else np.float32(n) / np.float32(out)
    at = (np.arange(out, dtype=np.float32) + np.float32(0.5 if exact else 0.0)) * step
    return np.minimum(np.floor(at).astype(np.int64), n - 1)[:, None], np.ones((out, 1))


def _cubic(x: Any, a: float) -> Any:
    """The kernel of cubic convolution. Source: Keys, IEEE Trans. ASSP 29 (1981), with a for its -1/2."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _smooth(n: int, out: int, kind: str, align: bool, factor: float | None) -> Any:
    """Antialiased: the kernel is as wide as the step, and its weights sum to one."""
    step = _scale(n, out, align, factor)
    wide_step = max(step, 1.0)
    support = (1.0 if kind == "linear" else 2.0) * wide_step
    center = step * (np.arange(out) + 0.5)
    first = np.maximum((center - support + 0.5).astype(np.int64), 0)
    end = np.minimum((center + support + 0.5).astype(np.int64), n)
    at = first[:, None] + np.arange(max(int((end - first).max()), 1))
    x = (at - center[:, None] + 0.5) / wide_step
    w = np.maximum(1 - np.abs(x), 0.0) if kind == "linear" else _cubic(x, -0.5)
    w = np.where(at < end[:, None], w, 0.0)
    return np.minimum(at, n - 1), w / w.sum(1, keepdims=True)


@lru_cache(256)
def taps(n: int, out: int, mode: str, align: bool, factor: float | None) -> Any:
    """Which of n inputs each output adds up, (out, taps), and with what weights."""
    if mode in ("nearest", "nearest-exact"):
        return _nearest(n, out, mode == "nearest-exact", factor)
    if mode.startswith("smooth-"):
        return _smooth(n, out, mode[7:], align, factor)
    if mode == "area":
        first, end = windows_of(n, out)
        at = first[:, None] + np.arange(int((end - first).max()) if out else 0)
        return np.minimum(at, n - 1), (at < end[:, None]) / (end - first)[:, None]
    step, i = _scale(n, out, align, factor), np.arange(out)
    x = step * i if align else step * (i + 0.5) - 0.5
    if mode == "linear":
        x = np.maximum(x, 0.0)
        low = np.minimum(x.astype(np.int64), n - 1)
        part = np.clip(x - low, 0.0, 1.0)
        return np.stack([low, np.minimum(low + 1, n - 1)], 1), np.stack([1 - part, part], 1)
    low = np.floor(x)
    at = low[:, None] + np.arange(-1, 3)
    return np.clip(at, 0, n - 1).astype(np.int64), _cubic(x[:, None] - at, -0.75)


@lru_cache(256)
def transposed_taps(n: int, out: int, mode: str, align: bool, factor: float | None) -> Any:
    """The same for the transpose: which outputs each of n inputs takes part in."""
    at, w = taps(n, out, mode, align, factor)
    row, source, weight = np.repeat(np.arange(out), at.shape[1]), at.ravel(), w.ravel()
    used = weight != 0
    row, source, weight = row[used], source[used], weight[used]
    order = np.argsort(source, kind="stable")
    row, source, weight = row[order], source[order], weight[order]
    counts = np.bincount(source, minlength=n)
    place = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    most = int(counts.max()) if len(source) else 0
    index, weights = np.zeros((n, most), np.int64), np.zeros((n, most))
    index[source, place], weights[source, place] = row, weight
    return index, weights


def _along(xp: Any, x: Any, axis: int, table: Any) -> Any:
    at, w = table
    if at.shape[1] > _DENSE:
        matrix = np.zeros((len(at), x.shape[axis]))
        np.add.at(matrix, (np.arange(len(at))[:, None], at), w)
        y = xp.matmul(xp.moveaxis(x, axis, -1), xp.asarray(matrix.T.astype(x.dtype)))
        return xp.moveaxis(y, -1, axis)
    shape = (-1, *(1,) * (-axis - 1))
    total = None
    for t in range(at.shape[1]):
        part = xp.take(x, xp.asarray(at[:, t]), axis=axis)
        if (w[:, t] != 1).any():
            part = part * xp.asarray(w[:, t].astype(x.dtype)).reshape(shape)
        if total is None:
            total = part
        else:
            total += part
    if total is None:
        sizes = list(x.shape)
        sizes[axis] = len(at)
        total = xp.zeros(sizes, x.dtype)
    return total


def _apply(xp: Any, x: Any, tables: list[Any]) -> Any:
    y, n = wide(x), len(tables)
    for i, table in enumerate(tables):
        y = _along(xp, y, i - n, table)
    return rounded(xp.ascontiguousarray(y), x.dtype)


def _forward(xp: Any, x: Any, out: Any, mode: str, align: bool, scales: Any) -> Any:
    sizes = x.shape[-len(out) :]
    return _apply(xp, x, [taps(m, o, mode, align, f) for m, o, f in zip(sizes, out, scales, strict=True)])


def _backward(xp: Any, x: Any, sizes: Any, mode: str, align: bool, scales: Any) -> Any:
    out = x.shape[-len(sizes) :]
    return _apply(xp, x, [transposed_taps(m, o, mode, align, f) for m, o, f in zip(sizes, out, scales, strict=True)])


_SETS: list[tuple[Any, ...]] = [
    ((4, 3), "linear", False, (None, None)),
    ((2, 5), "linear", True, (None, None)),
    ((5, 7), "cubic", False, (1.7, None)),
    ((2, 3), "area", False, (None, None)),
    ((5,), "nearest", False, (None,)),
    ((2, 2), "smooth-linear", False, (None, None)),
    ((2, 3), "smooth-cubic", True, (None, None)),
    ((3, 6, 2), "nearest-exact", False, (None, None, None)),
]


def _params(out: Any, mode: str, align: bool, scales: Any) -> dict[str, Any]:
    return {"mode": mode, "align": align, "scales": scales}


_DEFAULTS = {"mode": "linear", "align": False, "scales": ()}
_resample = operation(
    "resample",
    _forward,
    params={"out": (), **_DEFAULTS},
    vjp=lambda g, x_shape, out, mode, align, scales: _resample_transposed(
        g, sizes=x_shape[-len(out) :], mode=mode, align=align, scales=scales
    ),
    samples=lambda rng: [((rng.uniform(-1, 1, (2, 3, 4)),), {"out": c[0], **_params(*c)}) for c in _SETS],
    label="upsample",
    doc="The last dimensions brought to the sizes `out`, each output a weighted sum of inputs.",
)
_resample_transposed: Any = operation(
    "resample_transposed",
    _backward,
    params={"sizes": (), **_DEFAULTS},
    vjp=lambda g, x_shape, sizes, mode, align, scales: _resample(
        g, out=x_shape[-len(sizes) :], mode=mode, align=align, scales=scales
    ),
    samples=lambda rng: [
        ((rng.uniform(-1, 1, (*(2, 2)[: 3 - len(c[0])], *c[0])),), {"sizes": (2, 3, 4)[-len(c[0]) :], **_params(*c)})
        for c in _SETS
    ],
    label="upsample_backward",
    doc="The transpose of resample.",
)


def sizes_by(factors: Any, sizes: Any) -> tuple[int, ...]:
    """The sizes after scaling, rounded down."""
    return tuple(math.floor(float(m * f)) for m, f in zip(sizes, factors, strict=True))
