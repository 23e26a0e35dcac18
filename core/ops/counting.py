"""Sets and counts: unique values, places in an order, histograms, membership."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from .. import backends, return_types
from ..base import dtypes
from ..base.errors import text, truth
from ..base.shape import normalize_dim
from ..declare.kinds import Dim, Scalar
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.out import into
from ..dispatch.publish import public
from ..return_types import return_type
from ..tensors.tensor import Tensor, from_array
from .precision import rounded, wide
from .reduce import need_tensor

_ReturnHistogram = return_type("histogram", "hist bin_edges")
_ReturnHistogramdd = return_type("histogramdd", "hist bin_edges")


def _sample_ints(rng: Any) -> Any:
    return rng.integers(0, 4, (3, 4))


# -- unique values -----------------------------------------------------------------------------------------------------


def _unique_forward(xp: Any, x: Any, dim: int | None) -> Any:
    w = wide(x)
    if dim is None:
        values, inverse, counts = xp.unique(w.reshape(-1), return_inverse=True, return_counts=True, equal_nan=False)
        inverse = inverse.reshape(x.shape)
    elif not x.size:
        values, inverse, counts = w, xp.zeros(x.shape[dim], xp.int64), xp.zeros(x.shape[dim], xp.int64)
    else:
        values, inverse, counts = xp.unique(w, return_inverse=True, return_counts=True, axis=dim)
        inverse = inverse.reshape(-1)
    return rounded(values, x.dtype), inverse.astype(xp.int64), counts.astype(xp.int64)


def _slices(xp: Any, x: Any, dim: int) -> Any:
    """Return the slices along `dim` as rows, of which there may be none or empty ones."""
    n = x.shape[dim]
    return xp.moveaxis(x, dim, 0).reshape(n, x.size // n if n else 0)


def _consecutive_forward(xp: Any, x: Any, dim: int | None) -> Any:
    rows = x.reshape(-1, 1) if dim is None else _slices(xp, x, dim)
    n = rows.shape[0]
    starts = xp.ones(n, bool)
    starts[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    first = xp.flatnonzero(starts)
    inverse = xp.cumsum(starts) - 1
    counts = xp.diff(xp.concatenate([first, xp.asarray([n])])).astype(xp.int64)
    values = x.reshape(-1)[first] if dim is None else xp.take(x, first, axis=dim)
    return values, inverse.astype(xp.int64).reshape(x.shape if dim is None else (n,)), counts


def _unique_samples(rng: Any) -> list[Any]:
    return [((_sample_ints(rng),), {"dim": None}), ((_sample_ints(rng),), {"dim": 1})]


_UNIQUE: dict[str, Any] = {"params": {"dim": None}, "outputs": "values inverse counts", "returns": 3}
_unique = operation("unique", _unique_forward, samples=_unique_samples, **_UNIQUE)
_unique_consecutive = operation("unique_consecutive", _consecutive_forward, samples=_unique_samples, **_UNIQUE)


def _some(op: Any, name: str, input: Tensor, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    need_tensor(input, name)
    truth(name, "return_inverse", return_inverse)
    truth(name, "return_counts", return_counts)
    d = None if dim is None else normalize_dim(dim, input.ndim, name)
    x = input.reshape(1) if d is not None and not input.ndim else input
    values, inverse, counts = op(x, dim=d)
    found = (values, *((inverse,) if return_inverse else ()), *((counts,) if return_counts else ()))
    return found if len(found) > 1 else values


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: Dim | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: bool = False,
    dim: Dim | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    *,
    return_counts: Literal[True],
    dim: Dim | None = None,
) -> tuple[Tensor, ...]: ...
@public(python=True, home="counting", state="quiet",
        fast=[Fast(body="distinct_of(input)", types={"input": "piece"}, ignored=("sorted",))])  # fmt: skip
def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: Dim | None = None) -> Any:  # fmt: skip
    """Return the distinct elements (or slices along `dim`) in order; on request where each went, and how often it came.

    *Shapes*: the inverse has the input's shape, or the length of `dim`.

    >>> import core
    >>> core.unique(core.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    truth("unique", "sorted", sorted, 2)
    return _some(_unique, "unique", input, return_inverse, return_counts, dim)


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: Dim | None = None
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: bool = False, dim: Dim | None = None
) -> tuple[Tensor, ...]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, *, return_counts: Literal[True], dim: Dim | None = None
) -> tuple[Tensor, ...]: ...
@public(python=True)
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                       dim: Dim | None = None) -> Any:  # fmt: skip
    """Return the elements (or slices along `dim`) without those that equal the one before.

    >>> import core
    >>> core.unique_consecutive(core.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    return _some(_unique_consecutive, "unique_consecutive", input, return_inverse, return_counts, dim)


# -- places in an order ------------------------------------------------------------------------------------------------


def _searchsorted_forward(xp: Any, sequence: Any, values: Any, right: bool) -> Any:
    side = "right" if right else "left"
    sequence, values = wide(sequence), wide(values)
    if sequence.ndim == 1:
        return xp.asarray(xp.searchsorted(sequence, values, side=side)).astype(xp.int64)
    if not values.size:
        return xp.zeros(values.shape, xp.int64)
    rows = sequence.reshape(math.prod(sequence.shape[:-1]), sequence.shape[-1])
    many = values.reshape(rows.shape[0], values.shape[-1])
    found = [xp.searchsorted(row, v, side=side) for row, v in zip(rows, many, strict=True)]
    return xp.stack(found).astype(xp.int64).reshape(values.shape)


_searchsorted = operation(
    "searchsorted",
    _searchsorted_forward,
    inputs="sequence values",
    params={"right": False},
    samples=lambda rng: [
        ((np.arange(5), _sample_ints(rng)), {}),
        ((np.sort(_sample_ints(rng)), _sample_ints(rng)), {"right": True}),
    ],
)


def _values(input: Any, like: Any) -> Tensor:
    """Return a number as a 0-d tensor on the device of `like`."""
    if isinstance(input, Tensor):
        return input
    return from_array(backends.array_module(like.device.type).asarray(input), like.device)


def _finish(y: Tensor, out_int32: bool, out: Tensor | None, op: str) -> Tensor:
    return into(out, y.to(dtypes.int32) if out_int32 else y, op)


@public(method=False)
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | Scalar,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the place of each value in a sorted sequence: before its equals, or after them with `right`.

    *Shapes*: a vector takes values of any shape; with more dimensions all but the last agree.
    *Raises*: RuntimeError where they do not.

    >>> import core
    >>> core.searchsorted(core.tensor([1, 3, 5]), core.tensor([3, 4]))
    tensor([1, 2])
    """
    need_tensor(sorted_sequence, "searchsorted")
    if side not in (None, "left", "right"):
        raise RuntimeError(text(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}",
                                op="searchsorted"))  # fmt: skip
    if side == "left" and right:
        raise RuntimeError(text("torch.searchsorted(): side and right can't be set to opposites, got side of left "
                                "while right was True", op="searchsorted"))  # fmt: skip
    values = _values(input, sorted_sequence)
    have, want = sorted_sequence._a.shape, values._a.shape
    if len(have) != 1 and have[:-1] != want[:-1]:
        raise RuntimeError(
            text(
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                f"boundaries tensor and input value tensor must match, but we got boundaries tensor {list(have)} and "
                f"input value tensor {list(want)}",
                op="searchsorted",
            )
        )
    if sorter is not None:
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    y = _searchsorted(sorted_sequence.detach(), values.detach(), right=right or side == "right")
    return _finish(y, out_int32, out, "searchsorted")


@public(method=False)
def bucketize(input: Tensor | Scalar, boundaries: Tensor, *, out_int32: bool = False, right: bool = False,
              out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the index of the bucket, between the sorted `boundaries`, that each value falls in.

    >>> import core
    >>> core.bucketize(core.tensor([0.5, 3.0, 9.0]), core.tensor([1.0, 3.0]))
    tensor([0, 1, 2])
    """
    need_tensor(boundaries, "bucketize")
    if boundaries.ndim != 1:
        raise RuntimeError(text(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})",
                                op="bucketize"))  # fmt: skip
    y = _searchsorted(boundaries.detach(), _values(input, boundaries).detach(), right=right)
    return _finish(y, out_int32, out, "bucketize")


# -- counts ------------------------------------------------------------------------------------------------------------


def _bincount_forward(xp: Any, x: Any, weights: Any, minlength: int) -> Any:
    if weights is None:
        return xp.bincount(x.astype(xp.int64), minlength=minlength).astype(xp.int64)
    y = xp.bincount(x.astype(xp.int64), weights.astype(np.float64), minlength)
    return y.astype(np.float32 if weights.dtype == np.float32 else np.float64)


_bincount = operation("bincount", _bincount_forward, inputs="x weights?", params={"minlength": 0}, recorded=True,
                      samples=lambda rng: [((_sample_ints(rng).reshape(-1), None), {"minlength": 6})])  # fmt: skip


@public(home="counting", state="quiet", fast=[Fast(body="counts_of(input, minlength)", types={"input": "piece"})])
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 to the greatest comes, or the sum of its `weights`.

    *Raises*: RuntimeError for what is no vector of non-negative integers.

    >>> import core
    >>> core.bincount(core.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    need_tensor(input, "bincount")
    if input.dtype.category > 1:
        raise NotImplementedError(
            text(f"\"bincount_cpu\" not implemented for '{input.dtype.scalar_type}'", op="bincount", remedy="x.long()")
        )
    if input.ndim != 1 or (input.numel() and int(input._a.min()) < 0):
        raise RuntimeError(text("bincount only supports 1-d non-negative integral inputs.", op="bincount",
                                came=f"shape {tuple(input._a.shape)}"))  # fmt: skip
    if minlength < 0:
        raise RuntimeError(text("minlength should be >= 0", op="bincount", came=f"{minlength}"))
    if weights is not None and (weights.ndim != 1 or weights.numel() != input.numel()):
        raise RuntimeError(text("weights should be 1-d and have the same length as input", op="bincount",
                                came=f"{tuple(weights._a.shape)}", needed=f"{tuple(input._a.shape)}"))  # fmt: skip
    return _bincount(input, weights, minlength=int(minlength))


def _histc_forward(xp: Any, x: Any, bins: int, low: float, high: float) -> Any:
    w = wide(x).reshape(-1)
    if low == high and w.size:
        low, high = float(w.min()), float(w.max())
    if low == high:
        low, high = low - 1, high + 1
    if not np.isfinite(low) or not np.isfinite(high):
        raise RuntimeError(
            text(f"histc: range of [{low}, {high}] is not finite", op="histc", remedy="give min and max")
        )
    w = w[(w >= low) & (w <= high)]
    real = w.dtype.type if w.dtype.kind == "f" else np.float64
    place = ((w - real(low)) * real(bins) / real(high - low)).astype(xp.int64)
    return xp.bincount(xp.minimum(place, bins - 1), minlength=bins).astype(x.dtype)


_histc = operation("histc", _histc_forward, params={"bins": 100, "low": 0.0, "high": 0.0}, recorded=True,
                   samples=lambda rng: [((rng.uniform(-2, 2, (3, 4)),), {"bins": 4})])  # fmt: skip


@public(home="counting", state="quiet",
        fast=[Fast(body="histogram_of(input, bins, min, max)", types={"input": "piece"},
                   raw=("min", "max"))])  # fmt: skip
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None) -> Tensor:
    """Return how many elements fall in each of `bins` equal parts from `min` to `max` (by default of the data).

    *Raises*: RuntimeError for no bins, for ``max < min``, or a range that is not finite.

    >>> import core
    >>> core.histc(core.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    need_tensor(input, "histc")
    if bins <= 0:
        raise RuntimeError(text("bins must be > 0", op="histc", came=f"{bins}"))
    if max < min:
        raise RuntimeError(text("max must be larger than min", op="histc", came=f"{min} to {max}"))
    return into(out, _histc(input, bins=int(bins), low=float(min), high=float(max)), "histc")


def _bins(xp: Any, edges: Any, x: Any) -> tuple[Any, Any]:
    """Between which edges each number falls, and which lie between the first and the last."""
    inside = (x >= edges[0]) & (x <= edges[-1])
    return xp.minimum(xp.searchsorted(edges, x, side="right") - 1, edges.size - 2), inside


def _histogram_forward(xp: Any, x: Any, edges: Any, weight: Any, density: bool) -> Any:
    w = x.reshape(-1)
    place, inside = _bins(xp, edges, w)
    counted = None if weight is None else weight.reshape(-1)[inside]
    hist = xp.bincount(place[inside], counted, minlength=edges.size - 1).astype(x.dtype)
    return hist / hist.sum() / xp.diff(edges) if density else hist


_histogram = operation("histogram", _histogram_forward, inputs="x edges weight?", params={"density": False},
                       recorded=True,
                       samples=lambda rng: [((rng.uniform(-2, 2, (12,)), np.linspace(-2.0, 2.0, 5), None), {}),
                                            ((rng.uniform(-2, 2, (12,)), np.linspace(-2.0, 2.0, 5),
                                              rng.uniform(0, 1, (12,))), {"density": True})])  # fmt: skip


def _equal_parts(xp: Any, op: str, x: Any, bins: int, ends: Any) -> Any:
    """Return the edges of `bins` equal parts between two ends, by default those of the data."""
    if ends is None:
        ends = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    low, high = ends
    if low > high:
        raise RuntimeError(text(f"torch.histogramdd: min should be less than max, got [{low}, {high}]", op=op))
    if low == high:
        low, high = low - 0.5, high + 0.5
    return xp.linspace(low, high, bins + 1).astype(x.dtype)


def _pairs(ends: Any, n: int) -> list[Any]:
    """Return the two ends of each of n coordinates, from a list of them in turn."""
    return [None] * n if ends is None else list(zip(ends[::2], ends[1::2], strict=True))


@public()
def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> return_types.histogram:
    """Return how many elements (or the sum of their weights) fall between neighbouring edges, and the edges.

    `bins` is a number of equal parts of `range` (by default of the data) or the sorted edges; with `density` the
    area is 1. *Raises*: RuntimeError for a dtype other than float32 and float64, or no bins.

    >>> import core
    >>> core.histogram(core.tensor([1.0, 2.0, 1.0]), 2, range=(0.0, 3.0)).hist
    tensor([2., 1.])
    """
    need_tensor(input, "histogram")
    if input.dtype.name not in ("float32", "float64"):
        raise NotImplementedError(
            text(f"\"histogramdd\" not implemented for '{input.dtype.scalar_type}'", op="histogram", remedy="x.float()")
        )
    xp = backends.array_module(input.device.type)
    if isinstance(bins, Tensor):
        if bins.dtype is not input.dtype:
            raise RuntimeError(text("torch.histogramdd: input tensor and bins tensors should have the same dtype",
                                    op="histogram", came=f"{input.dtype} and {bins.dtype}"))  # fmt: skip
        edges = bins
    else:
        if bins <= 0:
            raise RuntimeError(text("torch.histogram(): bins must be > 0, but got " + str(bins), op="histogram"))
        edges = from_array(_equal_parts(xp, "histogram", input._a, bins, range), input.device)
    hist = _histogram(input, edges, weight, density=bool(density))
    return _ReturnHistogram(hist, edges)


@public(method=False)
def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Tensor | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> return_types.histogramdd:
    """As `histogram`, of points: the last dimension of `input` has their coordinates. Outside the graph.

    `bins` is a number, one for each coordinate, or their edges; `range` has the two ends of every coordinate in turn.
    *Raises*: RuntimeError where they are not as many as the coordinates.

    >>> import core
    >>> core.histogramdd(core.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), 2).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    need_tensor(input, "histogramdd")
    if input.ndim < 2:
        raise RuntimeError(text("torch.histogramdd: input tensor should have at least 2 dimensions, but got "
                                f"{input.ndim}", op="histogramdd"))  # fmt: skip
    if input.dtype.name not in ("float32", "float64"):
        raise NotImplementedError(text(f"\"histogramdd\" not implemented for '{input.dtype.scalar_type}'",
                                       op="histogramdd", remedy="x.float()"))  # fmt: skip
    n, xp = int(input._a.shape[-1]), backends.array_module(input.device.type)
    many: list[Any] = [bins] * n if isinstance(bins, int) else list(bins)
    if len(many) != n:
        raise RuntimeError(
            text(
                f"torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram "
                f"but got {len(many)}",
                op="histogramdd",
            )
        )
    if range is not None and len(range) != 2 * n:
        raise RuntimeError(
            text(
                f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, "
                f"but got {len(range)}",
                op="histogramdd",
            )
        )
    points = input._a.reshape(-1, n)
    edges: list[Any] = [b._a if isinstance(b, Tensor) else _equal_parts(xp, "histogramdd", points[:, k], int(b), ends)
             for k, (b, ends) in enumerate(zip(many, _pairs(range, n), strict=True))]  # fmt: skip
    place: Any = 0
    shape, kept = tuple(e.size - 1 for e in edges), xp.ones(len(points), bool)
    for k, e in enumerate(edges):
        at, inside = _bins(xp, e, points[:, k])
        place, kept = place * shape[k] + at, kept & inside
    weights = None if weight is None else weight._a.reshape(-1)[kept]
    hist = xp.bincount(place[kept], weights, minlength=math.prod(shape)).reshape(shape).astype(points.dtype)
    if density:
        hist = hist / hist.sum()
        for k, e in enumerate(edges):
            hist = hist / xp.diff(e).reshape([-1 if j == k else 1 for j in builtins.range(n)])
    return _ReturnHistogramdd(from_array(hist, input.device), tuple(from_array(e, input.device) for e in edges))


# -- membership --------------------------------------------------------------------------------------------------------

_isin = operation("isin", lambda xp, x, among, invert: xp.isin(wide(x), wide(among), invert=invert), inputs="x among",
                  params={"invert": False},
                  samples=lambda rng: [((_sample_ints(rng), np.array([1, 3])), {})])  # fmt: skip


@public(method=False, home="counting", state="quiet",
        fast=[Fast(body="among(elements, test_elements)",
                   types=dict.fromkeys(("elements", "test_elements"), "piece"))])  # fmt: skip
def isin(
    elements: Tensor | Scalar, test_elements: Tensor | Scalar, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Return whether each element is among `test_elements`; either may be a number.

    >>> import core
    >>> core.isin(core.tensor([1, 2, 3]), core.tensor([1, 3]))
    tensor([ True, False,  True])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): argument must be Tensor, not "
                        f"{type(elements).__name__}\n  remedy: core.tensor(...)")  # fmt: skip
    like = elements if isinstance(elements, Tensor) else test_elements
    x, among = _values(elements, like), _values(test_elements, like)
    return _isin(x.detach(), among.detach(), invert=invert)
