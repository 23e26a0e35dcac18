"""Layers of small numbers in C: weights stay whole numbers among the weights, sums of the quantised are of 32 bits."""

from __future__ import annotations

from typing import Any

from .lower_moves import _whole
from .lower_nn import _matrix, single
from .lower_views import reshape
from .lowering import Builder, lowers
from .plan import View
from .polynomial import Count, product


def _quantised(
    b: Builder, x: View, count: Count, each: Count, input_scale: View | None, zero: int
) -> tuple[View, View]:
    """Return pieces of the input as whole numbers, and the scale of each piece."""
    q, scales = b.new((count, each), "int16", "steps"), b.new((count,), name="scales")
    given = None if input_scale is None else b.dense(input_scale)
    b.call("quantise", count, each, x, given, zero, q, scales, writes=[q, scales])
    return q, scales


def _finished(b: Builder, y: View, bias: View | None, activation: str) -> View:
    y = y if bias is None else b.ew("add", y, bias)
    return b.ew({"gelu": "gelu_erf"}.get(activation, activation), y) if activation else y


def _rows(b: Builder, node: Any, x: View) -> View:
    if len(x.shape) == 1:
        x = View(x.buffer, (1, *x.shape), (0, *x.strides), x.offset)
    return b.dense(_matrix(b, node, x))


@lowers("int8_linear")
def _int8_linear(b: Builder, node: Any, x: View, weight: View, scale: View, bias: View | None, input_scale: View | None,
                 input_zero: int, activation: str) -> View:  # fmt: skip
    single(node, x, scale, bias, input_scale)
    rows = _rows(b, node, x)
    count, n = rows.shape
    q, scales = _quantised(b, rows, count, n, input_scale, input_zero)
    y = b.new((count, weight.shape[0]))
    b.call("int8_product", count, weight.shape[0], n, q, scales, b.dense(weight), b.dense(scale), int(not scale.shape),
           y, writes=[y], title="int8_linear")  # fmt: skip
    return reshape(b, node, _finished(b, y, bias, activation), (*x.shape[:-1], weight.shape[0]))


@lowers("int8_conv2d")
def _int8_conv2d(b: Builder, node: Any, x: View, weight: View, scale: View, bias: View | None, input_scale: View | None,
                 stride: Any, padding: Any, dilation: Any, groups: int, input_zero: int,
                 activation: str) -> View:  # fmt: skip
    single(node, x, scale, bias, input_scale)
    x = b.dense(x)
    n, c, h, w = x.shape
    o, inside, kh, kw = weight.shape
    oh, ow = ((size + 2 * p - d * (k - 1) - 1) // s + 1
              for size, k, s, p, d in zip((h, w), (kh, kw), stride, padding, dilation, strict=True))  # fmt: skip
    b.check(1, "<=", oh, "an image is as large as the kernel")
    b.check(1, "<=", ow, "an image is as large as the kernel")
    q, scales = _quantised(b, x, n, c * h * w, input_scale, input_zero)
    y, windows = b.new((n, o, oh, ow)), b.new((oh * ow * inside * kh * kw,), "int16", "windows")
    b.call("int8_conv", (n, c, h, w, o, kh, kw, oh, ow, *stride, *padding, *dilation, groups), q, scales,
           b.dense(weight), b.dense(scale), int(not scale.shape), y, windows, writes=[y, windows],
           title="int8_conv2d")  # fmt: skip
    of_channels = None if bias is None else View(bias.buffer, (o, 1, 1), (bias.strides[0], 0, 0), bias.offset)
    return _finished(b, y, of_channels, activation)


@lowers("weight_int8_linear")
def _weight_int8_linear(b: Builder, node: Any, x: View, weight: View, scale: View, bias: View | None) -> View:
    single(node, x, scale, bias)
    rows = _rows(b, node, x)
    y, wide = b.new((rows.shape[0], weight.shape[0])), b.new((rows.shape[1],), name="wide")
    b.call("weight_int8_product", *y.shape, rows.shape[1], rows, b.dense(weight), b.dense(scale), y, wide,
           writes=[y, wide], title="weight_int8_linear")  # fmt: skip
    return reshape(b, node, _finished(b, y, bias, ""), (*x.shape[:-1], weight.shape[0]))


@lowers("weight_int4_linear")
def _weight_int4_linear(b: Builder, node: Any, x: View, weight: View, scale: View, zero: View,
                        bias: View | None) -> View:  # fmt: skip
    single(node, x, scale, zero, bias)
    rows = _rows(b, node, x)
    y, wide = b.new((rows.shape[0], weight.shape[0])), b.new((rows.shape[1],), name="wide")
    b.call("weight_int4_product", *y.shape, rows.shape[1], scale.shape[1], rows, b.dense(weight), b.dense(scale),
           b.dense(zero), y, wide, writes=[y, wide], title="weight_int4_linear")  # fmt: skip
    return reshape(b, node, _finished(b, y, bias, ""), (*x.shape[:-1], weight.shape[0]))


@lowers("int8_embedding")
def _int8_embedding(b: Builder, node: Any, weight: View, index: View, scale: View) -> View:
    single(node, scale)
    out = b.new((*index.shape, weight.shape[1]))
    b.call("embed_int8", product(index.shape), *weight.shape, b.dense(weight), _whole(b, b.dense(index)),
           b.dense(scale), int(not scale.shape), out, writes=[out], title="int8_embedding", fails=True)  # fmt: skip
    return out


@lowers("int4_embedding")
def _int4_embedding(b: Builder, node: Any, weight: View, index: View, scale: View, zero: View) -> View:
    single(node, scale, zero)
    width = 2 * weight.shape[1]
    out = b.new((*index.shape, width))
    b.call("embed_int4", product(index.shape), weight.shape[0], width, scale.shape[1], b.dense(weight),
           _whole(b, b.dense(index)), b.dense(scale), b.dense(zero), out, writes=[out], title="int4_embedding",
           fails=True)  # fmt: skip
    return out


@lowers("fake_quantise")
def _fake_quantise(b: Builder, node: Any, x: View, scale: View, zero: View, low: int, high: int, axis: int) -> View:
    single(node, x, scale)
    rank = len(x.shape)

    def along(v: View) -> View:
        if not v.shape:
            return v
        shape, strides = ([n if k == axis else other for k in range(rank)]
                          for n, other in ((v.shape[0], 1), (v.strides[0], 0)))  # fmt: skip
        return View(v.buffer, tuple(shape), tuple(strides), v.offset)

    by, point = along(scale), along(b.copy(zero, "float32"))
    whole = b.ew("add", b.ew("round", b.ew("true_divide", x, by)), point)
    whole = b.ew("minimum", b.ew("maximum", whole, float(low)), float(high))
    return b.ew("mul", b.ew("sub", whole, point), by)
