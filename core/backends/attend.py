"""Scaled dot product attention by the C kernel: arrays as it takes them, with four axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native
from ..declare.kernel import kernel

c: Any = native.module

_Q, _K, _V = "real[outer, heads, l, d]", "real[outer, heads, s, d]", "real[outer, heads, s, dv]"
_Y, _LOGS = "real[outer, heads, l, dv]", "real[outer, heads, l, 1]"
_INPUTS = (f"q: {_Q} strided, k: {_K} strided, v: {_V} strided, added: real[outer, heads, l, s]? strided, "
           "allowed: bool[outer, heads, l, s]? strided, scale: float, causal: flag")  # fmt: skip
_SHAPE = ("struct('attention_shape', outer, heads, l, s, d, dv, scale, causal,"
          " (ATTENTION_ADDED if added is not None else ATTENTION_ALLOWED if allowed is not None else 0))")  # fmt: skip


def _arrays(*names: str) -> str:
    given = ", ".join(f"{n}=attention_of({n}.view)" for n in ("q", "k", "v", *names))
    return (
        f"struct('attention_arrays', {given}, mask=attention_of((added.view if added is not None else allowed.view)))"
    )


def _declare(name: str, more: dict[str, str], written: tuple[str, ...]) -> None:
    arrays = ", ".join(f"{n}: {shape} {'written' if n in written else 'strided'}" for n, shape in more.items())
    kernel(
        name,
        f"{_INPUTS}, {arrays}",
        gives="None",
        call=f"{name.split('_')[0]}_{'backward' if '_' in name else 'forward'}.T({_SHAPE}, {_arrays(*more)})",
        fails="memory",
        quiet="True",
        takes=tuple(f"{n}.side_by_side" for n in ("q", "k", "v", *more)),
        run=False,
    )


_declare("attention", {"y": _Y, "logs": _LOGS}, ("y", "logs"))
_declare("attention_backward", {"logs": _LOGS, "g": _Y, "gq": _Q, "gk": _K, "gv": _V}, ("gq", "gk", "gv"))


def declines(q: Any, k: Any, v: Any, mask: Any, p: float, **_: Any) -> str | None:
    """Why the kernel does not take these; None where it does."""
    if p:
        return "drops no weights"
    dtype = q.dtype
    if dtype.char not in "fd" or k.dtype != dtype or v.dtype != dtype:
        return f"takes float32 and float64, got {dtype}"
    if mask is not None and mask.dtype.char not in ("?", dtype.char):
        return f"takes a mask of bool or {dtype}, got {mask.dtype}"
    if (
        q.ndim > 4
        or q.ndim != k.ndim
        or q.ndim != v.ndim
        or q.shape[:-2] != k.shape[:-2]
        or q.shape[:-2] != v.shape[:-2]
    ):
        return "takes at most two dimensions before the matrices, equal in q, k and v"
    if mask is not None and mask.ndim > q.ndim:
        return "takes a mask of no more dimensions than q"
    if not (q.size and k.size and v.size):
        return "takes no empty arrays"
    return None


def _four(a: Any) -> Any:
    """Return an array as (batch, head, row, item), its items side by side."""
    flags = a.flags
    if not flags.aligned or (
        not flags.c_contiguous and (a.strides[-1] != a.itemsize or any(s % a.itemsize for s in a.strides))
    ):
        a = np.array(a, order="C")  # ascontiguousarray leaves what is contiguous where it is, aligned or not
    return a.reshape((1,) * (4 - a.ndim) + a.shape) if a.ndim < 4 else a


def _like(a: Any, columns: int) -> Any:
    """Memory for what has the rows of `a`: laid out as it is, so that heads that lie side by side stay so."""
    b, h, n, _ = a.shape
    if 0 < a.strides[1] < a.strides[2]:
        return c.empty((b, n, h, columns), a.dtype).transpose(0, 2, 1, 3)
    return c.empty((b, h, n, columns), a.dtype)


def _mask(mask: Any, q: Any, k: Any) -> tuple[Any, Any]:
    """Return the mask that is added, and the one that says what is allowed."""
    if mask is None:
        return None, None
    mask = np.broadcast_to(mask if mask.flags.aligned else mask.copy(), (*q.shape[:3], k.shape[2]))
    return (None, mask) if mask.dtype == bool else (mask, None)


def forward(q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, **_: Any) -> Any:
    """softmax(q kᵀ scale + mask) v, and the logarithms of the sums."""
    lead = q.shape[:-2]
    q, k, v = _four(q), _four(k), _four(v)
    y = _like(q, v.shape[3])
    logs = np.empty((*q.shape[:3], 1), q.dtype)
    c.kernels["attention"](q, k, v, *_mask(mask, q, k), float(scale), bool(causal), y, logs)
    return y.reshape(*lead, *y.shape[2:]), logs.reshape(*lead, *logs.shape[2:])


def backward_declines(g: Any, q: Any, k: Any, v: Any, mask: Any, p: float, needs: Any, **_: Any) -> str | None:
    """Why the kernel gives no gradients of these; None where it does."""
    if needs[3]:
        return "gives no gradient of the mask"
    return declines(q, k, v, mask, p)


def backward(g: Any, q: Any, k: Any, v: Any, mask: Any, logs: Any, scale: float, causal: bool, needs: Any,
             **_: Any) -> Any:  # fmt: skip
    """Return the gradients of q, k and v."""
    shapes = q.shape, k.shape, v.shape
    q, k, v, g, logs = (_four(a) for a in (q, k, v, g, logs))
    grads = [_like(a, a.shape[3]) for a in (q, k, v)]
    c.kernels["attention_backward"](q, k, v, *_mask(mask, q, k), float(scale), bool(causal), logs, g, *grads)
    return (*(a.reshape(shape) if need else None for a, shape, need in zip(grads, shapes, needs, strict=False)), None)
