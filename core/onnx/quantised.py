"""ONNX's ops of quantised numbers: a whole number stands for (number - zero) * scale."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..base import dtypes
from ..tensors.tensor import Tensor
from .layers import conv
from .shapes import into_foreign
from .table import DTYPES, FOREIGN, Call, as_array, constant, of_array, row, t


def _spread(p: Any, x: Any, axis: int, block: int) -> Any:
    """Return a scale or a zero in the form in which it broadcasts with `x`: one, one along an axis, or blocks of it."""
    if p.ndim == 0 or p.size == 1:
        return p.reshape(())
    axis %= x.ndim
    if block:
        return np.repeat(p, block, axis=axis)[(*(slice(None),) * axis, slice(0, x.shape[axis]))]
    return p.reshape([-1 if k == axis else 1 for k in range(x.ndim)])


@row("QuantizeLinear", foreign=True)
def _quantize(call: Call, x: Any, scale: Any, zero: Any = None, axis: int = 1, block_size: int = 0,
              output_dtype: int = 0, precision: int = 0, saturate: int = 1) -> Any:  # fmt: skip
    """round(x / scale) + zero, kept in the range of the whole numbers; no gradient."""
    a, by = as_array(x), as_array(scale)
    if zero is not None:
        kind = as_array(zero).dtype
    else:
        kind = np.dtype((FOREIGN | {n: d.numpy for n, d in DTYPES.items()})[output_dtype or 2])
    wide = np.float32 if a.dtype.itemsize <= 4 else np.float64
    y = a.astype(wide) / _spread(by, a, axis, block_size).astype(wide)
    if kind.name.startswith("float"):
        return into_foreign(y, kind, bool(saturate))
    start = 0 if zero is None else _spread(as_array(zero), a, axis, block_size).astype(np.int64)
    small: Any = ml_dtypes.iinfo
    limits = small(kind) if "int4" in kind.name or "int2" in kind.name else np.iinfo(kind)
    return of_array(np.clip(np.rint(y) + start, int(limits.min), int(limits.max)).astype(np.int64).astype(kind))


@row("DequantizeLinear", foreign=True)
def _dequantize(call: Call, x: Any, scale: Any, zero: Any = None, axis: int = 1, block_size: int = 0,
                output_dtype: int = 0) -> Any:  # fmt: skip
    """(x - zero) * scale, in the dtype of the scale; the gradient flows to the scale."""
    a = as_array(x)
    whole = a.astype(np.float32) if a.dtype.name.startswith(("float", "bfloat")) else a.astype(np.int64)
    if zero is not None:
        z = _spread(as_array(zero), a, axis, block_size)
        whole = whole - z.astype(whole.dtype)
    if not isinstance(scale, Tensor):
        raise call.refused(f"scales of {scale.dtype} are not run", "float32 scales")
    real = constant(whole, scale.dtype, scale)
    if scale.ndim == 0 or scale.numel() == 1:
        by = scale.reshape(())
    elif block_size:
        by = t.repeat_interleave(scale, block_size, axis % a.ndim).narrow(axis, 0, a.shape[axis])
    else:
        by = scale.reshape([-1 if k == axis % a.ndim else 1 for k in range(a.ndim)])
    y = real * by
    return y.to(DTYPES[output_dtype]) if output_dtype else y


@row("DynamicQuantizeLinear")
def _dynamic(call: Call, x: Any) -> Any:
    """uint8 over the range of `x`, which is widened to hold 0."""
    a = as_array(x)
    low, high = min(float(a.min()), 0.0), max(float(a.max()), 0.0)
    scale = np.float32((np.float32(high) - np.float32(low)) / np.float32(255))
    scale = scale if scale else np.float32(1)
    zero = np.uint8(np.clip(np.rint(-np.float32(low) / scale), 0, 255))
    y = np.clip(np.rint(a / scale) + zero, 0, 255).astype(np.uint8)
    return of_array(y), of_array(scale), of_array(zero)


def _whole(x: Any, zero: Any, axis: int) -> Any:
    """Return whole numbers less their zero, in int32."""
    a = x.to(dtypes.int32)
    if zero is None:
        return a
    z = zero.to(dtypes.int32)
    return a - (z if z.ndim != 1 or z.numel() == 1 else z.reshape([-1 if k == axis % a.ndim else 1
                                                                  for k in range(a.ndim)]))  # fmt: skip


@row("MatMulInteger")
def _matmul_integer(call: Call, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return t.matmul(_whole(a, a_zero, -2), _whole(b, b_zero, -1))


@row("ConvInteger")
def _conv_integer(call: Call, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, **how: Any) -> Any:
    """In float64, which holds the sums of such products exactly."""
    y = conv(call, _whole(x, x_zero, 0).double(), _whole(w, w_zero, 0).double(), None, **how)
    return y.to(dtypes.int32)


def _requantised(call: Call, y: Any, scale: Any, zero: Any) -> Any:
    return _quantize(call, y, scale, zero)


@row("QLinearMatMul", foreign=True)
def _qlinear_matmul(call: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any,
                    y_zero: Any) -> Any:  # fmt: skip
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        raise call.refused("of numbers in 8-bit floats", "int8 or uint8")
    whole = t.matmul(_whole(a, a_zero, -2).double(), _whole(b, b_zero, -1).double())
    by = np.asarray(a_scale._a, np.float64) * np.asarray(b_scale._a, np.float64)
    y = np.asarray(whole._a) * by / np.asarray(y_scale._a, np.float64)
    return _requantised(call, of_array(y), of_array(np.float64(1.0)), y_zero)


@row("QLinearConv")
def _qlinear_conv(call: Call, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any,
                  y_zero: Any, bias: Any = None, **how: Any) -> Any:  # fmt: skip
    whole = conv(call, _whole(x, x_zero, 0).double(), _whole(w, w_zero, 0).double(),
                 None if bias is None else bias.double(), **how)  # fmt: skip
    by = np.asarray(x_scale._a, np.float64) * np.asarray(w_scale._a, np.float64)
    by = by if by.ndim == 0 else by.reshape((-1, *[1] * (x.ndim - 2)))
    y = np.asarray(whole._a) * by / np.asarray(y_scale._a, np.float64)
    return _requantised(call, of_array(y), of_array(np.float64(1.0)), y_zero)
