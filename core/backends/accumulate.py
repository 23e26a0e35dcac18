"""Adding rows at given places, always in the same order: what the gradient of a look-up needs.

No atomics: equal places are brought together by a stable sort and summed in the order in which they came (NumPy) or
pairwise (on a GPU), so that the same input gives the same bits however many threads there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import has_values


def add_rows(xp: Any, out: Any, places: Any, rows: Any) -> None:
    """``out[places[i]] += rows[i]`` for every i; `out` (n, k), `places` (m,) in 0..n-1, `rows` (m, k)."""
    if not rows.size or not has_values(xp):
        return
    if xp is np and rows.shape[1] == 1:
        np.add.at(out[:, 0], places, rows[:, 0])  # NumPy's own loop, in order, is the fastest for single elements
        return
    order = xp.argsort(places, kind="stable")
    places = places[order]
    rows = rows[order]
    first = xp.ones(len(places), bool)
    first[1:] = places[1:] != places[:-1]
    starts = xp.nonzero(first)[0]
    if xp is np:
        out[places[starts]] += np.add.reduceat(rows, starts, axis=0, dtype=rows.dtype)
        return
    out[places[starts]] += _pairwise(xp, rows, starts, len(places))


def _pairwise(xp: Any, rows: Any, starts: Any, m: int) -> Any:
    """Return the sum of each run of rows by halving: log2 of the longest run steps, each on all runs at once."""
    lengths = xp.diff(xp.concatenate([starts, xp.asarray([m])]))
    at = xp.arange(m) - xp.repeat(starts, lengths.tolist())
    length = xp.repeat(lengths, lengths.tolist())
    step, longest = 1, int(lengths.max())
    while step < longest:
        left = xp.nonzero((at % (2 * step) == 0) & (at + step < length))[0]
        rows[left] += rows[left + step]
        step *= 2
    return rows[starts]


def places_of(xp: Any, shape: tuple[int, ...], key: tuple[Any, ...]) -> Any:
    """Return the flat places that ``x[key]`` reads, for x of `shape`, in the shape of the result."""
    n = 1
    for d in shape:
        n *= d
    return xp.arange(n).reshape(shape)[key]


def add_at(xp: Any, out: Any, key: tuple[Any, ...], values: Any) -> None:
    """``out[key] += values`` where places may repeat; `out` in row-major order, `values` as ``out[key]``."""
    lead = 0
    for i, k in enumerate(key):
        if not (isinstance(k, slice) and k == slice(None)):
            lead = i + 1
    places = places_of(xp, out.shape[:lead], key[:lead])
    n = 1
    for d in out.shape[:lead]:
        n *= d
    k = out.size // n if n else 0
    if out.size and values.size:
        add_rows(xp, out.reshape(n, k), places.reshape(-1), values.reshape(-1, k))
