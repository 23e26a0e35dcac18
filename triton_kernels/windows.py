"""The geometry of sliding windows in one, two and three dimensions, brought to three for the kernels.

A forward window at place q of the output sees the input at ``stride q + dilation k - padding``, for each tap k. Turned
round, place q of what was the input is seen by tap k of the window ``(q + padding - dilation k) / stride``, where that
is whole: only every ``stride / gcd(stride, dilation)``-th tap, from a first one that depends on q modulo the stride.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

DIMENSIONS = 3
Sizes = tuple[int, ...]


def three(values: Sequence[int], fill: int) -> Sizes:
    """Return the values with `fill` for the dimensions that are not there, which come first.

    >>> three((5, 7), 1)
    (1, 5, 7)
    """
    return (fill,) * (DIMENSIONS - len(values)) + tuple(int(v) for v in values)


class Walk(NamedTuple):
    """How output places meet input places, a dimension an entry: ``input = (r + base - dilation first) / leap + place
    pace + tap delta`` for the output at ``r + place leap``, with `r` below `leap`; `first` is r's first tap."""

    places: Sizes  # of each r
    pace: Sizes
    leap: Sizes
    delta: Sizes  # from one of r's taps to its next
    base: Sizes
    dilation: Sizes
    tap_step: Sizes  # in the kernel, between r's taps

    @property
    def phases(self) -> int:
        """How many r there are, over all dimensions."""
        return math.prod(self.leap)


def forward_walk(out: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> Walk:
    """Windows that slide over an input."""
    ones = (1,) * DIMENSIONS
    spread = three(dilation, 1)
    base = tuple(-p for p in three(padding, 0))
    return Walk(three(out, 1), three(stride, 1), ones, spread, base, spread, ones)


def transposed_walk(out: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> Walk:
    """Return the transpose: each place of the output gathers from the windows that it is in.

    >>> transposed_walk((5,), (2,), (1,), (1,)).places
    (1, 1, 3)
    """
    leap, spread = three(stride, 1), three(dilation, 1)
    common = [math.gcd(s, d) for s, d in zip(leap, spread, strict=True)]
    return Walk(
        places=tuple(-(-q // s) for q, s in zip(three(out, 1), leap, strict=True)),
        pace=(1,) * DIMENSIONS,
        leap=leap,
        delta=tuple(-d // c for d, c in zip(spread, common, strict=True)),
        base=three(padding, 0),
        dilation=spread,
        tap_step=tuple(s // c for s, c in zip(leap, common, strict=True)),
    )


def spatial_strides(strides: Sequence[int]) -> Sizes:
    """Return the strides of the spatial dimensions, in elements, 0 for those that are not there.

    A dimension that is not there has one place; its stride is never used but to be multiplied with zero.
    """
    return three(strides, 0)


def out_sizes(sizes: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Sizes:
    """Return how many windows fit.

    >>> out_sizes((7,), (3,), (2,), (1,), (1,))
    (4,)
    """
    every = zip(sizes, kernel, stride, padding, dilation, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in every)


def strides_of(array: Any) -> Sizes:
    """Return an array's strides in elements: samples, channels, three spatial dimensions."""
    first, second, *rest = (stride // array.itemsize for stride in array.strides)
    return (first, second, *spatial_strides(rest))
