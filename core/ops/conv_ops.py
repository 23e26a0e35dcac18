"""Convolution in one, two and three dimensions, its transpose, and the weight's gradient: three ops, each of which is a
gradient of the others, so that derivatives of any order are convolutions again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..backends.convolve import add_windows, padded, windows
from ..dispatch.declare import operation
from ..tensors.tensor import Tensor
from .precision import rounded, wide

Each = tuple[int, ...]


def _out_sizes(sizes: Sequence[int], kernel: Sequence[int], stride: Each, padding: Each, dilation: Each) -> Each:
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )


def _columns(
    xp: Any,
    x: Any,
    kernel: Each,
    out: Each,
    stride: Each,
    padding: Each,
    dilation: Each,
    groups: int,
) -> Any:
    """Return the windows as matrices (N, groups, channels and kernel, places)."""
    view = windows(xp, padded(xp, x, tuple((p, p) for p in padding)), kernel, out, stride, dilation)
    return xp.ascontiguousarray(view).reshape(len(x), groups, x.shape[1] // groups * math.prod(kernel), math.prod(out))


def _conv_forward(
    xp: Any, x: Any, weight: Any, bias: Any, stride: Each, padding: Each, dilation: Each, groups: int
) -> Any:
    kernel, dtype = weight.shape[2:], x.dtype
    x, weight = wide(x), wide(weight)
    out = _out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    cols = _columns(xp, x, kernel, out, stride, padding, dilation, groups)
    y = xp.matmul(weight.reshape(groups, weight.shape[0] // groups, cols.shape[2]), cols)
    y = y.reshape(len(x), weight.shape[0], *out)
    if bias is not None:
        y += wide(bias).reshape(-1, *(1,) * len(out))
    return rounded(y, dtype)


def _conv_x(
    g: Tensor, weight: Tensor, x_shape: Each, stride: Each, padding: Each, dilation: Each, groups: int
) -> Tensor:
    sizes = zip(x_shape[2:], g._a.shape[2:], weight._a.shape[2:], stride, padding, dilation, strict=True)
    extra = tuple(n - ((o - 1) * s - 2 * p + d * (k - 1) + 1) for n, o, k, s, p, d in sizes)
    return _conv_transpose(
        g, weight, None, stride=stride, padding=padding, output_padding=extra, groups=groups, dilation=dilation
    )


def _conv_w(
    g: Tensor, x: Tensor, weight_shape: Each, stride: Each, padding: Each, dilation: Each, groups: int
) -> Tensor:
    return _conv_weight(x, g, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups)


def _bias(g: Tensor) -> Tensor:
    return g.sum((0, *range(2, g.ndim)))


_CASES: list[tuple[Any, ...]] = [  # x, weight, bias, stride, padding, dilation, groups
    ((2, 4), (3, 2), True, 1, 1, 1, 2),
    ((4, 5), (2, 2), True, 2, 1, 1, 1),
    ((3, 3), (2, 2), False, 1, 0, 1, 1),
    ((5, 4), (2, 2), False, (2, 1), (0, 1), (2, 1), 2),
    ((3, 2, 3), (2, 1, 2), True, (1, 1, 2), (0, 0, 1), 1, 1),
]


def _n(value: Any, n: int) -> Each:
    return value if isinstance(value, tuple) else (value,) * n


def _samples(rng: Any) -> list[Any]:
    sets = []
    for sizes, kernel, bias, stride, padding, dilation, groups in _CASES:
        if len(sizes) == 2 and kernel == (3, 2):
            sizes, kernel = (5,), (3,)  # one dimension
        n = len(sizes)
        x, w = rng.uniform(-1, 1, (2, 2, *sizes)), rng.uniform(-1, 1, (2, 2 // groups, *kernel))
        sets.append(
            (
                (x, w, rng.uniform(-1, 1, 2) if bias else None),
                {"stride": _n(stride, n), "padding": _n(padding, n), "dilation": _n(dilation, n), "groups": groups},
            )
        )
    return sets


_PARAMS = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
_conv = operation(
    "conv",
    _conv_forward,
    inputs="x weight bias?",
    params=_PARAMS,
    vjp=(_conv_x, _conv_w, _bias),
    samples=_samples,
    label="convolution",
    doc="y[n, o, p] = Σ x[n, c, stride p + dilation k - padding] weight[o, c, k] + bias[o].",
)


def _transpose_forward(
    xp: Any,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Each,
    padding: Each,
    output_padding: Each,
    groups: int,
    dilation: Each,
) -> Any:
    kernel, dtype, inside = weight.shape[2:], x.dtype, x.shape[1] // groups
    x, weight = wide(x), wide(weight)
    outputs = weight.shape[1] * groups
    sizes = zip(x.shape[2:], kernel, stride, padding, dilation, output_padding, strict=True)
    out = tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 + o for n, k, s, p, d, o in sizes)
    rows = xp.swapaxes(x, 0, 1).reshape(groups, inside, len(x) * math.prod(x.shape[2:]))
    columns = weight.shape[1] * math.prod(kernel)
    cols = xp.matmul(xp.swapaxes(weight.reshape(groups, inside, columns), 1, 2), rows)
    y = xp.zeros((outputs, len(x), *out), x.dtype)
    add_windows(cols.reshape(outputs, *kernel, len(x), *x.shape[2:]), y, stride, padding, dilation)
    if bias is not None:
        y += wide(bias).reshape(-1, 1, *(1,) * len(out))
    return rounded(xp.ascontiguousarray(xp.swapaxes(y, 0, 1)), dtype)


def _transpose_x(
    g: Tensor, weight: Tensor, x_shape: Each, stride: Each, padding: Each, dilation: Each, groups: int
) -> Tensor:
    y = _conv(g, weight, None, stride=stride, padding=padding, dilation=dilation, groups=groups)
    for d, n in enumerate(x_shape):  # an output padding of a stride or more reaches windows that x has not
        if y._a.shape[d] != n:
            y = y.narrow(d, 0, n)
    return y


def _transpose_w(
    g: Tensor, x: Tensor, weight_shape: Each, stride: Each, padding: Each, dilation: Each, groups: int
) -> Tensor:
    return _conv_weight(g, x, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups)


def _transpose_samples(rng: Any) -> list[Any]:
    sets = []
    for i, ((x, w, b), params) in enumerate(_samples(rng)):
        extra = tuple(1 if i in (1, 3) and s > 1 else 0 for s in params["stride"])
        sets.append(
            (
                (x[..., :3], w, None if b is None else rng.uniform(-1, 1, w.shape[1] * params["groups"])),
                {**params, "output_padding": extra},
            )
        )
    return sets


_conv_transpose: Any = operation(
    "conv_transpose",
    _transpose_forward,
    inputs="x weight bias?",
    params={**_PARAMS, "output_padding": (0, 0)},
    samples=_transpose_samples,
    vjp=(_transpose_x, _transpose_w, _bias),
    label="convolution",
    doc="The transpose of the linear map x -> conv(x, weight); then the bias.",
)


def _weight_forward(
    xp: Any, x: Any, y: Any, kernel: Each, stride: Each, padding: Each, dilation: Each, groups: int
) -> Any:
    dtype, channels = x.dtype, (y.shape[1], x.shape[1] // groups)
    x, y = wide(x), wide(y)
    cols = _columns(xp, x, kernel, y.shape[2:], stride, padding, dilation, groups)
    rows = y.reshape(len(y), groups, y.shape[1] // groups, cols.shape[3])
    return rounded(xp.matmul(rows, xp.swapaxes(cols, 2, 3)).sum(axis=0).reshape(*channels, *kernel), dtype)


def _weight_x(g: Tensor, y: Tensor, x_shape: Each, stride: Each, padding: Each, dilation: Each, groups: int) -> Tensor:
    return _conv_x(y, g, x_shape, stride, padding, dilation, groups)


def _weight_y(g: Tensor, x: Tensor, y_shape: Each, stride: Each, padding: Each, dilation: Each, groups: int) -> Tensor:
    return _transpose_x(x, g, y_shape, stride, padding, dilation, groups)


def _weight_samples(rng: Any) -> list[Any]:
    sets = []
    for (x, w, _), params in _samples(rng):
        out = _out_sizes(x.shape[2:], w.shape[2:], params["stride"], params["padding"], params["dilation"])
        sets.append(((x, rng.uniform(-1, 1, (len(x), w.shape[0], *out))), {**params, "kernel": w.shape[2:]}))
    return sets


_conv_weight: Any = operation(
    "conv_weight",
    _weight_forward,
    inputs="x y",
    params={**_PARAMS, "kernel": (1, 1)},
    vjp=(_weight_x, _weight_y),
    samples=_weight_samples,
    label="convolution",
    doc="The gradient of conv's weight, for an input x and an incoming gradient y.",
)
