"""The CPU's rows over class indices: the negative log likelihood, its gradient, and rows with a single 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native
from ..declare import op as declarations
from . import Row

c: Any = native.module


def _declines(x: Any, target: Any, weight: Any, g: Any = None) -> str | None:
    if x.dtype.char not in "fd" or any(a is not None and a.dtype != x.dtype for a in (weight, g)):
        return f"takes one floating type, float32 or float64, got {x.dtype}"
    if x.ndim != 2 or target.ndim != 1 or target.dtype != np.int64:
        return f"takes rows of scores and an int64 class for each, got {x.ndim} dimensions and {target.dtype}"
    return None


def _nll(x: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    y = c.entries["nll_loss"](x, target, weight, ignore_index)
    if y is not NotImplemented:
        return y
    return declarations.table["nll_loss"].forward(np, x, target, weight, ignore_index)  # type: ignore[attr-defined] # it says which is no class


def _nll_backward(g: Any, x: Any, target: Any, weight: Any, ignore_index: int, needs: Any) -> Any:
    return c.entries["nll_loss.backward"](g, x, target, weight, ignore_index, needs)


rows = {
    "nll_loss": Row("nll_loss_forward", "C", _nll, lambda x, target, weight, **_: _declines(x, target, weight)),
    "nll_loss.backward": Row("nll_loss_backward", "C", _nll_backward,
                             lambda g, x, target, weight, needs, **_: _declines(x, target, weight, g)
                             or ("gives no gradient of the class weights" if needs[2] else None)),
    "one_hot_rows": Row("one_hot_rows_forward", "C", lambda index, classes: c.entries["one_hot_rows"](index, classes),
                        lambda index, classes: None if index.dtype == np.int64 and index.ndim < 16
                        else f"takes int64 indices, got {index.dtype}"),
}  # fmt: skip
