"""What is left of numbers after a way through whole numbers and back; the gradient passes as if none were rounded."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.declare import operation
from ...tensors.tensor import Tensor, from_array
from ..precision import rounded, wide


def _along(x: Any, values: Any, axis: int) -> Any:
    """Return one value for each place along `axis` in a shape that spreads over x; one for all as it is."""
    return values.reshape([-1 if k == axis else 1 for k in range(x.ndim)]) if values.ndim else values


def _forward(xp: Any, x: Any, scale: Any, zero: Any, low: int, high: int, axis: int) -> Any:
    y = wide(x)
    scale, zero = (_along(x, a.astype(y.dtype), axis) for a in (scale, zero))
    whole = xp.clip(xp.rint(y / scale) + zero, low, high)
    return rounded((whole - zero) * scale, x.dtype)


def _x(g: Tensor, x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, axis: int) -> Tensor:
    scale, zero = _along(x, scale, axis), _along(x, zero, axis)
    whole: Any = (x.detach() / scale).round() + zero
    return g * ((whole >= low) & (whole <= high)).to(g.dtype)


def _samples(rng: Any) -> list[Any]:
    x, whole = rng.uniform(-3, 3, (3, 4)), rng.integers(-2, 3, 3).astype(np.int32)
    return [
        ((x, np.asarray(0.25), np.asarray(0, np.int32)), {"low": -8, "high": 7, "axis": 0}),
        ((x, rng.uniform(0.1, 0.5, 3), whole), {"low": -128, "high": 127, "axis": 0}),
        ((x, np.asarray(0.05), np.asarray(100, np.int32)), {"low": 0, "high": 255, "axis": 0}),
    ]


fake_quantise: Any = operation("fake_quantise", _forward, inputs="x scale zero", samples=_samples,
                               params={"low": -128, "high": 127, "axis": 0}, vjp=(_x, None, None), piecewise=True,
                               doc="x after a way through whole numbers and back.")  # fmt: skip
fake_quantise.op.straight_through = True


def numbers(x: Tensor, scale: Any, zero: Any) -> tuple[Tensor, Tensor]:
    """Return a scale and a zero point as tensors."""
    kind = np.float64 if x._a.dtype == np.float64 else np.float32
    given = scale if isinstance(scale, Tensor) else from_array(np.asarray(scale, kind)).to(x.device)
    point = zero if isinstance(zero, Tensor) else from_array(np.asarray(zero, np.int32)).to(x.device)
    return given, point
