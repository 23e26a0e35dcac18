"""ONNX's spelling of layers of small numbers.

- A scale of the input that is given: QuantizeLinear and DequantizeLinear before the product (Q/DQ), DequantizeLinear
  on the weight of 8 bits, which runtimes make one product of whole numbers of.
- A scale for each row or sample: core's own steps (ReduceMax, Mul, Round), then MatMulInteger or ConvInteger, whose
  sums are exact. ONNX's DynamicQuantizeLinear has one scale and zero point for all rows, and so gives other numbers.
- Weights alone: DequantizeLinear and a product of floats; of 4 bits the two halves of each byte by BitwiseAnd and
  BitShift, since DequantizeLinear takes whole zero points alone.
- What was fake-quantised: QuantizeLinear and DequantizeLinear, with Clip between where the range is not that of 8 bits.

Scales and their products are float32; an input of another type is cast, and the result cast back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .ir import Value
from .onnx_graph import Graph, Operand
from .onnx_ops import row

_LEAST = float(np.float32(127) / np.finfo(np.float32).max)
"""Rows whose greatest magnitude is not above it have no reciprocal, and count as zeros."""


def _single(g: Graph, x: Operand) -> str:
    return g.cast(x, "float32") if isinstance(x, Value) else g.name(x)


def _scaled(g: Graph, weight: Operand, scale: Value, axis: int) -> str:
    """Return a weight of 8 bits as numbers, with one scale for all or one for each place along `axis`."""
    return g("DequantizeLinear", weight, _single(g, scale), **({"axis": axis} if scale.shape else {}))


def _steps(g: Graph, x: Operand, input_scale: Operand, zero: int) -> str:
    """Return the input as the numbers that stand for it."""
    point = g.constant(zero, "int8")
    return g("DequantizeLinear", g("QuantizeLinear", x, input_scale, point), input_scale, point)


def _own_steps(g: Graph, x: str, axes: list[int]) -> tuple[str, str]:
    """Return the whole numbers of the input, as float32, and the scale of what lies along `axes`."""
    most = g("ReduceMax", g("Abs", x), g.ints(*axes), keepdims=1)
    zero, greatest = g.constant(0, "float32"), g.constant(127, "float32")
    usable = g("Greater", most, g.constant(_LEAST, "float32"))
    inverse = g("Where", usable, g("Div", greatest, most), zero)
    return g("Round", g("Mul", x, inverse)), g("Div", most, greatest)


def _finished(g: Graph, y: str, bias: str, activation: str, dtype: str) -> str:
    y = g("Add", y, bias) if bias else y
    if activation == "relu":
        y = g("Relu", y)
    elif activation == "silu":
        y = g("Mul", y, g("Sigmoid", y))
    elif activation == "gelu":
        half, root = g.constant(0.5, "float32"), g.constant(math.sqrt(0.5), "float32")
        y = g("Mul", g("Mul", half, y), g("Add", g.constant(1, "float32"), g("Erf", g("Mul", y, root))))
    return g.cast(y, dtype, "float32")


@row("int8_linear")
def _int8_linear(g: Graph, x: Value, weight: Value, scale: Value, bias: Value | None, input_scale: Value | None,
                 input_zero: int, activation: str) -> str:  # fmt: skip
    given, turned = _single(g, x), g("Transpose", weight, perm=[1, 0])
    added = _single(g, bias) if bias is not None else ""
    if input_scale is not None:
        y = g("MatMul", _steps(g, given, _single(g, input_scale), input_zero), _scaled(g, turned, scale, 1))
        return _finished(g, y, added, activation, x.dtype)
    q, s = _own_steps(g, given, [-1])
    total = g.cast(g("MatMulInteger", g.cast(q, "int8", "float32"), turned), "float32", "int32")
    # the scales' products as those of a matrix of one column: ONNX Runtime makes one node of a Mul of Muls, in which
    # the rows' scales are one for all
    by = g("MatMul", s, g("Reshape", _single(g, scale), g.ints(1, -1)))
    return _finished(g, g("Mul", total, by), added, activation, x.dtype)


@row("int8_conv2d")
def _int8_conv2d(g: Graph, x: Value, weight: Value, scale: Value, bias: Value | None, input_scale: Value | None,
                 stride: Any, padding: Any, dilation: Any, groups: int, input_zero: int,
                 activation: str) -> str:  # fmt: skip
    pads = g.fixed(padding, "the padding")
    how: dict[str, Any] = {"strides": g.fixed(stride, "the stride"), "pads": pads * 2, "group": groups,
                           "dilations": g.fixed(dilation, "the dilation")}  # fmt: skip
    given = _single(g, x)
    if input_scale is not None:
        steps = _steps(g, given, _single(g, input_scale), input_zero)
        y = g("Conv", steps, _scaled(g, weight, scale, 0), _single(g, bias) if bias is not None else None, **how)
        return _finished(g, y, "", activation, x.dtype)
    q, s = _own_steps(g, given, [1, 2, 3])
    shifted = g.cast(g("Add", q, g.constant(128, "float32")), "uint8", "float32")  # runtimes take uint8 alone there
    total = g.cast(g("ConvInteger", shifted, weight, g.constant(128, "uint8"), **how), "float32", "int32")
    over = [g.ints(-1, 1, 1)] if scale.shape else []
    of_outputs = g("Reshape", _single(g, scale), *over) if over else _single(g, scale)
    added = g("Reshape", _single(g, bias), g.ints(-1, 1, 1)) if bias is not None else ""
    return _finished(g, g("Mul", total, g("Mul", s, of_outputs)), added, activation, x.dtype)


# -- weights alone -----------------------------------------------------------------------------------------------------


@row("weight_int8_linear")
def _weight_int8_linear(g: Graph, x: Value, weight: Value, scale: Value, bias: Value | None) -> str:
    # transposed after it: before, ONNX Runtime makes a product of it that rounds the input too
    wide = g("Transpose", _scaled(g, weight, scale, 0), perm=[1, 0])
    added = _single(g, bias) if bias is not None else ""
    return _finished(g, g("MatMul", _single(g, x), wide), added, "", x.dtype)


def _halves(g: Graph, weight: Operand, scale: str, zero: str, shape: list[int]) -> str:
    """Return rows of numbers of 4 bits, two a byte, the low half first, as numbers of this shape: (rows, groups, each
    group's)."""
    low = g("BitwiseAnd", weight, g.constant(15, "uint8"))
    high = g("BitShift", weight, g.constant(4, "uint8"), direction="RIGHT")
    both = g("Concat", *(g("Unsqueeze", half, g.ints(-1)) for half in (low, high)), axis=-1)
    q = g.reshape(g.cast(both, "float32", "uint8"), shape)
    last = g.ints(-1)
    return g("Mul", g("Sub", q, g("Unsqueeze", zero, last)), g("Unsqueeze", scale, last))


def _int4(g: Graph, weight: Value, scale: Value, zero: Value) -> str:
    """Return a weight (out, in) of 4 bits as numbers."""
    out, half = g.fixed(weight.shape, "the weight's size")
    groups = g.fixed(scale.shape[1:], "the number of groups")[0]
    wide = _halves(g, weight, _single(g, scale), _single(g, zero), [out, groups, 2 * half // groups])
    return g.reshape(wide, [out, 2 * half])


@row("weight_int4_linear")
def _weight_int4_linear(g: Graph, x: Value, weight: Value, scale: Value, zero: Value, bias: Value | None) -> str:
    turned = g("Transpose", _int4(g, weight, scale, zero), perm=[1, 0])
    added = _single(g, bias) if bias is not None else ""
    return _finished(g, g("MatMul", _single(g, x), turned), added, "", x.dtype)


@row("dequantised_int4")
def _dequantised_int4(g: Graph, weight: Value, scale: Value, zero: Value) -> str:
    return g.cast(_int4(g, weight, scale, zero), scale.dtype, "float32")


@row("int8_embedding")
def _int8_embedding(g: Graph, weight: Value, index: Value, scale: Value) -> str:
    rows = g.cast(g("Gather", weight, index, axis=0), "float32", "int8")
    by = _single(g, scale)
    if scale.shape:
        by = g("Unsqueeze", g("Gather", by, index, axis=0), g.ints(-1))
    return g.cast(g("Mul", rows, by), scale.dtype, "float32")


@row("int4_embedding")
def _int4_embedding(g: Graph, weight: Value, index: Value, scale: Value, zero: Value) -> str:
    (half,) = g.fixed(weight.shape[1:], "the width of the table")
    groups = g.fixed(scale.shape[1:], "the number of groups")[0]
    at = g.reshape(index, [-1])
    rows, by, points = (g("Gather", t, at, axis=0) for t in (g.name(weight), _single(g, scale), _single(g, zero)))
    wide = _halves(g, rows, by, points, [-1, groups, 2 * half // groups])
    return g.cast(g.reshape(wide, [*index.shape, 2 * half]), scale.dtype, "float32")


# -- what was fake-quantised -------------------------------------------------------------------------------------------


@row("fake_quantise")
def _fake_quantise(g: Graph, x: Value, scale: Value, zero: Value, low: int, high: int, axis: int) -> str:
    kind = "int8" if low >= -128 and high <= 127 else "uint8" if low >= 0 and high <= 255 else ""
    given, by = _single(g, x), _single(g, scale)
    if not kind:
        return _by_steps(g, x, given, by, zero, low, high, axis if scale.shape else None)
    point, how = g.cast(zero, kind), {"axis": axis} if scale.shape else {}
    if zero.shape != scale.shape:
        point = g("Expand", point, g.shape_of(scale))
    q = g("QuantizeLinear", given, by, point, **how)
    if (low, high) not in ((-128, 127), (0, 255)):
        q = g("Clip", q, g.constant(low, kind), g.constant(high, kind))
    return g.cast(g("DequantizeLinear", q, by, point, **how), x.dtype, "float32")


def _by_steps(g: Graph, x: Value, given: str, by: str, zero: Value, low: int, high: int, axis: int | None) -> str:
    """In floats: more steps than 8 bits have."""
    point = g.cast(zero, "float32")
    if axis is not None:
        shape = g.ints(*(-1 if k == axis else 1 for k in range(len(x.shape))))
        by, point = g("Reshape", by, shape), g("Reshape", point, shape)
    whole = g("Clip", g("Add", g("Round", g("Div", given, by)), point), g.constant(low, "float32"),
              g.constant(high, "float32"))  # fmt: skip
    return g.cast(g("Mul", g("Sub", whole, point), by), x.dtype, "float32")


@row("bitwise_left_shift", "bitwise_right_shift")
def _shift(g: Graph, a: Value, b: Value) -> str:
    """Of unsigned numbers alone, as ONNX has it; by more bits than there are it gives 0."""
    if a.dtype != "uint8":
        raise g.refuse(f"shifts of {a.dtype} are not written, whose sign ONNX does not keep",
                       "x * 2**n, x // 2**n, or .to(core.uint8) before")  # fmt: skip
    assert g.node is not None
    moved = g("BitShift", a, b, direction="LEFT" if "left" in g.node.op else "RIGHT")
    return g("Where", g("Less", b, g.constant(8, "uint8")), moved, g.constant(0, "uint8"))
