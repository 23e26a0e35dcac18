"""Which inputs each output of an interpolation or an adaptive mean adds up, and with what weights."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np


def windows_of(n: int, out: int) -> Any:
    """Return the first and the end (exclusive) of each window of adaptive pooling."""
    i = np.arange(out)
    return i * n // out, -(-(i + 1) * n // out)


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
    """Return the kernel of cubic convolution. Source: Keys, IEEE Trans. ASSP 29 (1981), with a for its -1/2."""
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
    """Return which of n inputs each output adds up, (out, taps), and with what weights."""
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
    """Return the same for the transpose: which outputs each of n inputs takes part in."""
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
