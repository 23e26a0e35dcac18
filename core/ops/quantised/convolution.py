"""The convolution of images in whole numbers of 8 bits; what it gives, bit by bit, is said in integers.py, where a
sample stands for a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.errors import text
from ...declare.kinds import Ints
from ...dispatch.declare import operation
from ...dispatch.publish import public
from ...tensors.tensor import Tensor
from ..conv import expanded
from ..conv_ops import _bias, _columns, _conv_x, _out_sizes
from .integers import check, computed_in, finished, quantised, scale_of, steps_of, through, within

Pair = tuple[int, int]


def _forward(xp: Any, x: Any, weight: Any, scale: Any, bias: Any, input_scale: Any, stride: Pair, padding: Pair,
             dilation: Pair, groups: int, input_zero: int, activation: str) -> Any:  # fmt: skip
    dtype, kernel = x.dtype, weight.shape[2:]
    x, scale, bias, input_scale = computed_in(x, scale, bias, input_scale)
    q, s = quantised(xp, x, input_scale, input_zero, (1, 2, 3))
    out = _out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    columns = _columns(xp, q, kernel, out, stride, padding, dilation, groups)
    rows = weight.astype(np.float64).reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))
    total = xp.matmul(rows, columns).reshape(len(x), weight.shape[0], *out)
    scale, bias = (a.reshape(-1, 1, 1) if a is not None and a.ndim else a for a in (scale, bias))
    return finished(xp, total, s * scale, bias, activation, dtype)


def _vjp(g: Tensor, x: Tensor, weight: Tensor, scale: Tensor, bias: Any, input_scale: Any, stride: Pair, padding: Pair,
         dilation: Pair, groups: int, input_zero: int, activation: str, needs: Any) -> Any:  # fmt: skip
    g = through(g, activation, lambda: _conv(x, weight, scale, bias, input_scale, stride=stride, padding=padding,
                                             dilation=dilation, groups=groups, input_zero=input_zero,
                                             activation=""))  # fmt: skip
    gx = gb = None
    if needs[0]:
        of_outputs = scale.reshape(-1, 1, 1) if scale.ndim else scale
        shape = tuple(x._a.shape)
        gx = _conv_x(g * of_outputs.to(g.dtype), weight.to(g.dtype), shape, stride, padding, dilation, groups)
        gx = within(gx, x, input_scale, input_zero)
    if bias is not None and needs[3]:
        gb = _bias(g).to(bias.dtype)
    return gx, None, None, gb, None


_PARAMS: dict[str, Any] = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, "input_zero": 0,
                           "activation": ""}  # fmt: skip


def _samples(rng: Any) -> list[Any]:
    x, weight = steps_of(rng, (2, 4, 5, 4), (0, 0, 0)), rng.integers(-128, 128, (6, 2, 3, 2), np.int8)
    scale, bias = rng.uniform(0.01, 0.02, 6), rng.uniform(-1, 1, 6)
    return [
        ((x, weight, scale, bias, None), {**_PARAMS, "groups": 2, "padding": (1, 1), "activation": "relu"}),
        ((x[:, :2], weight, scale, None, np.asarray(0.03125)),
         {**_PARAMS, "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "input_zero": 5}),
        ((x[:1, :2], weight, np.asarray(0.015625), bias, None), {**_PARAMS, "activation": "gelu"}),
    ]  # fmt: skip


_conv: Any = operation("int8_conv2d", _forward, inputs="x weight scale bias? input_scale?", samples=_samples,
                       params=_PARAMS, vjp=_vjp,
                       doc="The convolution of x and the weight as numbers of 8 bits.")  # fmt: skip
_conv.op.straight_through = True


@public(method=False, namespace=None)
def int8_conv2d(input: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None, stride: Ints = 1,
                padding: Ints = 0, dilation: Ints = 1, groups: int = 1, input_scale: Tensor | float | None = None,
                input_zero: int | None = None, *, activation: str | None = None) -> Tensor:  # fmt: skip
    """``activation(conv2d(q(input), weight * scale) + bias)``, input and weight multiplied as numbers of 8 bits.

    As `int8_linear`, with a scale for each sample where none is given; what the padding adds stands for 0.

    *Shapes*: input ``(N, C, H, W)`` or ``(C, H, W)``, weight ``(out, C / groups, kh, kw)`` of int8, scale ``(out)`` or
    ``()``, bias ``(out)``. Source: Jacob et al., arXiv 1712.05877.

    >>> import core
    >>> from core.ops.quantised import int8_conv2d
    >>> weight = core.ones(1, 1, 2, 2, dtype=core.int8)
    >>> int8_conv2d(core.ones(1, 1, 2, 3), weight, core.tensor(0.5), input_scale=0.25)
    tensor([[[[2., 2.]]]])
    """
    op = "int8_conv2d"
    check(op, input, weight, scale, bias, input_zero, activation, 4)
    each = {n: expanded(op, n, v, 2) for n, v in (("stride", stride), ("padding", padding), ("dilation", dilation))}
    x = input.unsqueeze(0) if input.ndim == 3 else input
    _fits(op, x, weight, groups, **each)
    given = scale_of(op, input, input_scale, input_zero)
    y = _conv(x, weight, scale, bias, given, **each, groups=groups, input_zero=input_zero or 0,
              activation=activation or "")  # fmt: skip
    return y.squeeze(0) if input.ndim == 3 else y  # type: ignore[no-any-return]


def _fits(op: str, x: Tensor, weight: Tensor, groups: int, stride: Any, padding: Any, dilation: Any) -> None:
    shape, w = tuple(x._a.shape), tuple(weight._a.shape)
    if len(shape) != 4:
        raise RuntimeError(
            text(f"Expected 3D (unbatched) or 4D (batched) input to {op}, but got input of size: {list(shape)}", op=op,
                 remedy="reshape, or unsqueeze a dimension of channels"))  # fmt: skip
    if min(groups, *stride, *dilation) < 1 or min(padding) < 0:
        raise RuntimeError(
            text("stride, dilation and groups must be positive, and padding not negative", op=op,
                 came=f"stride={stride}, padding={padding}, dilation={dilation}, groups={groups}"))  # fmt: skip
    if w[0] % groups or shape[1] != w[1] * groups:
        raise RuntimeError(
            text(f"Given groups={groups}, weight of size {list(w)}, expected input{list(shape)} to have "
                 f"{w[1] * groups} channels, but got {shape[1]} channels instead", op=op))  # fmt: skip
    if min(w[2:]) < 1 or min(_out_sizes(shape[2:], w[2:], stride, padding, dilation)) < 1:
        raise RuntimeError(text("Calculated padded input size per channel is smaller than the kernel", op=op,
                                came=f"input {shape}, weight {w}, padding {padding}",
                                remedy="more padding, or a smaller kernel or dilation"))  # fmt: skip
