"""Linear layers whose weights have 8 or 4 bits; what is multiplied keeps its own type.

PyTorch's own names for these, ``torch._weight_int8pack_mm`` and ``torch._weight_int4pack_mm``, are private, and their
layouts differ from device to device; here one layout serves all, and it is written down.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backends, native
from ...base import dtypes
from ...base.errors import text
from ...dispatch.declare import operation
from ...dispatch.publish import public
from ...tensors.tensor import Tensor, from_array
from ..linalg import matmul
from ..precision import rounded, wide

# -- the ops -----------------------------------------------------------------------------------------------------------


def _int8_forward(xp: Any, x: Any, weight: Any, scale: Any, bias: Any) -> Any:
    rows = wide(x)
    y = xp.matmul(rows, weight.astype(rows.dtype).T) * wide(scale)
    return rounded(y if bias is None else y + wide(bias), x.dtype)


def _halves(xp: Any, weight: Any) -> Any:
    """Return the numbers 0 to 15 of each byte, that of the low half first."""
    return xp.stack([weight & 15, weight >> 4], -1).reshape(weight.shape[0], 2 * weight.shape[1])


def _widened_int4(xp: Any, weight: Any, scale: Any, zero: Any) -> Any:
    scale, zero = wide(scale), wide(zero)
    width = 2 * weight.shape[1]
    q = _halves(xp, weight).reshape(*scale.shape, width // max(scale.shape[1], 1)).astype(scale.dtype)
    return ((q - zero[..., None]) * scale[..., None]).reshape(weight.shape[0], width)


def _int4_forward(xp: Any, x: Any, weight: Any, scale: Any, zero: Any, bias: Any) -> Any:
    y = xp.matmul(wide(x), _widened_int4(xp, weight, scale, zero).T)
    return rounded(y if bias is None else y + wide(bias), x.dtype)


def _int8_x(g: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return matmul(g * scale, weight.to(g.dtype))


def _int4_x(g: Tensor, weight: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return matmul(g, _dequantised(weight, scale, zero).to(g.dtype))


def _bias(g: Tensor) -> Tensor:
    return g if g.ndim == 1 else g.reshape(-1, g._a.shape[-1]).sum(0)


def _int8_samples(rng: Any) -> list[Any]:
    weight, scale, bias = rng.integers(-128, 128, (5, 6), np.int8), rng.uniform(0.01, 0.02, 5), rng.uniform(-1, 1, 5)
    return [((rng.uniform(-1, 1, shape), weight, scale, b), {}) for shape, b in (((3, 6), bias), ((2, 2, 6), None))]


def _int4_samples(rng: Any) -> list[Any]:
    weight = rng.integers(0, 256, (5, 16), np.uint8)
    scale, zero, bias = rng.uniform(0.1, 0.2, (5, 2)), rng.uniform(0, 15, (5, 2)), rng.uniform(-1, 1, 5)
    return [((rng.uniform(-1, 1, shape), weight, scale, zero, b), {})
            for shape, b in (((3, 32), bias), ((2, 2, 32), None))]  # fmt: skip


_int8 = operation("weight_int8_linear", _int8_forward, inputs="x weight scale bias?", samples=_int8_samples,
                  vjp=(_int8_x, None, None, _bias),
                  doc="x @ (weight * scale).T + bias, the weight of 8 bits.")  # fmt: skip
_int4 = operation("weight_int4_linear", _int4_forward, inputs="x weight scale zero bias?", samples=_int4_samples,
                  vjp=(_int4_x, None, None, None, _bias),
                  doc="x @ w.T + bias, two weights of 4 bits a byte, a scale and a zero for each group.")  # fmt: skip


def _numbers(xp: Any, weight: Any, scale: Any, zero: Any) -> Any:
    return rounded(_widened_int4(xp, weight, scale, zero), scale.dtype)


_dequantised = operation("dequantised_int4", _numbers, inputs="weight scale zero",
                         samples=lambda rng: [(_int4_samples(rng)[0][0][1:4], {})],
                         doc="The weights of 4 bits as numbers.")  # fmt: skip


# -- the public functions ----------------------------------------------------------------------------------------------


def _check(op: str, x: Any, weight: Any, kind: Any, per_byte: int, *others: Tensor | None) -> None:
    for name, t in (("input", x), ("weight", weight)):
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}(): argument '{name}' must be Tensor, not {type(t).__name__}")
    if weight.dtype is not kind or weight.ndim != 2 or x.dtype.category != 2 or not x.ndim:
        raise RuntimeError(
            text(f"expected a floating input and a weight of {kind} in two dimensions", op=op,
                 came=f"input of {x.dtype}, weight of {weight.dtype} in {weight.ndim} dimensions")
        )  # fmt: skip
    if x._a.shape[-1] != weight._a.shape[1] * per_byte:
        raise RuntimeError(
            text(f"mat1 and mat2 shapes cannot be multiplied: the input has {x._a.shape[-1]} features, the weight "
                 f"{weight._a.shape[1] * per_byte}", op=op)
        )  # fmt: skip
    for t in others:
        if t is not None and (t.dtype is not x.dtype or t._a.shape[0] != weight._a.shape[0]):
            raise RuntimeError(
                text("expected scales, zeros and bias of the input's dtype, a row for each output feature", op=op,
                     came=f"{t.dtype} of {tuple(t.shape)}, input of {x.dtype}, weight {tuple(weight.shape)}")
            )  # fmt: skip


@public(method=False, namespace=None)
def weight_int8_linear(input: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ (weight * scale[:, None]).T + bias``, the weight of int8 and one scale for each of its rows.

    Gradients reach the input and the bias. *Shapes*: input ``(..., in)``, weight ``(out, in)``, scale and bias
    ``(out)`` -> ``(..., out)``. Source: Dettmers et al., arXiv 2208.07339.

    >>> import core
    >>> from core.ops.quantised import quantised_int8, weight_int8_linear
    >>> weight, scale = quantised_int8(core.tensor([[127.0, -63.5], [1.0, 0.5]]))
    >>> weight_int8_linear(core.tensor([[1.0, 0.0]]), weight, scale)
    tensor([[127.,   1.]])
    """
    _check("weight_int8_linear", input, weight, dtypes.int8, 1, scale, bias)
    return _int8(input, weight, scale, bias)  # type: ignore[no-any-return]


@public(method=False, namespace=None)
def weight_int4_linear(input: Tensor, weight: Tensor, scale: Tensor, zero: Tensor,
                       bias: Tensor | None = None) -> Tensor:  # fmt: skip
    """``input @ w.T + bias`` with ``w = (q - zero) * scale``, two q of 4 bits in each byte of the weight (uint8).

    The q of the even place is in a byte's low half. Each of the groups that a row is divided into has its scale and its
    zero. Gradients reach the input and the bias. *Shapes*: input ``(..., in)``, weight ``(out, in / 2)``, scale and
    zero ``(out, groups)``, bias ``(out)`` -> ``(..., out)``. Source: Frantar et al., arXiv 2210.17323.

    >>> import core
    >>> from core.ops.quantised import quantised_int4, weight_int4_linear
    >>> weight, scale, zero = quantised_int4(core.tensor([[0.0, 15.0, 7.0, 1.0]]), group=4)
    >>> weight_int4_linear(core.tensor([[1.0, 1.0, 0.0, 0.0]]), weight, scale, zero)
    tensor([[15.]])
    """
    op = "weight_int4_linear"
    _check(op, input, weight, dtypes.uint8, 2, scale, zero, bias)
    if scale.ndim != 2 or scale._a.shape != zero._a.shape or input._a.shape[-1] % max(scale._a.shape[1], 1):
        raise RuntimeError(text("expected a scale and a zero for each group of a row", op=op,
                                came=f"scale {tuple(scale.shape)}, zero {tuple(zero.shape)}, {input._a.shape[-1]} "
                                "features"))  # fmt: skip
    return _int4(input, weight, scale, zero, bias)  # type: ignore[no-any-return]


def _laid(array: Any) -> Any:
    """Return an array in memory that begins a line of the cache: a vector that lies in two takes as long as two."""
    if native.module is None or not isinstance(array, np.ndarray):
        return array
    laid = native.module.empty(array.shape, array.dtype)
    laid[...] = array
    return laid


def quantised_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a weight (out, in) as int8, and the scale of each row: its greatest magnitude / 127."""
    w, xp, where = weight._a, backends.array_module(weight.device.type), weight.device
    scale = xp.abs(wide(w)).max(1) / 127
    q = xp.rint(wide(w) / xp.where(scale == 0, 1, scale)[:, None]).astype(np.int8)
    return from_array(_laid(q), where), from_array(scale.astype(w.dtype), where)


def quantised_int4(weight: Tensor, group: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Return a weight (out, in) as two numbers of 4 bits a byte, and each group's scale and zero: from its least to its
    greatest in 15 steps."""
    w, xp, where = weight._a, backends.array_module(weight.device.type), weight.device
    if w.ndim != 2 or group < 2 or w.shape[1] % group or w.shape[1] % 2:
        raise RuntimeError(text("a row must be a whole number of groups, and of bytes", op="quantised_int4",
                                came=f"weight {tuple(w.shape)}, group {group}"))  # fmt: skip
    parts = wide(w).reshape(w.shape[0], -1, group)
    low, high = parts.min(-1), parts.max(-1)
    scale = (high - low) / 15
    scale = xp.where(scale == 0, 1, scale).astype(parts.dtype)
    zero = -low / scale
    q = xp.clip(xp.rint(parts / scale[..., None] + zero[..., None]), 0, 15).astype(np.uint8).reshape(w.shape)
    packed = q[:, ::2] | (q[:, 1::2] << 4)
    return tuple(from_array(a, where) for a in (_laid(packed), scale.astype(w.dtype), zero.astype(w.dtype)))  # type: ignore[return-value]
