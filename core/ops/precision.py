"""Half types are computed in float32 and rounded once, in every reference as in every kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import half


def wide(x: Any) -> Any:
    """Return a half-precision array as float32; any other (or None) as it is."""
    if x is not None and x.dtype.itemsize == 2 and x.dtype.kind in "fV":
        return half.widened(x) if isinstance(x, np.ndarray) else x.astype(np.float32)
    return x


def rounded(y: Any, dtype: Any) -> Any:
    """`y` in `dtype`."""
    if y.dtype == dtype:
        return y
    return half.narrowed(y, dtype) if dtype in half.HALVES and _in_float32(y) else y.astype(dtype)


def _in_float32(y: Any) -> bool:
    return isinstance(y, np.ndarray) and y.dtype == np.float32
