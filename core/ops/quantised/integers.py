"""The linear layer in whole numbers: inputs and weights of 8 bits, exact sums, one product with the scales at the end.

What is written here in NumPy is what every kernel gives, bit by bit (gelu and silu alone may differ in the last place):

    s = max |x| / 127,  q = round(x * (127 / max |x|))         of each row, where no scale is given
    q = min(max(round(x / s) + zero, -128), 127)               with the scale s that is given
    y = float(sum_k (q_k - zero) w_k) * (s * scale) + bias     in float32; in float64 for an input of float64

Halves round to even. A row with a NaN gives NaN. An infinite number too, where its row has a scale of its own; a scale
that is given makes it the greatest number of 8 bits. A row whose 127 / max |x| overflows counts as zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends import special
from ...backends.reference import compiled
from ...base import dtypes
from ...base.errors import text
from ...declare.signature import Fast
from ...dispatch.declare import operation
from ...dispatch.publish import public
from ...tensors.tensor import Tensor, from_array
from .. import elementwise
from ..linalg import matmul
from ..precision import rounded, wide

ACTIVATIONS: dict[str, Any] = {"relu": elementwise.relu, "gelu": elementwise.gelu_erf, "silu": elementwise.silu}
MOST_TERMS = 65536  # of which the sum of products of 8 bits, a zero point taken off, is below 2**31

# -- the reference -----------------------------------------------------------------------------------------------------


def quantised(xp: Any, x: Any, input_scale: Any, zero: int, axes: int | tuple[int, ...]) -> tuple[Any, Any]:
    """Return q - zero as float64, and the scales, of which one serves what lies along `axes`."""
    if input_scale is None:
        most = xp.abs(x).max(axis=axes, keepdims=True) if x.size else xp.zeros(_without(x.shape, axes), x.dtype)
        inverse = 127 / most
        usable = xp.isfinite(inverse) & xp.isfinite(most)
        q = xp.rint(xp.where(usable, x, 0) * xp.where(usable, inverse, 0))
        return q.astype(np.float64), most / 127
    lost = xp.isnan(x)
    scale = xp.where(lost.any(axis=axes, keepdims=True), xp.asarray(np.nan, x.dtype), input_scale)
    q = xp.clip(xp.rint(xp.where(lost, 0, x) / input_scale) + zero, -128, 127) - zero
    return q.astype(np.float64), scale


def _without(shape: tuple[int, ...], axes: int | tuple[int, ...]) -> tuple[int, ...]:
    many = (axes,) if isinstance(axes, int) else axes
    gone = {a % len(shape) for a in many}
    return tuple(1 if d in gone else n for d, n in enumerate(shape))


def finished(xp: Any, total: Any, scale: Any, bias: Any, activation: str, dtype: Any) -> Any:
    """Return the sums, exact in float64, as numbers: times the scale, plus the bias, through the activation."""
    y = total.astype(scale.dtype) * scale
    if bias is not None:
        y = y + bias
    if activation == "relu":
        y = xp.where(y <= 0, xp.asarray(0, y.dtype), y)
    elif activation:
        y = compiled(ACTIVATIONS[activation].op.program)(xp, special, y)
    return rounded(y, dtype)


def computed_in(x: Any, *others: Any) -> list[Any]:
    """Return the arrays in the type that is computed in: float64 for an input of float64, else float32."""
    x = wide(x)
    return [x, *(None if a is None else a.astype(x.dtype) if a.dtype == np.float64 else wide(a).astype(x.dtype)
                 for a in others)]  # fmt: skip


def _forward(xp: Any, x: Any, weight: Any, scale: Any, bias: Any, input_scale: Any, input_zero: int,
             activation: str) -> Any:  # fmt: skip
    dtype = x.dtype
    x, scale, bias, input_scale = computed_in(x, scale, bias, input_scale)
    q, s = quantised(xp, x, input_scale, input_zero, -1)
    return finished(xp, xp.matmul(q, weight.astype(np.float64).T), s * scale, bias, activation, dtype)


# -- gradients: as if nothing had been rounded -------------------------------------------------------------------------


def through(g: Tensor, activation: str, before: Any) -> Tensor:
    """Return the gradient before the activation; `before()` gives the values there."""
    if not activation:
        return g
    return ACTIVATIONS[activation].op.vjps[0].function(g, before())  # type: ignore[no-any-return]


def within(gx: Tensor, x: Tensor, input_scale: Tensor | None, zero: int) -> Tensor:
    """Return the gradient of x, 0 where a scale that is given cut x off."""
    if input_scale is None:
        return gx
    steps = (x.detach() / input_scale.to(x.dtype)).round() + zero
    return gx * ((steps >= -128) & (steps <= 127)).to(gx.dtype)


def _vjp(g: Tensor, x: Tensor, weight: Tensor, scale: Tensor, bias: Any, input_scale: Any, input_zero: int,
         activation: str, needs: Any) -> Any:  # fmt: skip
    g = through(g, activation, lambda: _linear(x, weight, scale, bias, input_scale, input_zero=input_zero,
                                               activation=""))  # fmt: skip
    gx = gb = None
    if needs[0]:
        gx = within(matmul(g * scale.to(g.dtype), weight.to(g.dtype)), x, input_scale, input_zero)
    if bias is not None and needs[3]:
        gb = g if g.ndim == 1 else g.reshape(-1, g._a.shape[-1]).sum(0)
        gb = gb.to(bias.dtype)
    return gx, None, None, gb, None


# -- the op ------------------------------------------------------------------------------------------------------------


def steps_of(rng: Any, shape: tuple[int, ...], within: tuple[int, ...]) -> Any:
    """Return numbers for the tests that are whole steps of 1/64, up to 127 of them in every `within`: no rounding
    falls otherwise in another type."""
    q = rng.integers(-126, 127, shape).astype(np.float64)
    q[(..., *within)] = 127
    return q / 64


def _samples(rng: Any) -> list[Any]:
    weight, scale, bias = rng.integers(-128, 128, (5, 6), np.int8), rng.uniform(0.01, 0.02, 5), rng.uniform(-1, 1, 5)
    dynamic, some = {"input_zero": 0, "activation": ""}, steps_of(rng, (3, 6), (0,))
    static = np.asarray(0.03125)
    return [
        ((some, weight, scale, bias, None), dynamic),
        ((steps_of(rng, (2, 2, 6), (0,)), weight, np.asarray(0.015625), None, None), dynamic | {"activation": "silu"}),
        ((some, weight, scale, bias, static), {"input_zero": -7, "activation": "gelu"}),
        ((some[0], weight, scale, bias, static), {"input_zero": 90, "activation": "relu"}),
    ]


_linear: Any = operation("int8_linear", _forward, inputs="x weight scale bias? input_scale?", samples=_samples,
                         params={"input_zero": 0, "activation": ""}, vjp=_vjp,
                         doc="x and the weight as numbers of 8 bits, multiplied exactly.")  # fmt: skip
_linear.op.straight_through = True


# -- the public function -----------------------------------------------------------------------------------------------


def check(
    op: str, x: Any, weight: Any, scale: Any, bias: Any, zero: int | None, activation: str | None, dims: int
) -> None:
    """Raise an error that says which of a layer's arguments do not fit."""
    for name, t in (("input", x), ("weight", weight), ("scale", scale)):
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}(): argument '{name}' must be Tensor, not {type(t).__name__}")
    if weight.dtype is not dtypes.int8 or weight.ndim != dims or x.dtype.category != 2 or not x.ndim:
        raise RuntimeError(
            text(f"expected a floating input and a weight of {dtypes.int8} in {dims} dimensions", op=op,
                 came=f"input of {x.dtype}, weight of {weight.dtype} in {weight.ndim} dimensions",
                 remedy="core.ops.quantised.quantised_int8 gives such a weight and its scales")
        )  # fmt: skip
    outputs = weight._a.shape[0]
    for name, t in (("scale", scale), ("bias", bias)):
        if t is not None and (
            t.dtype.category != 2 or tuple(t._a.shape) not in ((outputs,), () if name == "scale" else (outputs,))
        ):
            raise RuntimeError(
                text(f"expected a floating {name} for each of the {outputs} outputs", op=op,
                     came=f"{name} of {t.dtype}, {tuple(t.shape)}", remedy="one scale for all may be 0-d")
            )  # fmt: skip
    if (terms := weight.numel() // max(outputs, 1)) > MOST_TERMS:
        raise RuntimeError(
            text(f"sums of more than {MOST_TERMS} products may overflow 32 bits", op=op, came=f"{terms} for an output",
                 remedy="weight_int8_linear, which sums in floating point"))  # fmt: skip
    if zero is not None and not -128 <= zero <= 127:
        raise RuntimeError(text("a zero point is a number of 8 bits", op=op, came=str(zero), needed="-128 to 127"))
    if activation is not None and activation not in ACTIVATIONS:
        raise ValueError(text("no such activation", op=op, came=repr(activation),
                              needed=f"None, {', '.join(map(repr, ACTIVATIONS))}"))  # fmt: skip


def scale_of(op: str, x: Tensor, input_scale: Any, zero: int | None) -> Tensor | None:
    """Return the input's scale as a tensor of no dimension, None where each row is to have its own."""
    if input_scale is None:
        if zero:
            raise RuntimeError(text("a zero point without a scale", op=op, came=f"input_zero={zero}",
                                    remedy="give input_scale too"))  # fmt: skip
        return None
    if not isinstance(input_scale, Tensor):
        if not input_scale > 0:
            raise RuntimeError(text("a scale must be positive", op=op, came=f"input_scale={input_scale}"))
        made = from_array(np.asarray(input_scale, np.float32))
        return made if x.device.type == "cpu" else made.to(x.device)
    if input_scale.ndim:
        if input_scale.numel() != 1:
            raise RuntimeError(text("expected one scale for the whole input", op=op,
                                    came=f"input_scale of {tuple(input_scale.shape)}"))  # fmt: skip
        return input_scale.reshape(())
    return input_scale


@public(
    method=False,
    namespace=None,
    home="matmul",
    fast=[
        Fast(
            body="int8_layer(op.int8_linear, input, weight, scale, bias, activation)",
            raw=("input", "weight", "scale", "bias", "activation"),
        )
    ],
)
def int8_linear(input: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None,
                input_scale: Tensor | float | None = None, input_zero: int | None = None, *,
                activation: str | None = None) -> Tensor:  # fmt: skip
    """``activation(q(input) @ (weight * scale).T + bias)``, input and weight multiplied as numbers of 8 bits.

    Each row of the input is rounded to 127 steps up to its greatest magnitude; with `input_scale` (a number, or a
    tensor of one) all rows are rounded to ``q = round(x / input_scale) + input_zero``, -128 to 127. The sums are exact,
    and scaled in float32, so that a result has the same bits on every processor; an input of float64 is scaled in
    float64. A NaN in a row makes it NaN, and so does an infinite number where the row has a scale of its own. Gradients
    reach the input and the bias as if nothing had been rounded, 0 where the input was cut off.

    *Shapes*: input ``(..., in)``, weight ``(out, in)`` of int8, scale ``(out)`` or ``()``, bias ``(out)`` ->
    ``(..., out)``; in is at most 65536. `activation`: "relu", "gelu" or "silu". Source: Jacob et al., arXiv 1712.05877.

    >>> import core
    >>> from core.ops.quantised import int8_linear, quantised_int8
    >>> weight, scale = quantised_int8(core.tensor([[127.0, -63.5], [1.0, 0.5]]))
    >>> int8_linear(core.tensor([[1.0, 0.0]]), weight, scale)
    tensor([[127.,   1.]])
    >>> int8_linear(core.tensor([[-1.0, 0.0]]), weight, scale, input_scale=0.5, activation="relu")
    tensor([[0., 0.]])
    """
    op = "int8_linear"
    check(op, input, weight, scale, bias, input_zero, activation, 2)
    if input._a.shape[-1] != weight._a.shape[1]:
        raise RuntimeError(
            text(f"mat1 and mat2 shapes cannot be multiplied: the input has {input._a.shape[-1]} features, the weight "
                 f"{weight._a.shape[1]}", op=op, remedy="check the layer's in_features"))  # fmt: skip
    given = scale_of(op, input, input_scale, input_zero)
    return _linear(input, weight, scale, bias, given, input_zero=input_zero or 0, activation=activation or "")  # type: ignore[no-any-return]
