"""The CPU's rows of interpolation: one dimension after the other, by the tables of the reference."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .. import native
from ..declare.kernel import kernel
from . import Row
from .resample_tables import taps, transposed_taps

c: Any = native.module
_MOST = 12  # taps; with more a product of matrices is faster, which the reference makes


def _run(x: Any, tables: Any) -> Any:
    first = x.ndim - len(tables)
    for i, (at, weights) in enumerate(tables):
        x = c.kernels["resample_axis"](x, first + i, at, weights)
    return x


@lru_cache(256)
def _tables(sizes: Any, out: Any, mode: str, align: bool, scales: Any) -> tuple[Any, ...]:
    return tuple(taps(m, o, mode, align, f) for m, o, f in zip(sizes, out, scales, strict=True))


@lru_cache(256)
def _transposed(sizes: Any, out: Any, mode: str, align: bool, scales: Any) -> tuple[Any, ...]:
    return tuple(transposed_taps(m, o, mode, align, f) for m, o, f in zip(sizes, out, scales, strict=True))


def _declines(x: Any, tables: Any) -> str | None:
    if x.dtype.char not in "fd":
        return f"takes float32 and float64, got {x.dtype}"
    if not x.size or not all(0 < at.shape[1] <= _MOST for at, _ in tables):
        return f"takes tensors that have items, and sums of up to {_MOST} of them"
    return None


def _forward(x: Any, out: Any, mode: str, align: bool, scales: Any) -> Any:
    return _tables(x.shape[x.ndim - len(out) :], out, mode, align, scales)


def _backward(g: Any, sizes: Any, mode: str, align: bool, scales: Any) -> Any:
    return _transposed(tuple(sizes), g.shape[g.ndim - len(sizes) :], mode, align, scales)


def _back(g: Any, x_shape: Any, out: Any, mode: str, align: bool, scales: Any) -> Any:
    return _backward(g, x_shape[-len(out) :], mode, align, scales)


kernel(
    "resample_axis",
    "x: real[*outer, n, *inner], axis: axis(n), at: int64[out, taps] < n, weights: double[out, taps]",
    gives="y: real[*outer, out, *inner]",
    call="resample.T(x, y, outer, inner, struct('resample_table', at, weights, n, out, taps))",
    quiet="outer * out * inner >= 8192",
    run=False,
)
rows = {
    "resample": Row("resample_forward", "C", lambda x, **p: _run(x, _forward(x, **p)),
                    lambda x, **p: _declines(x, _forward(x, **p))),
    "resample.backward": Row("resample_backward", "C", lambda g, **p: _run(g, _back(g, **p)),
                             lambda g, **p: _declines(g, _back(g, **p))),
    "resample_transposed": Row("resample_transposed_forward", "C", lambda x, **p: _run(x, _backward(x, **p)),
                               lambda x, **p: _declines(x, _backward(x, **p))),
}  # fmt: skip
