"""ONNX's spelling of the ops of layers: products, convolutions, pooling, normalisation, attention, recurrence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backends.resample_tables import taps, windows_of
from .ir import Value
from .onnx_graph import Graph, element, formula_in
from .onnx_ops import evaluated, row, wanted
from .sizes import evaluate, leaves

# -- products ----------------------------------------------------------------------------------------------------------


@row("linear")
def _linear(g: Graph, x: Value, weight: Value, bias: Value | None) -> str:
    if len(x.shape) == 2 and bias is not None:
        return g("Gemm", x, weight, bias, transB=1)
    y = g("MatMul", x, g("Transpose", weight, perm=[1, 0]) if len(weight.shape) == 2 else weight)
    return g("Add", y, bias) if bias is not None else y


@row("matmul")
def _matmul(g: Graph, a: Value, b: Value) -> str:
    return g("MatMul", a, b)


@row("einsum")
def _einsum(g: Graph, *tensors: Value, equation: str) -> str:
    return g("Einsum", *tensors, equation=equation)


@row("cross")
def _cross(g: Graph, a: Value, b: Value, dim: int) -> str:
    def turned(x: Value, first: int) -> str:
        return g("Gather", x, g.constant([(first + k) % 3 for k in range(3)], "int64"), axis=dim)

    return g("Sub", g("Mul", turned(a, 1), turned(b, 2)), g("Mul", turned(a, 2), turned(b, 1)))


@row("attention")
def _attention(g: Graph, q: Value, k: Value, v: Value, mask: Value | None, scale: float, causal: bool, p: float,
               **random: Any) -> list[Any]:  # fmt: skip
    if p:
        raise g.refuse("it drops out at random", "module.eval()")
    rank = len(q.shape)
    keys, values = g.name(k), g.name(v)
    if rank > 2:
        keys, values = (_shared(g, x, q) for x in (k, v))
    order = [*range(rank - 2), rank - 1, rank - 2]
    x = g("MatMul", g("Mul", q, g.scalar(scale, q.dtype)), g.transpose(keys, order))
    low = g.constant(-math.inf, q.dtype)
    zero, one = g.constant(0, q.dtype), g.constant(1, q.dtype)
    if mask is not None:
        x = g("Where", mask, x, low) if mask.dtype == "bool" else g("Add", x, g.cast(mask, q.dtype))
    if causal:
        rows, columns = g.range(_size(q, -2)), g.range(_size(k, -2))
        x = g("Where", g("GreaterOrEqual", g("Unsqueeze", rows, g.ints(1)), columns), x, low)
    if mask is None and not wanted(g, 1):
        return [g("MatMul", g("Softmax", x, axis=-1), values)]
    top = g("ReduceMax", x, g.ints(-1), keepdims=1)  # what sees nothing gives 0
    top = g("Where", g("Equal", top, low), zero, top)
    e = g("Exp", g("Sub", x, top))
    total = g("ReduceSum", e, g.ints(-1), keepdims=1)
    blind = g("Equal", total, zero)
    y = g("MatMul", g("Div", e, g("Where", blind, one, total)), values)
    if not wanted(g, 1):
        return [y]
    return [y, g("Where", blind, g("Neg", low), g("Add", top, g("Log", total)))]


def _size(x: Value, axis: int) -> Any:
    return x.shape[axis]


def _shared(g: Graph, x: Value, q: Value) -> str:
    """Return keys or values once for each head of the queries: heads in a row share them."""
    have, need = x.shape[-3], q.shape[-3]
    if have == need or have == 1:
        return g.name(x)
    have, need = g.fixed((have, need), "the number of heads")
    axis = len(x.shape) - 3
    tiled = g("Tile", g("Unsqueeze", x, g.ints(axis + 1)), g.ints(*[1] * (axis + 1), need // have, 1, 1))
    return g.reshape(tiled, [*x.shape[:-3], need, *x.shape[-2:]])


# -- convolutions ------------------------------------------------------------------------------------------------------


@row("conv")
def _conv(g: Graph, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
          groups: int) -> str:  # fmt: skip
    pads = g.fixed(padding, "the padding")
    return g("Conv", x, weight, bias, strides=g.fixed(stride, "the stride"), pads=pads * 2,
             dilations=g.fixed(dilation, "the dilation"), group=groups)  # fmt: skip


@row("conv_transpose")
def _conv_transpose(g: Graph, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
                    groups: int, output_padding: Any) -> str:  # fmt: skip
    pads = g.fixed(padding, "the padding")
    return g("ConvTranspose", x, weight, bias, strides=g.fixed(stride, "the stride"), pads=pads * 2,
             dilations=g.fixed(dilation, "the dilation"), group=groups,
             output_padding=g.fixed(output_padding, "the output padding"))  # fmt: skip


@row("conv_weight")
def _conv_weight(g: Graph, x: Value, y: Value, stride: Any, padding: Any, dilation: Any, groups: int,
                 kernel: Any) -> str:  # fmt: skip
    """The gradient of a convolution's weight: the examples are the channels of a convolution of x by y."""
    if groups != 1:
        raise g.refuse("the weight's gradient of a grouped convolution is not written", "groups=1")
    rank = len(x.shape)
    swapped = [1, 0, *range(2, rank)]
    found = g("Conv", g.transpose(g.name(x), swapped), g.transpose(g.name(y), swapped),
              strides=g.fixed(dilation, "the dilation"), dilations=g.fixed(stride, "the stride"),
              pads=g.fixed(padding, "the padding") * 2)  # fmt: skip
    n = rank - 2
    cut = g("Slice", found, g.ints(*[0] * n), g.ints(*kernel), g.ints(*range(2, rank)))
    return g.transpose(cut, swapped)


def windows_at(g: Graph, count: Any, kernel: int, stride: int, dilation: int) -> str:
    """Return the places of the elements of windows, (count, kernel)."""
    starts = g("Unsqueeze", g("Mul", g.range(count), g.ints(stride)), g.ints(1))
    return g("Add", starts, g.constant([k * dilation for k in range(kernel)], "int64"))


def _counted(size: Any, kernel: int, stride: int, padding: int, dilation: int) -> Any:
    """Return how many windows there are."""
    reach = dilation * (kernel - 1) + 1
    return evaluated(("+", ("//", ("-", ("+", size, 2 * padding), reach), stride), 1))


@row("im2col")
def _im2col(g: Graph, x: Value, kernel: Any, dilation: Any, padding: Any, stride: Any) -> str:
    kernel, dilation, padding, stride = (g.fixed(n, "a window") for n in (kernel, dilation, padding, stride))
    n = len(kernel)
    y = g("Pad", x, g.ints(0, 0, *padding, 0, 0, *padding), g.like(0, x))
    counts = []
    for i, (k, d, p, s) in enumerate(zip(kernel, dilation, padding, stride, strict=True)):
        counts.append(_counted(x.shape[2 + i], k, s, p, d))
        y = g("Gather", y, windows_at(g, counts[-1], k, s, d), axis=2 + 2 * i)
    y = g.transpose(y, [0, 1, *(3 + 2 * i for i in range(n)), *(2 + 2 * i for i in range(n))])
    columns = counts[0]
    for c in counts[1:]:
        columns = evaluated(("*", columns, c))
    return g.reshape(y, [x.shape[0], evaluated(("*", x.shape[1], math.prod(kernel))), columns])


@row("col2im")
def _col2im(g: Graph, x: Value, kernel: Any, dilation: Any, padding: Any, stride: Any, sizes: Any) -> str:
    pads = g.fixed(padding, "the padding")
    return g("Col2Im", x, g.ints(*sizes), g.ints(*kernel), dilations=g.fixed(dilation, "the dilation"), pads=pads * 2,
             strides=g.fixed(stride, "the stride"))  # fmt: skip


# -- pooling -----------------------------------------------------------------------------------------------------------


def _as_images(g: Graph, x: Value, n: int) -> tuple[str, list[Any] | None]:
    """Return `x` with two dimensions before the last `n`, and the dimensions before them where these were others."""
    lead = list(x.shape[: len(x.shape) - n])
    if len(lead) == 2:
        return g.name(x), None
    count: Any = 1
    for d in lead:
        count = evaluated(("*", count, d))
    return g.reshape(x, [count, 1, *x.shape[len(lead) :]]), lead


def _padded(g: Graph, x: str, sizes: Any, window: Any, out: Any, value: float, dtype: str) -> tuple[str, list[int]]:
    """Return `x` and the pads of a pooling node with windows for `out` results; sizes that are not known are padded
    before it."""
    kernel, stride, padding, dilation = window
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    ends = [evaluated(("-", ("+", ("*", ("-", formula_in(o), 1), s), r), ("+", m, p)))
            for o, s, r, m, p in zip(out, stride, reach, sizes, padding, strict=True)]  # fmt: skip
    if all(isinstance(e, int) for e in ends):
        return x, [*padding, *(max(e, 0) for e in ends)]
    if all(
        _floors(formula_in(o), m, w) for o, m, *w in zip(out, sizes, kernel, stride, padding, dilation, strict=True)
    ):
        return x, [*padding, *padding]
    more = [e if isinstance(e, int) else g("Max", g.sized(e), g.ints(0)) for e in ends]
    pads = [g.ints(max(e, 0)) if isinstance(e, int) else e for e in more]
    ahead = g("Concat", g.ints(0, 0, *padding, 0, 0), *pads, axis=0)
    return g("Pad", x, ahead, g.constant(value, dtype)), [0] * 2 * len(padding)


def _floors(out: Any, size: Any, window: Any) -> bool:
    """Return whether `out` is the number of whole windows, which is what pooling nodes give."""
    kernel, stride, padding, dilation = window
    if isinstance(out, int) and isinstance(size, int):
        return bool(out == _counted(size, kernel, stride, padding, dilation))
    names = leaves(out) | leaves(size)
    if len(names) != 1 or not all(isinstance(n, str) for n in names):
        return False
    (name,) = names
    plain = _counted(size, kernel, stride, padding, dilation)
    least = kernel * dilation
    return all(evaluate(out, {name: n}) == evaluate(plain, {name: n}) for n in range(least, least + 64))


@row("max_pool")
def _max_pool(g: Graph, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, out: Any) -> list[Any]:
    window = [g.fixed(n, "a window") for n in (kernel, stride, padding, dilation)]
    n = len(window[0])
    images, lead = _as_images(g, x, n)
    sizes = x.shape[len(x.shape) - n :]
    ready, pads = _padded(g, images, sizes, window, out, -math.inf, x.dtype)
    if wanted(g, 1) and ready != images:
        raise g.refuse("the places of the largest are not written where ceil_mode meets sizes of the run",
                       "ceil_mode=False, or leave that axis out of `dynamic`")  # fmt: skip
    found = g.several("MaxPool", ready, outputs=1 + wanted(g, 1), kernel_shape=window[0], strides=window[1], pads=pads,
                      dilations=window[3])  # fmt: skip
    results: list[Any] = [found[0], None]
    if wanted(g, 1):  # ONNX counts through the whole tensor, core within an image
        whole = evaluated(sizes[0])
        for m in sizes[1:]:
            whole = evaluated(("*", whole, m))
        results[1] = g("Mod", found[1], g.scalar(whole, "int64"))
    if lead is not None:
        shape = [*lead, *out]
        results = [None if r is None else g.reshape(r, shape) for r in results]
    return results


@row("window_sum")
def _window_sum(g: Graph, x: Value, kernel: Any, stride: Any, padding: Any, out: Any) -> str:
    """The mean with the padding counted, times the number of elements."""
    window = [g.fixed(n, "a window") for n in (kernel, stride, padding)]
    n = len(window[0])
    images, lead = _as_images(g, x, n)
    ready, pads = _padded(g, images, x.shape[len(x.shape) - n :], [*window, [1] * n], out, 0, x.dtype)
    mean = g("AveragePool", ready, kernel_shape=window[0], strides=window[1], pads=pads, count_include_pad=1)
    total = g("Mul", mean, g.like(math.prod(window[0]), x))
    return total if lead is None else g.reshape(total, [*lead, *out])


@row("adaptive_max_pool")
def _adaptive_max_pool(g: Graph, x: Value, out: Any) -> list[Any]:
    if wanted(g, 1):
        raise g.refuse("its places are not written", "return_indices=False")
    n = len(out)
    rank = len(x.shape)
    sizes = g.fixed(x.shape[rank - n :], "the size of the image")
    y = g.name(x)
    for i, (m, o) in enumerate(zip(sizes, g.fixed(out, "the result's size"), strict=True)):
        first, end = windows_of(m, o)
        at = np.minimum(first[:, None] + np.arange(int((end - first).max())), end[:, None] - 1)
        axis = rank - n + i
        y = g("ReduceMax", g("Gather", y, g.constant(at, "int64"), axis=axis), g.ints(axis + 1), keepdims=0)
    return [y, None]


@row("resample")
def _resample(g: Graph, x: Value, out: Any, mode: str, align: bool, scales: Any) -> str:
    """Along each dimension a weighted sum of few elements, by core's tables or, of sizes of the run, as these are
    computed."""
    n, rank = len(out), len(x.shape)
    y = g.name(x)
    for i, (o, factor) in enumerate(zip(out, scales, strict=True)):
        axis, m, o = rank - n + i, x.shape[rank - n + i], formula_in(o)
        factor = formula_in(factor)
        if isinstance(m, int) and isinstance(o, int) and not isinstance(factor, tuple | str):
            at, w = taps(m, o, mode, align, factor)
            parts = [(g.constant(at[:, t], "int64"), None if (w[:, t] == 1).all() else g.constant(w[:, t], x.dtype))
                     for t in range(at.shape[1])]  # fmt: skip
        else:
            parts = _taps_of_the_run(g, m, o, mode, align, factor, x.dtype)
        total = ""
        for at_name, weight in parts:
            part = g("Gather", y, at_name, axis=axis)
            if weight is not None:
                part = g("Mul", part, g("Reshape", weight, g.ints(-1, *[1] * (rank - axis - 1))))
            total = g("Add", total, part) if total else part
        y = total
    return y


def _taps_of_the_run(g: Graph, m: Any, o: Any, mode: str, align: bool, factor: Any, dtype: str) -> list[Any]:
    """Return the places and the weights of the elements that each result adds up, computed from the sizes."""
    if mode not in ("nearest", "nearest-exact", "linear"):
        raise g.refuse(f"interpolation by {mode} at sizes of the run is not written",
                       "mode nearest or bilinear, or leave that axis out of `dynamic`")  # fmt: skip
    kind = "float32" if mode.startswith("nearest") else "float64"

    def number(v: float) -> str:
        return g.constant(v, kind)

    size, count = g.scalar(m, kind), g.scalar(o, kind)
    if align:
        one = number(1)
        ratio = g("Div", g("Sub", size, one), g("Max", g("Sub", count, one), one))
        step = g("Where", g("Greater", count, one), ratio, number(0))
    elif factor:
        step = g("Div", number(1), g.scalar(factor, kind))
    else:
        step = g("Div", size, count)
    i = g("Cast", g.range(o), to=element(kind))
    last = g("Sub", g.scalar(m, "int64"), g.constant(1, "int64"))
    if kind == "float32":
        x = g("Mul", g("Add", i, number(0.5 if mode == "nearest-exact" else 0.0)), step)
        return [(g("Min", g("Cast", g("Floor", x), to=element("int64")), last), None)]
    half = number(0.5)
    x = g("Mul", step, i) if align else g("Sub", g("Mul", step, g("Add", i, half)), half)
    x = g("Max", x, number(0))
    low = g("Min", g("Cast", g("Floor", x), to=element("int64")), last)
    part = g("Min", g("Sub", x, g("Cast", low, to=element(kind))), number(1))
    rest = g("Sub", number(1), part)
    high = g("Min", g("Add", low, g.constant(1, "int64")), last)
    return [(low, g("Cast", rest, to=element(dtype))), (high, g("Cast", part, to=element(dtype)))]


# -- normalisation -----------------------------------------------------------------------------------------------------


@row("layer_norm")
def _layer_norm(g: Graph, x: Value, weight: Value | None, bias: Value | None, normalized_ndim: int,
                eps: float) -> list[str]:  # fmt: skip
    scale: Any = weight
    if weight is None:
        scale = g("Expand", g.like(1, x), g.ints(*x.shape[len(x.shape) - normalized_ndim :]))
    count = 3 if wanted(g, 1) or wanted(g, 2) else 1
    return g.several("LayerNormalization", x, scale, bias, outputs=count, axis=-normalized_ndim, epsilon=eps)


@row("rms_norm")
def _rms_norm(g: Graph, x: Value, weight: Value | None, normalized_ndim: int, eps: float) -> list[Any]:
    dims = range(-normalized_ndim, 0)
    power = g("ReduceMean", g("Mul", x, x), g.ints(*dims), keepdims=1)
    size = g("Sqrt", g("Add", power, g.like(eps, x)))
    y = g("Div", x, size)
    return [g("Mul", y, weight) if weight is not None else y, g("Reciprocal", size) if wanted(g, 1) else None]


def _affine(g: Graph, y: str, rank: int, weight: Value | None, bias: Value | None) -> str:
    for op, p in (("Mul", weight), ("Add", bias)):
        if p is not None:
            y = g(op, y, g("Reshape", p, g.ints(-1, *[1] * (rank - 2))))
    return y


@row("group_norm")
def _group_norm(g: Graph, x: Value, weight: Value | None, bias: Value | None, num_groups: int,
                eps: float) -> list[Any]:  # fmt: skip
    groups = g("Reshape", x, g.ints(0, num_groups, -1))
    mean = g("ReduceMean", groups, g.ints(-1), keepdims=1)
    off = g("Sub", groups, mean)
    size = g("Sqrt", g("Add", g("ReduceMean", g("Mul", off, off), g.ints(-1), keepdims=1), g.like(eps, x)))
    y = _affine(g, g("Reshape", g("Div", off, size), g.shape_of(x)), len(x.shape), weight, bias)
    if not (wanted(g, 1) or wanted(g, 2)):
        return [y]
    return [y, g("Squeeze", mean, g.ints(2)), g("Squeeze", g("Reciprocal", size), g.ints(2))]


@row("batch_norm_eval")
def _batch_norm_eval(g: Graph, x: Value, mean: Value, var: Value, weight: Value | None, bias: Value | None,
                     eps: float) -> str:  # fmt: skip
    scale: Any = weight if weight is not None else g("Expand", g.like(1, mean), g.shape_of(mean))
    shift: Any = bias if bias is not None else g("Expand", g.like(0, mean), g.shape_of(mean))
    return g("BatchNormalization", x, scale, shift, mean, var, epsilon=eps)


@row("batch_norm")
def _batch_norm(g: Graph, x: Value, weight: Value | None, bias: Value | None, eps: float) -> list[str]:
    rank = len(x.shape)
    dims = g.ints(0, *range(2, rank))
    mean = g("ReduceMean", x, dims, keepdims=1)
    off = g("Sub", x, mean)
    var = g("ReduceMean", g("Mul", off, off), dims, keepdims=1)
    y = _affine(g, g("Div", off, g("Sqrt", g("Add", var, g.like(eps, x)))), rank, weight, bias)
    return [y, g("Reshape", mean, g.ints(-1)), g("Reshape", var, g.ints(-1))]


# -- recurrence --------------------------------------------------------------------------------------------------------


@row("lstm")
def _lstm(g: Graph, x: Value, w_ih: Value, w_hh: Value, b_ih: Any, b_hh: Any, h0: Any, c0: Any, weight_hr: Any,
          **how: Any) -> list[str]:  # fmt: skip
    if weight_hr is not None:
        raise g.refuse("ONNX's LSTM has no projection of the hidden state", "proj_size=0")
    return _recurrent(g, "LSTM", x, (w_ih, w_hh, b_ih, b_hh), (h0, c0), (0, 3, 1, 2), **how)


@row("gru")
def _gru(g: Graph, x: Value, w_ih: Value, w_hh: Value, b_ih: Any, b_hh: Any, h0: Any, **how: Any) -> list[str]:
    return _recurrent(g, "GRU", x, (w_ih, w_hh, b_ih, b_hh), (h0,), (1, 0, 2), linear_before_reset=1, **how)


@row("rnn")
def _rnn(g: Graph, x: Value, w_ih: Value, w_hh: Value, b_ih: Any, b_hh: Any, h0: Any, nonlinearity: str,
         **how: Any) -> list[str]:  # fmt: skip
    return _recurrent(g, "RNN", x, (w_ih, w_hh, b_ih, b_hh), (h0,), (0,), activations=[nonlinearity.title()], **how)


def _recurrent(g: Graph, op: str, x: Value, weights: Any, start: Any, gates: Any, reverse: bool, batch_first: bool,
               sizes: Any, **attributes: Any) -> list[str]:  # fmt: skip
    """One layer in one direction; ONNX has its gates in another order and a dimension of directions."""
    if sizes is not None and len(sizes) != 1:
        raise g.refuse("sequences of several lengths (packed) are not written", "pad them, and mask the result")
    hidden = g.fixed(weights[1].shape[-1:], "the hidden size")[0]

    def ordered(p: Value) -> str:
        parts = g.several("Split", p, g.ints(*[hidden] * len(gates)), outputs=len(gates), axis=0)
        return g("Concat", *(parts[k] for k in gates), axis=0) if len(gates) > 1 else g.name(p)

    def directed(name: Any) -> str:
        return g("Unsqueeze", name, g.ints(0))

    w, r, b_in, b_rec = weights
    bias = directed(g("Concat", ordered(b_in), ordered(b_rec), axis=0)) if b_in is not None else None
    rows = g.name(x)
    if sizes is not None:  # a cell: one step
        rows = g("Unsqueeze", x, g.ints(0))
    elif batch_first:
        rows = g.transpose(rows, [1, 0, 2])
    initial = [None if h is None else directed(h) for h in start]
    if any(h is None for h in initial) and any(h is not None for h in initial):
        raise g.refuse("it has one initial state of two", "give both, or none")
    found = g.several(op, rows, directed(ordered(w)), directed(ordered(r)), bias, None, *initial,
                      outputs=1 + len(start), hidden_size=hidden, direction="reverse" if reverse else "forward",
                      **attributes)  # fmt: skip
    y = g("Squeeze", found[0], g.ints(1) if sizes is None else g.ints(0, 1))
    if batch_first and sizes is None:
        y = g.transpose(y, [1, 0, 2])
    return [y, *(g("Squeeze", h, g.ints(0)) for h in found[1:])]
