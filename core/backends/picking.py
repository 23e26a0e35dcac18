"""The CPU's rows of casts, of truth over axes, and of what picks items of its input: max along a dimension, sort, topk.

They run the entries that the C path calls (native/binding/adapters/cast.c, native/binding/adapters/sort_topk.c), on
what these take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..base import dtypes
from . import Row, half

c: Any = native.module
_FLOAT32 = half.FLOAT32
_NUMBERS = frozenset(d.numpy for d in (dtypes.bool_, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.float32,
                                       dtypes.float64))  # fmt: skip
_TO = _NUMBERS - {dtypes.uint8.numpy}


# -- casts -------------------------------------------------------------------------------------------------------------


def cast(x: Any, dtype: dtypes.dtype) -> Any:
    """Between float32 and a half-precision type, or between the commonest of the others."""
    to = dtype.numpy
    if to in half.HALVES:
        return half.narrowed(x, to)
    return half.widened(x) if x.dtype in half.HALVES else c.entries["cast"](x, dtype)


def cast_declines(x: Any, dtype: dtypes.dtype) -> str | None:
    """Why `cast` does not serve."""
    own, to = x.dtype, dtype.numpy
    if own in half.HALVES or to in half.HALVES:
        return None if own == _FLOAT32 or to == _FLOAT32 else "converts the half-precision types from and to float32"
    if own in _NUMBERS and to in _TO and own != to:
        return None if x.flags.c_contiguous and x.flags.aligned else "takes contiguous arrays"
    return "converts bool, uint8, int32, int64, float32, float64 and the half-precision types, none of them to uint8"


def cast_backward(g: Any, x_dtype: dtypes.dtype) -> Any:
    """Return the gradient in the type that the operand had."""
    return (g if g.dtype == x_dtype.numpy else cast(g, x_dtype),)


def cast_backward_declines(g: Any, x_dtype: dtypes.dtype) -> str | None:
    """Why `cast_backward` does not serve."""
    return None if g.dtype == x_dtype.numpy else cast_declines(g, x_dtype)


# -- what the entries take ---------------------------------------------------------------------------------------------


def _entered(name: str, order: str, reason: str) -> Row:
    """Return the row of an entry that takes little work: it is asked by trying. `order`: what it is called with by
    name."""

    def call(*arrays: Any, **named: Any) -> Any:
        return c.entries[name](*arrays, *[named[n] for n in order.split()])

    def declines(*arrays: Any, **named: Any) -> str | None:
        return reason if call(*arrays, **named) is NotImplemented else None

    return Row(f"{name.replace('.', '_')}{'' if '.' in name else '_forward'}", "C", call, declines)


def _extreme(name: str) -> Row:
    def run(x: Any, dim: int, keepdim: bool) -> Any:
        return c.entries[name](np.ascontiguousarray(x), dim, keepdim)

    def declines(x: Any, dim: int, keepdim: bool) -> str | None:
        if x.dtype == np.int64:
            return None if 0 < x.size <= 16384 and x.ndim else "takes up to 16384 integers"
        if x.dtype.char not in "fd":
            return "takes float32, float64 and int64"
        return None if x.ndim and x.size else "needs a dimension to run over, and elements"

    return Row(f"{name}_forward", "C", run, declines)


def small_integers(name: str) -> Callable[..., bool]:
    """Return whether the entry of a reduction takes these numbers, which are not floating."""

    def takes(x: Any, dim: Any, keepdim: bool) -> bool:
        return x.dtype == np.int64 and c.entries[name](x, dim, keepdim) is not NotImplemented

    return takes


_TRUTH = "takes up to 4096 contiguous items, over dimensions side by side"
_SHORT = "takes rows of up to 64 contiguous items"
_SPREAD = "takes up to 4096 contiguous items, of float32 or float64, over dimensions side by side"
_BACK = "takes up to 16384 items of float32 or float64"
_PICKING = {"sort": "dim descending", "topk": "dim k largest", "kthvalue": "dim k", "median": "dim ignore_nan",
            "mode": "dim"}  # fmt: skip

rows: dict[str, Row] = {
    "cast": Row("cast_forward", "C", cast, cast_declines),
    "cast.backward": Row("cast_backward", "C", cast_backward, cast_backward_declines),
    "all": _entered("all", "dim keepdim", _TRUTH),
    "any": _entered("any", "dim keepdim", _TRUTH),
    "count_nonzero": _entered("count_nonzero", "dim", _TRUTH),
    "amax.backward": _entered("amax.backward", "g x y dim keepdim", _SPREAD),
    "amin.backward": _entered("amin.backward", "g x y dim keepdim", _SPREAD),
    "max_dim": _extreme("max_dim"),
    "min_dim": _extreme("min_dim"),
    **{name: _entered(name, order, _SHORT) for name, order in _PICKING.items()},
    **{f"{name}.backward": _entered(f"{name}.backward", "g indices x_shape dim needs", _BACK)
       for name in (*_PICKING, "max_dim", "min_dim")},
}  # fmt: skip
# they look at the types themselves, or half-precision types have nothing of it
ANY_TYPE = tuple(name for name in rows if name not in ("max_dim", "min_dim"))
