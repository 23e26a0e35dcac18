"""Values reduced to figures the moment they are there: whether all are finite, their range, a gradient's spread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from core import native
from widgets.record import HISTOGRAM_BINS, HISTOGRAM_LOW, Stats

from .cell_trace import Gradient

# Above this many elements figures that NumPy takes are of evenly spaced ones; the check for NaN and infinity, and what
# C reads, always see all.
SAMPLE = 1 << 16

_native_stats = getattr(native.module, "stats", None)
_native_finite = getattr(native.module, "all_finite", None)
_native_change = getattr(native.module, "change", None)
_native_glance = getattr(native.module, "glance", None)
_NATIVE = (np.dtype(np.float32), np.dtype(np.float64))


def on_host(a: Any) -> Any:
    """Return an array of any device as one of NumPy."""
    return a if isinstance(a, np.ndarray) else a.get() if hasattr(a, "get") else np.asarray(a)


def finite(a: Any) -> bool:
    """Return whether no element is NaN or infinite.

    >>> import numpy as np
    >>> finite(np.array([1.0, 2.0])), finite(np.array([1.0, np.nan]))
    (True, False)
    """
    if _native_finite is not None and a.__class__ is np.ndarray and a.dtype in _NATIVE and a.flags.c_contiguous:
        return bool(_native_finite(a))
    return bool(np.isfinite(a).all())  # of a GPU's array too: NumPy hands the call to the array's own library


def glance(a: Any) -> Stats | None:
    """Return the figures of an array whose values are all finite, in one pass: the range of all, the rest of evenly
    spaced ones. None where something is not finite, and for an array that only `finite` and `stats` can read.

    >>> import numpy as np
    >>> glance(np.array([0.0, 1.0, 2.0, 3.0], np.float32)) == stats(np.array([0.0, 1.0, 2.0, 3.0], np.float32))
    True
    """
    if _native_glance is None or a.__class__ is not np.ndarray or a.dtype not in _NATIVE:
        return None
    found = _native_glance(a)
    if found is None:
        return None
    low, high, mean, std, zeros = found
    return Stats(low, high, mean, std, zeros, 0)


def spread(a: Any) -> Any:
    """Return 4096 values of a large array, in evenly spaced lines: a view of shape (256, 16); a small one as it is.

    >>> import numpy as np
    >>> spread(np.arange(1 << 16))[:3, 0].tolist(), spread(np.ones((2, 3))).shape
    ([0, 256, 512], (2, 3))
    """
    lines, line = 256, 16
    if a.size <= 2 * lines * line or not a.flags.c_contiguous:
        return a
    return a.reshape(-1)[: a.size // lines * lines].reshape(lines, -1)[:, :line]


def span(a: Any) -> tuple[float, float] | None:
    """Return the least and the largest of some values; None where one is not finite, or there are none.

    >>> import numpy as np
    >>> span(np.array([1.0, -2.0])), span(np.array([np.nan]))
    ((-2.0, 1.0), None)
    """
    if not a.size:
        return None
    some = spread(a)
    low, high = float(some.min()), float(some.max())
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def sampled(a: Any) -> Any:
    """Return `a` flat and of at most `SAMPLE` elements; None for a large array whose elements do not lie in order."""
    if a.size > SAMPLE:
        if not a.flags.c_contiguous:
            return None
        a = a.reshape(-1)[:: -(-a.size // SAMPLE)]
    return _flat(on_host(a))


def _flat(a: Any) -> Any:
    """Return an array of NumPy in one dimension and of a type that has figures."""
    a = np.ascontiguousarray(a).reshape(-1)
    return a.astype(np.float32) if a.dtype.kind not in "fiub" or a.dtype == np.float16 else a


def _in_c(a: Any) -> bool:
    """Return whether the C kernels read an array as it is."""
    return _native_stats is not None and a.__class__ is np.ndarray and a.dtype in _NATIVE


Figures = tuple[float, float, float, float, int, int, int, list[int] | None]


def _figures(a: Any) -> Figures:
    """Return (min, max, mean, std, zeros, nonfinite, nan, histogram) of an array; the first four of finite elements."""
    if _in_c(a):
        return _native_stats(a)  # type: ignore[misc, no-any-return]
    if a.dtype.kind == "b":
        true = int(np.count_nonzero(a))
        share = true / a.size if a.size else math.nan
        ends = (float(true == a.size), float(true > 0)) if a.size else (math.nan, math.nan)
        return *ends, share, math.sqrt(share * (1 - share)), a.size - true, 0, 0, None
    x = a.astype(np.float64)
    good = np.isfinite(x)
    bad = int(x.size - np.count_nonzero(good))
    nan = int(np.count_nonzero(np.isnan(x))) if bad else 0
    if bad:
        x = x[good]
    zeros = int(x.size - np.count_nonzero(x))
    if x.size == 0:
        return math.nan, math.nan, math.nan, math.nan, zeros, bad, nan, None
    return float(x.min()), float(x.max()), float(x.mean()), float(x.std()), zeros, bad, nan, None


def stats(a: Any) -> Stats | None:
    """Return the figures of an array; None for an empty one.

    >>> import numpy as np
    >>> stats(np.array([0.0, 1.0, 2.0, 3.0], np.float32))
    Stats(min=0.0, max=3.0, mean=1.5, std=1.118033988749895, zeros=0.25, nonfinite=0)
    """
    if a.size == 0 or a.dtype.kind == "c":
        return None
    flat = a if _in_c(a) else sampled(a)
    return None if flat is None else _stats(_figures(flat), flat.size, a.size / flat.size)


def _stats(figures: Figures, size: int, scale: float = 1.0) -> Stats:
    low, high, mean, std, zeros, bad, _, _ = figures
    if math.isnan(low):
        return Stats(None, None, None, None, 0.0, round(bad * scale))
    return Stats(low, high, mean, std, zeros / size, round(bad * scale))


def look(a: Any) -> tuple[Stats | None, int, int]:
    """Return the figures of an array, how many of its elements are NaN, and how many infinite.

    >>> import numpy as np
    >>> found, nan, inf = look(np.array([1.0, np.nan, -np.inf]))
    >>> found.max, nan, inf
    (1.0, 1, 1)
    """
    if _in_c(a) and a.size:
        figures = _figures(a)
        return _stats(figures, a.size), figures[6], figures[5] - figures[6]
    return (stats(a), *census(a))


def gradient(into: Gradient, a: Any) -> None:
    """Reduce a gradient to its figures and its histogram of log2|g|.

    >>> import numpy as np
    >>> g = Gradient()
    >>> gradient(g, np.array([3.0, -4.0]))
    >>> round(g.norm, 6), g.max_abs, [k for k, n in enumerate(g.histogram) if n]
    (5.0, 4.0, [41, 42])
    """
    n = a.size
    a = on_host(a)
    if not _in_c(a):
        a = np.ascontiguousarray(_sizes(a)).reshape(-1)
        a = a if a.dtype in _NATIVE else a.astype(np.float32)
    low, high, mean, std, zeros, bad, nan, bins = _figures(a)
    count = max(n - bad, 0)
    if count == 0:
        low = high = mean = std = 0.0
    rms = math.sqrt(mean * mean + std * std)
    into.rms, into.norm, into.mean, into.std = rms, rms * math.sqrt(count), mean, std
    into.max_abs, into.zeros = max(abs(low), abs(high)), zeros / n if n else 0.0
    into.nonfinite, into.nan = bad, nan
    into.histogram = list(bins) if bins is not None and len(bins) == HISTOGRAM_BINS else histogram(a.reshape(-1))


def histogram(flat: Any) -> list[int]:
    """Return 64 counts of log2|g| from -40 to +24; zeros and what is not finite are left out."""
    x = np.abs(flat[np.isfinite(flat)])
    exponent = np.frexp(x[x > 0])[1] - 1
    where = np.clip(exponent - HISTOGRAM_LOW, 0, HISTOGRAM_BINS - 1)
    return [int(k) for k in np.bincount(where, minlength=HISTOGRAM_BINS)]


def census(a: Any) -> tuple[int, int]:
    """Count the elements that are NaN, and those that are infinite."""
    a = on_host(a)
    a = a if a.dtype.kind in "fc" else a.astype(np.float32)
    return int(np.isnan(a).sum()), int(np.isinf(a).sum())


def rms(a: Any) -> float:
    """Return the root mean square; 0 for an empty array."""
    return norm(a) / math.sqrt(a.size) if a.size else 0.0


def constant(a: Any) -> bool:
    """Return whether all elements of a matrix are one value."""
    if a.ndim < 2 or a.size < 2 or bool(a[(-1,) * a.ndim] != a[(0,) * a.ndim]):
        return False
    return bool((a == a.reshape(-1)[0]).all())


def rows_alike(a: Any) -> bool:
    """Return whether all rows of a matrix (or of a convolution's weight) are the same, up to rounding.

    >>> import numpy as np
    >>> rows_alike(np.ones((3, 2))), rows_alike(np.eye(2)), rows_alike(np.ones((1, 2)))
    (True, False, False)
    """
    if a.ndim < 2 or a.shape[0] < 2 or not a.size:
        return False
    few = (0,) * (a.ndim - 2) + (slice(8),)
    first, last = on_host(a[0][few]).tolist(), on_host(a[-1][few]).tolist()
    apart = max([abs(x - y) for x, y in zip(first, last, strict=True)], default=0.0)
    if apart > 0.1 * max(map(abs, first + last), default=0.0):  # as almost always
        return False
    rows = on_host(a)[:64].reshape(min(a.shape[0], 64), -1)[:, :1024]
    rows = rows.astype(np.complex128 if rows.dtype.kind == "c" else np.float64)
    return bool(np.abs(rows - rows[0]).max() <= 1e-4 * np.abs(rows).max())


def change(after: Any, before: Any) -> tuple[float, float]:
    """Return the Euclidean norms of after - before and of before.

    >>> import numpy as np
    >>> change(np.array([3.0, 5.0], np.float32), np.array([0.0, 1.0], np.float32))
    (5.0, 1.0)
    """
    if _native_change is not None and after.__class__ is np.ndarray and after.dtype == before.dtype in _NATIVE:
        return _native_change(after, before)  # type: ignore[no-any-return]
    with np.errstate(over="ignore", invalid="ignore"):
        return norm(on_host(after) - on_host(before)), norm(before)


def norm(a: Any) -> float:
    """Return the Euclidean norm, without overflow."""
    a = _sizes(np.asarray(on_host(a))).reshape(-1)
    if a.dtype == np.float32:
        with np.errstate(over="ignore", invalid="ignore"):
            square = float(np.dot(a, a))
        if 1e-30 < square < math.inf:
            return math.sqrt(square)
    a = _sizes(a).astype(np.float64)
    return float(np.sqrt(np.dot(a, a)))


def _sizes(a: Any) -> Any:
    """Return the absolute values of complex ones, any other as they are."""
    return np.abs(a) if a.dtype.kind == "c" else a


def totals(a: Any, logs: bool) -> tuple[float, float] | None:
    """Return the least and the largest sum of probabilities along the last dimension, given them or their logarithms.

    >>> totals(np.full((2, 2), 0.5), False)
    (1.0, 1.0)
    """
    if a.ndim < 2 or not a.size or a.size > SAMPLE:
        return None
    values = on_host(a).astype(np.float64)
    if logs:
        values = np.exp(values)
    low, high = (float(f(values.sum(axis=-1))) for f in (np.min, np.max))
    return (low, high) if np.isfinite(low) and np.isfinite(high) else None


def sums(a: Any) -> tuple[float, float] | None:
    """Return the least and the largest sum of probabilities over the classes, given their logarithms with classes in
    dim 1.

    >>> low, high = sums(np.log(np.array([[0.5, 0.5], [0.25, 0.75]])))
    >>> round(low, 6), round(high, 6)
    (1.0, 1.0)
    """
    values = on_host(a)
    if not values.size or values.dtype.kind != "f":
        return None
    with np.errstate(over="ignore"):
        totals = np.exp(values.astype(np.float64)).sum(axis=1 if values.ndim > 1 else 0)
    low, high = float(totals.min()), float(totals.max())
    return (low, high) if np.isfinite(high) else None
