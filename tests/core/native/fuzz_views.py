"""Chains of views at random for `fuzz`: what they show is NumPy's, and their gradient goes back where each item lay."""

from __future__ import annotations

from typing import Any

import numpy as np

import core
from tests.conformance import harness as h


def step(rng: Any, t: Any, a: Any) -> tuple[Any, Any]:
    """One view at random, of a tensor and of an array."""
    kind = int(rng.integers(9))
    n = a.ndim
    if n == 0 or kind == 0:
        return t.unsqueeze(0), a[None]
    axis = int(rng.integers(n))
    long = a.shape[axis]
    if kind == 1:
        order = rng.permutation(n).tolist()
        return t.permute(*order), a.transpose(order)
    if kind == 2:
        other = int(rng.integers(n))
        return t.transpose(axis, other), a.swapaxes(axis, other)
    if kind == 3 and long:
        at = int(rng.integers(-long, long))
        index = (slice(None),) * axis + (at,)
        return (t.select(axis, at), a[index]) if rng.random() < 0.5 else (t[index], a[index])
    if kind == 4 and long == 1:
        return t.squeeze(axis), a.squeeze(axis)
    if kind == 5:
        return t.reshape(-1), a.reshape(-1)
    if kind == 6 and long == 1:
        wide = [int(rng.integers(0, 4)) if i == axis else m for i, m in enumerate(a.shape)]
        return t.expand(*wide), np.broadcast_to(a, wide)
    if kind == 7 and long:
        first = int(rng.integers(long))
        count = int(rng.integers(0, long - first + 1))
        return t.narrow(axis, first, count), a[(slice(None),) * axis + (slice(first, first + count),)]
    first, last = sorted(rng.integers(-long - 1, long + 2, 2).tolist())
    index = (*(slice(None),) * axis, slice(first, last, int(rng.integers(1, 4))))
    if rng.random() < 0.3:
        index = (..., *index[axis:]) if axis == n - 1 else (*index, None)
    return t[index], a[index]


def run(rng: Any, dtype: str) -> None:
    """A chain on a tensor of that type. *Raises*: Wrong."""
    from .fuzz import Guarded, Wrong

    shape = tuple(
        int(m) for m in rng.choice([0, 1, 2, 3, 5, 8], int(rng.integers(0, 5)), p=[0.05, 0.2, 0.2, 0.2, 0.2, 0.15])
    )
    block = Guarded(rng, h.cast(rng.standard_normal(shape), dtype))
    leaf = h.to_tensor(block.array, h.CPU, grad=bool(rng.random() < 0.7))
    t, places = leaf, np.arange(block.array.size).reshape(shape)
    said = []
    for _ in range(int(rng.integers(1, 6))):
        t, places = step(rng, t, places)
        said.append(tuple(t.shape))
        if tuple(t.shape) != places.shape:
            raise Wrong(f"the view is {tuple(t.shape)}, NumPy's {places.shape}; {shape} by {said}")
    want = block.array.reshape(-1)[places]
    if t._a.tobytes() != want.tobytes():
        raise Wrong(f"the view shows other items than NumPy's; {shape} by {said}")
    if leaf.requires_grad:
        g = rng.integers(-3, 4, places.shape).astype(leaf._a.dtype)  # whole numbers: sums of few are exact
        (found,) = core.autograd.grad([t], [leaf], [h.to_tensor(np.asarray(g), h.CPU)])
        exact = np.zeros(block.array.size)
        np.add.at(exact, places.reshape(-1), np.asarray(g, np.float64).reshape(-1))
        if not np.array_equal(found._a.astype(np.float64), exact.reshape(shape)):
            raise Wrong(f"the view's gradient is wrong; {shape} by {said}")
    if not block.untouched():
        raise Wrong("an input was written to")
