"""Matrix products of bfloat16 by the C kernel, on processors that multiply it (AVX-512 BF16): no copy is widened."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from . import Row, as_matrix
from .half import c, widened

_BFLOAT16 = dtypes.bfloat16.numpy
there = c is not None and c.gemm_bf16_there()


def _declines(*arrays: Any) -> str | None:
    for a in arrays:
        if a is not None and (a.dtype != _BFLOAT16 or any(step % 2 for step in a.strides)):
            return f"takes bfloat16, got {a.dtype}"
    return None


def _rows(a: Any) -> Any:
    """Return an array as a matrix of its last dimension; NumPy copies a type of others item by item, at a tenth."""
    return as_matrix(a if a.ndim == 2 or a.flags.c_contiguous else c.copied(a))


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
    y = c.gemm_bf16(_rows(x), weight.T, widened(bias))
    return y.reshape(*x.shape[:-1], weight.shape[0])


def _sum_of(rows: Any) -> Any:
    """Return the sum over all rows, as a product with ones: it is added up in float32 and rounded once."""
    return c.gemm_bf16(np.ones((1, len(rows)), _BFLOAT16), rows, None)[0]


def linear_backward(g: Any, weight: Any, x: Any, needs: Any) -> Any:
    """Return the gradients of x, weight and bias."""
    rows = _rows(g)
    return (
        c.gemm_bf16(rows, weight, None).reshape(*g.shape[:-1], weight.shape[1]) if needs[0] else None,
        c.gemm_bf16(rows.T, _rows(x), None) if needs[1] else None,
        _sum_of(rows) if needs[2] else None,
    )


# -- convolutions of one place, which are products of matrices ---------------------------------------------------------


def _seen(x: Any, stride: Any) -> Any:
    """Return what a kernel of one place sees of x at that stride: (samples, channels, places)."""
    if any(s != 1 for s in stride):
        x = x[(..., *(slice(None, None, s) for s in stride))]
    return np.ascontiguousarray(x).reshape(*x.shape[:2], -1)


def _by_sample(matrix: Any, seen: Any) -> Any:
    return c.gemm_bf16(np.broadcast_to(matrix, (len(seen), *matrix.shape)), seen, None)


def conv(x: Any, weight: Any, stride: Any, **_: Any) -> Any:
    """Return the convolution by a kernel of one place: of each sample, weights by places."""
    out = [-(-n // s) for n, s in zip(x.shape[2:], stride, strict=True)]
    return _by_sample(weight.reshape(weight.shape[:2]), _seen(x, stride)).reshape(len(x), len(weight), *out)


def conv_transpose(x: Any, weight: Any, stride: Any, output_padding: Any, **_: Any) -> Any:
    """Return the transpose of `conv`: zeros where it sees nothing."""
    y = _by_sample(weight.reshape(weight.shape[:2]).T, _seen(x, ())).reshape(len(x), weight.shape[1], *x.shape[2:])
    ends = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    out = [n + o for n, o in zip(ends, output_padding, strict=True)]
    if out == list(x.shape[2:]):
        return y
    whole = np.zeros((*y.shape[:2], *out), y.dtype)
    seen: Any = (..., *(slice(0, end, s) for end, s in zip(ends, stride, strict=True)))
    whole[seen] = y
    return whole


def conv_weight(x: Any, y: Any, kernel: Any, stride: Any, **_: Any) -> Any:
    """Return the weight whose products with what it sees of x add up to y: one product, over all samples' places."""
    left, right = (a.view(np.uint16).swapaxes(0, 1).reshape(a.shape[1], -1).view(_BFLOAT16)
                   for a in (_seen(y, ()), _seen(x, stride)))  # fmt: skip
    return c.gemm_bf16(left, right.T, None).reshape(y.shape[1], x.shape[1], *kernel)


def _several_places(x: Any, other: Any, kernel: Any, padding: Any, groups: int) -> str | None:
    if any(k != 1 for k in kernel) or any(padding) or groups != 1:
        return "takes kernels of one place, without padding or groups"
    return _declines(x, other) or (None if x.size and other.size else "takes no empty arrays")


def _conv_declines(x: Any, weight: Any, bias: Any = None, *, padding: Any, groups: int, **_: Any) -> str | None:
    return _several_places(x, weight, weight.shape[2:], padding, groups) or (
        "takes no bias" if bias is not None else None
    )


def _weight_declines(x: Any, y: Any, *, kernel: Any, stride: Any, padding: Any, groups: int, **_: Any) -> str | None:
    if reason := _several_places(x, y, kernel, padding, groups):
        return reason
    same = all(-(-n // s) == m for n, m, s in zip(x.shape[2:], y.shape[2:], stride, strict=True))
    return None if same else "takes no places that are left out"


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
    "conv": Row("conv_bf16", "C", lambda x, weight, bias=None, **rest: conv(x, weight, **rest), _conv_declines),
    "conv_transpose": Row("conv_transpose_bf16", "C",
                          lambda x, weight, bias=None, **rest: conv_transpose(x, weight, **rest), _conv_declines),
    "conv_weight": Row("conv_weight_bf16", "C", conv_weight, _weight_declines),
    "matmul.backward": Row("gemm_bf16_backward", "C", matmul_backward, _stretched),
    "linear": Row("linear_bf16", "C", linear, _declines),
    "linear.backward": Row("linear_bf16_backward", "C", linear_backward,
                           lambda g, weight, x, needs: _declines(g, weight, x)),
} if there else {}  # fmt: skip
