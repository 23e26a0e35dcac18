"""Rows of the convolution, its transpose and its weight's gradient, in one to three dimensions."""

from __future__ import annotations

import math
from typing import Any

from .. import Row
from .matmul import input_precision
from .shared import array_library, empty, name

_TYPES = ("float16", "bfloat16", "float32")
_MOST = 2**31 - 1


def _declines(x: Any, other: Any, bias: Any, places: int) -> str | None:
    if x.dtype.name not in _TYPES:
        return f"takes {', '.join(_TYPES)}, got {x.dtype}"
    for a in (other, bias):
        if a is not None and a.dtype != x.dtype:
            return f"takes one floating type, got {x.dtype} and {a.dtype}"
    if not 3 <= x.ndim <= 5:
        return f"slides over one to three dimensions, got {x.ndim - 2}"
    return f"counts its places in 31 bits, got {places}" if places > _MOST else None


def _out(x: Any, channels: int, sizes: tuple[int, ...]) -> Any:
    """Return the output: where the input's channels lie side by side, so do its own."""
    shape = (x.shape[0], channels, *sizes)
    if x.strides[1] != x.itemsize or x.shape[1] < 2 or x.flags.c_contiguous:
        return empty(shape, x.dtype)
    return array_library().moveaxis(empty((x.shape[0], *sizes, channels), x.dtype), -1, 1)


def _weight(w: Any) -> Any:
    """Return the weight with one of its first two dimensions dense, if it slides: a tile then is read in whole
    sectors."""
    if math.prod(w.shape[2:]) == 1 or w.itemsize in w.strides[:2] or w.shape[1] < 16:
        return w
    xp = array_library()
    return xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(w, 1, -1)), -1, 1)


def _conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    from triton_kernels import conv, windows

    sizes = windows.out_sizes(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    out = _out(x, weight.shape[0], sizes)
    conv.conv_forward(x, _weight(weight), out, stride, padding, dilation, groups, bias,
                      input_precision=input_precision())  # fmt: skip
    return out


def _conv_transpose(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
                    dilation: Any) -> Any:  # fmt: skip
    from triton_kernels import conv

    every = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True)
    out = _out(x, weight.shape[1] * groups, tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 + o
                                                  for n, k, s, p, d, o in every))  # fmt: skip
    conv.conv_transpose_forward(x, _weight(weight), out, stride, padding, dilation, groups, bias,
                                input_precision=input_precision())  # fmt: skip
    return out


def _conv_weight(x: Any, y: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    from triton_kernels import conv_weight

    out = empty((y.shape[1], x.shape[1] // groups, *kernel), x.dtype)
    if not x.size or not y.size:
        out[...] = 0
        return out
    conv_weight.conv_weight(x, y, out, stride, padding, dilation, groups, input_precision=input_precision())
    return out


def _places(x: Any, padding: Any) -> int:
    """At least as many places as the convolution has."""
    return len(x) * math.prod(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=False))


def _transposed_places(x: Any, weight: Any, stride: Any, dilation: Any) -> int:
    """At least as many places as the transpose has."""
    every = zip(x.shape[2:], weight.shape[2:], stride, dilation, strict=False)
    return len(x) * math.prod((n + 1) * s + k * d for n, k, s, d in every)


ROWS = {
    "conv": Row("conv_kernel", name, _conv, lambda x, weight, bias, padding, **_:
                _declines(x, weight, bias, _places(x, padding))),
    "conv_transpose": Row("conv_kernel", name, _conv_transpose, lambda x, weight, bias, stride, dilation, **_:
                          _declines(x, weight, bias, _transposed_places(x, weight, stride, dilation))),
    "conv_weight": Row("conv_weight_kernel", name, _conv_weight, lambda x, y, padding, **_:
                       _declines(x, y, None, _places(x, padding))),
}  # fmt: skip
