"""Rows of the reductions: sum, mean, extrema and where they stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Row
from .shared import empty, floating, kept, name


def _reduction(kind: str, op: str) -> Row:
    def declines(x: Any, dim: Any, keepdim: bool) -> str | None:
        return floating(x) or (
            "has no value for an empty tensor" if kind not in ("sum", "mean") and not x.size else None
        )

    def run(x: Any, dim: Any, keepdim: bool) -> Any:
        from triton_kernels import reduce

        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        dims = tuple(d % max(x.ndim, 1) for d in dims if x.ndim)
        out = empty(kept(x.shape, dims, keepdim), np.int64 if kind.startswith("arg") else x.dtype)
        reduce.reduce_forward(kind, x, dims, out)
        return out

    return Row("arg_kernel" if kind.startswith("arg") else "reduce_kernel", name, run, declines)


ROWS = {op: _reduction(kind, op) for op, kind in [("sum", "sum"), ("mean", "mean"), ("amax", "max"), ("amin", "min"),
                                                  ("argmax", "argmax"), ("argmin", "argmin")]}  # fmt: skip
