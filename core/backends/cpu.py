"""The CPU's rows: op name -> C kernels. The elementwise ones are printed from the declarations at build time."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .. import native
from . import (
    DeviceBackend,
    Row,
    add,
    attend,
    by_class,
    channel_norm,
    contraction,
    convolve,
    gathering,
    half,
    half_products,
    moments,
    picking,
    pooling,
    products,
    recurrent,
    reference,
    resampling,
)
from .cpu_maps import map, name

__all__ = ["absent", "map", "name", "rows"]

c: Any = native.module


def rows(name: str) -> tuple[Row, ...]:
    """Return the structured kernels that serve `name`."""
    found = _table.get(name)
    if found is None or c is None:
        return ()
    found = found._replace(entry=c.entries.get(name))
    if name in _ANY_TYPE:
        return (found,)
    product = half_products.rows.get(name)
    return (found, *((product,) if product is not None else ()), half.row(name, found))


def absent(name: str) -> str:
    """Why there is no row for `name` at all."""
    return native.reason or "no C kernel is written for this op"


# -- what rows take ---------------------------------------------------------------------------------------------------


def _real(*arrays: Any) -> str | None:
    """Return the reason to decline arrays that are not all float32 or all float64; None stands for one that was left
    out."""
    first = arrays[0].dtype
    if first.char not in "fd":
        return _not_real(first)
    for a in arrays[1:]:
        if a is not None and a.dtype != first:
            return f"takes one floating type, got {first} and {a.dtype}"
    return None


@cache
def _not_real(dtype: Any) -> str:  # NumPy takes 3 us to write a dtype's name
    return f"takes float32 and float64, got {dtype}"


def _rows_only(x: Any) -> str | None:
    return _real(x) or ("needs a dimension to run over, got a 0-d tensor" if x.ndim == 0 else None)


def _along_last(kernel: Callable[..., Any], dim: int, *arrays: Any) -> Any:
    """Run a kernel of rows over any dimension: the others are moved before it."""
    if dim in (-1, arrays[0].ndim - 1):
        return kernel(*arrays)
    moved = kernel(*(np.moveaxis(a, dim, -1) for a in arrays))
    return np.moveaxis(moved, -1, dim)


def _reduction(kernel: str) -> Row:
    small = picking.small_integers({"max": "amax", "min": "amin"}.get(kernel, kernel))

    def declines(x: Any, dim: Any, keepdim: bool) -> str | None:
        if small(x, dim, keepdim):
            return None
        return _real(x) or ("has no value for an empty tensor" if kernel in ("max", "min") and not x.size else None)

    def run(x: Any, dim: Any, keepdim: bool) -> Any:
        if x.dtype.char not in "fd":
            return c.entries[{"max": "amax", "min": "amin"}.get(kernel, kernel)](x, dim, keepdim)
        return getattr(c, kernel)(x, dim, keepdim)

    return Row(f"{kernel}_forward", name, run, declines)


def _arg(kernel: str) -> Row:
    def declines(x: Any, dim: Any, keepdim: bool) -> str | None:
        return _real(x) or (None if x.size else "has no value for an empty tensor")

    def run(x: Any, dim: Any, keepdim: bool) -> Any:
        return getattr(c, kernel)(x, dim, keepdim)

    return Row(f"{kernel}_forward", name, run, declines)


def _softmax(kernel: str) -> Row:
    return Row(f"{kernel}_forward", name, lambda x, dim: _along_last(getattr(c, kernel), dim, x),
               lambda x, dim: _rows_only(x))  # fmt: skip


def _softmax_backward(kernel: str) -> Row:
    return Row(f"{kernel}_backward", name, lambda g, y, dim: _along_last(getattr(c, f"{kernel}_backward"), dim, g, y),
               lambda g, y, dim: _rows_only(y))  # fmt: skip


def _layer_norm(x: Any, weight: Any, bias: Any, normalized_ndim: int, eps: float) -> Any:
    return c.layer_norm(x, weight, bias, eps, normalized_ndim)


def _layer_norm_backward(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, needs: Any, **params: Any) -> Any:
    return c.layer_norm_backward(g, x, mean, rstd, weight)


def _cross_entropy(x: Any, target: Any, weight: Any, ignore_index: int, label_smoothing: float) -> Any:
    return c.cross_entropy(x, target, weight, ignore_index, label_smoothing)


def _cross_entropy_backward(
    g: Any, x: Any, target: Any, weight: Any, lse: Any, ignore_index: int, label_smoothing: float, **_: Any
) -> Any:
    return c.cross_entropy_backward(g, x, lse, target, weight, ignore_index, label_smoothing), None, None


def _cat(*tensors: Any, dim: int) -> Any:
    first = tensors[0]
    shape = list(first.shape)
    shape[dim] = sum([t.shape[dim] for t in tensors])
    if math.prod(shape) * first.itemsize < 65536 or any(t.dtype != first.dtype for t in tensors):
        return np.ascontiguousarray(np.concatenate(tensors, axis=dim))  # NumPy keeps column order
    return np.concatenate(tensors, axis=dim, out=c.empty(tuple(shape), first.dtype))  # in cached memory


def _sum_backward(g: Any, x_shape: Any, dim: Any, keepdim: bool) -> Any:
    g = g.reshape([1 if i in dim else n for i, n in enumerate(x_shape)])
    if math.prod(x_shape) > 4096:
        return np.broadcast_to(g, x_shape)
    out = np.empty(x_shape, g.dtype)  # quicker than a view, while it is small
    out[...] = g
    return out


def _mean_backward(g: Any, x_shape: Any, dim: Any, keepdim: bool) -> Any:
    n = math.prod([x_shape[i] for i in dim])
    return _sum_backward(g * g.dtype.type(1 / n if n else math.nan), x_shape, dim, keepdim)


def _matmul_backward_declines(g: Any, b: Any, a_shape: Any, a: Any, b_shape: Any, needs: Any) -> str | None:
    stretched = any(s is not None and s[:-2] != g.shape[:-2] for s in (a_shape, b_shape))
    return _real(g, b, a) or ("takes no stacks that broadcast" if stretched else None)


def _embedding_backward(g: Any, index: Any, weight_shape: Any, padding_idx: int, **_: Any) -> Any:
    return c.embedding_backward(g, index, weight_shape[0], padding_idx), None


def _indexed(table: Any, index: Any) -> str | None:
    return _real(table) or (None if index.dtype == np.int64 else f"takes int64 indices, got {index.dtype}")


def _matrix(x: Any) -> str | None:
    return None if x.ndim == 2 else f"takes scores of two dimensions, got {x.ndim}"


def _dropout(x: Any, p: float, seed: int, offset: int) -> Any:
    return c.dropout(x, p, 1 / (1 - p) if p < 1 else 0.0, seed, offset)


def _dropout_declines(x: Any, p: float, seed: int, offset: int) -> str | None:
    return _real(x) or (None if x.flags.c_contiguous else "takes contiguous arrays")


_table: dict[str, Row] = {
    "dropout": Row("dropout_forward", name, _dropout, _dropout_declines),
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "softmax.backward": _softmax_backward("softmax"),
    "log_softmax.backward": _softmax_backward("log_softmax"),
    "layer_norm": Row("layer_norm_forward", name, _layer_norm, lambda x, weight, bias, **_: _real(x, weight, bias)),
    "layer_norm.backward": Row("layer_norm_backward", name, _layer_norm_backward,
                               lambda g, x, weight, **_: _real(x, g, weight)),
    "cross_entropy": Row("cross_entropy_forward", name, _cross_entropy,
                         lambda x, target, weight, **_: _real(x, weight) or _indexed(x, target) or _matrix(x)),
    "cross_entropy.backward": Row("cross_entropy_backward", name, _cross_entropy_backward,
                                  lambda g, x, target, weight, needs, **_: _real(x, g, weight) or _matrix(x)
                                  or ("gives no gradient of the class weights" if needs[2] else None)),
    "matmul": Row("gemm", name, products.product, lambda a, b: _real(a, b)),
    "matmul.backward": Row("gemm_backward", name, products.matmul_backward, _matmul_backward_declines),
    "linear": Row("linear_forward", name, products.linear, lambda x, weight, bias: _real(x, weight, bias)),
    "linear.backward": Row("linear_backward", name, products.linear_backward,
                           lambda g, weight, x, needs: _real(g, weight, x)),
    "attention": Row("attention_forward", name, attend.forward, attend.declines),
    "attention.backward": Row("attention_backward", name, attend.backward, attend.backward_declines),
    "conv": Row("conv_forward", name, convolve.conv, lambda x, weight, bias, **_: _real(x, weight, bias)),
    "conv_transpose": Row("conv_transpose_forward", name, convolve.conv_transpose,
                          lambda x, weight, bias, **_: _real(x, weight, bias)),
    "conv_weight": Row("conv_weight_forward", name, convolve.conv_weight, lambda x, y, **_: _real(x, y)),
    "cat": Row("cat_forward", "NumPy", _cat, lambda *tensors, dim: None),
    "clone": Row("copy", name, lambda x: c.copied(x), lambda x: None),
    "contiguous": Row("copy", name, lambda x: c.copied(x), lambda x: None),
    # views as the reference's, without an op for each step
    "sum.backward": Row("sum_backward", "NumPy", _sum_backward, lambda g, x_shape, dim, keepdim: None),
    "mean.backward": Row("mean_backward", "NumPy", _mean_backward, lambda g, x_shape, dim, keepdim: _real(g)),
    "embedding.backward": Row("embedding_backward", name, _embedding_backward,
                              lambda g, index, scale_grad_by_freq, **_: _indexed(g, index)
                              or ("does not scale by frequency" if scale_grad_by_freq else None)),
    "embedding": Row("embedding_forward", name, lambda weight, index, **_: c.embedding(weight, index),
                     lambda weight, index, **_: _indexed(weight, index)),
    **gathering.rows,
    **pooling.rows,
    **recurrent.rows,
    **moments.rows,
    **by_class.rows,
    **contraction.rows,
    **resampling.rows,
    **channel_norm.rows,
    **picking.rows,
}  # fmt: skip
# what needs no widening, or does it itself
_ANY_TYPE = (
    "cat", "clone", "contiguous", "sum.backward", "embedding", *channel_norm.rows, *gathering.rows, *picking.ANY_TYPE
)  # fmt: skip

add(DeviceBackend("cpu", lambda: (sys.modules[__name__], reference.numpy_backend)))
