"""Rows of the matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Row, as_rows
from .shared import empty, floating, name


def _matmul(a: Any, b: Any) -> Any:
    from triton_kernels import matmul

    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = empty((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    matmul.matmul_forward(a, b, out)
    return out


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    from triton_kernels import matmul

    rows = as_rows(x)
    out = empty((rows.shape[0], weight.shape[0]), x.dtype)
    matmul.matmul_forward(rows, weight.T, out, bias=bias)
    return out.reshape(*x.shape[:-1], weight.shape[0])


ROWS = {
    "matmul": Row("matmul_kernel", name, _matmul, lambda a, b: floating(a, b)),
    "linear": Row("matmul_kernel", name, _linear, lambda x, weight, bias: floating(x, weight, bias)),
}
