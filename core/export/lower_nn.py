"""Products, convolutions, norms, softmax, attention, recurrences, pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .lower_moves import count_over, mean_of, pad, scaled
from .lower_views import expand, permute, reshape, sliced, transpose
from .lowering import Builder, lowers
from .plan import View, refused
from .polynomial import Count, product

_PANEL = 16  # columns of a panel, as in c/tile.h


def single(node: Any, *views: Any) -> None:
    """Raise ExportError for what is not float32."""
    for v in views:
        if isinstance(v, View) and v.dtype != "float32":
            raise refused(node, f"of {v.dtype}", "float32: .float() before")


@lowers("cross")
def _cross(b: Builder, node: Any, x: View, y: View, dim: int) -> View:
    shape = b.broadcast([x.shape, y.shape])
    x, y = expand(b, node, x, shape), expand(b, node, y, shape)
    out = b.new(shape, node.outputs[0].dtype)
    before = (slice(None),) * (dim % len(shape))
    xs, ys, to = ([sliced(b, node, v, (*before, k)) for k in range(3)] for v in (x, y, out))
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        b.ew("sub", b.ew("mul", xs[i], ys[j]), b.ew("mul", xs[j], ys[i]), out=to[k])
    return out


# -- products ----------------------------------------------------------------------------------------------------------


def _packed_size(k: Count, n: Count) -> Count:
    return k * ((n + _PANEL - 1) // _PANEL * _PANEL)


def _packed(b: Builder, m: View) -> View | None:
    """Return a matrix of weights (K, N) as `tile.h` wants it; None where it is known only in the run."""
    array = b.array_of(m)
    if array is None:
        return None
    key = ("packed", id(m.buffer.array), m.shape, m.strides, m.offset)
    if key not in b.made:
        n = array.shape[1]
        wide = np.zeros((array.shape[0], _packed_size(1, n)), np.float32)
        wide[:, :n] = array
        panels = [wide[:, k : k + _PANEL].reshape(-1) for k in range(0, wide.shape[1], _PANEL)]
        flat = np.concatenate(panels) if panels else np.zeros(1, np.float32)
        b.made[key] = b.constant(flat, f"{m.buffer.name}_packed")
    return b.made[key]


def _matrix(b: Builder, node: Any, x: View) -> View:
    """Return a view (rows, columns) of all but the last axis by the last."""
    return x if len(x.shape) == 2 else reshape(b, node, x, (product(x.shape[:-1]), x.shape[-1]))


def multiply(b: Builder, node: Any, x: View, m: View, bias: View | None = None) -> View:
    """Return x (M, K) times m (K, N), with a bias of N."""
    single(node, x, m, bias)
    out = b.new((x.shape[0], m.shape[1]))
    sizes = (x.shape[0], m.shape[1], x.shape[1])
    packed = _packed(b, m)
    bias = None if bias is None else b.dense(bias)
    if packed is not None:
        b.call("product", *sizes, x, *x.strides, packed, bias, out, m.shape[1], writes=[out], title=node.op)
        return out
    scratch = b.new((_packed_size(x.shape[1], m.shape[1]),), name="panels")
    b.call("product_of", *sizes, x, *x.strides, m, *m.strides, scratch, out, writes=[out, scratch], title=node.op)
    return out if bias is None else b.ew("add", out, bias)


@lowers("linear")
def _linear(b: Builder, node: Any, x: View, weight: View, bias: View | None) -> View:
    rows = View(x.buffer, (1, *x.shape), (0, *x.strides), x.offset) if len(x.shape) == 1 else _matrix(b, node, x)
    y = multiply(b, node, rows, transpose(b, node, weight, 0, 1), bias)
    return reshape(b, node, y, (*x.shape[:-1], weight.shape[0]))


@lowers("matmul")
def matmul(b: Builder, node: Any, x: View, y: View) -> View:
    """Multiply matrices, or stacks of them."""
    single(node, x, y)
    left, right = len(x.shape) == 1, len(y.shape) == 1
    if left:
        x = View(x.buffer, (1, *x.shape), (0, *x.strides), x.offset)
    if right:
        y = View(y.buffer, (*y.shape, 1), (*y.strides, 0), y.offset)
    batch = b.broadcast([x.shape[:-2], y.shape[:-2]])
    if len(y.shape) == 2:
        found = multiply(b, node, _matrix(b, node, x), y)
        out = reshape(b, node, found, (*x.shape[:-1], y.shape[-1]))
    else:
        out = _stacked(b, node, x, y, batch)
    shape = list(out.shape)
    if right:
        del shape[-1]
    if left:
        del shape[-1 if right else -2]
    return reshape(b, node, out, shape)


def _stacked(b: Builder, node: Any, x: View, y: View, batch: tuple[Count, ...]) -> View:
    x = expand(b, node, x, (*batch, *x.shape[-2:]))
    y = expand(b, node, y, (*batch, *y.shape[-2:]))
    out = b.new((*batch, x.shape[-2], y.shape[-1]))
    sizes = (x.shape[-2], y.shape[-1], x.shape[-1])
    scratch = b.new((_packed_size(x.shape[-1], y.shape[-1]),), name="panels")
    loops = [(n, (x.strides[k], y.strides[k], 0, out.strides[k])) for k, n in enumerate(batch) if n != 1]
    b.call("product_of", *sizes, x, *x.strides[-2:], y, *y.strides[-2:], scratch, out, writes=[out, scratch],
           title=node.op, loops=loops)  # fmt: skip
    return out


@lowers("einsum")
def _einsum(b: Builder, node: Any, *tensors: View, equation: str) -> View:
    equation = equation.replace(" ", "")
    given, arrow, wanted = equation.partition("->")
    terms = given.split(",")
    if "." in equation or any(len(set(t)) != len(t) for t in terms):
        raise refused(node, f"{equation!r}", "letters that stand once in each term: expand first, or diagonal()")
    if not arrow:
        wanted = "".join(sorted(c for c in set(given) - {","} if given.count(c) == 1))
    x, names = tensors[0], terms[0]
    for k in range(1, len(tensors)):
        later = set(wanted).union(*terms[k + 1 :])
        x, names = _contracted(b, node, x, names, tensors[k], terms[k], later)
    x, names = _summed(b, x, names, set(wanted))
    return permute(b, node, x, [names.index(c) for c in wanted])


def _summed(b: Builder, x: View, names: str, kept: set[str]) -> tuple[View, str]:
    over = [k for k, c in enumerate(names) if c not in kept]
    if over:
        x = b.reduce("sum", x, over)
    return x, "".join(c for c in names if c in kept)


def _contracted(b: Builder, node: Any, x: View, xn: str, y: View, yn: str, later: set[str]) -> tuple[View, str]:
    """Return the product of two terms, summed over what no later term and no result has."""
    x, xn = _summed(b, x, xn, later | set(yn))
    y, yn = _summed(b, y, yn, later | set(xn))
    batch = [c for c in xn if c in yn and c in later]
    inner = [c for c in xn if c in yn and c not in later]
    rows, columns = [c for c in xn if c not in yn], [c for c in yn if c not in xn]
    size = dict(zip(xn, x.shape, strict=True)) | dict(zip(yn, y.shape, strict=True))
    lead = tuple(size[c] for c in batch)

    def arranged(v: View, names: str, *parts: list[str]) -> View:
        v = permute(b, node, v, [names.index(c) for part in (batch, *parts) for c in part])
        return reshape(b, node, v, (*lead, *(product(size[c] for c in part) for part in parts)))

    z = matmul(b, node, arranged(x, xn, rows, inner), arranged(y, yn, inner, columns))
    names = "".join([*batch, *rows, *columns])
    return reshape(b, node, z, tuple(size[c] for c in names)), names


# -- convolutions ------------------------------------------------------------------------------------------------------


def _two(x: View, node: Any) -> View:
    """Return images (n, c, h, w): of signals, one row each."""
    if len(x.shape) == 4:
        return x
    if len(x.shape) == 3:
        return View(x.buffer, (*x.shape[:2], 1, x.shape[2]), (*x.strides[:2], 0, x.strides[2]), x.offset)
    raise refused(node, f"of {len(x.shape) - 2} dimensions", "one or two dimensions")


def _pair(x: Any, fill: int) -> tuple[int, int]:
    x = tuple(x)
    return x if len(x) == 2 else (fill, x[0])  # type: ignore[return-value]


@lowers("conv")
def _conv(b: Builder, node: Any, x: View, weight: View, bias: View | None, stride: Any, padding: Any, dilation: Any,
          groups: int) -> View:  # fmt: skip
    single(node, x, weight, bias)
    rank = len(x.shape)
    x, weight = b.dense(_two(x, node)), b.dense(_two(weight, node))
    (sh, sw), (ph, pw), (dh, dw) = _pair(stride, 1), _pair(padding, 0), _pair(dilation, 1)
    n, c, h, w = x.shape
    o, inside, kh, kw = weight.shape
    oh, ow = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    b.check(1, "<=", oh, "an image is as large as the kernel")
    b.check(1, "<=", ow, "an image is as large as the kernel")
    out = b.new((n, o, oh, ow))
    hq, wq = oh + (kh - 1) * dh // sh, ow + (kw - 1) * dw // sw
    scratch = b.new((inside * sh * sw * hq * wq + 64,), name="padded")
    taps = b.new((inside * kh * kw,), "int64", "taps")
    b.call("conv", (n, c, h, w, o, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups), x, weight,
           None if bias is None else b.dense(bias), out, scratch, taps, writes=[out, scratch, taps])  # fmt: skip
    return out if rank == 4 else View(out.buffer, (n, o, ow), (o * ow, ow, 1))


@lowers("conv_transpose")
def _conv_transpose(b: Builder, node: Any, x: View, weight: View, bias: View | None, stride: Any, padding: Any,
                    dilation: Any, groups: int, output_padding: Any) -> View:  # fmt: skip
    single(node, x, weight, bias)
    rank = len(x.shape)
    x, weight = b.dense(_two(x, node)), b.dense(_two(weight, node))
    (sh, sw), (ph, pw), (dh, dw) = _pair(stride, 1), _pair(padding, 0), _pair(dilation, 1)
    eh, ew = _pair(output_padding, 0)
    n, c, h, w = x.shape
    per_group, kh, kw = weight.shape[1:]
    o = per_group * groups
    oh, ow = (h - 1) * sh - 2 * ph + dh * (kh - 1) + 1 + eh, (w - 1) * sw - 2 * pw + dw * (kw - 1) + 1 + ew
    # (groups, outputs, inputs): rows of it are multiplied with the images
    inside, columns = c // groups, per_group * kh * kw
    turned = View(weight.buffer, (groups, columns, inside), (inside * columns, 1, columns), weight.offset)
    array = b.array_of(turned)
    weight = b.copy(turned) if array is None else b.constant(np.ascontiguousarray(array), "turned")
    out = b.new((n, o, oh, ow))
    scratch = b.new((columns * h * w + _packed_size(inside, h * w),), name="columns")
    b.call("conv_transpose", (n, c, h, w, o, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups), x, weight,
           None if bias is None else b.dense(bias), out, scratch, writes=[out, scratch])  # fmt: skip
    return out if rank == 4 else View(out.buffer, (n, o, ow), (o * ow, ow, 1))


def _pool_sizes(x: View, kernel: Any, stride: Any, padding: Any, dilation: Any, out: Any) -> tuple[Any, ...]:
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = _pair(kernel, 1), _pair(stride, 1), _pair(padding, 0), _pair(dilation, 1)
    oh, ow = _pair(out, 1)
    h, w = (x.shape[-2], x.shape[-1]) if len(tuple(kernel)) == 2 else (1, x.shape[-1])
    return (h, w, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw)


@lowers("max_pool", "window_sum")
def _pool(b: Builder, node: Any, x: View, kernel: Any, stride: Any, padding: Any, out: Any,
          dilation: Any = None) -> Any:  # fmt: skip
    single(node, x)
    if len(kernel) > 2:
        raise refused(node, f"of {len(kernel)} dimensions", "one or two dimensions")
    x = b.dense(x)
    sizes = _pool_sizes(x, kernel, stride, padding, dilation or (1,) * len(kernel), out)
    lead = x.shape[: len(x.shape) - len(kernel)]
    y = b.new((*lead, *out))
    if node.op == "window_sum":
        b.call("window_sum", product(lead), sizes, x, y, writes=[y])
        return y
    if node.outputs[1] not in b.used:
        b.call("max_pool", product(lead), sizes, x, y, writes=[y])
        return [y, None]
    places = b.new((*lead, *out), "int64")
    b.call("max_pool_places", product(lead), sizes, x, y, places, writes=[y, places])
    return [y, places]


@lowers("adaptive_max_pool")
def _adaptive_max_pool(b: Builder, node: Any, x: View, out: Any) -> list[Any]:
    single(node, x)
    if len(out) > 2:
        raise refused(node, f"of {len(out)} dimensions", "one or two dimensions")
    x = b.dense(x)
    lead = x.shape[: len(x.shape) - len(out)]
    (h, w), (oh, ow) = _pair(x.shape[len(lead) :], 1), _pair(out, 1)
    y, places = b.new((*lead, *out)), b.new((*lead, *out), "int64")
    b.call("adaptive_max_pool", product(lead), h, w, oh, ow, x, y, places, writes=[y, places])
    return [y, places]


@lowers("resample")
def _resample(b: Builder, node: Any, x: View, out: Any, mode: str, align: bool, scales: Any) -> View:
    single(node, x)
    modes = {"nearest": 0, "nearest-exact": 1, "linear": 2, "cubic": 3, "area": 4}
    if mode not in modes:
        raise refused(node, f"mode {mode!r}", "antialias=False")
    x = b.dense(x)
    first = len(x.shape) - len(out)
    for k, (n, scale) in enumerate(zip(out, scales, strict=True)):
        axis = first + k
        if x.shape[axis] == n and mode not in ("cubic",) and not (scale and scale != 1):
            continue
        y = b.new((*x.shape[:axis], n, *x.shape[axis + 1 :]))
        b.call("resample", product(x.shape[:axis]), x.shape[axis], n, product(x.shape[axis + 1 :]), modes[mode],
               int(align), f"{float(scale or 0)!r}", x, y, writes=[y])  # fmt: skip
        x = y
    return x


# -- norms and softmax -------------------------------------------------------------------------------------------------


def _normed(b: Builder, node: Any, x: View, dims: Sequence[int], eps: float, centred: bool = True) -> View:
    """Return x over its root mean square, of what is off the mean, over axes."""
    off = b.ew("sub", x, mean_of(b, x, tuple(dims), True)) if centred else x
    square = scaled(b, b.reduce("sum", b.ew("mul", off, off), dims, True), count_over(x, tuple(dims)))
    return b.ew("mul", off, b.ew("rsqrt", b.ew("add", square, float(eps))))


def _affine(b: Builder, y: View, weight: View | None, bias: View | None) -> View:
    y = y if weight is None else b.ew("mul", y, weight)
    return y if bias is None else b.ew("add", y, bias)


@lowers("layer_norm")
def _layer_norm(b: Builder, node: Any, x: View, weight: Any, bias: Any, normalized_ndim: int, eps: float) -> list[Any]:
    dims = range(len(x.shape) - normalized_ndim, len(x.shape))
    return [_affine(b, _normed(b, node, x, list(dims), eps), weight, bias), None, None]


@lowers("rms_norm")
def _rms_norm(b: Builder, node: Any, x: View, weight: Any, normalized_ndim: int, eps: float) -> list[Any]:
    dims = range(len(x.shape) - normalized_ndim, len(x.shape))
    return [_affine(b, _normed(b, node, x, list(dims), eps, centred=False), weight, None), None]


def _channels(v: View | None, rank: int) -> View | None:
    return None if v is None else View(v.buffer, (v.shape[0], *(1,) * (rank - 2)), (v.strides[0], *(0,) * (rank - 2)),
                                       v.offset)  # fmt: skip


@lowers("group_norm")
def _group_norm(b: Builder, node: Any, x: View, weight: Any, bias: Any, num_groups: int, eps: float) -> list[Any]:
    n, c = x.shape[:2]
    grouped = reshape(b, node, x, (n, num_groups, c // num_groups, *x.shape[2:]))
    y = _normed(b, node, grouped, list(range(2, len(grouped.shape))), eps)
    shape = (num_groups, c // num_groups, *(1,) * (len(x.shape) - 2))
    weight, bias = (None if v is None else reshape(b, node, b.dense(v), shape) for v in (weight, bias))
    return [reshape(b, node, _affine(b, y, weight, bias), x.shape), None, None]


@lowers("batch_norm_eval")
def _batch_norm_eval(b: Builder, node: Any, x: View, mean: View, var: View, weight: Any, bias: Any, eps: float) -> View:
    rank = len(x.shape)
    mean_, var_, weight, bias = (_channels(v, rank) for v in (mean, var, weight, bias))
    scale = b.ew("rsqrt", b.ew("add", var_, float(eps)))
    return _affine(b, b.ew("mul", b.ew("sub", x, mean_), scale), weight, bias)


@lowers("batch_norm")
def _batch_norm(b: Builder, node: Any, x: View, weight: Any, bias: Any, eps: float) -> list[View]:
    dims = [0, *range(2, len(x.shape))]
    mean = mean_of(b, x, tuple(dims), True)
    off = b.ew("sub", x, mean)
    var = scaled(b, b.reduce("sum", b.ew("mul", off, off), dims, True), count_over(x, tuple(dims)))
    y = b.ew("mul", off, b.ew("rsqrt", b.ew("add", var, float(eps))))
    weight, bias = (_channels(v, len(x.shape)) for v in (weight, bias))
    flat = [View(v.buffer, (x.shape[1],), (1,), v.offset) for v in (mean, var)]
    return [_affine(b, y, weight, bias), *flat]


@lowers("softmax", "log_softmax")
def _softmax(b: Builder, node: Any, x: View, dim: int) -> View:
    off = b.ew("sub", x, b.reduce("max", x, [dim], True))
    e = b.ew("exp", off)
    total = b.reduce("sum", e, [dim], True)
    return b.ew("true_divide", e, total) if node.op == "softmax" else b.ew("sub", off, b.ew("log", total))


@lowers("attention")
def _attention(b: Builder, node: Any, q: View, k: View, v: View, mask: View | None, scale: float, causal: bool,
               p: float, **seed: Any) -> list[Any]:  # fmt: skip
    single(node, q, k, v)
    if p:
        raise refused(node, "with dropout", "module.eval()")
    rank = len(q.shape)
    q, k, v = (_heads(b, node, x) for x in (q, k, v))
    lead = b.broadcast([q.shape[:1], k.shape[:1], v.shape[:1]])
    heads, t, d = q.shape[1:]
    kv, s, e = k.shape[1], k.shape[2], v.shape[-1]
    share = 1
    if kv != 1 and kv != heads:
        share = heads // kv
    q, k, v = (expand(b, node, x, (*lead, *x.shape[1:])) for x in (q, k, v))
    ks, vs = ((x.strides[0], 0 if x.shape[1] == 1 else x.strides[1], *x.strides[2:]) for x in (k, v))
    out = b.new((*lead, t, heads, e))
    out = permute(b, node, out, (0, 2, 1, 3))
    kind, given, steps = "MASK_NONE", q, (0, 0, 0, 0)
    if mask is not None:
        mask = expand(b, node, mask, (*lead, heads, t, s))
        kind = "MASK_KEEP" if mask.dtype == "bool" else "MASK_ADD"
        if kind == "MASK_ADD":
            single(node, mask)
        given, steps = mask, mask.strides
    scratch = b.new((_packed_size(d, s) + _packed_size(s, e) + 16 * s,), name="scores")
    b.call("attention", (*lead, heads, t, s, d, e, share), q, q.strides, k, ks, v, vs, kind, given, steps, int(causal),
           f"{float(scale)!r}f", out, out.strides, scratch, writes=[out, scratch])  # fmt: skip
    if rank == 2:
        out = View(out.buffer, out.shape[2:], out.strides[2:])
    elif rank == 3:
        out = View(out.buffer, out.shape[1:], out.strides[1:])
    return [out, None]


def _heads(b: Builder, node: Any, x: View) -> View:
    if len(x.shape) > 4:
        raise refused(node, f"of {len(x.shape)} axes", "(batch, heads, length, features)")
    lead = 4 - len(x.shape)
    return View(x.buffer, (1,) * lead + x.shape, (0,) * lead + x.strides, x.offset)


# -- the windows of images as columns ----------------------------------------------------------------------------------


def _counts(sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> tuple[Count, ...]:
    """Return how many windows there are along each axis."""
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1
                 for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True))  # fmt: skip


@lowers("im2col")
def _im2col(b: Builder, node: Any, x: View, kernel: Any, dilation: Any, padding: Any, stride: Any) -> View:
    counts = _counts(x.shape[2:], kernel, dilation, padding, stride)
    if any(padding):
        x = pad(b, node, x, [(0, 0), (0, 0), *((p, p) for p in padding)], 0)
    steps = tuple(st * d for st, d in zip(x.strides[2:], dilation, strict=True))
    jumps = tuple(st * s for st, s in zip(x.strides[2:], stride, strict=True))
    windows = View(x.buffer, (*x.shape[:2], *kernel, *counts), (*x.strides[:2], *steps, *jumps), x.offset)
    return reshape(b, node, windows, (x.shape[0], x.shape[1] * product(kernel), product(counts)))


@lowers("col2im")
def _col2im(b: Builder, node: Any, x: View, kernel: Any, dilation: Any, padding: Any, stride: Any, sizes: Any) -> View:
    single(node, x)
    channels = x.shape[1] // product(kernel)
    out = b.new((x.shape[0], channels, *sizes), x.dtype)
    counts = _counts(sizes, kernel, dilation, padding, stride)
    b.call("col2im", x.shape[0] * channels, _pool_sizes(out, kernel, stride, padding, dilation, counts), b.dense(x),
           out, writes=[out])  # fmt: skip
    return out


# -- recurrences -------------------------------------------------------------------------------------------------------


@lowers("lstm", "gru", "rnn")
def _recurrent(b: Builder, node: Any, x: View, weight_ih: View, weight_hh: View, bias_ih: Any, bias_hh: Any, h0: Any,
               c0: Any = None, weight_hr: Any = None, *, reverse: bool, batch_first: bool, sizes: Any,
               nonlinearity: str = "tanh") -> list[Any]:  # fmt: skip
    single(node, x, weight_ih, weight_hh)
    if sizes is not None and len(sizes) != 1:
        raise refused(node, "of packed sequences", "padded sequences")
    if weight_hr is not None:
        raise refused(node, "with a projection", "proj_size=0")
    hidden = weight_hh.shape[1]
    gates = weight_hh.shape[0]
    if sizes is not None:  # a cell: one step
        batch, time = x.shape[0], 1
    else:
        batch, time = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    rows = _matrix(b, node, x)
    both = bias_ih
    if node.op != "gru" and bias_hh is not None:
        both = bias_hh if bias_ih is None else b.ew("add", bias_ih, bias_hh)
        a, c = (None if v is None else b.array_of(v) for v in (bias_ih, bias_hh))
        if a is not None and c is not None:
            both = b.constant(a + c, "bias")
    sums = multiply(b, node, rows, transpose(b, node, weight_ih, 0, 1), both)
    turned = transpose(b, node, weight_hh, 0, 1)
    packed = _packed(b, turned)
    if packed is None:
        raise refused(node, "with weights that change in the run", "weights that are constants")
    y, h = b.new((*x.shape[:-1], hidden)), b.new((batch, hidden))
    steps = (1, time) if batch_first else (batch, 1)
    scratch = b.new((batch * gates,), name="gates")
    given = (batch, time, hidden, *steps, int(reverse), sums, packed)
    start = None if h0 is None else b.dense(h0)
    if node.op == "lstm":
        c = b.new((batch, hidden))
        b.call("lstm", *given, start, None if c0 is None else b.dense(c0), y, h, c, scratch,
               writes=[y, h, c, scratch])  # fmt: skip
        return [y, h, c, None, None]
    if node.op == "gru":
        b.call("gru", *given, None if bias_hh is None else b.dense(bias_hh), start, y, h, scratch,
               writes=[y, h, scratch])  # fmt: skip
        return [y, h, None]
    b.call("rnn", *given, start, int(nonlinearity == "tanh"), y, h, scratch, writes=[y, h, scratch])
    return [y, h]
