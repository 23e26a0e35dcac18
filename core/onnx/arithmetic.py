"""ONNX's elementwise ops, comparisons and activations."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from .table import DTYPES, Call, F, constant, ints, number, row, t

ALIKE = {
    "Abs": t.abs, "Acos": t.acos, "Acosh": t.acosh, "Add": t.add, "And": t.logical_and, "Asin": t.asin,
    "Asinh": t.asinh, "Atan": t.atan, "Atanh": t.atanh, "BitwiseAnd": t.bitwise_and, "BitwiseNot": t.bitwise_not,
    "BitwiseOr": t.bitwise_or, "BitwiseXor": t.bitwise_xor, "Ceil": t.ceil, "Cos": t.cos, "Cosh": t.cosh,
    "Det": t.det, "Equal": t.eq, "Erf": t.erf, "Exp": t.exp, "Floor": t.floor, "Greater": t.gt,
    "GreaterOrEqual": t.ge, "HardSwish": F.hardswish, "IsNaN": t.isnan, "Less": t.lt, "LessOrEqual": t.le,
    "Log": t.log, "MatMul": t.matmul, "Mish": F.mish, "Mul": t.mul, "Neg": t.neg, "Not": t.logical_not,
    "Or": t.logical_or, "Reciprocal": t.reciprocal, "Relu": t.relu, "Round": t.round, "Sigmoid": t.sigmoid,
    "Sign": t.sign, "Sin": t.sin, "Sinh": t.sinh, "Softplus": F.softplus, "Softsign": F.softsign, "Sqrt": t.sqrt,
    "Sub": t.sub, "Tan": t.tan, "Tanh": t.tanh, "Where": t.where, "Xor": t.logical_xor,
}  # fmt: skip
"""Ops that are one function of core; those of two operands broadcast, as ONNX's do."""


@row(*ALIKE)
def _alike(call: Call, *inputs: Any, axis: Any = None, broadcast: int = 0, consumed_inputs: Any = None) -> Any:
    if broadcast and axis is not None:  # before opset 7 the second operand's first dimension stood at `axis`
        x, y = inputs
        inputs = (x, y.reshape((*y.shape, *[1] * (x.ndim - axis % x.ndim - y.ndim))))
    return ALIKE[call.op](*inputs)


@row("Identity", foreign=True)
def _identity(call: Call, x: Any) -> Any:
    return x


@row("Div")
def _div(call: Call, x: Any, y: Any) -> Any:
    if x.is_floating_point():
        return x / y
    return t.div(x, y, rounding_mode="trunc").to(x.dtype)


@row("Mod")
def _mod(call: Call, x: Any, y: Any, fmod: int = 0) -> Any:
    return t.fmod(x, y) if fmod else t.remainder(x, y)


@row("Pow")
def _pow(call: Call, x: Any, y: Any) -> Any:
    if x.dtype == y.dtype:
        return t.pow(x, y)
    wide = x.dtype if x.is_floating_point() else t.promote_types(x.dtype, y.dtype)
    return t.pow(x.to(wide), y.to(wide)).to(x.dtype)


@row("BitShift")
def _bit_shift(call: Call, x: Any, y: Any, direction: str) -> Any:
    return (t.bitwise_left_shift if direction == "LEFT" else t.bitwise_right_shift)(x, y)


@row("Max")
def _max(call: Call, *inputs: Any) -> Any:
    return reduce(t.maximum, inputs)


@row("Min")
def _min(call: Call, *inputs: Any) -> Any:
    return reduce(t.minimum, inputs)


@row("Sum")
def _sum(call: Call, *inputs: Any) -> Any:
    return reduce(t.add, inputs)


@row("Mean")
def _mean(call: Call, *inputs: Any) -> Any:
    return reduce(t.add, inputs) / len(inputs)


@row("IsInf")
def _is_inf(call: Call, x: Any, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    found = t.zeros(x.shape, dtype=DTYPES[9], device=x.device)
    if detect_positive:
        found = found | t.isposinf(x)
    return found | t.isneginf(x) if detect_negative else found


@row("Clip")
def _clip(call: Call, x: Any, low: Any = None, high: Any = None, min: Any = None, max: Any = None) -> Any:
    """Opset 11 made the bounds inputs; where they cross, the upper one holds."""
    low, high = (low if min is None else min), (high if max is None else max)
    if low is not None:
        x = t.maximum(x, low if isinstance(low, type(x)) else constant(low, x.dtype, x))
    if high is not None:
        x = t.minimum(x, high if isinstance(high, type(x)) else constant(high, x.dtype, x))
    return x


@row("Celu")
def _celu(call: Call, x: Any, alpha: float = 1.0) -> Any:
    return F.celu(x, alpha)


@row("Elu")
def _elu(call: Call, x: Any, alpha: float = 1.0) -> Any:
    return F.elu(x, alpha)


@row("Selu")
def _selu(
    call: Call, x: Any, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Any:
    return gamma * t.where(x > 0, x, alpha * t.expm1(x))


@row("Gelu")
def _gelu(call: Call, x: Any, approximate: str = "none") -> Any:
    return F.gelu(x, approximate=approximate)


@row("LeakyRelu")
def _leaky_relu(call: Call, x: Any, alpha: float = 0.01) -> Any:
    return F.leaky_relu(x, alpha)


@row("ThresholdedRelu")
def _thresholded_relu(call: Call, x: Any, alpha: float = 1.0) -> Any:
    return t.where(x > alpha, x, t.zeros_like(x))


@row("PRelu")
def _prelu(call: Call, x: Any, slope: Any) -> Any:
    return t.where(x < 0, x * slope, x)


@row("HardSigmoid")
def _hard_sigmoid(call: Call, x: Any, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return (x * alpha + beta).clamp(0, 1)


@row("Swish")
def _swish(call: Call, x: Any, alpha: float = 1.0) -> Any:
    return x * t.sigmoid(alpha * x)


@row("SwiGLU")
def _swiglu(call: Call, a: Any, b: Any, alpha: float = 1.0) -> Any:
    return a * t.sigmoid(alpha * a) * b


@row("Shrink")
def _shrink(call: Call, x: Any, bias: float = 0.0, lambd: float = 0.5) -> Any:
    zeros = t.zeros_like(x)
    return t.where(x < -lambd, x + bias, t.where(x > lambd, x - bias, zeros)).to(x.dtype)


@row("Softmax", "LogSoftmax", "Hardmax")
def _softmax(call: Call, x: Any, axis: Any = None) -> Any:
    """Since opset 13 along one axis; before, over all axes from `axis` on, as one."""
    function = {"Softmax": F.softmax, "LogSoftmax": F.log_softmax, "Hardmax": _hardmax}[call.op]
    if call.version >= 13:
        return function(x, -1 if axis is None else axis)
    axis = (1 if axis is None else axis) % x.ndim
    rows = x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return function(rows, -1).reshape(x.shape)


def _hardmax(x: Any, dim: int) -> Any:
    return t.zeros_like(x).scatter(dim, x.argmax(dim, keepdim=True), 1.0)


@row("Gemm")
def _gemm(call: Call, a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
          transB: int = 0, broadcast: int = 0) -> Any:  # fmt: skip
    y = t.matmul(a.t() if transA else a, b.t() if transB else b)
    y = y if alpha == 1 else (alpha * y).to(a.dtype)
    return y if c is None else y + (c if beta == 1 else (beta * c).to(a.dtype))


@row("Einsum")
def _einsum(call: Call, *inputs: Any, equation: str) -> Any:
    return t.einsum(equation.replace(" ", ""), *inputs)


@row("CumSum", "CumProd")
def _running(call: Call, x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    dim = number(axis) % x.ndim
    if reverse:
        x = t.flip(x, [dim])
    y = (t.cumsum if call.op == "CumSum" else t.cumprod)(x, dim).to(x.dtype)
    if exclusive:
        first = (t.zeros_like if call.op == "CumSum" else t.ones_like)(x.narrow(dim, 0, 1))
        y = t.cat([first, y.narrow(dim, 0, x.shape[dim] - 1)], dim)
    return t.flip(y, [dim]) if reverse else y


# -- reductions --------------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "ReduceSum": lambda x, d, k: x.sum(d, keepdim=k).to(x.dtype),
    "ReduceMean": lambda x, d, k: (x if x.is_floating_point() else x.double()).mean(d, keepdim=k).to(x.dtype),
    "ReduceProd": lambda x, d, k: _prod(x, d, k),
    "ReduceMax": lambda x, d, k: _extreme(x, d, k, t.amax, -math.inf),
    "ReduceMin": lambda x, d, k: _extreme(x, d, k, t.amin, math.inf),
    "ReduceL1": lambda x, d, k: x.abs().sum(d, keepdim=k).to(x.dtype),
    "ReduceL2": lambda x, d, k: _real(lambda y: (y * y).sum(d, keepdim=k).sqrt(), x),
    "ReduceLogSum": lambda x, d, k: _real(lambda y: y.sum(d, keepdim=k).log(), x),
    "ReduceLogSumExp": lambda x, d, k: _real(lambda y: t.logsumexp(y, d, keepdim=k), x),
    "ReduceSumSquare": lambda x, d, k: (x * x).sum(d, keepdim=k).to(x.dtype),
}


def _real(function: Any, x: Any) -> Any:
    return function(x if x.is_floating_point() else x.double()).to(x.dtype)


def _prod(x: Any, dims: Any, keepdim: bool) -> Any:
    for d in sorted(dims, reverse=True):
        x = x.prod(d, keepdim=keepdim).to(x.dtype)
    return x


def _extreme(x: Any, dims: Any, keepdim: bool, function: Any, of_none: float) -> Any:
    if all(x.shape[d] for d in dims):
        return function(x, dims, keepdim=keepdim)
    shape = [1 if k in dims else n for k, n in enumerate(x.shape) if keepdim or k not in dims]
    if not x.is_floating_point():
        limits = t.iinfo(x.dtype) if x.dtype != DTYPES[9] else None
        of_none = (of_none > 0) if limits is None else limits.max if of_none > 0 else limits.min
    return t.full(shape, of_none, dtype=x.dtype, device=x.device)


@row(*REDUCTIONS)
def _reduction(call: Call, x: Any, given: Any = None, axes: Any = None, keepdims: int = 1,
               noop_with_empty_axes: int = 0) -> Any:  # fmt: skip
    """The axes are an input since opset 13 (ReduceSum) or 18."""
    dims = axes if given is None else ints(given)
    if not dims:
        if noop_with_empty_axes:
            return REDUCTIONS[call.op](x.unsqueeze(0), (0,), False)
        dims = range(x.ndim)
    if not x.ndim:
        return REDUCTIONS[call.op](x.unsqueeze(0), (0,), False)
    return REDUCTIONS[call.op](x, tuple(d % x.ndim for d in dims), bool(keepdims))


@row("ArgMax", "ArgMin")
def _arg(call: Call, x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    function = t.argmax if call.op == "ArgMax" else t.argmin
    if not select_last_index:
        return function(x, axis, keepdim=bool(keepdims))
    return x.shape[axis] - 1 - function(t.flip(x, [axis]), axis, keepdim=bool(keepdims))
