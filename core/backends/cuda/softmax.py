"""Rows of softmax and log-softmax, forward and backward, over any dimension."""

from __future__ import annotations

from typing import Any

from .. import Row
from .shared import array_library, empty, floating, name


def _along_last(launcher: str, dim: int, *arrays: Any) -> Any:
    """Run a kernel of rows over any dimension: it is moved to the end, and the others made dense before it."""
    from triton_kernels import softmax

    xp, last = array_library(), arrays[0].ndim - 1
    moved = [xp.ascontiguousarray(a if dim in (-1, last) else xp.moveaxis(a, dim, -1)) for a in arrays]
    out = empty(moved[0].shape, moved[0].dtype)
    getattr(softmax, launcher)(*moved, out)
    return out if dim in (-1, last) else xp.moveaxis(out, -1, dim)


def _rows_only(x: Any, *others: Any) -> str | None:
    return floating(x, *others) or ("needs a dimension to run over, got a 0-d tensor" if x.ndim == 0 else None)


def _softmax(op: str) -> Row:
    return Row(
        "softmax_kernel", name, lambda x, dim: _along_last(f"{op}_forward", dim, x), lambda x, dim: _rows_only(x)
    )


def _softmax_backward(op: str) -> Row:
    return Row("softmax_backward_kernel", name, lambda g, y, dim: _along_last(f"{op}_backward", dim, g, y),
               lambda g, y, dim: _rows_only(y, g))  # fmt: skip


ROWS = {
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "softmax.backward": _softmax_backward("softmax"),
    "log_softmax.backward": _softmax_backward("log_softmax"),
}
