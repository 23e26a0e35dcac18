"""Convolutions on the CPU by the C kernels (core/native/kernels/conv.c), and what the reference lays out in NumPy or
CuPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import native
from ..declare.kernel import kernel as declared

c: Any = native.module

_SETTINGS = ("struct('conv_settings', counts=list_of(len(stride), len(padding), len(dilation), {0}), stride=stride,"
             " padding=padding, dilation=dilation, out={1}, groups=groups)")  # fmt: skip
declared(
    "conv",
    "x: real[...] strided, weight: real[...], bias: real[...]?, stride: ints, padding: ints, dilation: ints, "
    "out: ints, groups: int, transposed: flag",
    plan="conv_plan: conv_planned(address(plan), x.view, weight.shape, weight.ndim,"
    f" {_SETTINGS.format('len(out)', 'out')}, transposed)"
    " and (bias is None or (bias.ndim == 1 and bias.shape[0] == plan.shape[1]))",
    gives="y: real[plan]",
    call="conv_forward.T(address(plan.conv), x, weight, bias, y)",
    fails="memory",
    quiet="True",
    run=False,
)
declared(
    "conv_weight_of",
    "x: real[...] strided, g: real[...], kernel: ints, stride: ints, padding: ints, dilation: ints, groups: int",
    plan="conv_plan: conv_weight_planned(address(plan), x.view, g.shape, g.ndim, kernel, len(kernel),"
    f" {_SETTINGS.format('g.ndim - 2', 'g.shape + 2')})",
    gives="gw: real[plan]",
    call="conv_weight.T(address(plan.conv), x, g, gw)",
    fails="memory",
    quiet="True",
    run=False,
)


def padded(xp: Any, x: Any, padding: Any) -> Any:
    """`x` in row-major order with zeros around its spatial dimensions; `padding` is (before, after) pairs."""
    if not any(a or b for a, b in padding):
        return xp.ascontiguousarray(x)
    sizes = [n + a + b for n, (a, b) in zip(x.shape[2:], padding, strict=True)]
    out = xp.zeros((*x.shape[:2], *sizes), x.dtype)
    there = tuple(slice(max(a, 0), n - max(b, 0)) for n, (a, b) in zip(sizes, padding, strict=True))
    here = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape[2:], padding, strict=True))
    out[(..., *there)] = x[(..., *here)]
    return out


def windows(xp: Any, x: Any, kernel: Any, out: Any, stride: Any, dilation: Any) -> Any:
    """Return a view (N, C, kernel..., out...) of the padded `x`: what each place of the kernel sees of it."""
    steps = x.strides[2:]
    strides = (
        *x.strides[:2],
        *(d * s for d, s in zip(dilation, steps, strict=True)),
        *(t * s for t, s in zip(stride, steps, strict=True)),
    )
    return xp.lib.stride_tricks.as_strided(x, (*x.shape[:2], *kernel, *out), strides)


def _filled(shape: Any, dtype: Any, bias: Any) -> Any:
    """Return what a convolution of nothing gives: zeros, or the bias everywhere."""
    y = np.zeros(shape, dtype)
    return y if bias is None else y + bias.reshape(-1, *(1,) * (len(shape) - 2))


def conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Return the convolution (in the field's sense: a correlation) of float32 or float64 arrays."""
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)
    if not (x.size and weight.size and math.prod(out)):
        return _filled((len(x), len(weight), *out), x.dtype, bias)
    return c.kernels["conv"](x, weight, bias, stride, padding, dilation, out, groups, False)


def conv_weight(x: Any, y: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Return the weight (C of y, C of x / groups, kernel...) whose product with the windows of x adds up to y."""
    if not (x.size and y.size):
        return np.zeros((y.shape[1], x.shape[1] // groups, *kernel), x.dtype)
    return c.kernels["conv_weight_of"](x, y, kernel, stride, padding, dilation, groups)


def conv_transpose(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Any:
    """Return the transpose of `conv` as a map of x: what its gradient is, and the layer of the same name."""
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True)
    out = tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 + o for n, k, s, p, d, o in sizes)
    if not (x.size and weight.size and math.prod(out)):
        return _filled((len(x), weight.shape[1] * groups, *out), x.dtype, bias)
    return c.kernels["conv"](x, weight, bias, stride, padding, dilation, out, groups, True)


def add_windows(cols: Any, y: Any, stride: Any, padding: Any, dilation: Any) -> None:
    """Add what each place of the kernel gives, (C, kernel..., N, places...), to the (C, N, out...) it falls on."""
    spatial = len(stride)
    kernel, places = cols.shape[1 : 1 + spatial], cols.shape[2 + spatial :]
    for at in np.ndindex(*kernel):
        here, there = [], []
        for k, n, o, s, p, d in zip(at, places, y.shape[2:], stride, padding, dilation, strict=True):
            first = k * d - p  # where place 0 falls
            low = max(0, -(first // s)) if first < 0 else 0
            high = min(n, (o - 1 - first) // s + 1)
            if high <= low:
                break
            here.append(slice(low, high))
            there.append(slice(first + low * s, first + (high - 1) * s + 1, s))
        else:
            y[(..., *there)] += cols[(slice(None), *at, slice(None), *here)]
