"""Values of special functions, by name and point, against what `core.special` gives."""

from __future__ import annotations

from typing import Any

import numpy as np

import core

Points = dict[Any, float]
"""A function's value by its argument, or by a tuple of them."""


def compare(name: str, points: Points, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raise AssertionError where a function's value in float64 is not the known one, NaN and infinities included."""
    given = core.tensor(list(points), dtype=core.float64)
    got = getattr(core.special, name)(*(given.unbind(1) if given.ndim == 2 else (given,)))
    np.testing.assert_allclose(got.numpy(), list(points.values()), rtol=rtol, atol=atol)
