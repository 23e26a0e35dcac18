"""Rows of the products with weights of 8 and of 4 bits."""

from __future__ import annotations

from typing import Any

from .. import Row, as_matrix
from .shared import empty, name


def _declines(x: Any, *others: Any) -> str | None:
    from triton_kernels import quantised

    if x.dtype.name not in quantised.DTYPES:
        return f"takes {', '.join(quantised.DTYPES)}, got {x.dtype}"
    if any(a is not None and a.dtype != x.dtype for a in others):
        return f"takes scales, zeros and bias of the input's type, {x.dtype}"
    return None


def _int8(x: Any, weight: Any, scale: Any, bias: Any) -> Any:
    from triton_kernels import quantised

    out = empty((*x.shape[:-1], weight.shape[0]), x.dtype)
    quantised.weight_int8_forward(as_matrix(x), weight, scale, as_matrix(out), bias)
    return out


def _int4_declines(x: Any, weight: Any, scale: Any, zero: Any, bias: Any) -> str | None:
    if not scale.shape[1] or x.shape[-1] // scale.shape[1] % 16:
        return "takes groups of a multiple of 16 weights"
    return _declines(x, scale, zero, bias)


def _int4(x: Any, weight: Any, scale: Any, zero: Any, bias: Any) -> Any:
    from triton_kernels import quantised

    out = empty((*x.shape[:-1], weight.shape[0]), x.dtype)
    quantised.weight_int4_forward(as_matrix(x), weight, scale, zero, as_matrix(out), bias)
    return out


ROWS = {
    "weight_int8_linear": Row("weight_kernel", name, _int8, lambda x, weight, scale, bias: _declines(x, scale, bias)),
    "weight_int4_linear": Row("weight_kernel", name, _int4, _int4_declines),
}
