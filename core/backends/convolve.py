"""Convolutions on the CPU: the windows are laid out as columns, a block at a time, for one BLAS product.

Where all strides are 1 a window is one contiguous run of the padded plane (its rows with the gaps between them), so
that columns are a few long copies; the products in the gaps are thrown away. A block's columns stay within the cache.
Source of the method: Chellapilla, Puri, Simard, "High performance convolutional neural networks", 2006.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .. import native
from .products import product

_BLOCK_BYTES = 1 << 20  # of columns: half of a usual second-level cache
_WASTE = 1.35  # how much longer than the output a run with its gaps may be


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
    """A view (N, C, kernel..., out...) of the padded `x`: what each place of the kernel sees of it."""
    steps = x.strides[2:]
    strides = (
        *x.strides[:2],
        *(d * s for d, s in zip(dilation, steps, strict=True)),
        *(t * s for t, s in zip(stride, steps, strict=True)),
    )
    return xp.lib.stride_tricks.as_strided(x, (*x.shape[:2], *kernel, *out), strides)


class _Layout(NamedTuple):
    """How a block of samples lies in columns: the view of x, and of a product (C, B, run) what is the output."""

    view: Any  # (C, kernel..., N, run...) of the padded x
    run: int  # the columns of one sample
    pitch: tuple[int, ...]  # the steps between outputs within a run
    block: int  # samples at a time


def _layout(x: Any, kernel: Any, out: Any, stride: Any, dilation: Any) -> _Layout:
    places = math.prod(out)
    pitch = tuple(s // x.itemsize for s in x.strides[2:])
    run = sum((o - 1) * p for o, p in zip(out, pitch, strict=True)) + 1
    steps = tuple(d * s for d, s in zip(dilation, x.strides[2:], strict=True))
    if all(s == 1 for s in stride) and run <= _WASTE * places + 8:
        shape, strides = (x.shape[1], *kernel, len(x), run), (x.strides[1], *steps, x.strides[0], x.itemsize)
    else:
        run, pitch = places, tuple(math.prod(out[i + 1 :]) for i in range(len(out)))
        shape = (x.shape[1], *kernel, len(x), *out)
        strides = (x.strides[1], *steps, x.strides[0], *(t * s for t, s in zip(stride, x.strides[2:], strict=True)))
    one = x.shape[1] * math.prod(kernel) * run * x.itemsize
    block = max(1, min(len(x), _BLOCK_BYTES // max(1, one)))
    return _Layout(as_strided(x, shape, strides), run, pitch, block)


def _empty(shape: Any, dtype: Any) -> Any:
    return native.module.empty(shape, dtype) if native.module is not None else np.empty(shape, dtype)


def _outputs(y: Any, out: Any, pitch: Any) -> Any:
    """Of (C, B, run) the places that are outputs, as a view (B, C, out...)."""
    step = y.itemsize
    return as_strided(y, (y.shape[1], y.shape[0], *out), (y.strides[1], y.strides[0], *(p * step for p in pitch)))


def _columns(layout: _Layout, start: int, stop: int, buffer: Any, axis: int) -> Any:
    part = layout.view[(slice(None),) * axis + (slice(start, stop),)]
    cols = buffer[: part.size].reshape(part.shape)
    cols[...] = part
    return cols


def conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The convolution (in the field's sense: a correlation) of float32 or float64 arrays."""
    return _conv(x, weight, bias, stride, tuple((p, p) for p in padding), dilation, groups)


def _conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    kernel, outputs = weight.shape[2:], weight.shape[0]
    x = padded(np, x, padding)
    sizes = zip(x.shape[2:], kernel, stride, dilation, strict=True)
    out = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes)
    w = np.ascontiguousarray(weight).reshape(groups, outputs // groups, -1)
    if bias is not None:
        bias = bias.reshape(1, -1, *(1,) * len(out))
    if math.prod(kernel) == 1 and all(s == 1 for s in stride):
        y = product(w, x.reshape(len(x), groups, x.shape[1] // groups, math.prod(out))).reshape(len(x), outputs, *out)
        return y if bias is None else np.add(y, bias, out=y)
    y = _empty((len(x), outputs, *out), x.dtype)
    if not y.size:
        return y
    layout = _layout(x, kernel, out, stride, dilation)
    rows = x.shape[1] * math.prod(kernel)
    buffer = _empty((rows * layout.block * layout.run,), x.dtype)
    for i in range(0, len(x), layout.block):
        j = min(i + layout.block, len(x))
        cols = _columns(layout, i, j, buffer, 1 + len(kernel)).reshape(groups, rows // groups, -1)
        part = _outputs(product(w, cols).reshape(outputs, j - i, layout.run), out, layout.pitch)
        if bias is None:
            y[i:j] = part
        else:
            np.add(part, bias, out=y[i:j])
    return y


def conv_weight(x: Any, y: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The weight (C of y, C of x / groups, kernel...) whose product with the windows of x adds up to y."""
    x, out = padded(np, x, tuple((p, p) for p in padding)), y.shape[2:]
    rows = x.shape[1] * math.prod(kernel)
    total = np.zeros((groups, y.shape[1] // groups, rows // groups), x.dtype)
    if y.size and x.size:
        layout = _layout(x, kernel, out, stride, dilation)
        buffer = _empty((rows * layout.block * layout.run,), x.dtype)
        left = np.zeros((y.shape[1], layout.block, layout.run), x.dtype)  # what lies in the gaps stays zero
        for i in range(0, len(x), layout.block):
            j = min(i + layout.block, len(x))
            if j - i < layout.block:
                left = np.zeros((y.shape[1], j - i, layout.run), x.dtype)
            _outputs(left, out, layout.pitch)[...] = y[i:j]
            cols = _columns(layout, i, j, buffer, 1 + len(kernel)).reshape(groups, rows // groups, -1)
            total += product(left.reshape(groups, y.shape[1] // groups, -1), cols.swapaxes(1, 2))
    return total.reshape(y.shape[1], x.shape[1] // groups, *kernel)


def conv_transpose(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Any:
    """The transpose of `conv` as a map of x: what its gradient is, and the layer of the same name."""
    kernel, inside = weight.shape[2:], x.shape[1] // groups
    outputs = weight.shape[1] * groups
    full = [(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    if all(s == 1 for s in stride):  # then it is a convolution with the kernel turned round
        turned = weight[(..., *(slice(None, None, -1),) * len(kernel))]
        w = turned.reshape(groups, inside, weight.shape[1], *kernel).swapaxes(1, 2)
        reach = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
        border = tuple((r, r + o) for r, o in zip(reach, output_padding, strict=True))
        return _conv(x, w.reshape(outputs, inside, *kernel), bias, stride, border, dilation, groups)
    out = [f - 2 * p + o for f, p, o in zip(full, padding, output_padding, strict=True)]
    y = np.zeros((len(x), outputs, *out), x.dtype)
    w = np.ascontiguousarray(weight).reshape(groups, inside, -1).swapaxes(1, 2)
    places = math.prod(x.shape[2:])
    block = max(1, min(len(x), _BLOCK_BYTES // max(1, w[0].size * groups * places * x.itemsize)))
    for i in range(0, len(x) if x.size else 0, block):
        part = np.ascontiguousarray(x[i : i + block].swapaxes(0, 1)).reshape(groups, inside, -1)
        cols = product(w, part).reshape(outputs, *kernel, -1, *x.shape[2:])
        add_windows(cols, y[i : i + block].swapaxes(0, 1), stride, padding, dilation)
    if bias is not None:
        y += bias.reshape(1, -1, *(1,) * len(out))
    return y


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
