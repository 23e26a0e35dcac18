"""Matrix products of bfloat16 by the C kernel, on processors that multiply it (AVX-512 BF16): no copy is widened."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from . import Row, as_matrix
from .half import c, narrowed, widened

_BFLOAT16 = dtypes.bfloat16.numpy
there = c is not None and c.gemm_bf16_there()


def _declines(*arrays: Any) -> str | None:
    for a in arrays:
        if a is not None and (a.dtype != _BFLOAT16 or any(step % 2 for step in a.strides)):
            return f"takes bfloat16, got {a.dtype}"
    return None


def product(a: Any, b: Any) -> Any:
    """``a @ b`` of matrices or stacks of them."""
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:
        return c.gemm_bf16(as_matrix(a), b, None).reshape(*a.shape[:-1], b.shape[1])
    if a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2]:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, (*lead, *b.shape[-2:]))
    return c.gemm_bf16(a, b, None)


def linear(x: Any, weight: Any, bias: Any) -> Any:
    """``x @ weight.T + bias`` for rows x of any leading shape; the bias is added before the rounding."""
    y = c.gemm_bf16(as_matrix(x), weight.T, widened(bias))
    return y.reshape(*x.shape[:-1], weight.shape[0])


def linear_backward(g: Any, weight: Any, x: Any, needs: Any) -> Any:
    """Return the gradients of x, weight and bias."""
    rows = as_matrix(g)
    return (
        c.gemm_bf16(rows, weight, None).reshape(*g.shape[:-1], weight.shape[1]) if needs[0] else None,
        c.gemm_bf16(rows.T, x.reshape(rows.shape[0], x.shape[-1]), None) if needs[1] else None,
        narrowed(c.entries["sum"](widened(rows), (0,), False), _BFLOAT16) if needs[2] else None,
    )


def matmul_backward(g: Any, b: Any, a_shape: Any, a: Any, b_shape: Any, needs: Any) -> Any:
    """Return the gradients of both factors."""
    return (
        product(g, b.swapaxes(-1, -2)) if needs[0] else None,
        product(a.swapaxes(-1, -2), g) if needs[1] else None,
    )


def _stretched(g: Any, b: Any, a_shape: Any, a: Any, b_shape: Any, needs: Any) -> str | None:
    stretched = any(s is not None and s[:-2] != g.shape[:-2] for s in (a_shape, b_shape))
    return _declines(g, b, a) or ("takes no stacks that broadcast" if stretched else None)


rows: dict[str, Row] = {
    "matmul": Row("gemm_bf16", "C", product, _declines),
    "matmul.backward": Row("gemm_bf16_backward", "C", matmul_backward, _stretched),
    "linear": Row("linear_bf16", "C", linear, _declines),
    "linear.backward": Row("linear_bf16_backward", "C", linear_backward,
                           lambda g, weight, x, needs: _declines(g, weight, x)),
} if there else {}  # fmt: skip
