"""The CPU's kernels of places in a sorted sequence, and of cross products (native/kernels/search.c)."""

from __future__ import annotations

from ..declare.kernel import kernel

kernel(
    "searchsorted",
    "sequence: number[n], values: number[*all], right: flag",
    gives="at: int64[*all]",
    call="search.T(sequence, n, values, at, values.size, right)",
    takes=("n <= INT32_MAX",),
    misfit=True,
    half=False,
)
kernel(
    "cross",
    "a: real[*outer, n, *inner], b: real[*outer, n, *inner], dim: axis(n)",
    gives="y: real[*outer, n, *inner]",
    call="cross.T(a, b, y, outer, inner)",
    takes=("n == 3",),
)
