"""How a tensor prints: PyTorch's layout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import dtypes


def tensor_text(t: Any) -> str:
    """``tensor([...], dtype=..., grad_fn=...)``."""
    a = t._a if isinstance(t._a, np.ndarray) else t._a.get()
    a = a.view(np.ndarray)
    if a.dtype == dtypes.bfloat16.numpy:
        a = a.astype(np.float32)
    prefix = "tensor("
    body = _body(a, len(prefix)) if a.size else "[]"
    tail = []
    if t.device.type != "cpu":
        tail.append(f"device='{t.device}'")
    if a.size == 0 and a.ndim != 1:
        tail.append(f"size={tuple(a.shape)}")
    default = {2: dtypes.get_default_dtype(), 1: dtypes.int64, 0: dtypes.bool_, 3: dtypes.complex64}[t.dtype.category]
    if t.dtype is not default or (a.size == 0 and t.dtype is not dtypes.get_default_dtype()):
        tail.append(f"dtype={t.dtype!r}")
    if t.grad_fn is not None:
        tail.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t.requires_grad:
        tail.append("requires_grad=True")
    return prefix + ", ".join([body, *tail]) + ")"


def _formatter(a: Any) -> Any:
    """One text an element, all of one width."""
    if a.dtype.kind == "b":
        return str, 4 if bool(a.all()) else 5
    if a.dtype.kind in "iu":
        return str, max(len(str(v)) for v in (a.max(), a.min()))
    if a.dtype.kind == "c":
        return lambda v: f"{v.real:.4f}{v.imag:+.4f}j", 0
    finite = a[np.isfinite(a)].astype(np.float64)
    nonzero = np.abs(finite[finite != 0])
    whole = bool((finite == np.ceil(finite)).all())
    if nonzero.size == 0:
        show = (lambda v: f"{v:.0f}.") if whole else (lambda v: f"{v:.4f}")
    else:
        low, high = float(nonzero.min()), float(nonzero.max())
        if whole:
            sci = high / low > 1000.0 and high > 1e8 or high > 1e8
            show = (lambda v: f"{v:.4e}") if sci else (lambda v: f"{v:.0f}.")
        else:
            sci = high / low > 1000.0 or high > 1e8 or low < 1e-4
            show = (lambda v: f"{v:.4e}") if sci else (lambda v: f"{v:.4f}")

    def one(v: Any) -> str:
        v = float(v)
        return show(v) if math.isfinite(v) else ("nan" if math.isnan(v) else "inf" if v > 0 else "-inf")

    return one, max(len(one(v)) for v in a.reshape(-1)) if a.size <= 1000 else max(
        len(one(v)) for v in (*finite[:1], finite.min(initial=0), finite.max(initial=0)))  # fmt: skip


def _body(a: Any, indent: int, edge: int = 3, width_limit: int = 80) -> str:
    summarise = a.size > 1000
    shown = _corners(a, edge) if summarise else a
    one, width = _formatter(shown)
    if a.ndim == 0:
        return one(a.item() if a.dtype.kind != "f" else float(a))
    return _nested(a, indent, one, width, summarise, edge, width_limit)


def _corners(a: Any, edge: int) -> Any:
    for axis, n in enumerate(a.shape):
        if n > 2 * edge:
            a = np.concatenate([a.take(range(edge), axis), a.take(range(n - edge, n), axis)], axis)
    return a


def _nested(a: Any, indent: int, one: Any, width: int, summarise: bool, edge: int, limit: int) -> str:
    n = a.shape[0]
    cut = summarise and n > 2 * edge
    picks = [*range(edge), None, *range(n - edge, n)] if cut else list(range(n))
    if a.ndim == 1:
        words = ["..." if i is None else one(a[i]).rjust(width) for i in picks]
        per_line = max(1, (limit - indent) // (width + 2))
        rows = [", ".join(words[k : k + per_line]) for k in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(rows) + "]"
    parts = ["..." if i is None else _nested(a[i], indent + 1, one, width, summarise, edge, limit) for i in picks]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
