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
from ..declare.kernel import kernel
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


def _tried(name: str, reason: str) -> Callable[..., str | None]:
    """Return what says why an entry that takes little work does not take a call: it is asked by trying."""

    def say(**named: Any) -> str | None:
        return reason if c.entries[name](*named.values()) is NotImplemented else None

    return say


def _entered(name: str, arguments: str, reason: str, **more: Any) -> None:
    more = {"quiet": "False", **more}
    kernel(name, arguments, say=_tried(name, reason), any_type=True, **more)


_TRUTH = "takes up to 4096 contiguous items, over dimensions side by side"
_SHORT = "takes rows of up to 64 contiguous items"
_SPREAD = "takes up to 4096 contiguous items, of float32 or float64, over dimensions side by side"
_BACK = "takes up to 16384 items of float32 or float64"
_FEW = "0 < x.size <= 4096"  # above, NumPy's loops, which stop at the first that decides, are quicker

for _name, _result, _keepdim in (("all", "bool", ", keepdim: flag"), ("any", "bool", ", keepdim: flag"),
                                 ("count_nonzero", "int64", "")):  # fmt: skip
    _entered(
        _name,
        f"x: count[*outer, *n, *inner] whole, dim: axes(n){_keepdim}",
        _TRUTH,
        gives=f"y: {_result}[*outer, {'*n|keepdim, ' if _keepdim else ''}*inner]",
        call=f"truth_{_name}(item_kind(x.type), x, y, outer, n, inner)",
        takes=(_FEW,),
    )
for _name in ("amax", "amin"):
    _entered(
        f"{_name}.backward",
        "g: real[...], x: real[*outer, *n, *inner] whole, y: real[...] whole, dim: axes(n), keepdim: flag",
        _SPREAD,
        gives="gx: real[*outer, *n, *inner],",
        call="share.T(g, x, y, gx, outer, n, inner)",
        takes=(_FEW, "y.size == outer * inner", "g.size == outer * inner"),
    )

_ROWS = "x: number[*outer, n, *inner] whole, dim: axis(n)"
_PAIR = "values: number[*outer, {0}, *inner], indices: int64[*outer, {0}, *inner]"
_PICKING = {"sort": ("SORTED", ", descending: flag", "descending", "n", "n"),
            "topk": ("TOP", ", k: int, largest: flag", "largest", "k", "k"),
            "kthvalue": ("KTH", ", k: int", "0", "k", "1"),
            "median": ("MEDIAN", ", ignore_nan: flag", "ignore_nan", "0", "1"),
            "mode": ("MODE", "", "0", "0", "1")}  # fmt: skip
_ONE = ("kthvalue", "median")
for _name, (_what, _more, _flag, _k, _kept) in _PICKING.items():
    if _name in ("sort", "mode"):
        _entered(
            _name,
            _ROWS + _more,
            _SHORT,
            gives=_PAIR.format(_kept),
            call=f"order_rows.T(ORDER_{_what}, {_flag}, {_k}, x, values, indices, outer, n, inner)",
            takes=("0 < x.size <= 16384", "n <= ORDER_MOST"),
        )
        continue
    kernel(
        _name,
        _ROWS + _more,
        gives=_PAIR.format(_kept),
        call=f"{'selected' if _name in _ONE else 'first'}_rows.T("
        f"ORDER_{_what}, {_flag}, {_k}, x, values, indices, outer, n, inner)",
        quiet="x.size > 16384",
        fails="memory" if _name in _ONE else "",
        misfit=True,
        half=False,
        requires={"x.size": "takes no empty arrays"},
        takes=(
            "n <= INT32_MAX",
            *(("1 <= k <= n",) if _k == "k" else ()),
            *(("n < ORDER_MOST or k <= ORDER_FIRST",) if _name == "topk" else ()),
        ),
    )


def _median_of_all(x: Any, ignore_nan: bool) -> Any:
    values, _ = c.entries["median"](np.ascontiguousarray(x).reshape(-1), 0, ignore_nan)
    return values.reshape(())


def _median_of_all_declines(x: Any, ignore_nan: bool) -> str | None:
    if not x.size or x.dtype.char not in "fdl" or not x.flags.aligned:
        return f"takes items of float32, float64 and int64, got {x.size} of {x.dtype}"
    return None


def _few_integers(x: Any, **_: Any) -> str | None:
    if x.dtype == np.int64 and not 0 < x.size <= 16384:
        return "takes up to 16384 integers"
    return None if x.ndim and x.size else "needs a dimension to run over, and elements"


for _name in ("max_dim", "min_dim"):
    kernel(
        _name,
        _ROWS + ", keepdim: flag",
        gives=_PAIR.format("*n|keepdim"),
        call=f"extreme_rows.T(REDUCE_{_name[:3].upper()}, x, values, indices, outer, n, inner)",
        quiet="x.type != NPY_INT64 and x.size >= 65536",
        takes=("x.size", "x.type != NPY_INT64 or x.size <= 16384"),
        say=_few_integers,
    )
for _name in (*_PICKING, "max_dim", "min_dim"):
    _entered(
        f"{_name}.backward",
        "g: (real[...], any_object), indices: int64[...] whole, x_shape: shape[*outer, n, *inner], dim: axis(n), "
        + ("keepdim: any_object, " if "_dim" in _name else "") + "needs: any_object",
        _BACK,
        plan=": indices.size % (outer * inner) == 0 and indices_within(indices, indices.size, 0, n)",
        gives="gx: real[*outer, n, *inner],",
        call="order_back.T(g0, indices, gx, outer, indices.size // (outer * inner), n, inner)",
        takes=("g0.size == indices.size", "0 < outer * n * inner <= 16384"),
    )  # fmt: skip

rows: dict[str, Row] = {
    "cast": Row("cast_forward", "C", cast, cast_declines),
    "cast.backward": Row("cast_backward", "C", cast_backward, cast_backward_declines),
    "median_of_all": Row("selected_rows", "C", _median_of_all, _median_of_all_declines),
}
ANY_TYPE = tuple(rows)  # they look at the types themselves
