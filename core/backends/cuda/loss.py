"""Rows of cross-entropy and the negative log likelihood, forward and backward.

A target that is no class is noted by the kernel and raised where the host next waits for the GPU (notes.py); nothing
here waits. Under the interpreter that is at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Row
from .faults import target_slot
from .shared import array_library, empty, floating, name


def _declines(x: Any, target: Any, weight: Any, *more: Any) -> str | None:
    if target.dtype != np.int64:
        return f"takes int64 targets, got {target.dtype}"
    return floating(x, weight, *more) or ("needs at least one class" if x.shape[1] == 0 else None)


def _dense(a: Any) -> Any:
    return a if a is None or a.flags.c_contiguous else array_library().ascontiguousarray(a)


def _cross_entropy(x: Any, target: Any, weight: Any, ignore_index: int, label_smoothing: float) -> Any:
    from triton_kernels import loss

    losses = empty(target.shape, x.dtype)
    lse = empty(target.shape, np.float64 if x.dtype == np.float64 else np.float32)
    loss.cross_entropy_forward(x, _dense(target), losses, lse, ignore_index, weight=_dense(weight),
                               label_smoothing=label_smoothing,
                               fault=target_slot("cross_entropy", x.shape[1]))  # fmt: skip
    return losses, lse


def _cross_entropy_backward(
    g: Any, x: Any, target: Any, weight: Any, lse: Any, ignore_index: int, label_smoothing: float, **_: Any
) -> Any:
    from triton_kernels import loss, reduce

    out = empty(x.shape, x.dtype)
    total = None
    if weight is not None and label_smoothing:
        total = empty((1,), lse.dtype)
        reduce.reduce_forward("sum", weight, None, total)
    loss.cross_entropy_backward(g, x, _dense(lse), _dense(target), out, ignore_index, weight=_dense(weight),
                                label_smoothing=label_smoothing, total=total)  # fmt: skip
    return out, None, None


def _nll(x: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    from triton_kernels import nll

    out = empty(target.shape, x.dtype)
    if out.size:
        nll.nll_forward(x, _dense(target), _dense(weight), out, ignore_index, fault=target_slot("nll_loss", x.shape[1]))
    return out


def _nll_backward(g: Any, x: Any, target: Any, weight: Any, ignore_index: int, **_: Any) -> Any:
    from triton_kernels import nll

    out = empty(x.shape, x.dtype)
    if out.size:
        nll.nll_backward(g, _dense(target), _dense(weight), out, ignore_index)
    return out, None, None


def _class_weight(target: Any, weight: Any, ignore_index: int) -> Any:
    from triton_kernels import nll

    out = empty(target.shape, weight.dtype)
    if out.size:
        nll.nll_forward(None, _dense(target), _dense(weight), out, ignore_index,
                        fault=target_slot("cross_entropy", weight.shape[0]))  # fmt: skip
    return out


def _counted(target: Any, ignore_index: int, dtype: Any) -> Any:
    from triton_kernels import nll

    out = empty(target.shape, dtype.numpy)
    if out.size:
        nll.nll_forward(None, _dense(target), None, out, ignore_index)
    return out


def _no_weight_gradient(needs: Any) -> str | None:
    return "gives no gradient of the class weights" if needs[2] else None


ROWS = {
    "cross_entropy": Row("cross_entropy_kernel", name, _cross_entropy,
                         lambda x, target, weight, **_: _declines(x, target, weight)),
    "cross_entropy.backward": Row("cross_entropy_backward_kernel", name, _cross_entropy_backward,
                                  lambda g, x, target, weight, needs, **_:
                                  _declines(x, target, weight, g) or _no_weight_gradient(needs)),
    "nll_loss": Row("nll_kernel", name, _nll, lambda x, target, weight, **_: _declines(x, target, weight)),
    "nll_loss.backward": Row("nll_backward_kernel", name, _nll_backward,
                             lambda g, x, target, weight, needs, **_:
                             _declines(x, target, weight, g) or _no_weight_gradient(needs)),
    "class_weight": Row("nll_kernel", name, _class_weight,
                        lambda target, weight, ignore_index: floating(weight)
                        or (None if target.dtype == np.int64 else f"takes int64 targets, got {target.dtype}")),
    "counted_targets": Row("nll_kernel", name, _counted,
                           lambda target, ignore_index, dtype: None if target.dtype == np.int64
                           else f"takes int64 targets, got {target.dtype}"),
}  # fmt: skip
