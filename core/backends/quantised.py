"""The CPU's kernels of layers of 8- and 4-bit numbers (native/kernels/int8_*.c).

They compute in float32: halves are widened before and rounded after, an input of float64 is left to the reference.
Which instructions multiply changes no bit of `int8_linear` and `int8_conv2d`; `way` chooses among those that are
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import native
from ..declare.kernel import kernel, kernels
from . import Row, declared
from .half import HALVES, narrowed, widened

c: Any = native.module
_FLOAT32 = np.dtype(np.float32)
_MOST_TERMS = 65536  # of which a sum of products of 8 bits stays below 2**31
FEW_CHANNELS = 16
"""Channels of a group up to which convolutions read the weight in row-major order (MOST_CHANNELS, int8_conv_taps.c)."""
_SCALES = "(scale.size == n and scale.ndim == 1) or scale.ndim == 0"
_MANY = "rows * n * k > 65536"

kernel(
    "int8_linear",
    "x: float32[*rows, k], weight: int8[n, k], scale: float32[...], bias: float32[n]?, input_scale: float32[...]?, "
    "input_zero: int, activation: text",
    gives="y: float32[*rows, n]",
    call="int8_linear(x, weight, scale, scale.size, bias, input_scale, input_zero, int8_activation(activation), y,"
    " rows, n, k)",
    fails="memory",
    quiet=_MANY,
    misfit=True,
    takes=(_SCALES, "k <= 65536", "input_scale is None or input_scale.size == 1", "-128 <= input_zero <= 127",
           "int8_activation(activation) >= 0"),
)  # fmt: skip
kernel(
    "int8_conv",
    "x: float32[batch, channels, height, width], weight: int8[n, *terms], last: flag, scale: float32[...], "
    "bias: float32[n]?, input_scale: float32[...]?, kernel: ints, stride: ints, padding: ints, dilation: ints, "
    "out: ints, groups: int, input_zero: int, activation: text",
    gives="y: float32[batch, n, out[0], out[1]]",
    call="int8_conv(struct('int8_conv_call', struct('int8_conv_shape', batch, channels, n, groups,"
    " list_of(height, width), list_of(kernel[0], kernel[1]), list_of(out[0], out[1]), list_of(stride[0], stride[1]),"
    " list_of(padding[0], padding[1]), list_of(dilation[0], dilation[1])), x, weight, last, scale, scale.size, bias,"
    " input_scale, input_zero if input_scale is not None else 0, int8_activation(activation), y))",
    fails="memory",
    quiet="True",
    misfit=True,
    takes=(_SCALES, "groups > 0", "channels % groups == 0", "n % groups == 0", "terms <= 65536",
           "len(kernel) == 2 and len(stride) == 2 and len(padding) == 2 and len(dilation) == 2 and len(out) == 2",
           "kernel[0] > 0 and kernel[1] > 0 and terms == channels // groups * kernel[0] * kernel[1]",
           "input_scale is None or input_scale.size == 1", "-128 <= input_zero <= 127",
           *(f"out[{d}] >= 0 and stride[{d}] > 0 and dilation[{d}] > 0 and padding[{d}] >= 0 and"
             f" (out[{d}] - 1) * stride[{d}] + ({k} - 1) * dilation[{d}] < {size} + 2 * padding[{d}]"
             for d, k, size in ((0, "kernel[0]", "height"), (1, "kernel[1]", "width"))),
           "int8_activation(activation) >= 0"),
    run=False,
)  # fmt: skip
kernel(
    "weight_int8_linear",
    "x: float32[*rows, k], weight: int8[n, k], scale: float32[n], bias: float32[n]?",
    gives="y: float32[*rows, n]",
    call="weight_int8_linear(x, weight, scale, bias, y, rows, n, k)",
    fails="memory",
    quiet=_MANY,
    misfit=True,
)
kernel(
    "weight_int4_linear",
    "x: float32[*rows, k], weight: uint8[n, bytes], scale: float32[n, groups], zero: float32[n, groups], "
    "bias: float32[n]?",
    gives="y: float32[*rows, n]",
    call="weight_int4_linear(x, weight, scale, zero, bias, y, rows, n, k, groups)",
    fails="memory",
    quiet=_MANY,
    misfit=True,
    takes=("k == 2 * bytes", "groups > 0 and k % groups == 0"),
)
kernel(
    "int8_embedding",
    "weight: int8[n, width], index: int64[*at] < n, scale: float32[...]",
    gives="y: float32[*at, width]",
    call="int8_embedding(weight, index, scale, scale.size, y, at, width)",
    quiet="at * width > 65536",
    takes=(_SCALES,),
)
kernel(
    "int4_embedding",
    "weight: uint8[n, bytes], index: int64[*at] < n, scale: float32[n, groups], zero: float32[n, groups]",
    gives="y: float32[*at, 2 * bytes]",
    call="int4_embedding(weight, index, scale, zero, y, at, 2 * bytes, groups)",
    quiet="at * bytes > 65536",
    misfit=True,
    takes=("groups > 0 and 2 * bytes % groups == 0",),
)


# -- the rows ----------------------------------------------------------------------------------------------------------


def _floats(a: Any) -> Any:
    """Return an array as float32."""
    return None if a is None else widened(a).astype(_FLOAT32, copy=False)


def _declines(x: Any, *_: Any, **__: Any) -> str | None:
    if x.dtype != _FLOAT32 and x.dtype not in HALVES:
        return f"takes float32, float16 and bfloat16, got {x.dtype}"
    return None


def _few_terms(x: Any, weight: Any, *others: Any, **params: Any) -> str | None:
    if weight[0:1].size > _MOST_TERMS:
        return f"takes sums of up to {_MOST_TERMS} products, got {weight[0:1].size}"
    return _declines(x)


def _entered(name: str, *values: Any) -> Any:
    found = c.entries[name](*values)
    return declared.by_reference(kernels[name], values) if found is NotImplemented else found


def _of(name: str) -> Any:
    def run(x: Any, weight: Any, *floats: Any, **params: Any) -> Any:
        y = _entered(name, _floats(x), weight, *map(_floats, floats), *params.values())
        return narrowed(y, x.dtype) if x.dtype in HALVES else y

    return run


def _conv(x: Any, weight: Any, scale: Any, bias: Any, input_scale: Any, stride: Any, padding: Any, dilation: Any,
          groups: int, input_zero: int, activation: str) -> Any:  # fmt: skip
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)
    kernel, channels_last = weight.shape[2:], weight.transpose(0, 2, 3, 1)
    last = weight.shape[1] > FEW_CHANNELS and len(weight) != groups and channels_last.flags.c_contiguous
    floats = map(_floats, (scale, bias, input_scale))
    y = c.kernels["int8_conv"](_floats(x), channels_last if last else weight, last, *floats, kernel, stride, padding,
                               dilation, out, groups, input_zero, activation)  # fmt: skip
    return narrowed(y, x.dtype) if x.dtype in HALVES else y


def _rows_of(name: str) -> Any:
    def run(weight: Any, index: Any, *floats: Any) -> Any:
        y = _entered(name, weight, index, *map(_floats, floats))
        return narrowed(y, floats[0].dtype) if floats[0].dtype in HALVES else y

    return run


def _of_rows(weight: Any, index: Any, scale: Any, zero: Any = None) -> str | None:
    return _declines(scale)


rows: dict[str, Row] = {
    "int8_linear": Row("int8_linear_forward", "C", _of("int8_linear"), _few_terms),
    "int8_conv2d": Row("int8_conv_forward", "C", _conv, _few_terms),
    "weight_int8_linear": Row("weight_int8_forward", "C", _of("weight_int8_linear"), _declines),
    "weight_int4_linear": Row("weight_int4_forward", "C", _of("weight_int4_linear"), _declines),
    "int8_embedding": Row("int8_embedding_forward", "C", _rows_of("int8_embedding"), _of_rows),
    "int4_embedding": Row("int4_embedding_forward", "C", _rows_of("int4_embedding"), _of_rows),
} if c is not None else {}  # fmt: skip


@contextmanager
def way(name: str) -> Iterator[None]:
    """Multiply in that way meanwhile, one of `native.module.int8_ways()`; every way gives the same bits.

    >>> with way("plain"):
    ...     c.int8_way()
    'plain'
    """
    before = c.int8_way()
    c.choose_int8_way(name)
    try:
        yield
    finally:
        c.choose_int8_way(before)
