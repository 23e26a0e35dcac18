"""Half types are computed in float32 and rounded once, in every reference as in every kernel."""

from __future__ import annotations

from typing import Any

import numpy as np


def wide(x: Any) -> Any:
    """A half-precision array as float32; any other (or None) as it is."""
    if x is not None and x.dtype.itemsize == 2 and x.dtype.kind in "fV":
        return x.astype(np.float32)
    return x


def rounded(y: Any, dtype: Any) -> Any:
    """`y` in `dtype`."""
    return y if y.dtype == dtype else y.astype(dtype)
