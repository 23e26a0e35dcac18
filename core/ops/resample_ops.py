"""The op behind interpolation and adaptive means: every output is a weighted sum of few inputs, one dimension after the
other; and its transpose, by the same tables turned round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backends.resample_tables import taps, transposed_taps
from ..dispatch.declare import operation
from .precision import rounded, wide

_DENSE = 12  # taps from which on a matrix product is faster than so many additions


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
    """Return the sizes after scaling, rounded down."""
    # a size that is exported stays one where the factor is whole
    return tuple(m * int(f) if f == int(f) else math.floor(m * f) for m, f in zip(sizes, factors, strict=True))
