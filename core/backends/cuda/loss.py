"""Rows of cross-entropy, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Row
from .shared import array_library, empty, floating, name


def _cross_entropy_declines(x: Any, target: Any, weight: Any, label_smoothing: float) -> str | None:
    if weight is not None:
        return "takes no class weights"
    return "takes no label smoothing" if label_smoothing else floating(x)


def _cross_entropy(x: Any, target: Any, weight: Any, ignore_index: int, label_smoothing: float) -> Any:
    from triton_kernels import loss

    xp = array_library()
    valid = (target >= 0) & (target < x.shape[1]) | (target == ignore_index)
    if not bool(valid.all()):
        wrong = int(target[~valid][0])
        raise IndexError(f"Target {wrong} is out of bounds.\n  op: cross_entropy; needed: 0 to {x.shape[1] - 1}")
    losses = empty((x.shape[0],), x.dtype)
    lse = empty((x.shape[0],), np.float64 if x.dtype == np.float64 else np.float32)
    loss.cross_entropy_forward(xp.ascontiguousarray(x), xp.ascontiguousarray(target), losses, lse, ignore_index)
    return losses, lse


def _cross_entropy_backward(
    g: Any, x: Any, target: Any, weight: Any, lse: Any, ignore_index: int, label_smoothing: float, **_: Any
) -> Any:
    from triton_kernels import loss

    xp = array_library()
    out = empty(x.shape, x.dtype)
    dense = xp.ascontiguousarray
    loss.cross_entropy_backward(dense(g), dense(x), lse, dense(target), out, ignore_index)
    return out, None, None


ROWS = {
    "cross_entropy": Row("cross_entropy_kernel", name, _cross_entropy,
                         lambda x, target, weight, ignore_index, label_smoothing:
                         _cross_entropy_declines(x, target, weight, label_smoothing)),
    "cross_entropy.backward": Row("cross_entropy_backward_kernel", name, _cross_entropy_backward,
                                  lambda g, x, target, weight, label_smoothing, **_:
                                  _cross_entropy_declines(x, target, weight, label_smoothing)),
}  # fmt: skip
